"""Questions whose answers are checked where the reader gives them; no answer is typed by hand.

The definitions of this module are shown by `gptlib.panels.ask`, in JupyterLab and in a built page.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, SupportsFloat

Points = Sequence[tuple[float, float]]

# A number as people write it: 1,024 or 1024, 0.5 or 0,5, 2.5e-3, 40 %, 1/3.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    """What is said of an answer."""

    state: Literal["open", "unread", "wrong", "right"]  # unread: no number
    says: str


@dataclass(frozen=True, kw_only=True)
class Number:
    """A question whose answer is a number.

    Raises:
        TypeError: the answer is no number.
        ValueError: the answer is not finite; it is no whole number and `within` is 0; or a known
            mistake lies so near that it would count as right.
    """

    question: str  # plain text; `code` between backticks
    answer: SupportsFloat  # computed by the calling cell, never typed
    hint: str  # shown with a number that is wrong and no known mistake
    within: float = 0.0  # the largest difference that is still right
    unit: str = ""
    why: str = ""  # shown with the right answer
    mistakes: Mapping[float, str] = field(default_factory=dict)  # wrong number -> what went wrong

    def __post_init__(self) -> None:
        if not math.isfinite(float(self.answer)):
            raise ValueError(f"answer must be finite, got {self.answer}")
        if not 0 <= self.within < math.inf or not all(map(math.isfinite, self.mistakes)):
            raise ValueError("within and every known mistake must be finite, within at least 0")
        if self.within == 0 and not float(self.answer).is_integer():
            raise ValueError(f"say within which distance of {self.answer} an answer is right")
        for wrong in self.mistakes:
            if abs(wrong - float(self.answer)) <= self.within:
                raise ValueError(f"{wrong} is within {self.within} of the answer {self.answer}")

    def sent(self) -> dict[str, Any]:
        """Return the definition as the page's script gets it."""
        return {
            "question": self.question,
            "answer": _exact(self.answer),
            "hint": self.hint,
            "within": self.within,
            "unit": self.unit,
            "why": self.why,
            "mistakes": [[_exact(wrong), says] for wrong, says in self.mistakes.items()],
        }


@dataclass(frozen=True)
class Sketch:
    """Curves as an answer to choose, without axes: only their shape counts."""

    alt: str  # what a reader who does not see it needs, without the answer
    curves: tuple[Points, ...]

    def sent(self) -> dict[str, Any]:
        """Return the curves scaled together into the unit square, to three digits."""
        xs, ys = zip(*(point for curve in self.curves for point in curve), strict=True)
        x, y = _scaled(xs), _scaled(ys)
        return {"alt": self.alt, "curves": [[[x(a), y(b)] for a, b in c] for c in self.curves]}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A question with one right option among two to six; each wrong one says what is wrong with it.

    Raises:
        ValueError: `because` is a run that does not bear the answer out, or an empty line; there
            are too few or too many options; or two are the same.
    """

    question: str  # plain text; `code` between backticks
    right: tuple[str | Sketch, str]  # the option, and why it is right
    wrong: Sequence[tuple[str | Sketch, str]]  # the others, each with what is wrong with it
    because: object  # what a run found, as a condition, or the line of the chapter that says it

    def __post_init__(self) -> None:
        if not self.because:
            raise ValueError(f"nothing bears out {self.right[0]!r}: because is {self.because!r}")
        options = [option for option, _ in (self.right, *self.wrong)]
        if not 2 <= len(options) <= 6 or any(options.count(option) > 1 for option in options):
            raise ValueError(f"a choice needs two to six different options, got {options}")

    def sent(self) -> dict[str, Any]:
        """Return the definition as the page's script gets it, in an order the question fixes."""
        options = [self.right, *self.wrong]
        random.Random(self.question).shuffle(options)
        return {
            "question": self.question,
            "options": [{**_option(option), "why": why} for option, why in options],
            "right": options.index(self.right),
        }


def judge(item: Mapping[str, Any], given: str) -> Verdict:
    """Judge what a reader gave.

    Args:
        item: a question as `sent` returns it.
        given: the text of a number, or the place of an option, from 0; empty while it is open.
    """
    if not given.strip():
        return Verdict("open", "")
    return _judge_choice(item, given) if "options" in item else _judge_number(item, given)


def _judge_choice(item: Mapping[str, Any], given: str) -> Verdict:
    place = int(given)
    says = item["options"][place]["why"]
    return Verdict("right", says) if place == item["right"] else Verdict("wrong", says)


def _judge_number(item: Mapping[str, Any], given: str) -> Verdict:
    value = read_number(given, item["unit"])
    if value is None:
        return Verdict("unread", "Type a number, such as 1,024 or 0.5 or 2.5e-3.")
    other = read_number(given, item["unit"], decimal_comma=True)  # 7,346 can be meant as 7.346
    readings = [value] if other is None else [value, other]

    def meant(target: float) -> bool:
        return any(_near(reading, target, item["within"]) for reading in readings)

    if meant(item["answer"]):
        return Verdict("right", item["why"])
    for wrong, says in item["mistakes"]:
        if meant(wrong):
            return Verdict("wrong", says)
    where = "above" if value > item["answer"] else "below"
    return Verdict("wrong", f"Your number is {where} the answer. {item['hint']}")


def read_number(text: str, unit: str = "", *, decimal_comma: bool = False) -> float | None:
    """Return the number that a reader typed, or None where it is none.

    A unit behind it is passed over, a percent sign divides by 100 unless the unit is per cent. A
    comma before three digits parts thousands, unless it is to be a `decimal_comma`.
    """
    plain = re.sub(r"[\s_]", "", text).replace("−", "-").replace("–", "-")
    named = re.sub(r"\s", "", unit)
    plain = plain.removesuffix(named) if named else plain
    share = 100.0 if plain.endswith("%") else 1.0
    over, slash, under = plain.removesuffix("%").partition("/")
    parts = [_plain_number(p, decimal_comma) for p in ([over, under] if slash else [over])]
    if None in parts or (slash and parts[1] == 0):
        return None
    value = math.prod(parts[:1]) / math.prod(parts[1:]) / share  # type: ignore[arg-type]
    return value if math.isfinite(value) else None


def _plain_number(text: str, decimal_comma: bool) -> float | None:
    if not decimal_comma and _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    text = text.replace(",", ".")
    return float(text) if _DECIMAL.fullmatch(text) else None


def _near(value: float, target: float, within: float) -> bool:
    """Return whether two numbers are as near as asked for, or differ by rounding alone."""
    return abs(value - target) <= within + 1e-9 * abs(target)


def _exact(value: SupportsFloat) -> float:
    """Return a whole number as an int, which no panel rounds: counts are right to the digit."""
    number = float(value)
    return int(number) if number.is_integer() else number


def _option(option: str | Sketch) -> dict[str, Any]:
    return {"text": option} if isinstance(option, str) else {"sketch": option.sent()}


def _scaled(values: Sequence[float]) -> Any:
    low, high = min(values), max(values)
    return lambda value: round(float((value - low) / ((high - low) or 1.0)), 3)
