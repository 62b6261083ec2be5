"""Folders that can be written, a run's checkpoints, JSON objects from files, one-line messages."""

from __future__ import annotations

import codecs
import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

CONFIG = "config.json"
STEP = "step-"  # prefix of folders: one checkpoint of a run
ASIDE = ".writing-"  # prefix of folders whose files are not complete yet


def shown(text: object) -> str:
    r"""Return text that fits in one line: as it is, or quoted where it holds `\n` or the like."""
    plain = str(text)
    return plain if plain.isprintable() else repr(plain)


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


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """Yield a folder that can be written; after an error, what was made of it is gone again.

    Raises:
        OSError: one line that names the folder and the reason.
    """
    folder = Path(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield writable_folder(folder)
    except BaseException:
        with suppress(OSError):  # never made, or something is in it
            for path in made:
                path.rmdir()
        raise


def writable_folder(folder: str | Path) -> Path:
    """Make `folder` if need be and prove that files can be written in it.

    Raises:
        OSError: one line that names the folder and the reason.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(f"cannot write into the folder {shown(folder)}: {error.strerror}") from error
    return folder


def steps(run: str | Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first."""
    found = [path for path in Path(run).glob(f"{STEP}*") if (path / CONFIG).is_file()]
    return sorted(path for path in found if path.name.removeprefix(STEP).isdecimal())


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no JSON, or something else than an object; names the file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise ValueError(f"{shown(path)} is damaged: not JSON ({error})") from error
    if not isinstance(data, dict):
        raise ValueError(f"{shown(path)} must hold a JSON object, got {data!r:.60}")
    return data
