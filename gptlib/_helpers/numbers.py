"""Check numbers where they come in; NumPy's are taken too, True and False are none."""

from __future__ import annotations

import math
import types
import typing
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal


@dataclass(frozen=True)
class Range:
    """The numbers a field allows, written beside it: `steps: Annotated[int, Range(least=1)]`."""

    least: float | None = None  # the smallest one
    above: float | None = None  # all are larger
    most: float | None = None  # the largest one
    below: float | None = None  # all are smaller

    def __contains__(self, value: float) -> bool:
        return (
            -math.inf < value < math.inf
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def words(self, value: float, kind: type) -> str:
        """Say what `value` should have been: a float's whole interval, an int's side."""
        if kind is int and self.most is not None:
            if value > self.most:
                return f"at most {self.most:,}"
            return f"at least {self.least:,}"
        low = self.above if self.least is None else self.least
        high = self.below if self.most is None else self.most
        if high is None:
            side = "at least" if self.above is None else "above"
            return f"{'finite and ' if kind is float else ''}{side} {low}"
        left = "[" if self.above is None else "("
        right = "]" if self.below is None else ")"
        return f"in {left}{low}, {high}{right}"


FromZero = Annotated[float, Range(least=0)]
UpToOne = Annotated[float, Range(least=0, most=1)]
WholeFromZero = Annotated[int, Range(least=0)]


def check_fields(settings: Any) -> None:
    """Check a frozen dataclass by its annotations, and turn its numbers into Python's own.

    An int field takes whole numbers, a float field finite ones, each within the `Range` beside it;
    a bool field True or False; a Literal one of its values. None passes where the field allows it.

    Raises:
        TypeError: a value of the wrong type; names the field.
        ValueError: a value outside the range; names the field, what is allowed and what was got.
    """
    for name, (kind, allowed, optional) in _rules(settings.__class__).items():
        value = getattr(settings, name)
        if value is None and optional:
            continue
        if typing.get_origin(kind) is Literal:
            if value not in typing.get_args(kind):
                choices = ", ".join(typing.get_args(kind))
                raise ValueError(f"{name} must be one of {choices}; got {value!r}")
        elif kind is bool:
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        else:
            value = integer(name, value) if kind is int else number(name, value)
            if value not in allowed:
                raise ValueError(f"{name} must be {allowed.words(value, kind)}, got {value!s:.60}")
            object.__setattr__(settings, name, value)


@cache
def _rules(kind: type) -> dict[str, tuple[Any, Range, bool]]:
    """Return each field's type, its range, and whether it may be None."""
    rules = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        allowed, optional = Range(), False
        if typing.get_origin(hint) in (typing.Union, types.UnionType):  # X | None
            optional = True
            hint = next(part for part in typing.get_args(hint) if part is not type(None))
        if typing.get_origin(hint) is typing.Annotated:
            hint, *notes = typing.get_args(hint)
            allowed = next((note for note in notes if isinstance(note, Range)), allowed)
        rules[name] = hint, allowed, optional
    return rules


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
