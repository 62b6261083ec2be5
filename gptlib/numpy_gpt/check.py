"""Check hand-written gradients against the definition of a derivative, without torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gptlib._helpers.numbers import integer
from gptlib.numpy_gpt.model import NumpyGPT
from gptlib.numpy_gpt.ops import Ids


def check_gradients(
    model: NumpyGPT,
    idx: Ids,
    targets: Ids,
    *,
    directions: int = 3,
    seed: int = 0,
    dropout_seed: int | None = None,
) -> dict[str, float]:
    """Compare each parameter's gradient with central differences of the loss.

    The parameter is moved a little along random directions u; the loss must change at the rate
    <gradient, u>. The error of a direction is the difference of the two rates over the larger of
    the gradient's norm and the measured rate, so a gradient that is missing has an error near 1.

    Args:
        model: in float64; float32 rounds away the differences.
        idx, targets: (B, T), as for `NumpyGPT.loss_and_grads`.
        directions: random directions per parameter; costs two forward passes each.
        seed: of the directions.
        dropout_seed: of the dropout masks, the same ones in every pass; without it there is no
            dropout.

    Returns:
        The median of the directions' errors by parameter name; below 1e-6 where the gradient is
        right, infinity where it, a loss or a rate is not finite. (The median, because a step may
        cross the corner of a ReLU.)

    Raises:
        ValueError: the model is not in float64, or there is no direction.
    """
    integer("directions", directions, 1)
    if model.dtype != np.float64:
        raise ValueError(f"gradients are checked in float64, the model is in {model.dtype}")
    rng = np.random.default_rng(seed)

    def batch() -> tuple[Any, ...]:
        drawn = () if dropout_seed is None else (np.random.default_rng(dropout_seed),)
        return idx, targets, *drawn

    _, grads = model.loss_and_grads(*batch())
    errors = {}
    for name, param in model.params.items():
        saved = param.copy()
        found = []
        for _ in range(directions):
            u = rng.standard_normal(param.shape)
            step = 1e-5 * max(1.0, float(np.abs(saved).max())) / np.sqrt(u.size)
            try:
                losses = []
                for sign in (1, -1):
                    param[...] = saved + sign * step * u
                    losses.append(model.loss(*batch()))
            finally:
                param[...] = saved
            measured = (losses[0] - losses[1]) / (2 * step)
            claimed = float(np.vdot(grads[name], u))
            scale = max(float(np.linalg.norm(grads[name])), abs(measured), 1e-12)
            # An infinite scale would make any error 0, a median hides one direction, max() a NaN.
            finite = np.isfinite([*losses, measured, claimed, scale]).all()
            found.append(abs(measured - claimed) / scale if finite else np.inf)
        errors[name] = float(np.median(found)) if np.isfinite(found).all() else math.inf
    return errors
