"""The ladder of losses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from gptlib.figures.pictures import HEAD, RESIDUAL, Picture
from gptlib.figures.strokes import svg, text


class Rung(Protocol):
    """What is drawn of a machine."""

    @property
    def name(self) -> str: ...

    @property
    def sees(self) -> str: ...

    @property
    def loss(self) -> float: ...  # nats per byte

    @property
    def parameters(self) -> int: ...


def ladder(rungs: Sequence[Rung], here: Collection[str], note: str = "") -> Picture:
    """Draw what each rung of a ladder of losses pays, and what it saves against the one before.

    Args:
        rungs: from the top down.
        here: names of the rungs in colour; those after the last of them are pale.
        note: a sentence for the end of the caption.
    """
    last = max(i for i, rung in enumerate(rungs) if rung.name in here)
    zero, most, row = 145, max(rung.loss for rung in rungs), 30
    parts = [
        text(zero, 14, "nats per byte of held-out text, and the step", size=11, anchor="start"),
        text(505, 14, "numbers kept", size=11, anchor="end"),
        text(520, 14, "what its guess depends on", size=11, anchor="start"),
    ]
    for i, rung in enumerate(rungs):
        y, wide, now = 24 + row * i, 190 * rung.loss / most, rung.name in here
        step = f"{rung.loss - rungs[i - 1].loss:+.2f}".replace("-", "−") if i else ""
        parts += [
            f'<g opacity="{0.65 if i > last else 1}">',
            text(zero - 10, y + 15, rung.name, anchor="end", bold=now),
            f'<rect x="{zero}" y="{y}" width="{wide:.1f}" height="20" rx="3"'
            f' fill="{HEAD if now else RESIDUAL}" fill-opacity="0.85"/>',
            text(zero + wide + 6, y + 15, f"{rung.loss:.2f}", anchor="start", bold=now),
            text(zero + wide + 40, y + 15, step, size=11, anchor="start"),
            text(505, y + 15, f"{rung.parameters:,}", size=11, anchor="end"),
            text(520, y + 15, rung.sees, size=11, anchor="start"),
            "</g>",
        ]
    later = "pale: what comes later" if last < len(rungs) - 1 else "grey: what came before"
    caption = f"The ladder of losses. In colour: what this chapter builds; {later}."
    alt = "Losses in nats per byte, one rung below the other: " + "; ".join(
        f"{rung.name} {rung.loss:.2f}{' (this chapter)' if rung.name in here else ''}"
        for rung in rungs
    )
    picture = svg(715, 30 + row * len(rungs), parts)
    return Picture(picture, f"{caption} {note}".strip(), alt + ".")
