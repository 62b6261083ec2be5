"""Sphinx extension: number and name of every chapter, from the one list of chapters.

They stand in the window's title, before and after a page, in search results, in references without
a text of their own, and above the page's heading, which is the chapter's question.
"""

from __future__ import annotations

import html
from typing import Any

from chapter_list import Chapter, chapters
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def known() -> dict[str, Chapter]:
    """Return the chapters by the name of their page."""
    return {f"notebooks/{chapter.file}": chapter for chapter in chapters()}


def titled(text: str) -> nodes.title:
    """Return a title as Sphinx keeps it."""
    return nodes.title("", "", nodes.Text(text))


def name_pages(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Give each chapter its short title, and its long one with the question."""
    for page, chapter in known().items():
        if page in env.titles:
            short = f"{chapter.number}. {chapter.title}"
            question = env.longtitles[page].astext().removeprefix(f"{short}: ")
            env.titles[page] = titled(short)
            env.longtitles[page] = titled(f"{short}: {question}")
    return []


def add_line(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Say above a chapter's heading which one it is."""
    chapter = known().get(pagename)
    if chapter and "body" in context:
        words = html.escape(f"Chapter {chapter.number} · {chapter.title}")
        line = f'<p class="gpt-chapter">{words}</p>\n<h1>'
        context["body"] = context["body"].replace("<h1>", line, 1)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("env-updated", name_pages)
    app.connect("html-page-context", add_line)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
