"""The panel of chapter "The residual stream": the gradient of every layer of a small net."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import traitlets

from gptlib.panels.base import Panel, Whole

if TYPE_CHECKING:
    from torch import Tensor

WIDTH, BATCH = 16, 8
WARM_UP = 8  # numbers thrown away: those of neighbouring seeds begin alike
ACTIVATIONS = ("gelu_tanh", "relu", "tanh")


class DepthPanel(Panel):
    """Stack layers and see how much gradient each one gets.

    A layer maps x to act(W x + b): to x + act(...) with the residual addition, and with the norm W
    reads LayerNorm(x). W and b are uniform in ±1/4, torch's default at 16 inputs; the loss is the
    squared error against random targets, summed over the outputs, averaged over 8 inputs.

    Args:
        depth: layers, 1 to 24.
        activation: "gelu_tanh", "relu" or "tanh".
        residual, norm: switch the addition and LayerNorm on.
        seed: which random inputs, targets and weights, 0 to 9; deeper nets begin with the same.
    """

    script = "panels/depth.js"
    title = "Gradients at depth"
    heights = (525, 665)

    depth = Whole(12, min=1, max=24).tag(sync=True)
    activation = traitlets.Enum(ACTIVATIONS, "gelu_tanh").tag(sync=True)
    residual = traitlets.Bool(False).tag(sync=True)
    norm = traitlets.Bool(False).tag(sync=True)
    seed = Whole(0, min=0, max=9).tag(sync=True)

    def numbers(self) -> dict[str, float]:
        """Return each layer's gradient norm, first over last, and the signal's size."""
        import torch  # noqa: PLC0415 (loads torch)

        from gptlib import model, norms  # noqa: PLC0415 (loads torch)

        curves = {**model.ACTIVATIONS, "tanh": torch.tanh}
        activation, norm = curves[self.activation], norms.LayerNorm(WIDTH).double()
        stream = _uniform(self.seed)

        def draw(*shape: int, size: float) -> Tensor:
            values = [size * next(stream) for _ in range(torch.Size(shape).numel())]
            return torch.tensor(values, dtype=torch.float64).view(shape)

        first, targets = (draw(BATCH, WIDTH, size=3**0.5) for _ in range(2))  # variance near 1
        x, params = first, []
        for _ in range(self.depth):
            weight, bias = draw(WIDTH, WIDTH, size=0.25), draw(WIDTH, size=0.25)
            params += [weight.requires_grad_(), bias.requires_grad_()]
            out = activation((norm(x) if self.norm else x) @ weight.T + bias)
            x = x + out if self.residual else out
        grads = torch.autograd.grad((x - targets).square().sum() / BATCH, params)
        both = zip(grads[::2], grads[1::2], strict=True)  # weights and bias of each layer
        sizes = [math.hypot(weight.norm(), bias.norm()) for weight, bias in both]
        return {
            **{f"gradient of layer {i}": size for i, size in enumerate(sizes, 1)},
            "first over last": sizes[0] / sizes[-1],
            "size of the input": first.square().mean().sqrt().item(),
            "size of the output": x.square().mean().sqrt().item(),
        }


def _uniform(seed: int) -> Iterator[float]:
    """Yield numbers in [-1, 1), the same as the page's script to the last bit.

    A linear congruential generator (Knuth's, from Numerical Recipes): its products stay below 2^53,
    so that JavaScript's numbers hold them exactly.
    """
    state = (2654435761 * seed + 12345) % 2**32
    for step in itertools.count():
        state = (1664525 * state + 1013904223) % 2**32
        if step >= WARM_UP:
            yield 2 * state / 2**32 - 1
