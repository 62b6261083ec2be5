"""The panel of chapter "Text becomes tokens": a text is merged into tokens, one merge at a time."""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import traitlets

from gptlib.panels.base import Panel, Text, Whole
from gptlib.text import byte_pairs, tokenizers

MOST = 120  # characters, of at most four bytes each
STORED = Path(__file__).with_name("merge_lists.js")  # by tools/pack_merges.py


class Stage(NamedTuple):
    """A text between two merges: its words as ids, and the id that the last merge made, or 0."""

    words: list[list[int]]
    made: int


def pack(merges: list[byte_pairs.Pair]) -> str:
    """Write a list of merges for the page: two little-endian numbers of 16 bits each, in base64."""
    return base64.b64encode(np.array(merges, dtype="<u2").tobytes()).decode()


@functools.cache
def stored(name: str) -> tuple[list[byte_pairs.Pair], Sequence[int]]:
    """Return a list of merges as the page has it, and the bytes of the first 256 ids."""
    lists = dict(re.findall(r'(\w+):\s*"([^"]*)"', STORED.read_text(encoding="utf-8")))
    ids = np.frombuffer(base64.b64decode(lists[name]), dtype="<u2").reshape(-1, 2)
    letters = bytes(tokenizers.byte_of_printed_char().values()) if name == "gpt2" else None
    return [(int(left), int(right)) for left, right in ids], letters or byte_pairs.PLAIN


def stages(text: str, name: str) -> list[Stage]:
    """Return a text before the first merge and after each, made wherever it fits at once."""
    merges, letters = stored(name)
    ids = {pair: 256 + rank for rank, pair in enumerate(merges)}
    words = [[letters.index(byte) for byte in word.encode()] for word in byte_pairs.cut(text)]
    found = [Stage(words, 0)]
    while made := min((ids[p] for w in words for p in pairwise(w) if p in ids), default=0):
        words = [byte_pairs.merge(word, merges[made - 256], made) for word in words]
        found.append(Stage(words, made))
    return found


class MergesPanel(Panel):
    """Type a text and see it merged into tokens, one merge after the other.

    Args:
        text: at most 120 characters.
        merges: "gpt2", the first of GPT-2's list; or "shakespeare", learned from the plays.
        step: merges done; beyond the last one, all.
    """

    script = "panels/merges.js"
    title = "Merge by merge"
    heights = (587, 783)

    text = Text("She sells sea shells. Othello lost 1604 ships 東京 🎭", most=MOST).tag(sync=True)
    merges = traitlets.Enum(["gpt2", "shakespeare"], "gpt2").tag(sync=True)
    step = Whole(5, min=0, max=4 * MOST - 1).tag(sync=True)

    def numbers(self) -> dict[str, float]:
        """Return how far it is, which merges come last and next, and the tokens' ids."""
        known = byte_pairs.pieces(*stored(self.merges))
        all_ = stages(self.text, self.merges)
        at = min(self.step, len(all_) - 1)
        ids = [token for word in all_[at].words for token in word]
        then = all_[at + 1] if at + 1 < len(all_) else None
        return {
            "bytes": sum(len(known[token]) for token in ids),
            "words": len(all_[at].words),
            "merges in all": len(all_) - 1,
            "merges done": at,
            "tokens": len(ids),
            "number of the last merge": all_[at].made and all_[at].made - 255,
            "number of the next merge": then.made - 255 if then else 0,
            "places of the next merge": len(ids) - sum(map(len, then.words)) if then else 0,
            **{f"token {i}": token for i, token in enumerate(ids, 1)},
        }
