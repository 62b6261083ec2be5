"""Write the one list of chapters, book/chapters.yml, into every file that repeats it.

python tools/chapters.py          # writes _toc.yml, README.md, book/welcome.md: `make chapters`
python tools/chapters.py --check  # only says which of them are out of date: part of `make lint`
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

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
            f'| {c.number}. <a data-doc="notebooks/{c.file}">{c.title}</a> | {c.question} |'
            for c in own
        ]
        blocks += [f"### {part}", "\n".join(["| chapter | question |", "| --- | --- |", *rows])]
    return "\n\n".join(blocks)


# Which file, how its comments look, and what stands between the two marks.
WRITTEN = {
    "_toc.yml": ("  # {}", toc),
    "README.md": ("<!-- {} -->", readme),
    "book/welcome.md": ("<!-- {} -->", welcome),
}


def outdated() -> Iterator[tuple[Path, str]]:
    """Yield each file that does not hold the list as it is, and what it should hold."""
    listed = chapters()
    for name, (comment, write) in WRITTEN.items():
        path = ROOT / name
        first, last = (comment.format(mark) for mark in ("chapters: book/chapters.yml", "end"))
        gap = "\n" if name == "_toc.yml" else "\n\n"
        text = path.read_text(encoding="utf-8")
        pattern = f"{re.escape(first)}\n.*?\n{re.escape(last)}\n"
        if not re.search(pattern, text, re.DOTALL):
            raise ValueError(f"{name} has no place for the chapters, from {first!r} to {last!r}")
        made = f"{first}{gap}{write(listed)}{gap}{last}\n"
        new = re.sub(pattern, lambda _, made=made: made, text, flags=re.DOTALL)
        if new != text:
            yield path, new


def main() -> int:
    """Write what is out of date, or only name it."""
    check = "--check" in sys.argv[1:]
    found = list(outdated())
    for path, new in found:
        print(f"{path.relative_to(ROOT)} {'is out of date: make chapters' if check else 'written'}")
        if not check:
            path.write_text(new, encoding="utf-8")
    return int(check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
