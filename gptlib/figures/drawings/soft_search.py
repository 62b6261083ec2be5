"""A search in which every card hands over something."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gptlib.figures.pictures import ATTENTION, Picture
from gptlib.figures.strokes import box, svg, text, wire


def soft_search(
    wish: str, cards: Sequence[tuple[str, str, str]], scores: Sequence[float]
) -> Picture:
    """Draw a query that is compared with labels, and contents that are mixed by how well these fit.

    Args:
        wish: what is looked for.
        cards: of each card its name, its label and its content.
        scores: how well each label fits the wish; the shares are their softmax.

    Raises:
        ValueError: not one score for each card.
    """
    if len(cards) != len(scores):
        raise ValueError(f"{len(cards)} cards, {len(scores)} scores")
    powers = [math.exp(score) for score in scores]
    shares = [power / sum(powers) for power in powers]
    bottom = 44 + 52 * len(cards)
    middle = (44 + bottom - 10) / 2
    parts = [
        text(70, 20, "query", bold=True),
        text(70, 35, "what I look for", size=11),
        text(262, 20, "key", bold=True),
        text(262, 35, "what I am found by", size=11),
        text(378, 20, "how well", size=11),
        text(378, 35, "they fit", size=11),
        text(479, 20, "value", bold=True),
        text(479, 35, "what I hand over", size=11),
        box(6, middle - 22, 128, 44, ATTENTION, wish, "asks once"),
        text(633, middle - 34, "blend", bold=True),
        text(633, middle - 19, "in these shares", size=11),
        box(580, middle - 10, 106, 30, ATTENTION, "what is read"),
    ]
    for i, ((name, label, content), share) in enumerate(zip(cards, shares, strict=True)):
        y = 44 + 52 * i
        at = y + 21
        parts += [
            _line((134, middle), (194, at), 0.8 + 4 * share),
            box(194, y, 136, 42, ATTENTION, label, f"on the card of “{name}”"),
            f'<rect x="346" y="{y + 14}" width="{60 * share:.1f}" height="14" rx="2"'
            f' fill="{ATTENTION}" fill-opacity="0.85"/>',
            text(350 + 60 * share, y + 26, f"{share:.0%}".replace("%", " %"), anchor="start"),
            box(424, y, 110, 42, ATTENTION, content),
            _line((534, at), (572, middle + 5), 0.8 + 4 * share),
        ]
    parts.append(wire((572, middle + 5), (580, middle + 5)))
    caption = (
        "A search with soft matches. The query is held against every key, and what is handed over"
        " is a blend of all values, most of it from the keys that fit."
    )
    alt = f"A query, {wish}, beside cards: " + "; ".join(
        f"{name}, key {label}, value {content}, share {share:.0%}"
        for (name, label, content), share in zip(cards, shares, strict=True)
    )
    return Picture(svg(690, bottom + 4, parts), caption, alt + ".")


def _line(start: tuple[float, float], end: tuple[float, float], width: float) -> str:
    return (
        f'<path d="M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}" stroke="{ATTENTION}"'
        f' stroke-width="{width:.1f}" stroke-opacity="0.7"/>'
    )
