"""Sphinx extension: pages with a panel get one script that brings their panels to life."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from gptlib import panels
from gptlib.panels import base

RUNTIME = Path(__file__).with_name("panels_runtime.js")
MARK = 'class="gptlib-panel'


def panel_classes() -> dict[str, type[panels.Panel]]:
    """Return every panel by the name that its twin carries."""
    kinds = (getattr(panels, name) for name in panels.__all__ if name != "Panel")
    return {Path(kind.script).stem: kind for kind in kinds}


def page_script() -> str:
    """Return the one script of all pages: every panel's sources, then the runtime."""
    files = {name: base.script_files(kind.script) for name, kind in panel_classes().items()}
    texts = {file: base.script_text(file) for each in files.values() for file in each}
    return (
        f"const PANELS = {json.dumps(files)};\nconst SCRIPTS = {json.dumps(texts)};\n"
        + RUNTIME.read_text(encoding="utf-8")
    )


def add_files(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the page the panels' script and style, and the model where a panel runs it."""
    body = context.get("body", "")
    if MARK not in body:
        return
    app.add_css_file("panels.css")
    app.add_js_file("panels.js", loading_method="defer")


def write_files(app: Sphinx, exception: Exception | None) -> None:
    """Write the scripts; done on every build, so that an edited panel is never stale."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    (static / "panels.js").write_text(page_script(), encoding="utf-8")
    (static / "panels.css").write_text(base.STYLE, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", add_files)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
