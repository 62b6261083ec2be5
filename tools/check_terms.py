"""Check that a page links or defines each term of book/terms.yml where it first uses it.

A term is defined where it stands in bold, and linked where it leads to its entry in the glossary.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from term_list import GLOSSARY, NOT_CHECKED, Term, terms, uses  # noqa: E402

# What is not prose, in this order: each is blanked, so that places in the text stay what they are.
NOT_PROSE = (
    re.compile(r"<!-- chapters: .*?<!-- end -->", re.DOTALL),  # written by tools/chapters.py
    re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1`*$", re.DOTALL | re.MULTILINE),
    re.compile(r"^#+ .*$", re.MULTILINE),
    re.compile(r"(`+).+?\1", re.DOTALL),
    re.compile(r"\$\$.+?\$\$|\$[^$\n]+(?:\n[^$\n]+)?\$", re.DOTALL),
    re.compile(r"<(summary|a)\b.*?</\1>|<!--.*?-->|</?[a-z][^>]*>", re.DOTALL),
    re.compile(r"\{\.[^}]*\}"),  # classes of a span
    re.compile(r"!?\[[^\]]*\]\((?![^)]*glossary\.md#)[^)]*\)"),  # a link that leads elsewhere
)
LINK = re.compile(r"\[([^\]]*)\]\(([^)]*glossary\.md)#([^)]*)\)")
BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
BLANK = "\ufffc"  # neither a word nor white space: no pattern reaches across it


def blank(text: str) -> str:
    """Return as many blanks, with the line ends of the text."""
    return re.sub(r"[^\n]", BLANK, text)


def prose(text: str) -> str:
    """Return a text of the same length in which all but prose, and links to entries, is blank."""
    for pattern in NOT_PROSE:
        text = pattern.sub(lambda match: blank(match[0]), text)
    return text


def source(path: Path) -> str:
    """Return a page's Markdown."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return text


def pages(root: Path) -> list[Path]:
    """Return the pages whose terms are checked."""
    found = [*root.glob("notebooks/*.ipynb"), *root.glob("book/*.md")]
    return sorted(
        p for p in found if p.relative_to(root).with_suffix("").as_posix() not in NOT_CHECKED
    )


def explained(text: str, listed: list[Term]) -> dict[str, list[range]]:
    """Return by anchor where a text links a term to its entry or defines it in bold."""
    found: dict[str, list[range]] = {}
    for link in LINK.finditer(text):
        found.setdefault(link[3], []).append(range(*link.span(1)))
    for bold in BOLD.finditer(text):
        for term in (t for t in listed if t.defined_by(bold[1])):
            found.setdefault(term.anchor, []).append(range(*bold.span(1)))
    return found


def unexplained(text: str, listed: list[Term]) -> Iterator[tuple[Term, str]]:
    """Yield each term whose first use in a page is neither linked nor bold, and its line."""
    # A link's target is no prose: blanked now that its text is known.
    own = explained(text, listed)
    words = LINK.sub(lambda m: f" {m[1]} " + blank(m[0][len(m[1]) + 2 :]), text)
    met = set()
    for use in uses(words, listed):
        if use.term.anchor not in met and not any(
            use.start in place for place in own.get(use.term.anchor, [])
        ):
            start, end = text.rfind("\n", 0, use.start) + 1, text.find("\n", use.end)
            line = text[start : end if end >= 0 else None]
            yield use.term, " ".join(line.replace(BLANK, "").split())
        met.add(use.term.anchor)


def entries(root: Path) -> list[str]:
    """Return the names that the glossary explains."""
    text = (root / f"{GLOSSARY}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\{glossary\}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if re.match(r"[^\s:]", line)]


def faults(root: Path = ROOT) -> Iterator[str]:
    """Yield one line for everything that is wrong with terms, links and entries."""
    listed, named = terms(root / "book" / "terms.yml"), entries(root)
    anchors = {term.anchor for term in listed if term.term in named}
    used: set[str] = set()
    for path in pages(root):
        page, text = path.relative_to(root).as_posix(), prose(source(path))
        used |= explained(text, listed).keys()
        for anchor in sorted({link[3] for link in LINK.finditer(text)} - anchors):
            yield f"{page}: the glossary has no entry #{anchor}"
        for term, line in unexplained(text, listed):
            yield f"{page}: link or define {term.term!r}, first used in: {line}"
    for term in listed:
        if term.prose and term.anchor not in used:
            yield f"book/terms.yml: no page links or defines {term.term!r}"
    names = {term.term for term in listed}
    yield from (
        f"{GLOSSARY}.md: {name!r} is not in book/terms.yml" for name in named if name not in names
    )
    yield from (f"book/terms.yml: {t.term!r} has no entry" for t in listed if t.term not in named)


if __name__ == "__main__":
    found = list(faults())
    print("\n".join(found) or "every term is linked or defined where a page first uses it")
    sys.exit(bool(found))
