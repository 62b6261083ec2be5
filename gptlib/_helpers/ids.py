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


def check_ids(idx: Ids, start: int, cfg: Sizes) -> None:
    """Raise ValueError unless (B, T) ids can be read from position `start` on."""
    if not isinstance(idx, np.ndarray):
        raise ValueError(f"idx must be an array of shape (B, T), got {type(idx).__name__}")
    if idx.ndim != 2 or idx.shape[1] == 0:
        raise ValueError(f"idx must have shape (B, T), T at least 1; got {idx.shape}")
    if idx.dtype.kind not in "iu":
        raise ValueError(f"idx must hold integer token ids, got dtype {idx.dtype}")
    if start + idx.shape[1] > cfg.context_length:
        raise ValueError(
            f"{start + idx.shape[1]} positions exceed the context length {cfg.context_length}"
        )
    _check_range("token id", idx, (idx < 0) | (idx >= cfg.vocab_size), cfg)


def check_few(ids: Sequence[int], start: int, cfg: Sizes) -> None:
    """Do the same for the ids of one text, in a fraction of a microsecond where they are right."""
    wrong = len(ids) == 0 or min(ids) < 0 or max(ids) >= cfg.vocab_size
    if wrong or start + len(ids) > cfg.context_length:
        check_ids(np.asarray([ids], dtype=np.int64 if len(ids) == 0 else None), start, cfg)


def check_targets(targets: Ids, idx: Ids, cfg: Sizes) -> None:
    """Raise ValueError unless the targets are ids, or IGNORE, in the shape of idx."""
    for name, ids in (("idx", idx), ("targets", targets)):
        if not isinstance(ids, np.ndarray):
            raise ValueError(f"{name} must be an array, got {type(ids).__name__}")
    if targets.shape != idx.shape:
        raise ValueError(f"targets must have the shape of idx {idx.shape}, got {targets.shape}")
    if targets.dtype.kind not in "iu":
        raise ValueError(f"targets must hold integer token ids, got dtype {targets.dtype}")
    outside = ((targets < 0) & (targets != IGNORE)) | (targets >= cfg.vocab_size)
    _check_range("target", targets, outside, cfg)


def _check_range(what: str, ids: Ids, outside: NDArray[np.bool_], cfg: Sizes) -> None:
    if outside.any():
        b, t = (int(i) for i in np.argwhere(outside)[0])
        raise ValueError(
            f"{what} {ids[b, t]} at row {b}, position {t} is outside the vocabulary"
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
