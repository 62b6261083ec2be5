"""What a file that should be UTF-8 holds instead, and what can be done about it."""

from __future__ import annotations

import codecs
import re
import shlex
from pathlib import Path
from typing import BinaryIO

from gptlib._helpers.messages import shown

_BAD = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of bytes that are not UTF-8
_LONG = re.compile("[^\0-\x7f\udc80-\udcff]")  # a character of several bytes

# Bytes that no text in Windows-1252 has: control characters, and codes that mean nothing.
_NOT_WINDOWS = {*range(9), *range(14, 32), 0x7F, 0x81, 0x8D, 0x8F, 0x90, 0x9D}


def not_utf8(path: str | Path, file: BinaryIO) -> ValueError:
    """Return the error, in one line, for a text that is not UTF-8.

    A command is advised only where it fits all of the bytes: converting a text that is UTF-8 but
    for a few of them would spoil every other character. Reads the file again, in bounded memory.

    Args:
        path: what the message calls it.
        file: the bytes, at any position.
    """
    if not file.seekable():
        return ValueError(f"{shown(path)} is not UTF-8")
    command = f"iconv -f {{}} -t UTF-8 {shown(shlex.quote(str(path)))} > new.txt"
    file.seek(0)
    start = file.read(4)
    bad, other_utf8, seen = _look_through(file)
    file.seek(bad)
    rest = file.read(4)  # a character has at most four bytes
    byte = f"byte 0x{rest[0]:02x}" if rest else "changed meanwhile"
    for encoding, marks in {
        "UTF-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"),
        "UTF-16": (b"\xff\xfe", b"\xfe\xff"),
    }.items():
        if start.startswith(marks):
            text = f"is not UTF-8: {byte} at offset {bad}; convert it with: "
            return ValueError(f"{shown(path)} {text}{command.format(encoding)}")
    cut = len(rest) < 4 and codecs.utf_8_decode(rest, "replace", False)[1] == 0
    if cut and (other_utf8 or len(rest) > 1):
        text = f"is damaged UTF-8 at offset {bad}: it ends inside a character"
    elif other_utf8:
        text = f"is damaged UTF-8 at offset {bad}: {byte}"
    else:
        text = f"is not UTF-8: {byte} at offset {bad}"
        if not seen & _NOT_WINDOWS:
            text += f"; if it is Windows-1252, convert it with: {command.format('WINDOWS-1252')}"
    return ValueError(f"{shown(path)} {text}")


def _look_through(file: BinaryIO) -> tuple[int, bool, set[int]]:
    """Return where the first bad byte is, whether there are good long characters, all bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    bad, offset, other_utf8 = None, 0, False
    seen: set[int] = set()
    file.seek(0)
    while True:
        piece = file.read(1 << 20)
        text = decoder.decode(piece, final=not piece)  # without what may go on in the next piece
        if bad is None and (found := _BAD.search(text)):
            bad = offset + len(text[: found.start()].encode())
        other_utf8 = other_utf8 or _LONG.search(text) is not None
        offset += len(text.encode("utf-8", "surrogateescape"))
        seen.update(piece)
        if not piece:
            return offset if bad is None else bad, other_utf8, seen
