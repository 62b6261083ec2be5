"""A GPT laid out for decoding on a CPU: the same function, its weights stored to be read fast.

A decoding step multiplies one row by every weight of the model, so it takes as long as reading the
weights takes. Two things help: NumPy's BLAS reads with all cores where PyTorch's, given one row,
reads with one; and half or a quarter of the bytes takes less time to read (chapter "The KV cache").
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gptlib.config import TABLES
from gptlib.model import GPT, unwrapped
from gptlib.numpy_gpt.forward import ForwardGPT
from gptlib.numpy_gpt.model import NumpyGPT
from gptlib.numpy_gpt.ops import Array, Saved

Precision = Literal["float32", "bfloat16", "int8"]


def for_decoding(model: GPT, precision: Precision = "float32") -> ForwardGPT:
    """Copy a model for `generate` and `stream`, its matrices in the given precision.

    Norms, biases, activations and the cache are float32, and so is the table of token embeddings,
    of which a step reads one row; a tied head has a copy of its own.

    Args:
        precision: "float32", the same numbers; "bfloat16", half the bytes; "int8", a quarter, with
            one scale per output. int8 also rounds what the matrices multiply, with one scale per
            token, or nearly: with and without a cache the draws may differ now and then.

    Returns:
        A model with `next_logits`, `new_cache`, `forward` and `loss`; only float32 has gradients.

    Raises:
        TypeError: not a `GPT`.
        ValueError: an unknown precision, or weights that are not finite.
    """
    model = unwrapped(model)
    if precision not in get_args(Precision):
        raise ValueError(f"precision must be one of {get_args(Precision)}, got {precision!r}")
    net = NumpyGPT.from_torch(model)
    for name, param in net.params.items():
        if not np.isfinite(param).all():
            raise ValueError(f"{name} is not finite")
    if precision == "float32":
        return net
    looked_up = {name: p for name, p in net.params.items() if name in TABLES or p.ndim == 1}
    return ForwardGPT(net.cfg, looked_up, _Packed(net, *_PRODUCTS[precision]))


class _Packed:
    """The matrices of a model, packed for one of PyTorch's products."""

    def __init__(
        self,
        net: NumpyGPT,
        pack: Callable[[Tensor, Tensor | None], Any],
        product: Callable[[Tensor, Any], Tensor],
    ) -> None:
        self.product = product
        self.packed = {
            name: pack(torch.from_numpy(weight), None if bias is None else torch.from_numpy(bias))
            for name, weight, bias in net.matrices()
        }

    def __call__(self, name: str, x: Array) -> tuple[Array, Saved]:
        rows = torch.from_numpy(x.reshape(-1, x.shape[-1]))  # (..., I) -> (N, I), the same memory
        out = self.product(rows, self.packed[name]).numpy()  # (N, O)
        return out.reshape(*x.shape[:-1], -1), ()


def _pack_bfloat16(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    return weight.contiguous().bfloat16(), bias


def _bfloat16_product(rows: Tensor, packed: tuple[Tensor, Tensor | None]) -> Tensor:
    weight, bias = packed
    out = F.linear(rows.bfloat16(), weight).float()
    return out if bias is None else out.add_(bias)


def _pack_int8(weight: Tensor, bias: Tensor | None) -> tuple[Any, Tensor | None]:
    scale = weight.abs().amax(1).clamp(min=1e-12) / 127  # (O,), never 0
    zero = torch.zeros_like(scale, dtype=torch.long)
    with warnings.catch_warnings():  # torch says that quantized tensors will go, one day
        warnings.simplefilter("ignore", UserWarning)
        quantized = torch.quantize_per_channel(weight, scale.double(), zero, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(quantized, None), bias


def _int8_product(rows: Tensor, packed: tuple[Any, Tensor | None]) -> Tensor:
    # PyTorch's kernel also rounds the activations, with one scale per call: rows of one size lose
    # nothing by that, and rows of very different sizes are common in trained models. To 7 bits,
    # because pairs of 8-bit products overflow the 16-bit sums of processors without VNNI.
    weight, bias = packed
    product = torch.ops.quantized.linear_dynamic.default
    if len(rows) == 1:  # a step of decoding; the call's scale is the row's own
        out: Tensor = product(rows, weight, reduce_range=True)
    else:
        size = rows.abs().amax(1, keepdim=True).clamp_(min=1e-30)  # (N, 1)
        out = product(rows / size, weight, reduce_range=True).mul_(size)
    return out if bias is None else out.add_(bias)


_PRODUCTS = {
    "bfloat16": (_pack_bfloat16, _bfloat16_product),
    "int8": (_pack_int8, _int8_product),
}
