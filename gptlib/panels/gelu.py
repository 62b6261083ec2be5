"""The panel of chapter "GELU and feed-forward": both curves, their slopes, who still learns."""

from __future__ import annotations

import numpy as np
import traitlets

from gptlib.numpy_gpt import ops
from gptlib.panels.base import Number, Panel

# Twelve standard normal numbers: those of NumPy's default_rng(4), two digits, in order.
INPUTS = [-1.64, -1.61, -0.65, -0.62, -0.17, -0.01, 0.15, 0.24, 0.24, 0.66, 1.58, 1.66]
LEARNS = 1e-3  # an input learns while at least this share of the signal comes back
FORMS = {
    "gelu_tanh": (ops.gelu_tanh_forward, ops.gelu_tanh_backward),
    "gelu": (ops.gelu_forward, ops.gelu_backward),
}


class GeluPanel(Panel):
    """Move a point along GELU and ReLU, and twelve inputs away from zero.

    Args:
        x: where the curves are read, in [-5, 4].
        form: "gelu_tanh", which GPT-2 has, or "gelu", the form with erf.
        gap: draw tanh form minus erf form, enlarged a thousandfold.
        bias: what is added to the twelve inputs, in [-6, 3].
    """

    script = "panels/gelu.js"
    title = "GELU and ReLU"
    heights = (703, 1024)

    x = Number(-1.0, min=-5.0, max=4.0).tag(sync=True)
    form = traitlets.Enum(list(FORMS), "gelu_tanh").tag(sync=True)
    gap = traitlets.Bool(False).tag(sync=True)
    bias = Number(-1.0, min=-6.0, max=3.0).tag(sync=True)

    def numbers(self) -> dict[str, float]:
        """Return both curves and slopes at x, the gap of GELU's forms, and the inputs' slopes."""
        at = np.array([self.x, *(z + self.bias for z in INPUTS)])
        forward, backward = FORMS[self.form]
        (height, *_), saved = forward(at)
        slope, *slopes = backward(np.ones_like(at), saved)
        (relu, *_), saved = ops.relu_forward(at)
        relu_slope, *relu_slopes = ops.relu_backward(np.ones_like(at), saved)
        tanh_form, erf_form = (both(at)[0][0] for both, _ in FORMS.values())
        return {
            "GELU": float(height),
            "slope of GELU": float(slope),
            "ReLU": float(relu),
            "slope of ReLU": float(relu_slope),
            "tanh form minus erf form": float(tanh_form - erf_form),
            **{f"slope of GELU at input {i}": float(v) for i, v in enumerate(slopes, 1)},
            "inputs that learn with GELU": int(np.sum(np.abs(slopes) >= LEARNS)),
            "inputs that learn with ReLU": int(np.sum(np.abs(relu_slopes) >= LEARNS)),
        }
