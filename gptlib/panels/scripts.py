"""The panels' scripts. They are modules for the editor and the linter, but travel as one text.

A page opened from disk may not import files, so the scripts that one needs are put in front of it.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export \{[^}]*\};\n", re.MULTILINE)


def files(*names: str) -> list[str]:
    """Return the scripts that these are made of, each once and after those it imports from."""
    found: list[str] = []
    for name in names:
        found += [*files(*_IMPORT.findall(_read(name))), name]
    return list(dict.fromkeys(found))


def without_imports(name: str) -> str:
    """Return one script without its imports, which must stand in front of it."""
    return _IMPORT.sub("", _read(name))


def text(name: str) -> str:
    """Return one script without its imports and its list of exports."""
    return _EXPORT.sub("", without_imports(name))


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
