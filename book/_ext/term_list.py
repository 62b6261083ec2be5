"""The one list of terms, book/terms.yml, as the site and `make lint` read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

GLOSSARY = "book/glossary"
# Pages whose words nobody chose for a newcomer: entries, names in the code, titles, for teachers.
NOT_CHECKED = (GLOSSARY, "book/api", "book/bibliography", "book/teachers")

LIST = Path(__file__).resolve().parent.parent / "terms.yml"


@dataclass(frozen=True)
class Term:
    """One entry of the glossary."""

    term: str  # the entry's name
    prose: str = ""  # how pages write it, a regular expression; empty: not looked for
    search: tuple[str, ...] = ()  # what else learners type

    @property
    def anchor(self) -> str:
        """Return the entry's id in the glossary, as Sphinx makes it."""
        return "term-" + re.sub(r"[^a-zA-Z0-9._]+", "-", self.term)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return what finds the term in prose; without `prose`, nothing."""
        words = self.prose.replace(" ", r"\s+") or "(?!)"
        return re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)

    def defined_by(self, bold: str) -> bool:
        """Say whether these words, set in bold, are the term and nothing else."""
        return bool(self.pattern.fullmatch(bold.strip()))


@dataclass(frozen=True)
class Use:
    """A place where prose uses a term."""

    term: Term
    start: int
    end: int


def terms(path: Path = LIST) -> list[Term]:
    """Return the terms in order."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [Term(e["term"], e.get("prose", ""), tuple(e.get("search", ()))) for e in entries]


def uses(text: str, listed: Iterable[Term]) -> Iterator[Use]:
    """Yield every use in order; “loss” inside “validation loss” is none of its own."""
    found = [Use(t, *match.span()) for t in listed for match in t.pattern.finditer(text)]
    found.sort(key=lambda use: (use.start, -use.end))
    reached = 0
    for use in found:
        if use.end > reached:
            yield use
            reached = use.end
