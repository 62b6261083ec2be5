"""What the book says of times and of ways through it; `chapters.py` writes it.

book/chapters.yml says how long a chapter takes, book/paths.yml which ways lead through the book.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from chapter_list import Chapter, Notebook, chapters, linked

ROOT = Path(__file__).resolve().parent.parent
COUNTED = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

TIME_LINE = re.compile(r"\*About [^*\n]+; runs in [^*\n]+\.\*")


@dataclass(frozen=True)
class Stop:
    """A place on a path: a notebook, some of its sections, or something told in Markdown."""

    file: str = ""
    sections: list[str] = field(default_factory=list)
    minutes: int = 0
    tell: str = ""


def listed(name: str) -> Any:
    """Return what a list of the book holds."""
    return yaml.safe_load((ROOT / "book" / name).read_text(encoding="utf-8"))


@cache
def notebooks() -> dict[str, Notebook]:
    """Return the chapters and the notebooks beside them, by file, in order."""
    known = chapters()
    files = [chapter.file for chapter in known]
    beside = [
        Notebook(**{**entry, "needs": linked(entry["needs"], files)})
        for entry in listed("paths.yml")["beside"]
    ]
    return {notebook.file: notebook for notebook in [*known, *beside]}


@cache
def cells(file: str) -> list[tuple[str, str]]:
    """Return kind and text of a notebook's cells."""
    text = (ROOT / "notebooks" / f"{file}.ipynb").read_text(encoding="utf-8")
    return [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]


def headings(file: str) -> set[str]:
    """Return the headings of a notebook."""
    prose = "\n".join(text for kind, text in cells(file) if kind == "markdown")
    return set(re.findall(r"^#+ (.+?)\s*$", prose, re.MULTILINE))


def spoken(minutes: int) -> str:
    """Return a time as one says it: `40 minutes`, `an hour and a quarter`, `11 hours`."""
    if minutes >= 600:  # an estimate of this size has no minutes
        return f"{minutes / 60:.0f} hours"
    hours, rest = divmod(minutes, 60)
    if not hours:
        return f"{minutes} minutes"
    if rest and rest % 15 == 0:
        part = {15: "a quarter", 30: "a half", 45: "three quarters"}[rest]
        return f"an hour and {part}" if hours == 1 else f"{COUNTED[hours]} and {part} hours"
    whole = "an hour" if hours == 1 else f"{COUNTED[hours]} hours"
    return f"{whole} and {rest} minutes" if rest else whole


def time_line(notebook: Notebook) -> str:
    """Return the line under a notebook's question."""
    return (
        f"*About {spoken(notebook.minutes)}, with the exercises {spoken(notebook.together)}; "
        f"runs in {notebook.runs}. Needs {notebook.needs}.*"
    )


def timed(file: str, text: str) -> str:
    """Return the text of a notebook, a JSON file, whose time line says what the lists say.

    Raises:
        ValueError: its first cell has no such line, or two.
    """
    notebook = json.loads(text)
    source = notebook["cells"][0]["source"]
    places = [n for n, line in enumerate(source) if TIME_LINE.fullmatch(line.rstrip("\n"))]
    if len(places) != 1:
        raise ValueError(f"{file}: one line of its first cell must be '*About …; runs in ….*'")
    end = "\n" * source[places[0]].endswith("\n")
    source[places[0]] = time_line(notebooks()[file]) + end
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def page(file: str, text: str = "", section: str = "") -> str:
    """Return a link to a notebook or to one of its sections; without a text it says the title."""
    slug = re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-")
    return f"[{text}](../notebooks/{file}.ipynb{'#' * bool(slug)}{slug})"


def stops(entry: dict[str, Any]) -> list[Stop]:
    """Return the stops of a path or a session; `all` are the chapters."""
    if entry["stops"] == "all":
        return [Stop(chapter.file) for chapter in chapters()]
    return [Stop(**stop) for stop in entry["stops"]]


def minutes(entry: dict[str, Any]) -> int:
    """Return how long a path or a session takes to read."""
    return sum(stop.minutes or notebooks()[stop.file].minutes for stop in stops(entry))


def told(stop: Stop) -> str:
    """Return a stop as a page says it."""
    if stop.tell:
        return stop.tell
    parts = ", ".join(page(stop.file, section, section) for section in stop.sections)
    return page(stop.file) + (f": {parts}" if parts else "")


def whole() -> str:
    """Return how long the book takes."""
    known = chapters()
    reading, together = sum(c.minutes for c in known), sum(c.together for c in known)
    return f"about {spoken(reading)} to read, {spoken(together)} with every exercise"


def parts() -> list[str]:
    """Return the stops of the whole book: where each of its parts begins."""
    first = {chapter.part: chapter for chapter in reversed(chapters())}
    return [f"**{part}**, from {page(first[part].file)}" for part in reversed(first)]


def in_part(entry: dict[str, Any]) -> tuple[list[str], str]:
    """Return the stops of a path and, where they share them, which sections are meant."""
    some = {", ".join(stop.sections) for stop in stops(entry)} - {""}
    if len(some) != 1:
        return [told(stop) for stop in stops(entry)], ""
    brief = [
        stop.tell or page(stop.file) + " (in part)" * bool(stop.sections) for stop in stops(entry)
    ]
    return brief, f"*In part* means: {some.pop()}."


def card(entry: dict[str, Any]) -> str:
    """Return a path as a card of the welcome page."""
    everything = entry["stops"] == "all"
    time = whole() if everything else f"about {spoken(minutes(entry))} to read"
    way, note = (parts(), "") if everything else in_part(entry)
    return "\n".join(
        [
            f":::{{grid-item-card}} {entry['path']}",
            f"*{time.capitalize()}.* {entry['for']}",
            "",
            *(f"- {stop}" for stop in way),
            *(["", note] if note else []),
            ":::",
        ]
    )


def path_cards(known: list[Chapter]) -> str:
    """Return the paths of the welcome page."""
    cards = "\n\n".join(card(entry) for entry in listed("paths.yml")["paths"])
    return f"::::{{grid}} 1 1 3 3\n:gutter: 3\n\n{cards}\n\n::::"


def beginning(known: list[Chapter]) -> str:
    """Return where to begin, in a sentence."""
    *some, last = [
        f"*{entry['path']}* ({spoken(minutes(entry))})" for entry in listed("paths.yml")["paths"]
    ]
    return (
        f"**Begin** with {page(known[0].file)}, or choose [a path](#where-to-begin) by the time "
        f"you have: {', '.join(some)} or {last}."
    )


def faults() -> Iterator[str]:
    """Yield sections that no notebook has, and parts that take longer than the whole."""
    lists = listed("paths.yml")
    for entry in lists["paths"] + lists["sessions"]:
        for stop in filter(lambda stop: stop.file, stops(entry)):
            for name in set(stop.sections) - headings(stop.file):
                yield f"book/paths.yml: {stop.file} has no section {name!r}"
            if stop.minutes > notebooks()[stop.file].minutes:
                yield f"book/paths.yml: a part of {stop.file} takes longer than all of it"
