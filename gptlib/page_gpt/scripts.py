"""The scripts of the page: modules for the editor and the linter, that travel as one text.

A page opened from disk may not import files, so the scripts that one needs are put in front of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

GPTLIB = Path(__file__).parents[1]  # scripts are named from here: "page_gpt/gpt.js"
ENGINE = ("page_gpt/gpt.js", "page_gpt/sampling.js")

_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[\w./]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export \{[^}]*\};\n", re.MULTILINE)


def in_order(*names: str) -> list[str]:
    """Return the scripts that these are made of, each once and after those it imports from."""
    found: list[str] = []
    for name in names:
        beside = [
            os.path.join(os.path.dirname(name), path) for path in _IMPORT.findall(_read(name))
        ]
        found += [
            *in_order(*(os.path.normpath(path).replace(os.sep, "/") for path in beside)),
            name,
        ]
    return list(dict.fromkeys(found))


def without_imports(name: str) -> str:
    """Return one script without its imports, which must stand in front of it."""
    return _IMPORT.sub("", _read(name))


def text(name: str) -> str:
    """Return one script without its imports and its list of exports."""
    return _EXPORT.sub("", without_imports(name))


def engine() -> str:
    """Return the page's engine as the text of one ES module, which imports nothing."""
    return "\n".join(map(without_imports, in_order(*ENGINE)))


def _read(name: str) -> str:
    return (GPTLIB / name).read_text(encoding="utf-8")
