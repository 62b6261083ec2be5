"""Records as plain tables on disk: dataclass instances to CSV and back."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def write_table(path: Path, rows: Sequence[Any]) -> None:
    """Write dataclass instances as CSV, floats with every digit."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if rows:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(field.name for field in dataclasses.fields(rows[0]))
            writer.writerows(dataclasses.astuple(row) for row in rows)


def read_table(path: Path, kind: Any) -> list[Any]:
    """Read back what `write_table` wrote, as instances of the dataclass `kind`."""
    readers: dict[Any, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "bool": lambda text: text == "True",
    }
    types = {field.name: readers[field.type] for field in dataclasses.fields(kind)}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            kind(**{name: types[name](text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]
