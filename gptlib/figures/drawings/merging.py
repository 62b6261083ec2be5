"""A line of text while its tokens are merged."""

from __future__ import annotations

from collections.abc import Sequence

from gptlib.figures.pictures import EMBED, Picture
from gptlib.figures.strokes import svg, text

CELL, ROW, LEFT = 24, 46, 84  # pixels: a character, a stage, where the text begins


def merging(stages: Sequence[Sequence[str]]) -> Picture:
    """Draw one text in tokens, a row for each stage; each stage makes one new kind of token.

    Args:
        stages: the pieces of the text before the first merge and after each one.

    Raises:
        ValueError: two stages are not the same text.
    """
    whole = "".join(stages[0])
    if wrong := next((stage for stage in stages if "".join(stage) != whole), None):
        raise ValueError(f"{''.join(wrong)!r} is not {whole!r}: a merge changes no text")
    parts: list[str] = []
    for i, stage in enumerate(stages):
        before = set(stages[i - 1]) if i else set(stage)
        after = set(stages[i + 1]) if i + 1 < len(stages) else set(stage)
        y = 8 + ROW * i
        parts.append(text(LEFT - 12, y + 19, f"{len(stage)} tokens", anchor="end"))
        parts += _row(stage, y, fresh=set(stage) - before, coming=after - set(stage))
        if made := sorted(set(stage) - before):
            says = f"new: {_seen(made[0])}"
            parts.append(text(LEFT + CELL * len(whole) + 10, y + 19, says, anchor="start"))
    counts = ", ".join(str(len(stage)) for stage in stages)
    caption = (
        "Each row is the line after one more merge. In strong colour: the token that is new in this"
        f" row. The bracket below a pair: what the next merge joins. Tokens in the line: {counts}."
    )
    rows = "; ".join(" ".join(f"[{_seen(piece)}]" for piece in stage) for stage in stages)
    picture = svg(LEFT + CELL * len(whole) + 110, ROW * len(stages) + 4, parts)
    return Picture(picture, caption, f"One line of text as tokens, row by row: {rows}.")


def _row(stage: Sequence[str], y: float, *, fresh: set[str], coming: set[str]) -> list[str]:
    parts: list[str] = []
    x, skip = LEFT, False
    for i, piece in enumerate(stage):
        wide = CELL * len(piece)
        fill = 0.55 if piece in fresh else 0.25 if len(piece) > 1 else 0
        parts.append(
            f'<rect x="{x + 1.5:g}" y="{y}" width="{wide - 3:g}" height="28" rx="5" fill="{EMBED}"'
            f' fill-opacity="{fill:g}" stroke="currentColor" stroke-opacity="0.45"/>'
            f"{text(x + wide / 2, y + 19, _seen(piece), mono=True)}"
        )
        pair = "".join(stage[i : i + 2])
        if not skip and i + 1 < len(stage) and pair in coming:
            end = x + CELL * len(pair)
            parts.append(
                f'<path d="M{x + 4:g} {y + 32}v5H{end - 4:g}v-5" fill="none"'
                ' stroke="currentColor" stroke-width="1.6"/>'
            )
            skip = True
        else:
            skip = False
        x += wide
    return parts


def _seen(piece: str) -> str:
    return piece.replace(" ", "␣")
