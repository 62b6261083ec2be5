"""Strokes of which drawings are made: words, boxes, arrows, the stream; each returns SVG."""

from __future__ import annotations

import html
from collections.abc import Iterable

from gptlib.figures.pictures import RESIDUAL


def svg(width: float, height: float, parts: Iterable[str]) -> str:
    """Return a drawing of `parts`, in the page's letters."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
        f' width="{width:g}" font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 13,
    anchor: str = "middle",
    bold: bool = False,
    mono: bool = False,
) -> str:
    style = ' font-weight="600"' if bold else ""
    style += ' font-family="ui-monospace, monospace"' if mono else ""
    style += ' fill-opacity="0.8"' if size < 13 else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
        f' fill="currentColor"{style}>{html.escape(words)}</text>'
    )


def box(
    x: float, y: float, w: float, h: float, colour: str | None, name: str, note: str = ""
) -> str:
    paint = (
        f'fill="{colour}" fill-opacity="0.18" stroke="{colour}"'
        if colour
        else 'fill="none" stroke="currentColor" stroke-opacity="0.55"'
    )
    middle, centre = y + h / 2 + 4.5, x + w / 2
    label = text(centre, middle - 8 if note else middle, name, bold=True)
    label += text(centre, middle + 9, note, size=11) if note else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" {paint}'
        f' stroke-width="1.5"/>{label}'
    )


def wire(*corners: tuple[float, float]) -> str:
    """Draw a line through `corners`, each step along one axis, with an arrow head at its end."""
    (x, y), (end_x, end_y) = corners[-2:]
    dx, dy = (end_x > x) - (end_x < x), (end_y > y) - (end_y < y)
    left = f"{end_x - 6 * dx - 4 * dy:g} {end_y - 6 * dy - 4 * dx:g}"
    right = f"{end_x - 6 * dx + 4 * dy:g} {end_y - 6 * dy + 4 * dx:g}"
    line = "L".join(f"{a:g} {b:g}" for a, b in corners)
    return (
        f'<path d="M{line}M{left}L{end_x:g} {end_y:g}L{right}" fill="none" stroke="currentColor"'
        ' stroke-width="1.4"/>'
    )


def stream(x: float, top: float, bottom: float) -> str:
    return f'<path d="M{x:g} {top:g}V{bottom:g}" stroke="{RESIDUAL}" stroke-width="8"/>'


def plus(x: float, y: float) -> str:
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="10" fill="{RESIDUAL}"/>'
        f'<path d="M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10" stroke="#fff" stroke-width="2.4"/>'
    )
