"""The one list of chapters, book/chapters.yml, as the site and `make chapters` read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).resolve().parent.parent / "chapters.yml"
NAMED = re.compile(r"\{(\w+)\}")  # a chapter that another one needs
LINKED = re.compile(r"\]\((\w+)\.ipynb")


@dataclass(frozen=True)
class Notebook:
    """A notebook of the book: how long it takes, and what it needs."""

    file: str  # in notebooks/, without suffix
    title: str
    minutes: int  # to read it, with its predictions
    exercises: int  # minutes for these
    runs: str  # how long its cells take
    needs: str  # Markdown, as a notebook says it

    @property
    def together(self) -> int:
        """Return the minutes of the chapter with its exercises."""
        return self.minutes + self.exercises

    @property
    def needed(self) -> list[str]:
        """Return the files of the chapters that this one needs, in order."""
        return list(dict.fromkeys(LINKED.findall(self.needs)))


@dataclass(frozen=True)
class Chapter(Notebook):
    """One chapter; its number is its place in the list."""

    number: int
    part: str
    question: str  # what a reader asks
    shows: str  # what a reader sees happen


def linked(needs: str, files: Sequence[str]) -> str:
    """Return what a notebook needs, with links that say a chapter's number.

    Raises:
        KeyError: a chapter of that name is not among `files`.
    """
    numbers = {file: number for number, file in enumerate(files, start=1)}
    return NAMED.sub(lambda m: f"[chapter {numbers[m[1]]}]({m[1]}.ipynb)", needs)


def chapters(path: Path = LIST) -> list[Chapter]:
    """Return the chapters in order.

    Raises:
        ValueError: a file's name does not begin with its chapter's number, or a chapter needs one
            that does not come before it.
    """
    parts: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    entries = [{"part": part["part"], **entry} for part in parts for entry in part["chapters"]]
    files = [entry["file"] for entry in entries]
    found = [
        Chapter(number=n, **{**entry, "needs": linked(entry["needs"], files)})
        for n, entry in enumerate(entries, start=1)
    ]
    for chapter in found:
        if not chapter.file.startswith(f"{chapter.number:02}_"):
            raise ValueError(f"{chapter.file} is chapter {chapter.number} of {path.name}")
        if late := set(chapter.needed) - set(files[: chapter.number - 1]):
            raise ValueError(f"{chapter.file} needs {sorted(late)}, which come later or nowhere")
    return found
