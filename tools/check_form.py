"""Check how long things are: one list of limits, run by `make lint`.

A limit is a habit, not a property: where a longer thing is the better one, change the limit here.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent

# What every chapter has, in this order.
SECTIONS = [
    "Prediction",
    "The smallest version",
    "The real one",
    "Experiment",
    "Reading",
    "Break it",
    "Takeaways",
    "Exercises",
    "Sources",
]


FOLDED = "hide-input"  # what page and JupyterLab fold


def lines(path: Path) -> int:
    """Count the lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def words(path: Path) -> int:
    """Count the words of a chapter's prose, without markup, displayed formulas and code."""
    cells = nbformat.read(path, as_version=4).cells
    prose = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    prose = re.sub(r"^```.*?^```|\$\$.+?\$\$", " ", prose, flags=re.DOTALL | re.MULTILINE)
    return len(re.sub(r"<[^>]+>", " ", prose).split())


def cells(path: Path) -> int:
    """Count a notebook's cells."""
    return len(nbformat.read(path, as_version=4).cells)


def code(path: Path, *, without: str = "") -> list[list[str]]:
    """Return the lines of each code cell, or of each that does not have a tag."""
    found = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    return [c.source.splitlines() for c in found if without not in c.metadata.get("tags", [])]


def longest_cell(path: Path) -> int:
    """Count the lines of a notebook's longest code cell; what asks is prose."""
    return max(map(len, code(path, without="asks")))


def longest_quiz(path: Path) -> int:
    """Count the lines of the longest cell of all, which asks."""
    return max(map(len, code(path)))


def longest_open_cell(path: Path) -> int:
    """Count the lines of the longest code cell that stands open."""
    return max(map(len, code(path, without=FOLDED)), default=0)


def widest_open_line(path: Path) -> int:
    """Count the columns of the widest line of code that stands open."""
    return max((len(line) for cell in code(path, without=FOLDED) for line in cell), default=0)


def percent_of_code_open(path: Path) -> int:
    """Return how much of a notebook's code stands open; what asks is not counted."""
    shown, all_ = (sum(map(len, code(path, without=tag))) for tag in (FOLDED, "asks"))
    return round(100 * shown / all_)


def sections_in_order(path: Path) -> int:
    """Count how many of the SECTIONS a chapter has, up to the first that is out of place."""
    found = nbformat.read(path, as_version=4).cells
    prose = "\n\n".join(cell.source for cell in found if cell.cell_type == "markdown")
    prose = re.sub(r"^```.*?^```", "", prose, flags=re.DOTALL | re.MULTILINE)
    names = [n for n in re.findall(r"^## (.+)$", prose, flags=re.MULTILINE) if n in SECTIONS]
    pairs = zip(names, SECTIONS, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(names), len(SECTIONS)))


# Which files, what is measured, the least and the most.
LIMITS: tuple[tuple[str, Callable[[Path], int], int, int], ...] = (
    ("gptlib/**/*.py", lines, 0, 400),
    ("gptlib/panels/*.py", lines, 0, 215),
    ("gptlib/panels/*.js", lines, 0, 400),
    ("gptlib/page_gpt/*.js", lines, 0, 220),
    ("notebooks/[0-9]*.ipynb", sections_in_order, len(SECTIONS), len(SECTIONS)),
    ("notebooks/[0-9]*.ipynb", words, 1200, 3400),
    ("notebooks/[0-9]*.ipynb", cells, 25, 82),
    ("notebooks/*.ipynb", longest_cell, 1, 24),
    ("notebooks/*.ipynb", longest_quiz, 1, 90),
    ("notebooks/*.ipynb", longest_open_cell, 0, 12),
    ("notebooks/*.ipynb", widest_open_line, 0, 80),
    ("notebooks/*.ipynb", percent_of_code_open, 0, 34),
)


def faults() -> Iterator[str]:
    """Yield one line for everything that is shorter or longer than its limits."""
    for pattern, measure, least, most in LIMITS:
        for path in sorted(ROOT.glob(pattern)):
            if not least <= (n := measure(path)) <= most:
                name = measure.__name__.replace("_", " ")
                yield f"{path.relative_to(ROOT)}: {n} {name}, expected {least} to {most}"


if __name__ == "__main__":
    found = list(faults())
    print("\n".join(found) or "every length is within its limits")
    sys.exit(bool(found))
