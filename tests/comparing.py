"""Chapters run again under nbval on two kinds of machine, beside all other tests."""

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbformat import NotebookNode

SANITIZE = Path(__file__).with_name("nbval_sanitize.cfg")
MACHINES = {
    "this_machine": {},
    "one_thread_avx2_each_cell_twice": {"OMP_NUM_THREADS": "1", "ATEN_CPU_CAPABILITY": "avx2"},
}
Case = tuple[Path, str]  # a notebook and a machine
Run = subprocess.CompletedProcess[str]


def compare(path: Path, machine: str, folder: Path) -> Run:
    """Run a chapter under nbval in `folder`; cells tagged "long" once, on every machine."""
    notebook = nbformat.read(path, as_version=4)
    if "twice" in machine:
        notebook.cells = [
            NotebookNode(cell) for cell in notebook.cells for _ in range(_times(cell))
        ]
        for position, cell in enumerate(notebook.cells):
            cell.id = f"cell-{position}"
    nbformat.write(notebook, folder / path.name)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"]
    command += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
    command += [f"--nbval-sanitize-with={SANITIZE}"]
    command += ["--rootdir", str(folder), str(folder / path.name)]
    environment = os.environ | MACHINES[machine]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _times(cell: NotebookNode) -> int:
    return 2 if cell.cell_type == "code" and "long" not in cell.metadata.get("tags", []) else 1


class Comparisons:
    """All comparisons that were asked for, as many at a time as there are cores."""

    def __init__(self, cases: Iterable[Case], folder: Path) -> None:
        self.pool = ThreadPoolExecutor(os.cpu_count())
        self.runs: dict[Case, Future[Run]] = {}
        for path, machine in cases:
            own = folder / machine / path.stem
            own.mkdir(parents=True)
            self.runs[path, machine] = self.pool.submit(compare, path, machine, own)

    def result(self, path: Path, machine: str) -> Run:
        """Wait for one comparison."""
        return self.runs[path, machine].result()

    def close(self) -> None:
        """Start no more of them."""
        self.pool.shutdown(cancel_futures=True)
