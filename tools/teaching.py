"""What the page for teachers says, made from the book's lists; `chapters.py` writes it.

book/paths.yml holds the units of a course, book/teaching.yml what a teacher wants to know of each
notebook; numbers and grades of exercises come from the notebooks.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import wayfinding
from chapter_list import Chapter, Notebook
from wayfinding import cells, minutes, notebooks, page, stops, told

SESSION = 90  # minutes of a unit

# `**3, medium.**` or `**3 (medium).**` opens an exercise; a call in a later cell checks the answer.
EXERCISE = re.compile(r"\*\*(\d+)(?:, | \()([a-z, ]+?)\)?\.\*\*")
CHECKING = re.compile(r"\b(?:check|ask)\(")


@dataclass(frozen=True)
class Exercise:
    """An exercise as its notebook heads it."""

    number: int
    grade: str


def exercises(file: str) -> list[Exercise]:
    """Return a notebook's exercises; the grade says as well which of them check themselves."""
    text = "\n".join(
        text if kind == "markdown" or CHECKING.search(text) else "" for kind, text in cells(file)
    )
    _, _, text = text.partition("## Exercises")
    found = list(EXERCISE.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    return [
        Exercise(int(match[1]), graded(match[2], text[match.end() : end]))
        for match, end in zip(found, ends, strict=True)
    ]


def graded(grade: str, following: str) -> str:
    """Return a grade, and whether the exercise checks itself, said once."""
    checks = CHECKING.search(following.partition("\n## ")[0])
    return f"{grade}, checks itself" if checks and "checks itself" not in grade else grade


def units() -> dict[str, list[int]]:
    """Return the numbers of the units in which each notebook is treated."""
    found: dict[str, list[int]] = {}
    for number, entry in enumerate(wayfinding.listed("paths.yml")["sessions"], start=1):
        for stop in stops(entry):
            found.setdefault(stop.file, []).append(number)
    return found


def before(entry: dict[str, Any]) -> list[int]:
    """Return the numbers of the units that a unit needs."""
    own = [stop.file for stop in stops(entry) if stop.file]
    needed = {need for file in own for need in notebooks()[file].needed} - set(own)
    return sorted({number for file in needed for number in units().get(file, [])})


def counted(numbers: list[int]) -> str:
    """Return numbers of units as one says them."""
    *some, last = map(str, numbers)
    return f"units {', '.join(some)} and {last}" if some else f"unit {last}"


def session(number: int, entry: dict[str, Any]) -> str:
    """Return a unit for a class as an entry of a list, three lines."""
    used, needed = minutes(entry), before(entry)
    left = f"; {SESSION - used} are left for exercises" if used < SESSION else ""
    needs = f"Needs {counted(needed)}." if needed else "Needs no other unit."
    return (
        f"{number}. **{entry['session']}** · {'; '.join(told(stop) for stop in stops(entry))}\\\n"
        f"   *{used} minutes{left}. {needs}*\\\n"
        f"   {entry['takes'].strip()}"
    )


def sessions(known: list[Chapter]) -> str:
    """Return the units of the teachers' page."""
    entries = wayfinding.listed("paths.yml")["sessions"]
    return "\n\n".join(session(number, entry) for number, entry in enumerate(entries, start=1))


def lesson(notebook: Notebook, teaching: dict[str, Any]) -> str:
    """Return what a teacher wants to know of a notebook."""
    met = "\n".join(f"  - “{claim}” {reply}" for claim, reply in teaching["met"].items())
    rows = [
        f"| {exercise.number} | {exercise.grade} | {teaching['tests'][exercise.number]} |"
        for exercise in exercises(notebook.file)
    ]
    number = f"{notebook.number}. " if isinstance(notebook, Chapter) else ""
    return "\n".join(
        [
            f"### {number}{notebook.title}",
            "",
            f"{page(notebook.file, 'The page')}; {notebook.minutes} minutes to read and "
            f"{notebook.exercises} for the exercises.",
            "",
            f"- **Predict:** {teaching['predict'].strip()}",
            f"- **Break it live:** {teaching['break'].strip()}",
            f"- **Misconceptions it meets:**\n{met}",
            "",
            "| exercise | grade | it tests |",
            "| --- | --- | --- |",
            *rows,
        ]
    )


def lessons(known: list[Chapter]) -> str:
    """Return what the teachers' page says of every notebook, in order."""
    teaching = wayfinding.listed("teaching.yml")
    return "\n\n".join(lesson(book, teaching[file]) for file, book in notebooks().items())


def faults() -> Iterator[str]:
    """Yield everything in which the lists for teachers disagree with the notebooks."""
    yield from unit_faults()
    yield from lesson_faults()


def unit_faults() -> Iterator[str]:
    """Yield units that are too long or come too early, and notebooks in none."""
    for number, entry in enumerate(wayfinding.listed("paths.yml")["sessions"], start=1):
        if (used := minutes(entry)) > SESSION:
            yield f"book/paths.yml: session {entry['session']!r} takes {used} minutes"
        if late := [needed for needed in before(entry) if needed > number]:
            yield f"book/paths.yml: session {entry['session']!r} needs {counted(late)}"
    for file in notebooks().keys() - units().keys():
        yield f"book/paths.yml: {file} is in no session"


def lesson_faults() -> Iterator[str]:
    """Yield notebooks and exercises of which the teachers' list says nothing, or too much."""
    teaching = wayfinding.listed("teaching.yml")
    for file in teaching.keys() ^ notebooks().keys():
        yield f"book/teaching.yml: {file} is there or in the book, not in both"
    for file in teaching.keys() & notebooks().keys():
        numbers = [exercise.number for exercise in exercises(file)]
        if numbers != sorted(teaching[file]["tests"]):
            yield f"book/teaching.yml: {file} has the exercises {numbers}"
