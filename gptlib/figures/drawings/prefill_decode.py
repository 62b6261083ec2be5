"""Which rows are computed while a prompt is read, and while its continuation is written."""

from __future__ import annotations

from collections.abc import Sequence

from gptlib.figures.pictures import ATTENTION, FEED_FORWARD, HEAD, Picture
from gptlib.figures.strokes import svg, text, wire

ROW, CELL, MOST = 17, 15, 9  # a row's pitch, a square's width, the most tokens that fit
COLUMNS = {"queries": 40, "keys": 122, "values": 188, "scores": 276}
NEW, KEPT = 0.85, 0.32  # how strongly a square is painted


def prefill_decode(prompt: Sequence[str], written: Sequence[str]) -> Picture:
    """Draw the prefill of a prompt and a decode step for each written token, from the top down.

    Args:
        prompt: the tokens read at once.
        written: the tokens that are fed back, one per step.

    Raises:
        ValueError: there is no prompt, or the tokens are too many to be drawn.
    """
    total = len(prompt) + len(written)
    if not prompt or total > MOST:
        raise ValueError(f"need a prompt and at most {MOST} tokens, got {prompt} and {written}")
    after = COLUMNS["scores"] + CELL * total + 32
    parts, y, said = [_headings(after)], 46, []
    for end in range(len(prompt), total + 1):
        tokens, first = [*prompt, *written][:end], 0 if end == len(prompt) else end - 1
        name = f"decode, step {end - len(prompt)}" if first else "prefill"
        note = "1 new row" if first else f"{end} new rows"
        parts += [
            text(0, y, name, anchor="start", bold=True),
            text(128, y, f"{note}; the cache holds {end} afterwards", size=12, anchor="start"),
            _rows(tokens, first, after, y + 12),
        ]
        said.append(f"{name}: {note} of queries, keys, values and scores, {first} kept")
        y += 12 + ROW * end + 36
    caption = (
        f"One layer, then the head. Prefill computes {len(prompt)} rows at once. Each decode step"
        " computes one row of everything, and its query meets all keys in the cache (the frame),"
        " which grows by one row of keys and one of values."
    )
    parts.append(_legend(y - 6))
    alt = "Rows of queries, keys, values, scores, feed-forward and logits. " + "; ".join(said) + "."
    return Picture(svg(after + 158, y + 6, parts), caption, alt)


def _headings(after: float) -> str:
    named: list[tuple[float, str]] = [
        (x + 24, name) for name, x in COLUMNS.items() if name != "scores"
    ]
    named += [(COLUMNS["scores"] + 24, "scores"), (after + 24, "feed-forward")]
    return "".join(text(x, 16, name) for x, name in [*named, (after + 128, "logits")])


def _rows(tokens: Sequence[str], first: int, after: float, y: float) -> str:
    """Draw all rows of one step; those from `first` on are new."""
    end, parts = len(tokens), list[str]()
    for i, token in enumerate(tokens):
        at, new = y + ROW * i, i >= first
        parts.append(_token(at, token))
        strengths = (NEW if new else None), (NEW if new else KEPT), (NEW if new else KEPT)
        for (_, x), strength in zip(COLUMNS.items(), strengths, strict=False):
            parts.append(_row(x, at, 3, ATTENTION, strength))
        if new:
            parts.append(_row(COLUMNS["scores"], at, i + 1, ATTENTION, NEW))
            parts.append(_row(after, at, 3, FEED_FORWARD, NEW))
    x, last, high = COLUMNS["keys"] - 6, y + ROW * (end - 1), ROW * end
    parts += [
        f'<rect x="{x}" y="{y - 5}" width="{COLUMNS["values"] + 51 - x}" height="{high + 7}"'
        f' rx="5" fill="none" stroke="{ATTENTION}" stroke-width="2"/>',
        wire((COLUMNS["values"] + 55, last + 7), (COLUMNS["scores"] - 6, last + 7)),
        wire((COLUMNS["scores"] + CELL * end + 4, last + 7), (after - 6, last + 7)),
        wire((after + 50, last + 7), (after + 98, last + 7)),
        _row(after + 104, last, 3, HEAD, NEW),
    ]
    return "".join(parts)


def _token(y: float, token: str) -> str:
    return text(14, y + 11.5, token.replace(" ", "␣"), mono=True)


def _row(x: float, y: float, squares: int, colour: str, strength: float | None) -> str:
    """Draw a row of squares; without a strength it is only outlined, as not needed."""
    paint = (
        'fill="none" stroke="currentColor" stroke-opacity="0.4" stroke-dasharray="2 2"'
        if strength is None
        else f'fill="{colour}" fill-opacity="{strength}" stroke="{colour}"'
    )
    return "".join(
        f'<rect x="{x + CELL * i:g}" y="{y:g}" width="{CELL - 2}" height="{ROW - 3}" {paint}/>'
        for i in range(squares)
    )


def _legend(y: float) -> str:
    parts = []
    for x, strength, words in (
        (0, NEW, "computed in this step"),
        (172, KEPT, "kept from before"),
        (310, None, "used once, not kept"),
    ):
        parts.append(_row(x, y - 11, 1, ATTENTION, strength))
        parts.append(text(x + 20, y, words, size=12, anchor="start"))
    return "".join(parts)
