"""Write the one list of chapters, book/chapters.yml, into every file that repeats it.

python tools/chapters.py          # writes _toc.yml, README.md, pages, notebooks: `make chapters`
python tools/chapters.py --check  # only says which of them are out of date: part of `make lint`
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import teaching  # noqa: E402
import wayfinding  # noqa: E402
from chapter_list import Chapter, chapters  # noqa: E402


def by_part(listed: list[Chapter]) -> dict[str, list[Chapter]]:
    """Return the chapters of each part, in order."""
    return {
        part: [c for c in listed if c.part == part]
        for part in dict.fromkeys(c.part for c in listed)
    }


def toc(listed: list[Chapter]) -> str:
    """Return the parts of _toc.yml."""
    lines = []
    for part, own in by_part(listed).items():
        lines += [f"  - caption: {part}", "    chapters:"]
        for c in own:
            lines += [
                f"      - file: notebooks/{c.file}",
                f'        title: "{c.number}. {c.title}"',
            ]
    return "\n".join(lines)


def readme(listed: list[Chapter]) -> str:
    """Return the table of README.md."""
    rows = [f"| {c.number} | [{c.title}](notebooks/{c.file}.ipynb) | {c.shows} |" for c in listed]
    return "\n".join(["| | chapter | what you see happen |", "| --- | --- | --- |", *rows])


def welcome(listed: list[Chapter]) -> str:
    """Return the tables of book/welcome.md, one a part."""
    blocks = []
    for part, own in by_part(listed).items():
        rows = [
            f'| {c.number}. <a data-doc="notebooks/{c.file}">{c.title}</a> | {c.question} '
            f"| {c.minutes} |"
            for c in own
        ]
        head = ["| chapter | question | minutes |", "| --- | --- | --: |"]
        blocks += [f"### {part}", "\n".join([*head, *rows])]
    return "\n\n".join(blocks)


class Region(NamedTuple):
    """What stands between two marks of a file."""

    file: str
    comment: str  # how a comment looks there
    mark: str  # its first one; the last one is `end`
    write: Callable[[list[Chapter]], str]


WRITTEN = (
    Region("_toc.yml", "  # {}", "chapters: book/chapters.yml", toc),
    Region("README.md", "<!-- {} -->", "chapters: book/chapters.yml", readme),
    Region("book/welcome.md", "<!-- {} -->", "chapters: book/chapters.yml", welcome),
    Region("book/welcome.md", "<!-- {} -->", "beginning: book/paths.yml", wayfinding.beginning),
    Region("book/welcome.md", "<!-- {} -->", "paths: book/paths.yml", wayfinding.path_cards),
    Region("book/teachers.md", "<!-- {} -->", "sessions: book/paths.yml", teaching.sessions),
    Region("book/teachers.md", "<!-- {} -->", "lessons: book/teaching.yml", teaching.lessons),
)


# `[chapter 5](04_attention.ipynb)`, `<a data-doc="notebooks/04_attention">chapter 5</a>` and, in a
# drawing, `<tspan data-chapter="04_attention">5</tspan>`: the file is the name that is typed, its
# number is written here.
LINKS = (
    re.compile(r"(\[[Cc]hapter )\d+(\]\((?:\.\./notebooks/)?(\w+)\.ipynb)"),
    re.compile(r'(<a data-doc=\\?"notebooks/(\w+)\\?">[Cc]hapter )\d+(</a>)'),
    re.compile(r'(<tspan data-chapter="(\w+)">)\d+(</tspan>)'),
)
TYPED = re.compile(r"(?<![\[>])\b[Cc]hapters? \d+")  # a number that nobody would renew
NAMED = re.compile(r'\bchapter ["“]([^"”]+)["”]')  # how source and bibliography name one


def renumbered(text: str, numbers: dict[str, int]) -> str:
    """Return a text whose links to chapters say the numbers that these have now."""
    first, *others = LINKS
    text = first.sub(lambda m: f"{m[1]}{numbers[m[3]]}{m[2]}", text)
    for pattern in others:
        text = pattern.sub(lambda m: f"{m[1]}{numbers[m[2]]}{m[3]}", text)
    return text


def prose() -> list[Path]:
    """Return the files whose text refers to chapters."""
    kinds = ("notebooks/*.ipynb", "book/*.md", "book/_static/*.svg")
    return sorted(path for kind in kinds for path in ROOT.glob(kind))


def faults(listed: list[Chapter]) -> Iterator[str]:
    """Yield every chapter number that was typed without a link, and every name that none has."""
    titles = {chapter.title for chapter in listed}
    for path in prose():
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":  # what its cells say, not what they show
            cells = json.loads(text)["cells"]
            text = "\n".join("".join(cell["source"]) for cell in cells)
        for found in TYPED.findall(text):
            yield f"{path.relative_to(ROOT)}: link {found!r}, so that its number can be renewed"
    kinds = ("gptlib/**/*.py", "gptlib/**/*.js", "book/*.bib")
    for path in sorted(path for kind in kinds for path in ROOT.glob(kind)):
        text = path.read_text(encoding="utf-8")
        named = [name for name in NAMED.findall(text) if name not in titles]
        wrong = [*TYPED.findall(text), *named]
        yield from (f"{path.relative_to(ROOT)}: no chapter is called {name!r}" for name in wrong)


def with_region(region: Region, text: str, listed: list[Chapter]) -> str:
    """Return the text of a file with what a region holds between its two marks."""
    first, last = (region.comment.format(mark) for mark in (region.mark, "end"))
    gap = "\n" if region.file == "_toc.yml" else "\n\n"
    pattern = f"{re.escape(first)}\n.*?\n{re.escape(last)}\n"
    if not re.search(pattern, text, re.DOTALL):
        raise ValueError(f"{region.file} has no place from {first!r} to {last!r}")
    made = f"{first}{gap}{region.write(listed)}{gap}{last}\n"
    return re.sub(pattern, lambda _: made, text, flags=re.DOTALL)


def renewed(path: Path, text: str, listed: list[Chapter]) -> str:
    """Return what a file should hold."""
    name = path.relative_to(ROOT).as_posix()
    for region in WRITTEN:
        if region.file == name:
            text = with_region(region, text, listed)
    if path.suffix == ".ipynb":
        text = wayfinding.timed(path.stem, text)
    return renumbered(text, {chapter.file: chapter.number for chapter in listed})


def outdated() -> Iterator[tuple[Path, str]]:
    """Yield each file that does not hold the lists as they are, and what it should hold."""
    listed = chapters()
    for path in sorted({*prose(), *(ROOT / region.file for region in WRITTEN)}):
        text = path.read_text(encoding="utf-8")
        if (new := renewed(path, text, listed)) != text:
            yield path, new


def main() -> int:
    """Write what is out of date, or only name it."""
    check = "--check" in sys.argv[1:]
    wrong = [*wayfinding.faults(), *teaching.faults()]  # first: what is written depends on them
    found = [] if wrong else list(outdated())
    for path, new in found:
        print(f"{path.relative_to(ROOT)} {'is out of date: make chapters' if check else 'written'}")
        if not check:
            path.write_text(new, encoding="utf-8")
    wrong += faults(chapters())
    print("\n".join(wrong), end="\n" * bool(wrong))
    return int((check and bool(found)) or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
