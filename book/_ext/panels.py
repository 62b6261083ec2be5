"""Sphinx extension: pages with a panel get the scripts that bring it to life."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from gptlib import panels
from gptlib.page_gpt import scripts
from gptlib.panels import base

RUNTIME = Path(__file__).with_name("panels_runtime.js")


def mark(name: str) -> str:
    """Return what a page with this panel holds."""
    return f'data-panel="{name}"'


def panel_classes() -> dict[str, type[panels.Panel]]:
    """Return every panel by the name that its twin carries."""
    return {Path(kind.script).stem: kind for kind in base.Panel.__subclasses__()}


class PanelDirective(Directive):
    """Shows a panel in a page without code: ```{panel} PlaygroundPanel```."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the panel's twin, in its first state."""
        kinds = {kind.__name__: kind for kind in panel_classes().values()}
        if self.arguments[0] not in kinds:
            raise self.error(f"no panel {self.arguments[0]!r}; there are: {sorted(kinds)}")
        return [nodes.raw("", kinds[self.arguments[0]]().twin(), format="html")]


def source_script(name: str) -> str:
    """Return the script that gives a page the sources of one panel."""
    text = "\n".join(map(scripts.text, scripts.in_order(panel_classes()[name].script)))
    return f"(globalThis.gptlibPanels ??= {{}}).{name} = {json.dumps(text)};\n"


def weights_script() -> str:
    """Return the script that gives the pages the packaged model."""
    return f"globalThis.gptlibWeights = {json.dumps(base.packaged_weights())};\n"


def add_files(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the page its panels' scripts and style, and the model where a panel runs it.

    What the twins say to readers of a notebook is left out.
    """
    body = context.get("body", "")
    shown = {name: kind for name, kind in panel_classes().items() if mark(name) in body}
    if not shown:
        return
    context["body"] = body.replace(base.ASLEEP, "")
    app.add_css_file("panels.css")
    if any(kind.needs_weights for kind in shown.values()):
        app.add_js_file("panel-weights.js", loading_method="defer")
    for name in shown:
        app.add_js_file(f"panel-{name}.js", loading_method="defer")
    app.add_js_file("panels.js", loading_method="defer")


def write_files(app: Sphinx, exception: Exception | None) -> None:
    """Write the scripts; done on every build, so that an edited panel is never stale."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    shutil.copy(RUNTIME, static / "panels.js")
    for name in panel_classes():
        (static / f"panel-{name}.js").write_text(source_script(name), encoding="utf-8")
    (static / "panels.css").write_text(base.STYLE, encoding="utf-8")
    if any(kind.needs_weights for kind in panel_classes().values()):
        (static / "panel-weights.js").write_text(weights_script(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("panel", PanelDirective)
    app.connect("html-page-context", add_files)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
