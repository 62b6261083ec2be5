"""Folders that can be written, and JSON objects from files."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import Any

from gptlib._helpers.messages import shown

CONFIG = "config.json"
ASIDE = ".writing-"  # prefix of folders whose files are not complete yet


def to_utf8(path: str | Path, error: UnicodeDecodeError) -> str:
    """Return advice, with a command, for a text file that is not UTF-8."""
    utf16 = error.start == 0 and error.object[:2] in (b"\xff\xfe", b"\xfe\xff")
    name = shown(shlex.quote(str(path)))
    encoding = "UTF-16" if utf16 else "WINDOWS-1252"
    return f"convert it, for example with: iconv -f {encoding} -t UTF-8 {name} > new.txt"


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
