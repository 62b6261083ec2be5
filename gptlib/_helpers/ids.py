"""Check token ids at public calls. Corpora are checked in `text/corpus.py`.

Compiled and training steps check nothing again; `check_few` is cheap enough for every new token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

IGNORE = -100  # a target that is not counted

Ids = NDArray[np.integer[Any]]


class Sizes(Protocol):
    """What a configuration says of ids."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def context_length(self) -> int: ...


def check_rows(idx: Any, start: int, cfg: Sizes, *, whole: bool, kind: str) -> None:
    """Raise ValueError unless (B, T) ids of any engine can be read from position `start` on.

    Looks at shape and type only, never at the numbers, so that it can stay in compiled code.

    Args:
        whole: whether the type of the ids will do; `kind` says which would.
    """
    if idx.ndim != 2 or idx.shape[1] == 0:
        raise ValueError(f"idx must have shape (B, T), T at least 1; got {tuple(idx.shape)}")
    if not whole:
        raise ValueError(f"idx must hold {kind} token ids, got dtype {idx.dtype}")
    if start + idx.shape[1] > cfg.context_length:
        raise ValueError(
            f"{start + idx.shape[1]} positions exceed the context length {cfg.context_length}"
        )


def check_range(ids: Any, cfg: Sizes) -> None:
    """Raise ValueError where (B, T) ids of any engine are outside the vocabulary."""
    _none_outside("token id", ids, (ids < 0) | (ids >= cfg.vocab_size), cfg)


def check_target_range(targets: Any, cfg: Sizes) -> None:
    """Raise ValueError where (B, T) targets are neither ids of the vocabulary nor IGNORE."""
    outside = ((targets < 0) & (targets != IGNORE)) | (targets >= cfg.vocab_size)
    _none_outside("target", targets, outside, cfg)


def check_ids(idx: Ids, start: int, cfg: Sizes) -> None:
    """Raise ValueError unless (B, T) ids can be read from position `start` on."""
    if not isinstance(idx, np.ndarray):
        raise ValueError(f"idx must be an array of shape (B, T), got {type(idx).__name__}")
    check_rows(idx, start, cfg, whole=idx.dtype.kind in "iu", kind="integer")
    check_range(idx, cfg)


def check_few(ids: Sequence[int], start: int, cfg: Sizes) -> None:
    """Do the same for the ids of one text, in a microsecond where they are right."""
    plain = isinstance(ids, list | tuple) and all(type(i) is int for i in ids)
    fits = plain and 0 < len(ids) <= cfg.context_length - start
    if fits and min(ids) >= 0 and max(ids) < cfg.vocab_size:
        return
    try:
        row = np.asarray([ids])
    except ValueError:  # rows of different lengths
        row = np.empty(0)
    check_ids(row if row.size else np.empty((1, 0), int), start, cfg)


def check_targets(targets: Ids, idx: Ids, cfg: Sizes) -> None:
    """Raise ValueError unless the targets are ids, or IGNORE, in the shape of idx."""
    for name, ids in (("idx", idx), ("targets", targets)):
        if not isinstance(ids, np.ndarray):
            raise ValueError(f"{name} must be an array, got {type(ids).__name__}")
    check_pair(targets, idx, whole=targets.dtype.kind in "iu", kind="integer")
    check_target_range(targets, cfg)


def check_pair(targets: Any, idx: Any, *, whole: bool, kind: str) -> None:
    """Raise ValueError unless targets of any engine have the shape of idx and a whole type."""
    if targets.shape != idx.shape:
        raise ValueError(
            f"targets must have the shape of idx {tuple(idx.shape)}, got {tuple(targets.shape)}"
        )
    if not whole:
        raise ValueError(f"targets must hold {kind} token ids, got dtype {targets.dtype}")


def _none_outside(what: str, ids: Any, outside: Any, cfg: Sizes) -> None:
    if outside.any():
        b, t = (int(i) for i in np.argwhere(np.asarray(outside.tolist()))[0])
        raise ValueError(
            f"{what} {int(ids[b, t])} at row {b}, position {t} is outside the vocabulary"
            f" 0..{cfg.vocab_size - 1}"
        )


def prompt_ids(prompt: Any, vocab_size: int) -> list[int]:
    """Return a prompt as a list of ids.

    Raises:
        TypeError: it is no flat sequence of integers.
        ValueError: it is empty, or an id is outside the vocabulary.
    """
    try:
        ids = np.asarray(prompt)
    except ValueError:  # rows of different lengths
        ids = np.empty((0, 0))
    if ids.ndim == 1 and ids.size == 0:
        raise ValueError("prompt is empty; give at least one token id")
    huge = ids.dtype == object and all(type(i) is int for i in ids.flat)  # beyond 64 bits
    if ids.ndim != 1 or not (ids.dtype.kind in "iu" or huge):
        got = " ".join(repr(prompt).split())
        raise TypeError(f"prompt must be a flat sequence of token ids, got {got:.80}")
    outside = np.flatnonzero((ids < 0) | (ids >= vocab_size))
    if outside.size:
        raise ValueError(
            f"token id {ids[outside[0]]} at position {outside[0]} is outside the vocabulary"
            f" 0..{vocab_size - 1}"
        )
    found: list[int] = ids.tolist()
    return found
