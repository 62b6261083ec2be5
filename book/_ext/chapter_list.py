"""The one list of chapters, book/chapters.yml, as the site and `make chapters` read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

LIST = Path(__file__).resolve().parent.parent / "chapters.yml"


@dataclass(frozen=True)
class Chapter:
    """One chapter; its number is its place in the list."""

    number: int
    part: str
    file: str  # in notebooks/, without suffix
    title: str
    question: str  # what a reader asks
    shows: str  # what a reader sees happen


def chapters(path: Path = LIST) -> list[Chapter]:
    """Return the chapters in order.

    Raises:
        ValueError: a file's name does not begin with its chapter's number.
    """
    parts = yaml.safe_load(path.read_text(encoding="utf-8"))
    entries = [(part["part"], entry) for part in parts for entry in part["chapters"]]
    found = [Chapter(n, part, **entry) for n, (part, entry) in enumerate(entries, start=1)]
    for chapter in found:
        if not chapter.file.startswith(f"{chapter.number:02}_"):
            raise ValueError(f"{chapter.file} is chapter {chapter.number} of {path.name}")
    return found
