"""The form of every notebook, and that nbval finds its outputs again on two kinds of host.

Once with this host's threads, and once with one thread, no more than AVX2 and every cell run
twice in a row.
"""

import ast
import html
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from comparing import HOSTS, Comparisons
from nbformat import NotebookNode

import gptlib
from gptlib.panels.base import Sent

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python", "pygments_lexer": "ipython3"},
}
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem, scope="module")
def notebook(request: pytest.FixtureRequest) -> NotebookNode:
    return nbformat.read(request.param, as_version=4)


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def markdown(notebook: NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def headings(notebook: NotebookNode, level: int) -> list[str]:
    """Return the headings of one level, without what looks like one inside a code fence."""
    prose = re.sub(r"^```.*?^```", "", markdown(notebook), flags=re.DOTALL | re.MULTILINE)
    return re.findall(rf"^{'#' * level} (.+)$", prose, flags=re.MULTILINE)


def public_names() -> set[str]:
    """Return what gptlib offers: its own names and the functions and classes of its modules."""
    names = set(gptlib.__all__)
    for info in pkgutil.iter_modules(gptlib.__path__):
        if info.name.startswith("_"):
            continue
        module = pkgutil.resolve_name(f"gptlib.{info.name}")
        names |= {
            name
            for name, value in vars(module).items()
            if (inspect.isfunction(value) or inspect.isclass(value))
            and value.__module__.startswith("gptlib")
            and not name.startswith("_")
        }
    return names


def test_it_opens_with_its_only_title(notebook: NotebookNode) -> None:
    assert notebook.cells[0].source.startswith("# ")
    assert len(headings(notebook, 1)) == 1


def test_it_was_run_from_top_to_bottom_without_an_error(notebook: NotebookNode) -> None:
    counts = [cell.execution_count for cell in code(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]


def test_its_metadata_says_python_and_nothing_of_the_machine(notebook: NotebookNode) -> None:
    assert {**notebook.metadata, "widgets": {}} == {**METADATA, "widgets": {}}


def test_its_panels_are_stored_with_todays_scripts_and_tables(notebook: NotebookNode) -> None:
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    shown = [output.data[VIEW].model_id for output in outputs if VIEW in output.get("data", {})]
    widgets = notebook.metadata.get("widgets", {}).get(STATE, {"state": {}})["state"]
    for model_id in shown:
        state = widgets[model_id].state
        panel = pkgutil.resolve_name(state["_anywidget_id"])
        assert state["_esm"] == panel._esm, "run: python tools/execute_notebooks.py --only-panels"
        assert state["_css"] == panel._css
        for name, trait in panel.class_traits().items():
            assert not isinstance(trait, Sent) or state[name] == trait.default(), name


def test_its_answers_are_folded(notebook: NotebookNode) -> None:
    text = markdown(notebook)
    assert text.count("<details>") == text.count("</details>") > 0
    # Without the blank line the answer's Markdown is shown raw.
    assert text.count("<details>") == len(
        re.findall(r"^<details>\n?<summary>.+</summary>\n\n", text, flags=re.MULTILINE)
    )


def questions(notebook: NotebookNode) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
    """Yield each question that a notebook asks, and its arguments by name."""
    for cell in code(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Number", "Choice"):
                yield node, {each.arg: each.value for each in node.keywords if each.arg}


def test_its_answers_come_from_a_run_or_cite_a_line_of_the_chapter(notebook: NotebookNode) -> None:
    prose = " ".join(markdown(notebook).split())
    for call, arguments in questions(notebook):
        proof = arguments["because" if ast.unparse(call.func) == "Choice" else "answer"]
        names = [node for node in ast.walk(proof) if isinstance(node, ast.Name)]
        if isinstance(proof, ast.Constant) and isinstance(proof.value, str):
            assert proof.value in prose, ast.unparse(arguments["question"])
        else:
            assert names, f"typed, not run: {ast.unparse(call)}"


def test_its_page_judges_by_the_answers_that_its_runs_gave(notebook: NotebookNode) -> None:
    widgets = notebook.metadata.widgets[STATE]["state"]
    for data in (
        output.data for cell in code(notebook) for output in cell.outputs if "data" in output
    ):
        if 'data-panel="questions"' in data.get("text/html", ""):
            (sent,) = re.findall(r'data-state="([^"]*)"', data["text/html"])
            asked = json.loads(html.unescape(sent))["items"]
            runs = widgets[data[VIEW].model_id].state["items"]
            for item, run in zip(asked, runs, strict=True):
                exact = 1e-5 if run.get("within") else 0
                assert "options" in run or item["answer"] == pytest.approx(run["answer"], rel=exact)


def test_it_asks_in_cells_that_are_folded_and_shows_every_question(notebook: NotebookNode) -> None:
    asking = [cell for cell in code(notebook) if re.search(r"\b(Number|Choice)\(", cell.source)]
    assert asking
    for cell in asking:
        assert {"asks", "hide-input"} <= set(cell.metadata.tags)
        assert 'data-panel="questions"' in cell.outputs[-1].data["text/html"]


def test_it_uses_gptlib_and_defines_nothing_that_gptlib_has(notebook: NotebookNode) -> None:
    trees = [ast.parse(cell.source) for cell in code(notebook)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    imported |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    assert any(name.partition(".")[0] == "gptlib" for name in imported)
    defined = {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert not defined & public_names()


@pytest.mark.parametrize(
    "path",
    [*NOTEBOOKS, *sorted((ROOT / "book").rglob("*.md")), ROOT / "README.md"],
    ids=lambda path: path.name,
)
def test_every_name_of_gptlib_in_the_text_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = markdown(nbformat.reads(text, as_version=4))
    for name in sorted(set(re.findall(r"\bgptlib(?:\.[A-Za-z_]\w*)+", text))):
        pkgutil.resolve_name(name)  # raises where there is no such name


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_stored_outputs_come_out_again(path: Path, host: str, comparisons: Comparisons) -> None:
    run = comparisons.result(path, host)
    assert run.returncode == 0, run.stdout[-4000:]
