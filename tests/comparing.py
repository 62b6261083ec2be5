"""Chapters run again under nbval on two kinds of host, beside all other tests."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbformat import NotebookNode

SANITIZE = Path(__file__).with_name("nbval_sanitize.cfg")
HOSTS = {
    "this_host": {},
    "one_thread_avx2_each_cell_twice": {"OMP_NUM_THREADS": "1", "ATEN_CPU_CAPABILITY": "avx2"},
}
# Only what a comparison needs: hypothesis, playwright and others take most of pytest's start.
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
# The other tests, one at a time, go first; the comparisons take the cores that they leave idle.
LAST = ["nice", "-n", "5"] if shutil.which("nice") else []  # Windows has no such command
Case = tuple[Path, str]  # a notebook and a host
Run = subprocess.CompletedProcess[str]


def compare(path: Path, host: str, folder: Path) -> Run:
    """Run a chapter under nbval in `folder`; cells tagged "long" once, on every host."""
    notebook = nbformat.read(path, as_version=4)
    if "twice" in host:
        notebook.cells = [
            NotebookNode(cell) for cell in notebook.cells for _ in range(_times(cell))
        ]
        for position, cell in enumerate(notebook.cells):
            cell.id = f"cell-{position}"
    nbformat.write(notebook, folder / path.name)
    results = path.with_name("results")  # of long experiments, which a chapter reads
    if results.is_dir():
        shutil.copytree(results, folder / results.name)
    for text in path.parent.glob("*.txt"):  # that a page offers, and reads
        shutil.copy(text, folder)
    command = [*LAST, sys.executable, "-m", "pytest", "-q", "--color=no"]
    command += ["-p", "no:cacheprovider", "-p", "nbval.plugin"]
    command += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
    command += [f"--nbval-sanitize-with={SANITIZE}"]
    command += ["--rootdir", str(folder), str(folder / path.name)]
    environment = os.environ | ALONE | HOSTS[host]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _times(cell: NotebookNode) -> int:
    return 2 if cell.cell_type == "code" and not _is_long(cell) else 1


def _is_long(cell: NotebookNode) -> bool:
    return "long" in cell.metadata.get("tags", [])


def _long_cells(case: Case) -> int:
    return sum(map(_is_long, nbformat.read(case[0], as_version=4).cells))


class Comparisons:
    """All comparisons that were asked for, as many at a time as there are cores.

    Those with the most cells tagged "long" begin first, so that no core waits for one at the end.
    """

    def __init__(self, cases: Iterable[Case], folder: Path) -> None:
        self.pool = ThreadPoolExecutor(os.cpu_count())
        self.runs: dict[Case, Future[Run]] = {}
        for path, host in sorted(cases, key=_long_cells, reverse=True):
            own = folder / host / path.stem
            own.mkdir(parents=True)
            self.runs[path, host] = self.pool.submit(compare, path, host, own)

    def result(self, path: Path, host: str) -> Run:
        """Wait for one comparison."""
        return self.runs[path, host].result()

    def close(self) -> None:
        """Start no more of them."""
        self.pool.shutdown(cancel_futures=True)
