"""Folders that can be written, and JSON objects from files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gptlib._helpers.messages import shown

CONFIG = "config.json"
ASIDE = ".writing-"  # prefix of folders whose files are not complete yet


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
