"""Sphinx extension: formulas become MathML when the site is built; no page needs a script."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import mathematics_font
from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

log = logging.getLogger(__name__)

CLASSES = "math notranslate nohighlight"
# What may not be parted from a formula at the end of a line, where browsers would break.
BEFORE = re.compile(r"[(\[“‘]+$")
AFTER = re.compile(r"^[.,;:!?)\]”’]+")

converter = LatexToMathML(annotation=True, fancy_error=False)


def mathml(tex: str, *, block: bool) -> str:
    """Return a formula as MathML that carries its TeX, for those who copy it.

    Raises:
        LatexError: it is no TeX, or uses a command that has no MathML.
    """
    made = converter.convert_with_local_state(tex.strip(), displaystyle=block)
    return made.replace("<math", f'<math alttext="{html.escape(" ".join(tex.split()))}"', 1)


def put(page: HTML5Translator, node: nodes.math | nodes.math_block, *, block: bool) -> None:
    """Write a formula into the page; one that cannot be set is a warning, which fails the build."""
    try:
        page.body.append(mathml(node.astext(), block=block))
    except LatexError as error:
        log.warning("formula %r: %s", node.astext(), error, location=node)


def visit_math(page: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line, with the punctuation that stays beside it."""
    page.body.append(page.starttag(node, "span", "", CLASS=CLASSES) + node.get("before", ""))
    put(page, node, block=False)
    page.body.append(node.get("after", "") + "</span>")
    raise nodes.SkipNode


def visit_displaymath(page: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that has a line of its own, with its number where it has one."""
    page.body.append(page.starttag(node, "div", "", CLASS=CLASSES))
    if node["number"]:
        page.body.append(f'<span class="eqno">({get_node_equation_number(page, node)})</span>')
    put(page, node, block=True)
    page.body.append("</div>\n")
    raise nodes.SkipNode


def keep_punctuation(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Move the punctuation around a formula to it, so that no line begins with a full stop."""
    for node in list(doctree.findall(nodes.math)):
        for name, step, mark in (("before", -1, BEFORE), ("after", 1, AFTER)):
            place = node.parent.index(node) + step
            beside = node.parent.children[place] if 0 <= place < len(node.parent) else None
            if isinstance(beside, nodes.Text) and (found := mark.search(beside)):
                node[name] = found[0]
                node.parent[place] = nodes.Text(mark.sub("", beside))


def add_style(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give pages with a formula their style, which asks for the font."""
    if "<math " in context.get("body", ""):
        app.add_css_file("mathematics.css")


def write_font(app: Sphinx, exception: Exception | None) -> None:
    """Put the font beside the style that names it."""
    if exception is None and app.builder.format == "html":
        mathematics_font.write(Path(app.outdir) / "_static" / "STIXTwoMath.woff")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    app.connect("doctree-resolved", keep_punctuation)
    app.connect("html-page-context", add_style)
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
