"""Execute notebooks in place, each in a fresh kernel, byte for byte the same each time.

python tools/execute_notebooks.py                    # every chapter
python tools/execute_notebooks.py 06_gelu_feed_forward notebooks/07_residual.ipynb
python tools/execute_notebooks.py --only-panels      # run nothing: scripts of panels, folded cells
"""

import argparse
import html
import importlib
import json
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from gptlib.panels.base import Sent

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
TIMEOUT = 300  # seconds a cell may take
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    # The lexer keeps the site build from warning; the Python version is left out on purpose.
    "language_info": {"file_extension": ".py", "name": "python", "pygments_lexer": "ipython3"},
}

# Cells that page and JupyterLab fold, by their tag, and the line that stands for them.
FOLDED = {
    "draws": "How this figure is drawn",
    "tabulates": "How this table is made",
    "checks": "What this cell checks",
    "prepares": "What this cell prepares",
    "trains": "How this is trained",
    "prints": "How this text is printed",
    "asks": "How the answer is checked",
}

# A panel is stored with its state, so that JupyterLab shows it before the notebook was run.
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


def find(name: str) -> Path:
    """Return the notebook that `name` means: a path, or a chapter's name with or without suffix."""
    candidates = (Path(name), NOTEBOOKS / name, NOTEBOOKS / f"{name}.ipynb")
    for path in candidates:
        if path.suffix == ".ipynb" and path.is_file():
            return path.resolve()
    known = ", ".join(sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))) or "none"
    raise ValueError(f"no notebook {name!r}; there are: {known}")


def execute(notebook: NotebookNode) -> None:
    """Run all cells in a fresh kernel of this Python, in the notebooks' folder.

    Raises:
        RuntimeError: a cell failed, took too long or ended the kernel; names the cell.
    """
    running = 0

    def note(cell: NotebookNode, cell_index: int) -> None:
        nonlocal running
        running = cell_index

    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        record_timing=False,
        resources={"metadata": {"path": str(NOTEBOOKS)}},
        on_cell_execute=note,
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise RuntimeError(f"cell {running} (counted from 0): {str(error).strip()}") from None


def normalise(notebook: NotebookNode) -> None:
    """Remove from the notebook what differs between two runs or two editors."""
    settle_widgets(notebook)
    kept = {key: notebook.metadata[key] for key in ("widgets",) if key in notebook.metadata}
    notebook.metadata = nbformat.from_dict({**METADATA, **kept})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for position, cell in enumerate(notebook.cells):
        cell.id = f"cell-{position:02d}"
        cell.metadata = nbformat.from_dict(cell_metadata(cell.metadata.get("tags", [])))
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)


def cell_metadata(tags: list[str]) -> dict[str, object]:
    """Return all that is kept of a cell's metadata; one of the tags in FOLDED folds its code."""
    own = [tag for tag in tags if tag != "hide-input"]
    line = next((FOLDED[tag] for tag in own if tag in FOLDED), None)
    if line is None:
        return {"tags": own} if own else {}
    return {
        "jupyter": {"source_hidden": True},
        "mystnb": {"code_prompt_show": line, "code_prompt_hide": line},
        "tags": [*own, "hide-input"],
    }


def settle_widgets(notebook: NotebookNode) -> None:
    """Keep the widgets that the notebook shows, under numbers in the order of their display."""
    state = notebook.metadata.pop("widgets", {}).get(STATE, {"state": {}})
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    found = [output.data[VIEW].model_id for output in outputs if VIEW in output.get("data", {})]
    for model_id in found:  # grows by the models that a shown one refers to, such as its layout
        said = json.dumps(state["state"][model_id]["state"])
        found += [name for name in re.findall(r"IPY_MODEL_(\w+)", said) if name not in found]
    if not found:
        return
    state["state"] = {model_id: state["state"][model_id] for model_id in found}
    notebook.metadata["widgets"] = {STATE: state}
    text = nbformat.writes(notebook)
    for number, model_id in enumerate(found):
        text = text.replace(model_id, f"{number:032x}")
    notebook.update(nbformat.reads(text, as_version=4))


def refresh_panels(path: Path) -> None:
    """Give a notebook's stored panels their present scripts and fold its cells; run nothing."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(cell_metadata(cell.metadata.get("tags", [])))
    models = notebook.metadata.get("widgets", {}).get(STATE, {"state": {}})["state"]
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    for data in (output.data for output in outputs if VIEW in output.get("data", {})):
        state = models[data[VIEW].model_id].state
        module, _, name = state._anywidget_id.rpartition(".")
        kind = getattr(importlib.import_module(module), name)
        sent = [name for name, trait in kind.class_traits().items() if isinstance(trait, Sent)]
        stored = twin_state(data["text/html"]).items()
        panel = kind(**{name: value for name, value in stored if name not in sent})
        tables = {name: getattr(panel, name) for name in sent}  # Python's, as they are today
        state.update(_esm=kind._esm, _css=kind._css, **tables)
        state.initial.update(tables)
        data["text/html"] = panel.twin()
    write(notebook, path)


def twin_state(twin: str) -> dict[str, object]:
    """Return a stored twin's values in their own order; that of the widget's state is sorted."""
    (found,) = re.findall(r'data-state="([^"]*)"', twin)
    return json.loads(html.unescape(found))


def merge_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of one stream: where it was cut depends on timing."""
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if output.output_type == "stream" and last and last.get("name") == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def write(notebook: NotebookNode, path: Path) -> None:
    """Write to a temporary name, then rename: an interrupted run leaves the old file whole."""
    nbformat.validate(notebook)
    temporary = path.with_suffix(".ipynb.tmp")
    text = nbformat.writes(notebook, indent=1, ensure_ascii=False)
    temporary.write_text(text.rstrip("\n") + "\n", encoding="utf-8", newline="\n")
    os.replace(temporary, path)


def run(path: Path) -> None:
    """Execute one notebook and replace its file; on an error leave the file as it was."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    execute(notebook)
    normalise(notebook)
    write(notebook, path)


def main() -> int:
    """Execute the notebooks named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="chapters or files; without any, all of them")
    parser.add_argument(
        "--only-panels", action="store_true", help="run nothing, store the panels' present scripts"
    )
    options = parser.parse_args()
    try:
        paths = [find(name) for name in options.names] or sorted(NOTEBOOKS.glob("*.ipynb"))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for path in paths:
        print(path.name, flush=True)
        try:
            (refresh_panels if options.only_panels else run)(path)
        except RuntimeError as error:
            print(f"{path.name}, {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
