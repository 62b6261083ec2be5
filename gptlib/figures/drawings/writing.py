"""The loop that writes: four moves, again and again."""

from __future__ import annotations

from collections.abc import Sequence

from gptlib.figures.pictures import ATTENTION, HEAD, RESIDUAL, Picture
from gptlib.figures.strokes import box, svg, text, wire

CELL = 26


def writing(read: Sequence[str], row: Sequence[tuple[str, float]], window: int) -> Picture:
    """Draw one turn of the loop.

    Args:
        read: the tokens so far.
        row: some candidates of the last row with their scores, the chosen one among them.
        window: the most tokens that the machine reads.

    Raises:
        ValueError: there are more tokens than the window holds, or no candidates.
    """
    if len(read) > window or not row:
        raise ValueError(f"need at most {window} tokens and a candidate, got {len(read)}, {row}")
    low, high = min(score for _, score in row), max(score for _, score in row)
    chosen = max(row, key=lambda pair: pair[1])[0]
    T, top = len(read), 48
    last_row = top + 140 - 75 / T  # the middle of it
    parts = [
        text(0, 18, "1  crop", anchor="start", bold=True),
        text(0, 34, f"the last {window} tokens at most", size=11, anchor="start"),
        text(252, 18, "2  run", bold=True),
        text(252, 34, "one row of scores per token", size=11),
        text(464, 18, "3  choose", bold=True),
        text(464, 34, "from the last row only", size=11),
        text(610, 18, "4  append", bold=True),
        wire((8 + CELL * T, top + 75), (204, top + 75)),
        box(206, top + 40, 92, 70, None, "machine"),
    ]
    for i, token in enumerate(read):
        parts.append(_cell(2 + CELL * i, top + 62, token))
    for i in range(T):  # the rows: pale, but for the last
        y = top + 10 + (130 / T) * i
        last = i == T - 1
        parts.append(
            f'<rect x="318" y="{y:.1f}" width="70" height="{110 / T:.1f}" rx="3" fill="{HEAD}"'
            f' fill-opacity="{0.75 if last else 0.2}"/>'
        )
    parts += [
        wire((298, top + 75), (314, top + 75)),
        text(353, top + 158, "only this row counts", size=11),
        wire((390, last_row), (424, last_row)),
    ]
    for i, (token, score) in enumerate(row):
        y, wide = top + 10 + 24 * i, 12 + 58 * (score - low) / max(high - low, 1e-9)
        best = token == chosen
        parts += [
            text(434, y + 14, token, bold=best, mono=True),
            f'<rect x="446" y="{y}" width="{wide:.1f}" height="17" rx="3"'
            f' fill="{HEAD if best else RESIDUAL}" fill-opacity="0.75"/>',
        ]
    at = top + 10 + 24 * [token for token, _ in row].index(chosen) + 8
    bottom = top + 186
    parts += [
        wire((522, at), (596, at)) if abs(at - top - 75) < 1 else _corner(522, at, 596, top + 75),
        _cell(598, top + 62, chosen, ATTENTION),
        wire((611, top + 90), (611, bottom), (2 + CELL * T / 2, bottom), (2 + CELL * T / 2, 139)),
        text(310, bottom - 6, f"again, now with {T + 1} tokens", size=11),
    ]
    before = "".join(read)
    caption = (
        f"One turn of the loop. The machine reads “{before}” and returns {T} rows of scores. The"
        f" best of the last row, {chosen}, joins the text, and the next turn reads it too."
    )
    alt = (
        f"Four moves in a circle: {T} tokens are cropped to the window; the machine turns them into"
        f" {T} rows of scores; the best of the last row, {chosen}, is chosen; it is appended, and"
        " an arrow leads back to the start."
    )
    return Picture(svg(660, bottom + 8, parts), caption, alt)


def _cell(x: float, y: float, token: str, colour: str = HEAD) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{CELL - 3}" height="26" rx="4" fill="{colour}"'
        f' fill-opacity="0.18" stroke="{colour}" stroke-width="1.4"/>'
        + text(x + (CELL - 3) / 2, y + 18, token, mono=True)
    )


def _corner(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return wire((x, y), (middle, y), (middle, to_y), (to_x, to_y))
