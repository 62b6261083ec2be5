"""Windows cut from a text and stacked to a batch."""

from __future__ import annotations

from collections.abc import Sequence

from gptlib.figures.pictures import EMBED, HEAD, Picture
from gptlib.figures.strokes import svg, text

SEEN = {" ": "␣", "\n": "⏎"}  # letters that leave no mark


def batches(words: str, starts: Sequence[int], length: int) -> Picture:
    """Draw windows cut from a text, stacked to inputs x and, one letter on, to targets y.

    Args:
        words: the text, as long as the drawing is wide: about 40 letters.
        starts: where the windows start, in rising order and apart from each other.
        length: T, letters in a window.

    Raises:
        ValueError: a window, or its last target, lies outside the text, or windows overlap.
    """
    ends = [start + length for start in starts]
    if not starts or min(starts) < 0 or max(ends) >= len(words):
        raise ValueError(f"windows of {length} at {list(starts)} do not fit {len(words)} letters")
    if any(end >= start for end, start in zip(ends, starts[1:], strict=False)):
        raise ValueError(f"windows of {length} at {list(starts)} overlap")
    wide, cell, y = 16, 22, 34
    parts = [text(0, 14, "the text, and the windows drawn from it", size=11, anchor="start")]
    for start in starts:
        parts.append(_band(wide * start, y, wide * length, EMBED))
        line = f"M{wide * (start + 1)} {y + 28}H{wide * (start + length + 1)}"
        parts.append(f'<path d="{line}" stroke="{HEAD}" stroke-width="4"/>')
        parts.append(text(wide * start, y - 5, str(start), size=11, anchor="start"))
    parts += [
        text(wide * (i + 0.5), y + 17, SEEN.get(letter, letter), mono=True)
        for i, letter in enumerate(words)
    ]
    top = y + 70
    right = 70 + cell * length + 60
    for left, shift, colour, name in (
        (70, 0, EMBED, "x: what is read"),
        (right, 1, HEAD, "y: what comes, one letter on"),
    ):
        parts.append(text(left, top - 8, name, anchor="start", bold=True))
        for row, start in enumerate(starts):
            at = top + 26 * row
            parts.append(_band(left, at, cell * length, colour))
            parts += [
                text(left + cell * (i + 0.5), at + 17, SEEN.get(letter, letter), mono=True)
                for i, letter in enumerate(words[start + shift : start + shift + length])
            ]
    parts += [
        text(62, top + 26 * row + 17, f"from {start}", size=11, anchor="end")
        for row, start in enumerate(starts)
    ]
    B, height = len(starts), top + 26 * len(starts)
    caption = (
        f"{B} windows of {length} letters, cut at places that dice chose, are stacked to x, {B} ×"
        f" {length}. The targets y, underlined above, are cut one letter further on: at the place"
        " of each letter of x, y has the letter that followed it."
    )
    alt = f"A line of text, “{words}”. Cut from it, row by row: " + "; ".join(
        f"“{words[start:end]}” with the targets “{words[start + 1 : end + 1]}”"
        for start, end in zip(starts, ends, strict=True)
    )
    return Picture(svg(max(wide * len(words), right + cell * length), height, parts), caption, alt)


def _band(x: float, y: float, w: float, colour: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="24" rx="4" fill="{colour}"'
        f' fill-opacity="0.3" stroke="{colour}"/>'
    )
