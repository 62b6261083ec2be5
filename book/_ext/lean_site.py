"""Sphinx extension: take out of the built site what no page uses, so that pages are light."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import tinycss2
from sphinx.application import Sphinx

# Files of the themes that no page of this book asks for.
UNUSED_STATIC = (
    "**/*.map",
    "locales",
    "images/logo_*",
    "sbt-webpack-macros.html",
    "webpack-macros.html",
    "scripts/fontawesome.js*",
)

# Scripts that the themes' templates load unasked.
ICONS = ("scripts/fontawesome.js",)  # 1.5 MB for a dozen icons; book.css draws them instead
SEARCH = (
    "searchtools.js",
    "language_data.js",
    "searchindex.js",
)  # the search's own page needs them
# What JupyterLab needs to show a stored widget; the page's panels live from their twins.
WIDGET_STATE = re.compile(
    r'<script type="application/vnd\.jupyter\.widget-state\+json">.*?</script>', re.DOTALL
)

# Styles of the themes and the extensions, made for many more pages than these.
STYLES = (
    "basic.css",
    "mystnb.*.css",
    "sphinx-design.min.css",
    "styles/pydata-sphinx-theme.css",
    "styles/sphinx-book-theme.css",
)


def without_scripts(page: str, names: tuple[str, ...]) -> str:
    """Return a page that does not load these scripts."""
    ends = "|".join(re.escape(name) for name in names)
    return re.sub(rf'<script [^>]*\bsrc="[^"]*\b(?:{ends})(?:\?[^"]*)?"[^>]*></script>', "", page)


def lighten_pages(out: Path) -> None:
    """Take out of every page what it carries or loads and does not use."""
    for path in out.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        unused = ICONS if path == out / "search.html" else ICONS + SEARCH
        lean = WIDGET_STATE.sub("", without_scripts(page, unused))
        if lean != page:
            path.write_text(lean, encoding="utf-8")


def remove_unused_static(out: Path) -> None:
    """Delete what the themes copy into `_static` and no page asks for."""
    for pattern in UNUSED_STATIC:
        for path in list((out / "_static").glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def words(out: Path) -> set[str]:
    """Return every word of the pages and their scripts, the names of all classes among them."""
    files = [*out.rglob("*.html"), *out.rglob("*.js")]
    return {word for file in files for word in re.findall(r"[\w-]+", file.read_text("utf-8"))}


def can_match(selector: list[Any], known: set[str]) -> bool:
    """Say whether every class and id that a selector asks for is known.

    What stands in brackets, as in `:not(.wide)`, is not asked for.
    """
    for before, token in zip([None, *selector], selector, strict=False):
        is_class = token.type == "ident" and before is not None and before == "."
        if (is_class or token.type == "hash") and token.value not in known:
            return False
    return True


def selectors(prelude: list[Any]) -> list[list[Any]]:
    """Return the selectors of a rule, which commas part."""
    found: list[list[Any]] = [[]]
    for token in prelude:
        if token == ",":
            found.append([])
        else:
            found[-1].append(token)
    return found


def used_rules(rules: list[Any], known: set[str]) -> str:
    """Return the rules of a style that can match something in a page."""
    kept = []
    for rule in rules:
        if rule.type == "qualified-rule":
            able = [each for each in selectors(rule.prelude) if can_match(each, known)]
            if able:
                names = ",".join(tinycss2.serialize(each).strip() for each in able)
                kept.append(f"{names}{{{tinycss2.serialize(rule.content)}}}")
        elif rule.type == "at-rule" and rule.lower_at_keyword in {"media", "supports"}:
            inner = used_rules(tinycss2.parse_rule_list(rule.content, True, True), known)
            prelude = tinycss2.serialize(rule.prelude)
            kept += [f"@{rule.lower_at_keyword}{prelude}{{{inner}}}"] * bool(inner)
        else:
            kept.append(rule.serialize())
    return "\n".join(kept)


def shorten_styles(out: Path) -> None:
    """Take out of the themes' styles the rules that match nothing in any page."""
    known = words(out)
    for pattern in STYLES:
        for path in (out / "_static").glob(pattern):
            rules = tinycss2.parse_stylesheet(path.read_text(encoding="utf-8"), True, True)
            path.write_text(used_rules(rules, known), encoding="utf-8")


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Lighten the site that was built."""
    if exception is None and app.builder.format == "html":
        for step in (lighten_pages, remove_unused_static, shorten_styles):
            step(Path(app.outdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    # After all others, whose scripts name classes too.
    app.connect("build-finished", lighten, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
