"""Let a reader check an answer without being shown it."""

from __future__ import annotations

import math
from numbers import Integral
from types import EllipsisType


def check(
    answer: float | EllipsisType, expected: float, hint: str, rel_tol: float | None = None
) -> str:
    """Compare a reader's number with the one the notebook computed.

    Args:
        answer: the reader's number, or `...` while it is not filled in.
        expected: computed by the calling cell, never typed.
        hint: shown when the answer is wrong.
        rel_tol: relative tolerance; by default 0 where `expected` is a whole number, else 1e-3.

    Returns:
        One sentence for the reader.
    """
    if answer is ...:
        return "Not answered yet: replace the three dots with your number and run the cell again."
    if rel_tol is None:
        rel_tol = 0.0 if isinstance(expected, Integral) else 1e-3
    if math.isclose(answer, expected, rel_tol=rel_tol, abs_tol=1e-12):
        return "Right."
    where = "above" if answer > expected else "below" if answer < expected else "not"
    return f"Not yet: {answer:,} is {where} the answer. {hint}"
