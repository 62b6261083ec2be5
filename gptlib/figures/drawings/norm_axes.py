"""The two ways to take a mean in a grid of tokens and features."""

from __future__ import annotations

from collections.abc import Sequence

from gptlib.figures.pictures import NORM, RESIDUAL, Picture
from gptlib.figures.strokes import svg, text, wire

CELL = 26  # side of a cell, and a gap


def norm_axes(tokens: Sequence[str], features: int) -> Picture:
    """Draw one grid twice: a token's row as LayerNorm reads it, a feature's column as batch norm.

    Args:
        tokens: names of the rows.
        features: how many columns.
    """
    wide, high, left = CELL * features, CELL * len(tokens), 62
    upper, lower = 50, 50 + high + 66  # where the grids begin
    row, column = (len(tokens) - 1) // 2, (features - 1) // 2  # the marked ones
    parts = [text(left + wide / 2, upper - 8, f"{features} features of each token", size=11)]
    for top, name, colour in ((upper, "LayerNorm", NORM), (lower, "batch norm", RESIDUAL)):
        middle = left + wide / 2
        parts.append(text(middle, top - (28 if top == upper else 10), name, bold=True, size=14))
        for i, word in enumerate(tokens):
            parts.append(text(left - 10, top + CELL * i + 17, word, anchor="end"))
            for j in range(features):
                marked = i == row if top == upper else j == column
                parts.append(_cell(left + CELL * j, top + CELL * i, colour if marked else None))
    y, x = upper + CELL * row, left + CELL * column
    parts += [
        _frame(left, y, wide, CELL, NORM),
        _frame(x, lower, CELL, high, RESIDUAL),
        wire((left + wide + 4, y + 13), (left + wide + 24, y + 13)),
        text(left + wide + 30, y + 10, "mean, variance", anchor="start", size=11),
        text(left + wide + 30, y + 24, "of one token", anchor="start", size=11),
        wire((x + 13, lower + high + 4), (x + 13, lower + high + 24)),
        text(x + 13, lower + high + 38, "mean, variance of one feature", size=11),
    ]
    caption = (
        f"The same {len(tokens)} tokens of {features} numbers, twice. LayerNorm takes mean and"
        " variance along a row: the other tokens do not come in. Batch norm, its older relative,"
        " takes them along a column: every token of the batch comes in."
    )
    alt = (
        f"Two grids of {len(tokens)} rows, the tokens {', '.join(tokens)}, and {features} columns,"
        f" the features. In the upper one the row of {tokens[row]} is framed, from which LayerNorm"
        " takes mean and variance; in the lower one a column, from which batch norm takes them."
    )
    return Picture(svg(left + wide + 120, lower + high + 48, parts), caption, alt)


def _cell(x: float, y: float, colour: str | None) -> str:
    paint = (
        f'fill="{colour}" fill-opacity="0.6"'
        if colour
        else 'fill="currentColor" fill-opacity="0.07"'
    )
    return (
        f'<rect x="{x + 2:g}" y="{y + 2:g}" width="{CELL - 4}" height="{CELL - 4}" rx="3" {paint}/>'
    )


def _frame(x: float, y: float, wide: float, high: float, colour: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="5" fill="none"'
        f' stroke="{colour}" stroke-width="2.5"/>'
    )
