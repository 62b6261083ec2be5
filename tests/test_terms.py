"""The check that pages link or define their terms: each fault is found, and only in prose."""

import json
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "book" / "_ext")]

from check_terms import faults, prose  # noqa: E402
from term_list import Term, terms, uses  # noqa: E402

LISTED = [
    {"term": "loss", "prose": "loss(?:es)?"},
    {"term": "validation loss", "prose": "validation loss"},
    {"term": "GPT"},
]
GLOSSARY = """# Glossary

```{glossary}
loss
  A number.

validation loss
  Another.

GPT
  G.
```
"""
LINK = "[loss](../book/glossary.md#term-loss)"
SOUND = ("A falling " + LINK + ". The loss, and the **validation\nloss**.",)


def book(root: Path, cells: tuple[str, ...], glossary: str = GLOSSARY) -> list[str]:
    """Write a book of one notebook and return what the check finds in it."""
    (root / "book").mkdir()
    (root / "notebooks").mkdir()
    (root / "book" / "terms.yml").write_text(json.dumps(LISTED), encoding="utf-8")
    (root / "book" / "glossary.md").write_text(glossary, encoding="utf-8")
    page = {"cells": [{"cell_type": "markdown", "source": cell.splitlines(True)} for cell in cells]}
    page["cells"].append({"cell_type": "code", "source": ["losses = [validation_loss]"]})
    (root / "notebooks" / "page.ipynb").write_text(json.dumps(page), encoding="utf-8")
    return list(faults(root))


def test_a_page_that_links_or_defines_each_first_use_is_sound(tmp_path: Path) -> None:
    assert book(tmp_path, SOUND) == []


def test_a_term_that_no_page_links_is_found(tmp_path: Path) -> None:
    assert book(tmp_path, (LINK,)) == ["book/terms.yml: no page links or defines 'validation loss'"]


@pytest.mark.parametrize("first", ["Losses fall.", "*Loss* is a word.", "**The loss falls.**"])
def test_a_first_use_that_is_neither_linked_nor_defined_is_found(
    tmp_path: Path, first: str
) -> None:
    (found,) = book(tmp_path, (first, *SOUND))
    assert found == f"notebooks/page.ipynb: link or define 'loss', first used in: {first}"


def test_a_link_to_no_entry_is_found(tmp_path: Path) -> None:
    (found,) = book(tmp_path, (*SOUND, "[gain](../book/glossary.md#term-gain)"))
    assert found == "notebooks/page.ipynb: the glossary has no entry #term-gain"


def test_an_entry_that_the_list_lacks_is_found(tmp_path: Path) -> None:
    (found,) = book(tmp_path, SOUND, GLOSSARY.replace("GPT\n", "GPT\n  G.\n\nother\n"))
    assert found == "book/glossary.md: 'other' is not in book/terms.yml"


def test_a_listed_term_without_an_entry_is_found(tmp_path: Path) -> None:
    (found,) = book(tmp_path, SOUND, GLOSSARY.replace("GPT\n  G.\n", ""))
    assert found == "book/terms.yml: 'GPT' has no entry"


@pytest.mark.parametrize(
    "text",
    [
        "`loss`",
        "```python\nloss\n```",
        "# The loss",
        r"$\text{loss}$ and $$\text{loss}$$",
        '<a title="loss">loss</a>',
        "<summary>The loss</summary>",
        '<div class="loss">',
        "<!-- loss -->",
        "[the loss paper](https://example.org/loss)",
        "![loss](loss.svg)",
        "lossless",
        "validation loss",
    ],
)
def test_what_is_not_the_terms_prose_is_no_use(text: str) -> None:
    listed = [Term(entry["term"], entry.get("prose", "")) for entry in LISTED]
    assert len(prose(text)) == len(text)
    assert "loss" not in [use.term.term for use in uses(prose(text), listed)]


@pytest.mark.parametrize("text", ["a loss.", "LOSSES", "- loss: x", "| `a` | loss |", "a\nloss,"])
def test_a_term_in_prose_is_a_use(text: str) -> None:
    assert [use.term.term for use in uses(prose(text), [Term("loss", "loss(?:es)?")])] == ["loss"]


def test_each_term_of_the_book_is_found_by_its_own_name() -> None:
    lost = [term.term for term in terms() if term.prose and not term.defined_by(term.term)]
    assert lost == ["learning-rate schedule", "MB and MiB", "query, key and value"]
