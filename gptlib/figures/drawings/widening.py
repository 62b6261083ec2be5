"""The feed-forward part: wider, bent, narrow again."""

from __future__ import annotations

from gptlib.config import GPTConfig
from gptlib.figures.pictures import FEED_FORWARD, RESIDUAL, Picture
from gptlib.figures.strokes import svg, text

IN, MIDDLE, OUT = 96, 320, 544  # where the three columns stand
HIGH, TOP = 232, 34  # of the middle column; the others are a quarter of it


def widening(cfg: GPTConfig) -> Picture:
    """Draw how one token's numbers are widened, bent and narrowed, and one unit on the way.

    Args:
        cfg: the model whose widths are shown.
    """
    C, centre, quarter = cfg.emb_dim, TOP + HIGH / 2, HIGH / 8
    unit = TOP + 0.2 * HIGH
    near = [centre + quarter * f for f in (-0.85, -0.5, -0.15, 0.2, 0.55, 0.9)]
    parts = [
        _funnel(IN + 8, MIDDLE - 9, quarter, HIGH / 2),
        _funnel(MIDDLE + 9, OUT - 8, HIGH / 2, quarter),
        *(_line(IN + 8, y, MIDDLE - 9, unit) for y in near),
        *(_line(MIDDLE + 9, unit, OUT - 8, y) for y in near),
        _bar(IN, centre, quarter, RESIDUAL, 8),
        _bar(MIDDLE, centre, HIGH / 2, FEED_FORWARD, 9),
        _bar(OUT, centre, quarter, RESIDUAL, 8),
        f'<circle cx="{MIDDLE}" cy="{unit:g}" r="7" fill="{FEED_FORWARD}" stroke="currentColor"'
        ' stroke-width="1.6"/>',
        text(IN - 18, centre - 4, f"{C:,}", anchor="end", bold=True),
        text(IN - 18, centre + 12, "one token", anchor="end", size=11),
        text(OUT + 18, centre - 4, f"{C:,}", anchor="start", bold=True),
        text(OUT + 18, centre + 12, "one token", anchor="start", size=11),
        text(MIDDLE, 16, f"{4 * C:,} units, each bent by GELU", bold=True),
        text(MIDDLE + 20, unit - 6, "one unit", anchor="start"),
    ]
    for x, name, size in (
        ((IN + MIDDLE) / 2, "first matrix", f"{C:,} × {4 * C:,}"),
        ((MIDDLE + OUT) / 2, "second matrix", f"{4 * C:,} × {C:,}"),
    ):
        parts += [
            text(x, TOP + HIGH + 4, name, bold=True),
            text(x, TOP + HIGH + 20, f"{size} weights", size=11),
        ]
    caption = (
        f"The feed-forward part of one token: {C:,} numbers become {4 * C:,}, each of these is bent"
        f" by itself, and all of them become {C:,} again. The dot is one unit: it listens to every"
        " number on the left, and speaks to every number on the right."
    )
    alt = (
        f"A short bar of {C:,} numbers widens to a bar four times as high, {4 * C:,} units, and"
        " narrows to a short bar again. Lines join one unit of the middle to both short bars."
    )
    return Picture(svg(640, TOP + HIGH + 30, parts), caption, alt)


def _funnel(x: float, end: float, half: float, end_half: float) -> str:
    y = TOP + HIGH / 2
    upper, lower = f"{x:g} {y - half:g}L{end:g} {y - end_half:g}", f"{x:g} {y + half:g}"
    return (
        f'<path d="M{upper}V{y + end_half:g}L{lower}Z" fill="{FEED_FORWARD}" fill-opacity="0.14"/>'
    )


def _bar(x: float, y: float, half: float, colour: str, wide: float) -> str:
    return (
        f'<rect x="{x - wide:g}" y="{y - half:g}" width="{2 * wide:g}" height="{2 * half:g}" rx="4"'
        f' fill="{colour}" fill-opacity="0.75"/>'
    )


def _line(x: float, y: float, end_x: float, end_y: float) -> str:
    return (
        f'<path d="M{x:g} {y:g}L{end_x:g} {end_y:g}" stroke="currentColor" stroke-opacity="0.6"'
        ' stroke-width="1.1"/>'
    )
