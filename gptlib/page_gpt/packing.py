"""A model's weights as text: a page opened from disk may not read other files."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gptlib.config import GPTConfig
from gptlib.numpy_gpt.model import NumpyGPT

if TYPE_CHECKING:
    from gptlib.model import GPT

Precision = Literal["int8", "float32"]

# Never rounded: what the head multiplies. Its error goes straight into the logits; without it the
# packaged model changes its best token half as often, for a tenth more text.
EXACT = ("tok_emb.weight", "head.weight")


def pack(model: GPT | NumpyGPT, precision: Precision = "int8") -> dict[str, Any]:
    """Return a model as JSON-able data for the script's `loadModel`.

    Args:
        model: with any switches; its dropout is left out.
        precision: "int8" stores matrices in a quarter of the bytes, rounded to 127 steps up and
            down with one scale per row; the token table, the head, norms and biases stay float32.
            "float32" rounds nothing.

    Returns:
        "config": the fields of the model's configuration; "shapes": name -> shape, in the order of
        storage; "rounded": the names of the int8 matrices; "int8" and "float32": base64 of
        little-endian numbers, row by row. A rounded matrix has its scales in "float32".

    Raises:
        TypeError: not a model of ours.
        ValueError: an unknown precision, or weights that are not finite.
    """
    if not isinstance(getattr(model, "cfg", None), GPTConfig):
        raise TypeError(f"model must be a GPT or a NumpyGPT, got {type(model).__name__}")
    if precision not in get_args(Precision):
        raise ValueError(f"precision must be one of {get_args(Precision)}, got {precision!r}")
    net = model if isinstance(model, NumpyGPT) else NumpyGPT.from_torch(model)
    rounded, codes, floats = [], [], []
    for name, param in net.params.items():
        if not np.isfinite(param).all():
            raise ValueError(f"{name} is not finite")
        if param.ndim == 2 and precision == "int8" and name not in EXACT:
            rounded.append(name)
            code, param = _quantised(param)
            codes.append(code)
        floats.append(param)
    return {
        "config": model.cfg.to_dict(),
        "shapes": {name: list(param.shape) for name, param in net.params.items()},
        "rounded": rounded,
        "int8": _base64(codes, "i1"),
        "float32": _base64(floats, "<f4"),
    }


def unpack(packed: dict[str, Any]) -> NumpyGPT:
    """Return the model that `pack` was given, with its matrices rounded as the page has them."""
    net = NumpyGPT(GPTConfig.from_dict(packed["config"]))
    floats = np.frombuffer(base64.b64decode(packed["float32"]), "<f4")
    codes = np.frombuffer(base64.b64decode(packed["int8"]), "i1")
    for name, shape in packed["shapes"].items():
        is_rounded, size = name in packed["rounded"], math.prod(shape)
        n = shape[0] if is_rounded else size
        param, floats = floats[:n], floats[n:]
        if is_rounded:
            code, codes = codes[:size], codes[size:]
            param = code.reshape(shape) * param[:, None]
        net.params[name][...] = param.reshape(shape)
    return net


def _quantised(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return whole numbers (O, I) in -127..127 and scales (O,) whose product is about `matrix`."""
    scales = np.abs(matrix).max(axis=1).clip(min=1e-12) / 127  # never 0
    return np.rint(matrix / scales[:, None]), scales


def _base64(arrays: list[NDArray[Any]], dtype: str) -> str:
    data = b"".join(array.astype(dtype).tobytes() for array in arrays)  # in C order
    return base64.b64encode(data).decode("ascii")
