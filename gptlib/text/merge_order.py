"""From a list of merges to the order in which tiktoken, which knows no list, joins the same."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping


def ranks(
    vocab: Collection[bytes], merges: Iterable[tuple[bytes, bytes]], *, whole_words: bool = False
) -> list[bytes]:
    """Return the pieces in the order in which tiktoken must join them to follow a list of merges.

    tiktoken joins any two neighbours that make a piece, and takes a word that is a piece as it is.
    So a piece belongs here if the merges before it leave exactly the two parts that are listed.

    Args:
        vocab: all pieces.
        merges: pairs in their order.
        whole_words: a word that is in `vocab` is one token, even where no merge makes it.

    Raises:
        ValueError: such a word would also arise from two neighbours that no merge joins.
    """
    order = {piece: rank for rank, piece in enumerate(p for p in vocab if len(p) == 1)}
    for left, right in merges:
        piece = left + right
        if piece not in order and _merged(piece, order) == [left, right]:
            order[piece] = len(order)
    if whole_words:
        for piece in [piece for piece in vocab if piece not in order]:
            if len(_merged(piece, order)) == 2:
                raise ValueError(f"the token {piece!r:.60} has no merge, but its parts have")
            order[piece] = len(order)
    return list(order)


def _merged(piece: bytes, order: Mapping[bytes, int]) -> list[bytes]:
    """Join neighbours, those of the lowest rank first, until no two make a piece."""
    parts = [piece[i : i + 1] for i in range(len(piece))]
    never = len(order)
    while len(parts) > 1:
        found = [order.get(a + b, never) for a, b in itertools.pairwise(parts)]
        lowest = min(found)
        if lowest == never:
            break
        at = found.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
