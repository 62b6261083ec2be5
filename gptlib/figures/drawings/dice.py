"""Chances laid end to end, and a number thrown on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from gptlib.figures.pictures import HEAD, Picture
from gptlib.figures.strokes import svg, text

LEFT, WIDE, TOP, HIGH = 14, 405, 46, 42  # pixels: where the line lies, and how thick it is


def dice(shares: Sequence[tuple[str, float]], thrown: float) -> Picture:
    """Draw shares side by side on the line from 0 to 1, and a number that falls on one of them.

    Args:
        shares: names and chances, which sum to 1, in the order of the line.
        thrown: in [0, 1).

    Raises:
        ValueError: the chances do not sum to 1, or the number lies beside the line.
    """
    ends = list(accumulate(share for _, share in shares))
    if not math.isclose(ends[-1], 1, abs_tol=1e-9):
        raise ValueError(f"the chances must sum to 1, got {ends[-1]:g}")
    if not 0 <= thrown < 1:
        raise ValueError(f"the number must be at least 0 and below 1, got {thrown:g}")
    hit = next(i for i, end in enumerate(ends) if thrown < end or i == len(ends) - 1)
    parts = [_end(0)]
    for i, ((name, share), end) in enumerate(zip(shares, ends, strict=True)):
        parts += [_piece(name, share, end, chosen=i == hit), _end(end)]
    parts.append(_mark(thrown))
    name = shares[hit][0]
    caption = (
        f"The chances of a row side by side. The number {thrown:.3f} was thrown; it lies on the"
        f" piece of “{name}”, and so “{name}” is the letter. A long piece is hit often, in the end"
        " as often as it is long."
    )
    pieces = "; ".join(f"{each} {share:.2f}" for each, share in shares)
    alt = f"A line from 0 to 1 in pieces: {pieces}. An arrow at {thrown:.3f} points at {name}."
    return Picture(svg(2 * LEFT + WIDE, TOP + HIGH + 28, parts), caption, alt)


def _at(share: float) -> float:
    return LEFT + WIDE * share


def _piece(name: str, share: float, end: float, *, chosen: bool) -> str:
    x, wide = _at(end - share), WIDE * share
    return (
        f'<rect x="{x:.1f}" y="{TOP}" width="{wide:.1f}" height="{HIGH}" fill="{HEAD}"'
        f' fill-opacity="{0.75 if chosen else 0.2}" stroke="currentColor" stroke-width="1.2"/>'
        + text(x + wide / 2, TOP + 19, name, mono=True, bold=chosen)
        + text(x + wide / 2, TOP + 35, f"{share:.2f}", size=11)
    )


def _end(share: float) -> str:
    return text(_at(share), TOP + HIGH + 18, f"{share:.2f}".removesuffix(".00"), size=11)


def _mark(thrown: float) -> str:
    x = _at(thrown)
    return (
        text(min(max(x, 60), LEFT + WIDE - 50), 18, f"thrown: {thrown:.3f}", bold=True)
        + f'<path d="M{x:.1f} 26V{TOP + 6}m-5 -8l5 8l5 -8" fill="none" stroke="currentColor"'
        ' stroke-width="2"/>'
    )
