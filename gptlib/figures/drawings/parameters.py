"""Where the numbers of a machine sit, as areas."""

from __future__ import annotations

import math

from gptlib.config import GPTConfig, parameter_shapes
from gptlib.figures.pictures import ATTENTION, EMBED, FEED_FORWARD, HEAD, Picture
from gptlib.figures.strokes import svg, text

WIDE, HIGH, TOP = 680, 190, 44


def parameters(cfg: GPTConfig) -> Picture:
    """Draw each part of a machine as an area in proportion to its parameters.

    A tied head owns nothing; its place is drawn in dashes, as wide as the token table.
    """
    sizes = {name: math.prod(shape) for name, shape in parameter_shapes(cfg).items()}
    table, position = sizes["tok_emb.weight"], sizes["pos_emb.weight"]
    attention = sum(n for name, n in sizes.items() if ".attn." in name)
    feed_forward = sum(n for name, n in sizes.items() if ".ff." in name)
    norms = sum(n for name, n in sizes.items() if "norm" in name)
    per_pixel = (table + position + attention + feed_forward + table) / WIDE
    left = (table + position) / per_pixel
    right = left + (attention + feed_forward) / per_pixel
    shallow = HIGH * position / (table + position)
    upper = HIGH * attention / (attention + feed_forward)
    block = (right - left) / cfg.n_layers
    parts = [
        _area(0, TOP + shallow, left, HIGH - shallow, EMBED),
        _area(0, TOP, left, shallow, EMBED, 0.9),
    ]
    parts += [
        _area(left, TOP, right - left, upper, ATTENTION),
        _area(left, TOP + upper, right - left, HIGH - upper, FEED_FORWARD),
    ]
    for i in range(1, cfg.n_layers):
        parts += [
            _edge(left + i * block, TOP, upper, ATTENTION),
            _edge(left + i * block, TOP + upper, HIGH - upper, FEED_FORWARD),
        ]
    tied = "" if not cfg.tie_weights else ' stroke-dasharray="6 4"'
    parts += [
        _area(right, TOP, WIDE - right, HIGH, HEAD, 0 if tied else 0.18, tied),
        *_label(left / 2, TOP + HIGH / 2, "token table", table),
        text(2, 15, f"position table {_millions(position)}", size=11, anchor="start"),
        f'<path d="M40 20V{TOP}" stroke="currentColor" stroke-width="1.2"/>',
        text((left + right) / 2, 36, f"{cfg.n_layers} equal blocks, side by side", bold=True),
        *_label((left + right) / 2, TOP + upper / 2, "attention", attention),
        *_label((left + right) / 2, TOP + (HIGH + upper) / 2, "feed-forward", feed_forward),
        *_label((right + WIDE) / 2, TOP + HIGH / 2 - 10, "head", 0 if tied else table),
    ]
    if tied:
        parts.append(text((right + WIDE) / 2, TOP + HIGH / 2 + 22, "the token table", size=11))
        parts.append(text((right + WIDE) / 2, TOP + HIGH / 2 + 36, "once more", size=11))
    total = sum(sizes.values())
    caption = (
        f"{total:,} parameters; equal areas hold equally many. The norms, {norms:,} numbers, would"
        " be thinner than a line." + (" The dashed head owns nothing: it is tied." if tied else "")
    )
    alt = (
        f"Areas: token table {_millions(table)}, position table {_millions(position)}, attention of"
        f" all blocks {_millions(attention)}, feed-forward {_millions(feed_forward)}, head"
        f" {'none of its own' if tied else _millions(table)}."
    )
    return Picture(svg(WIDE + 2, TOP + HIGH + 4, parts), caption, alt)


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f} million"


def _area(
    x: float, y: float, w: float, h: float, colour: str, ink: float = 0.22, more: str = ""
) -> str:
    return (
        f'<rect x="{x + 1:.2f}" y="{y:.2f}" width="{w:.2f}" height="{h:.2f}" fill="{colour}"'
        f' fill-opacity="{ink}" stroke="{colour}" stroke-width="1.2"{more}/>'
    )


def _edge(x: float, y: float, h: float, colour: str) -> str:
    """Draw the pale line between two blocks; letters are read across it."""
    line = f"M{x + 1:.2f} {y:.2f}v{h:.2f}"
    return f'<path d="{line}" stroke="{colour}" stroke-opacity="0.4" stroke-width="1"/>'


def _label(x: float, y: float, name: str, count: int) -> list[str]:
    note = _millions(count) if count else "0"
    return [text(x, y, name, bold=True), text(x, y + 16, note, size=11)]
