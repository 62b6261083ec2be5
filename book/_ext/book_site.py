"""Sphinx extension of the book: offline MathJax, a lean site, links to chapters that exist."""

from __future__ import annotations

import importlib.util
import re
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from gptlib import figures

# tex-chtml.js loads its fonts, and TeX extensions such as boldsymbol on first use.
MATHJAX_PARTS = ("tex-chtml.js", "output/chtml/fonts", "input/tex/extensions")

# Files of the themes that no page of this book asks for.
UNUSED_STATIC = (
    "**/*.map",
    "locales",
    "images/logo_*",
    "sbt-webpack-macros.html",
    "webpack-macros.html",
    "scripts/fontawesome.js*",
)

# A theme's script of 1.5 MB that turns a dozen icons into pictures; book.css draws them instead.
ICON_SCRIPT = "scripts/fontawesome.js"
ICON_TAG = re.compile(r'<script defer src="[^"]*' + re.escape(ICON_SCRIPT) + r'[^"]*"></script>')
# What JupyterLab needs to show a stored widget; the page's panels live from their twins.
WIDGET_STATE = re.compile(
    r'<script type="application/vnd\.jupyter\.widget-state\+json">.*?</script>', re.DOTALL
)

# How a field with a range is shown: "Annotated[int, Range(least=1, ...)]".
RANGED = re.compile(r"[~\w.]*Annotated\[(\w+), [~\w.]*Range\([^)]*\)\]")

# `<a data-doc="notebooks/05_attention">` in raw HTML; attribute first, no nested links.
CHAPTER_LINK = re.compile(
    r'<a data-doc="(?P<doc>[^"]+)"(?P<rest>[^>]*)>(?P<text>.*?)</a>', re.DOTALL
)


def mathjax_home() -> Path:
    """Return the folder of the installed MathJax, without importing its package."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise ExtensionError(
            "MathJax is missing: sphinx-mathjax-offline is not installed; run `make book`"
        )
    return Path(spec.origin).parent / "static" / "mathjax"


def copy_mathjax(app: Sphinx, exception: Exception | None) -> None:
    """Copy the parts of MathJax that the pages load: 2 MB of its 24."""
    if exception is not None or app.builder.format != "html":
        return
    source, target = mathjax_home(), Path(app.outdir) / "_static" / "mathjax"
    for part in MATHJAX_PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / part, target / part)


def remove_unused_static(app: Sphinx, exception: Exception | None) -> None:
    """Delete what the themes copy into `_static` and no page asks for."""
    if exception is not None or app.builder.format != "html":
        return
    for pattern in UNUSED_STATIC:
        for path in list((Path(app.outdir) / "_static").glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove_icon_script(app: Sphinx, exception: Exception | None) -> None:
    """Take the icons' script out of every page; the theme's template puts it there unasked."""
    if exception is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if ICON_TAG.search(text):
            page.write_text(ICON_TAG.sub("", text), encoding="utf-8")


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
    app.config.mathjax_path = "mathjax/tex-chtml.js"  # type: ignore[attr-defined]
    app.connect("html-page-context", finish_body)
    app.connect("html-page-context", add_version)
    app.connect("autodoc-process-signature", without_ranges)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", remove_icon_script)
    app.connect("build-finished", remove_unused_static)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
