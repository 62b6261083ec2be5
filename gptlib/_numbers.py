"""Check numbers where they come in; NumPy's are taken too, True and False are none."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any


def integer(name: str, value: Any, least: int | None = None) -> int:
    """Return `value` as an int.

    Raises:
        TypeError: it is not an integer; names it.
        ValueError: it is below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def number(name: str, value: Any) -> float:
    """Return `value` as a float.

    Raises:
        TypeError: it is not a real number; names it.
        ValueError: it is too large for a float.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{name} must be finite, got {value!s:.60}") from error
