"""The ladder of losses."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gptlib.figures.pictures import HEAD, RESIDUAL, Picture
from gptlib.figures.strokes import svg, text


def ladder(
    rungs: Sequence[tuple[str, str, float]], here: Collection[str], note: str = ""
) -> Picture:
    """Draw what each rung of a ladder of losses pays, and what it saves against the one before.

    Args:
        rungs: name, what its guess depends on, and loss in nats per byte, from the top down.
        here: names of the rungs in colour; those after the last of them are pale.
        note: a sentence for the end of the caption.
    """
    last = max(i for i, (name, _, _) in enumerate(rungs) if name in here)
    zero, most, row = 150, max(loss for _, _, loss in rungs), 30
    parts = [text(zero, 14, "nats per byte of held-out text", size=11, anchor="start")]
    for i, (name, sees, loss) in enumerate(rungs):
        y, wide, now = 24 + row * i, 250 * loss / most, name in here
        saved = f"−{rungs[i - 1][2] - loss:.2f}" if i else ""
        parts += [
            f'<g fill-opacity="{0.45 if i > last else 1}">',
            text(zero - 10, y + 15, name, anchor="end", bold=now),
            f'<rect x="{zero}" y="{y}" width="{wide:.1f}" height="20" rx="3"'
            f' fill="{HEAD if now else RESIDUAL}" fill-opacity="{0.25 if i > last else 0.85}"/>',
            text(zero + wide + 6, y + 15, f"{loss:.2f}", anchor="start", bold=now),
            text(zero + wide + 42, y + 15, saved, size=11, anchor="start"),
            text(510, y + 15, sees, size=11, anchor="start"),
            "</g>",
        ]
    height = 30 + row * len(rungs)
    caption = "The ladder of losses. In colour: what this chapter builds; pale: what comes later."
    alt = "Losses in nats per byte, one rung below the other: " + "; ".join(
        f"{name} {loss:.2f}{' (this chapter)' if name in here else ''}" for name, _, loss in rungs
    )
    return Picture(svg(690, height, parts), f"{caption} {note}".strip(), alt + ".")
