"""Logits where they come in: any array or tensor as float64, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def as_array(logits: Any) -> Floats:
    """Return logits of any engine as float64.

    Raises:
        TypeError: no array, or not of real numbers.
    """
    if isinstance(logits, list | tuple):
        logits = np.asarray(logits)
    if not isinstance(logits, np.ndarray):
        if not hasattr(logits, "detach"):
            raise TypeError(f"logits must be an array or a tensor, got {type(logits).__name__}")
        logits = logits.detach().cpu()
        logits = (logits.double() if logits.is_floating_point() else logits).numpy()
    if logits.dtype.kind not in "fiu":
        raise TypeError(f"logits must be real numbers, got dtype {logits.dtype}")
    return np.asarray(logits, dtype=np.float64)


def first_bad(logits: Floats) -> str:
    """Say which of (V,) logits is not finite, or that all are -inf."""
    bad = np.flatnonzero(np.isnan(logits) | (logits == np.inf))
    if bad.size:
        return f"{logits[bad[0]]} at id {bad[0]}"
    return "-inf at every id, so no token is possible"
