"""Sphinx extension: what a term's definition and its links are worth to a reader.

From the one list of terms: anchors of the glossary that Markdown links can name, index entries with
the words that learners type (the search reads them too) at each entry and each definition, and the
way back from an entry to the pages that define and use its term.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chapter_list import chapters
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from term_list import GLOSSARY, NOT_CHECKED, Term, terms

Places = dict[str, dict[str, tuple[str, bool]]]  # page -> a term's anchor -> (id, defined there?)


def places(env: BuildEnvironment) -> Places:
    """Return where each page first links a term, or defines it."""
    if not hasattr(env, "gptlib_terms"):
        env.gptlib_terms = {}  # type: ignore[attr-defined]
    return env.gptlib_terms


def mark(node: nodes.Element, names: Iterable[str], target: str) -> None:
    """Put index entries that lead to `target` before a node."""
    entries = [("single", name, target, "main", None) for name in names]
    if entries:
        index = addnodes.index(entries=entries, inline=isinstance(node, nodes.Inline))
        node.parent.insert(node.parent.index(node), index)


def read_glossary(env: BuildEnvironment, tree: nodes.document, listed: list[Term]) -> None:
    """Make the entries' ids known to Markdown links, and index what else they are called."""
    by_anchor = {term.anchor: term for term in listed}
    slugs = dict(env.metadata[GLOSSARY].get("myst_slugs", {}))
    for entry in list(tree.findall(nodes.term)):
        for anchor in entry["ids"]:
            slugs[anchor] = (entry.line or 0, anchor, entry.astext())
            if anchor in by_anchor:
                mark(entry[0], by_anchor[anchor].search, anchor)
    env.metadata[GLOSSARY]["myst_slugs"] = slugs


def read_page(env: BuildEnvironment, tree: nodes.document, listed: list[Term]) -> None:
    """Note where the page first links and where it defines each term; index the definitions."""
    found: dict[str, tuple[str, bool]] = {}
    for link in list(tree.findall(addnodes.pending_xref)):
        anchor = link.get("reftargetid") or ""
        if link["reftarget"] == GLOSSARY and anchor not in found:
            found[anchor] = (f"uses-{anchor}", False)
            link.parent.insert(link.parent.index(link), nodes.target(ids=[f"uses-{anchor}"]))
    for bold in list(tree.findall(nodes.strong)):
        for term in (t for t in listed if t.defined_by(bold.astext())):
            own = f"defines-{term.anchor}"
            if found.get(term.anchor) != (own, True):
                found[term.anchor] = (own, True)
                bold["ids"].append(own)
                mark(bold, [term.term, *term.search], own)
    places(env)[env.docname] = found


class ReadTerms(SphinxTransform):
    """Read one page's terms, before Sphinx collects its index entries (priority 850)."""

    default_priority = 840

    def apply(self, **kwargs: object) -> None:
        """Read the page."""
        if self.env.docname == GLOSSARY:
            read_glossary(self.env, self.document, terms())
        elif self.env.docname not in NOT_CHECKED:
            read_page(self.env, self.document, terms())


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that will be read again."""
    places(env).pop(docname, None)


def merge(app: Sphinx, env: BuildEnvironment, docnames: object, other: BuildEnvironment) -> None:
    """Take over what another process has read."""
    places(env).update(places(other))


def write_again(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Have the glossary written whenever another page was: it names their pages."""
    return [GLOSSARY] if GLOSSARY in env.found_docs else []


def way_back(app: Sphinx, pages: Places, anchor: str) -> list[nodes.Node]:
    """Return the line below an entry: “Defined in chapter 1 · used in chapters 2, 5.”."""
    numbers = {f"notebooks/{chapter.file}": chapter.number for chapter in chapters()}
    line: list[nodes.Node] = []
    for defines, verb in ((True, "defined in"), (False, "used in")):
        here = [page for page in pages if pages[page].get(anchor, ("", None))[1] is defines]
        here.sort(key=lambda page: (numbers.get(page, 99), page))
        if not here:
            continue
        counted = [page for page in here if page in numbers]
        many = f"{verb} {'chapter ' if len(counted) == 1 else 'chapters ' if counted else ''}"
        line.append(nodes.Text(" · " + many if line else many[0].upper() + many[1:]))
        for page in here:
            where = f"{app.builder.get_relative_uri(GLOSSARY, page)}#{pages[page][anchor][0]}"
            name = str(numbers.get(page) or app.env.titles[page].astext())
            line += [] if page == here[0] else [nodes.Text(", ")]
            line.append(nodes.reference("", name, refuri=where, internal=True))
    return line


def link_back(app: Sphinx, tree: nodes.document, docname: str) -> None:
    """Give each entry of the glossary its way back."""
    if docname != GLOSSARY:
        return
    pages = {page: found for page, found in places(app.env).items() if page in app.env.found_docs}
    for entry in tree.findall(nodes.definition_list_item):
        for anchor in (i for i in entry[0].get("ids", []) if i.startswith("term-")):
            if line := way_back(app, pages, anchor):
                entry[-1].append(nodes.paragraph("", "", *line, classes=["gpt-way-back"]))


def mend_search(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Let the search page look for words that are also names in JavaScript."""
    if pagename == "search":
        app.add_js_file("search.js")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_transform(ReadTerms)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("env-updated", write_again)
    app.connect("doctree-resolved", link_back)
    app.connect("html-page-context", mend_search)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
