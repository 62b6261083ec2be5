"""Let a reader check an answer without being shown it."""

from __future__ import annotations

import math
from types import EllipsisType


def check(answer: float | EllipsisType, expected: float, hint: str, rel_tol: float = 1e-3) -> str:
    """Compare a reader's number with the one the notebook computed.

    Args:
        answer: the reader's number, or `...` while it is not filled in.
        expected: computed by the calling cell, never typed.
        hint: shown when the answer is wrong.
        rel_tol: relative tolerance.

    Returns:
        One sentence for the reader.
    """
    if answer is ...:
        return "Not answered yet: replace the three dots with your number and run the cell again."
    if math.isclose(answer, expected, rel_tol=rel_tol, abs_tol=1e-12):
        return "Right."
    return f"Not yet: {answer:,} is {'above' if answer > expected else 'below'} the answer. {hint}"
