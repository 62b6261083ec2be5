"""One token's numbers on their way down the residual stream."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gptlib.figures.pictures import RESIDUAL, Picture
from gptlib.figures.strokes import box, plus, stream, svg, text, wire

COLUMN, STEP = 62, 112  # between two numbers, between two parts


def river(start: Sequence[float], writes: Sequence[tuple[str, str, Sequence[float]]]) -> Picture:
    """Draw what each part adds to one token's vector, as a sum written in columns.

    All numbers are rounded to hundredths first, so that what is shown adds up.

    Args:
        start: some numbers of the vector, before the first part.
        writes: a part's name, its colour, and what it adds to these numbers.

    Raises:
        ValueError: a part does not write as many numbers, or one is not finite.
    """
    for name, numbers in (("start", start), *((name, numbers) for name, _, numbers in writes)):
        if len(numbers) != len(start) or not all(map(math.isfinite, numbers)):
            raise ValueError(f"{name} must hold {len(start)} finite numbers, got {numbers}")
    now = [round(number, 2) for number in start]
    end, right = 40 + STEP * len(writes), 68 + COLUMN * len(start)
    parts = [
        stream(26, 14, end + 24),
        _row(now, 40),
        text(right + 16, 40, "the stream before", size=11, anchor="start"),
    ]
    for i, (name, colour, numbers) in enumerate(writes):
        y, added = 40 + STEP * i, [round(number, 2) for number in numbers]
        now = [round(a + b, 2) for a, b in zip(now, added, strict=True)]
        parts += [
            wire((30, y + 16), (right + 70, y + 16), (right + 70, y + 28)),
            text(right + 84, y + 21, "reads a copy, normalised", size=11, anchor="start"),
            box(right + 8, y + 28, 124, 30, colour, name),
            wire((right + 70, y + 58), (right + 70, y + 84), (36, y + 84)),
            text(right + 84, y + 78, "writes", size=11, anchor="start"),
            _row(added, y + 78, sign=True),
            plus(26, y + 84),
            _row(now, y + STEP),
        ]
    parts.append(text(right + 16, end, "the stream after", size=11, anchor="start"))
    parts.append(f'<path d="M16 {end + 22}h20l-10 14z" fill="{RESIDUAL}"/>')
    names = " and ".join(name for name, _, _ in writes)
    caption = (
        f"Some of one token's numbers in the stream. {names.capitalize()} read a copy from the"
        " side and write by adding, column by column. Nothing is overwritten."
    )
    alt = f"A vertical grey line, the stream, starts with {_said(start)}. " + " ".join(
        f"{name.capitalize()} reads it and adds {_said(numbers)}." for name, _, numbers in writes
    )
    return Picture(svg(right + 226, end + 42, parts), caption, f"{alt} The end: {_said(now)}.")


def _number(value: float, *, sign: bool = False) -> str:
    """Write a number in hundredths, with a minus that is as wide as a plus."""
    return f"{value:{'+' if sign else ''}.2f}".replace("-", "−")


def _row(numbers: Sequence[float], y: float, *, sign: bool = False) -> str:
    return "".join(
        text(44 + COLUMN * (i + 1), y, _number(n, sign=sign), anchor="end", mono=True)
        for i, n in enumerate(numbers)
    )


def _said(numbers: Sequence[float]) -> str:
    return ", ".join(map(_number, numbers))
