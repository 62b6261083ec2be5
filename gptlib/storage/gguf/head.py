"""The head of a GGUF file: what it says of itself, and where each tensor lies.

After the four letters "GGUF" come a version, two counts, that many keys with typed values and that
many tensors' names, sizes, kinds and offsets; the tensors follow, each at a multiple of an
alignment. All numbers are little-endian. The library `gguf` reads a head too, in seconds, and takes
what lies behind the end of a cut-off file for short or empty.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_VERSIONS = (2, 3)
_SCALARS = "BbHhIifB__QqdB"  # struct's letters by GGUF's type number; 7 is a boolean
_BOOL, _STRING, _ARRAY = 7, 8, 9
_MOST_DIMENSIONS = 4
# What stands at the start of files that are often mistaken for a model.
_OTHERS = {
    b"version https://git-lfs": "is a pointer of Git LFS, not the file it points to",
    b"<": "is a web page, not a model",
    b"PK": "is a ZIP archive or a pickle of PyTorch, not a GGUF",
}


@dataclass(frozen=True)
class Stored:
    """One tensor as it lies in the file."""

    kind: int  # llama.cpp's number of the quantisation
    shape: tuple[int, ...]  # rows first, as in torch
    offset: int  # from the beginning of the file


@dataclass(frozen=True)
class Head:
    """What `read_head` found."""

    about: Mapping[str, Any]  # key to value; arrays are lists
    tensors: Mapping[str, Stored]
    data: NDArray[np.uint8]  # the whole file, mapped


class _Cursor:
    """Reads values one after the other; ValueError where the file ends too early."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def take(self, letters: str) -> tuple[Any, ...]:
        size = struct.calcsize(f"<{letters}")
        start = self._step(size)
        return struct.unpack_from(f"<{letters}", self.data, start)

    def text(self) -> str:
        (length,) = self.take("Q")
        start = self._step(length)
        return self.data[start : start + length].decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, length = self.take("IQ")
            if inner == _STRING:
                return [self.text() for _ in range(length)]
            return self._scalars(inner, length)
        return self._scalars(kind, 1)[0]

    def _scalars(self, kind: int, count: int) -> list[Any]:
        if kind >= len(_SCALARS) or kind in (_STRING, _ARRAY):
            raise ValueError(f"holds a value of the unknown type {kind}")
        letter = np.dtype(_SCALARS[kind]).newbyteorder("<")
        start = self._step(count * letter.itemsize)
        values = np.frombuffer(self.data, letter, count, start)
        return (values != 0).tolist() if kind == _BOOL else values.tolist()

    def _step(self, size: int) -> int:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError("is cut off: it ends within its head")
        return start


def read_head(path: Path) -> Head:
    """Map a file and read its head; no tensor is looked at.

    Raises:
        OSError: the file cannot be read.
        ValueError: no GGUF, another version, or cut off; the reason without the file's name.
    """
    with path.open("rb") as file:
        start = file.read(24)
        if start[:4] != b"GGUF":
            raise ValueError(_what(start))
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    cursor = _Cursor(data)
    _, version = cursor.take("4sI")
    if version not in _VERSIONS:
        big = version & 0xFFFF == 0
        raise ValueError(
            f"is a GGUF of version {version:#x}, with the bytes of each number the other way round"
            if big
            else f"is a GGUF of version {version}, only {_VERSIONS[0]} and {_VERSIONS[1]} are read"
        )
    n_tensors, n_keys = cursor.take("QQ")
    try:
        about = _named(n_keys, cursor, "key", lambda: cursor.value(*cursor.take("I")))
        tensors = _named(n_tensors, cursor, "tensor", lambda: _stored(cursor))
    except UnicodeDecodeError as error:
        raise ValueError(f"is damaged: {error}") from error
    return _placed(about, tensors, cursor)


def _what(start: bytes) -> str:
    if not start:
        return "is empty"
    named = (what for first, what in _OTHERS.items() if start.lstrip().startswith(first))
    return next(named, f"is not a GGUF: it begins with {start[:4]!r}")


def _named(count: int, cursor: _Cursor, what: str, read: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(count):
        name = cursor.text()
        if name in found:
            raise ValueError(f"is damaged: the {what} {name!r:.80} occurs twice")
        found[name] = read()
    return found


def _stored(cursor: _Cursor) -> Stored:
    (dimensions,) = cursor.take("I")
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise ValueError(f"is damaged: a tensor of {dimensions} dimensions")
    shape = cursor.take(f"{dimensions}Q")
    kind, offset = cursor.take("IQ")
    return Stored(kind, shape[::-1], offset)


def _placed(about: dict[str, Any], tensors: dict[str, Stored], cursor: _Cursor) -> Head:
    alignment = about.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"general.alignment must be a power of two, got {alignment!r:.40}")
    start = -(-cursor.at // alignment) * alignment
    moved = {n: Stored(t.kind, t.shape, start + t.offset) for n, t in tensors.items()}
    return Head(about, moved, np.frombuffer(cursor.data, np.uint8))
