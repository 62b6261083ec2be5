"""Sphinx extension of the book: figures in the page, links to chapters that exist."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sphinx.application import Sphinx

from gptlib import figures

# How a field with a range is shown: "Annotated[int, Range(least=1, ...)]".
RANGED = re.compile(r"[~\w.]*Annotated\[(\w+), [~\w.]*Range\([^)]*\)\]")

# `<a data-doc="notebooks/04_attention">` in raw HTML; attribute first, no nested links.
CHAPTER_LINK = re.compile(
    r'<a data-doc="(?P<doc>[^"]+)"(?P<rest>[^>]*)>(?P<text>.*?)</a>', re.DOTALL
)


def finish_body(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Put figures inline, and point chapter links in raw HTML at their pages.

    A link to a page that is not there yet becomes text.
    """

    def link(match: re.Match[str]) -> str:
        doc, rest, text = match["doc"], match["rest"], match["text"]
        if doc not in app.env.found_docs:
            return text
        return f'<a href="{app.builder.get_relative_uri(pagename, doc)}"{rest}>{text}</a>'

    if "body" in context:
        body = CHAPTER_LINK.sub(link, figures.inline(context["body"]))
        # The line of a folded cell says what is in it; the theme's label would hide that.
        body = body.replace(' aria-label="Toggle hidden content"', "")
        # docutils marks entries of a bibliography with a role that ARIA has since withdrawn.
        context["body"] = body.replace('role="doc-biblioentry"', 'role="listitem"')


def add_version(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the footer the version of gptlib that the site was built with."""
    try:
        context["gptlib_version"] = version("gptlib")
    except PackageNotFoundError:
        context["gptlib_version"] = ""


def without_ranges(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, result: Any
) -> tuple[str | None, Any]:
    """Show a field's type without the range that stands beside it in the source."""
    return RANGED.sub(r"\1", signature or "") or signature, result


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    # jupyter-book always passes this setting of sphinx_comments, which the book does not load.
    app.add_config_value("comments_config", {}, "html")
    app.connect("html-page-context", finish_body)
    app.connect("html-page-context", add_version)
    app.connect("autodoc-process-signature", without_ranges)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
