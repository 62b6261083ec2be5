"""The panel of chapter "Guess the next letter": chances, a roll of the dice, and the bill."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import traitlets
from numpy.typing import NDArray

from gptlib.panels.base import Panel, Text, Whole

MOST = 80  # characters
SHOWN = 10  # bars
STORED = Path(__file__).with_name("pair_counts.js")  # by tools/pack_pairs.py
_MASK = 2**32 - 1


class Counted(NamedTuple):
    """How often each byte occurs, and how often it comes after each."""

    letters: list[int]  # the bytes that occur, rising
    once: NDArray[np.int64]  # (256,)
    after: NDArray[np.int64]  # (256, 256), the earlier byte first


def pack(tokens: NDArray[np.integer]) -> list[str]:
    """Write the counts of a text for the page, a line each: its bytes, the first, the table."""
    letters = np.unique(tokens).tolist()
    key = tokens[:-1].astype(np.int64) * 256 + tokens[1:]
    counts = np.bincount(key, minlength=65_536).reshape(256, 256)[np.ix_(letters, letters)]
    rows = [",".join(str(n or "") for n in row).rstrip(",") for row in counts.tolist()]
    return [",".join(map(str, letters)), str(tokens[0]), *rows]


@functools.cache
def stored() -> Counted:
    """Return the counts as the page has them."""
    lines = re.findall(r'"([\d,]*)"', STORED.read_text(encoding="utf-8"))
    letters = [int(each) for each in lines[0].split(",")]
    after = np.zeros((256, 256), dtype=np.int64)
    for letter, line in zip(letters, lines[2:], strict=True):
        row = [int(n or 0) for n in line.split(",")]
        after[letter, letters[: len(row)]] = row
    once = after.sum(axis=0)  # the first byte comes after none
    once[int(lines[1])] += 1
    return Counted(letters, once, after)


def chances(table: str, before: int | None) -> NDArray[np.float64]:
    """Return the chances (256,) of the next byte, after no byte those of the frequencies."""
    counted = stored()
    alone: NDArray[np.float64] = (counted.once + 1 / 256) / (counted.once.sum() + 1)
    if table == "frequencies" or before is None:
        return alone
    row = counted.after[before]
    smoothed: NDArray[np.float64] = (row + alone) / (row.sum() + 1)
    return smoothed


def thrown(roll: int) -> float:
    """Return the number in [0, 1) of a roll: the first of mulberry32 with its number as seed."""
    state = (roll + 0x6D2B79F5) & _MASK
    bits = (state ^ state >> 15) * (state | 1) & _MASK
    bits ^= (bits + ((bits ^ bits >> 7) * (bits | 61))) & _MASK
    return (bits ^ bits >> 14) / 2**32


def drawn(p: NDArray[np.float64], ranked: list[int], number: float) -> int:
    """Return the byte on whose piece of the line a number falls, or -1: on none that occurs."""
    at = int(np.searchsorted(np.cumsum(p[ranked]), number, side="right"))
    return ranked[at] if at < len(ranked) else -1


class PairsPanel(Panel):
    """Type a text: see the chances of the next letter, roll for it, read what the text costs.

    Args:
        text: at most 80 characters.
        table: "pairs", or "frequencies", which do not look at the letter before.
        roll: which number between 0 and 1 is thrown, from 0.
    """

    script = "panels/pairs.js"
    title = "Guess, roll, pay"
    heights = (578, 975)

    text = Text("To be, or not to be", most=MOST).tag(sync=True)
    table = traitlets.Enum(["pairs", "frequencies"], "pairs").tag(sync=True)
    roll = Whole(0, min=0, max=999_999).tag(sync=True)

    def numbers(self) -> dict[str, float]:
        """Return the first chances, what the roll gives, and the surprise of each byte."""
        text = self.text.encode()
        p = chances(self.table, text[-1] if text else None)
        ranked = sorted(stored().letters, key=lambda letter: (-p[letter], letter))
        number = thrown(self.roll)
        return {
            **{f"letter {i}": letter for i, letter in enumerate(ranked[:SHOWN], 1)},
            **{f"chance {i}": float(p[letter]) for i, letter in enumerate(ranked[:SHOWN], 1)},
            "number thrown": number,
            "letter drawn": drawn(p, ranked, number),
            **self._bill(text),
        }

    def _bill(self, text: bytes) -> dict[str, float]:
        if not text:
            return {"bytes": 0}
        pasts: list[Any] = [None, *text[:-1]]
        paid = [
            -math.log(chances(self.table, past)[byte])
            for past, byte in zip(pasts, text, strict=True)
        ]
        mean = sum(paid) / len(paid)
        return {
            "bytes": len(text),
            "nats in all": sum(paid),
            "nats per byte": mean,
            "perplexity": math.exp(mean),
            **{f"surprise {i}": nats for i, nats in enumerate(paid, 1)},
        }
