"""Model files: weights and configuration written aside and renamed, folders proven writable."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from gptlib._helpers import run_folder
from gptlib._helpers.folders import ASIDE, CONFIG, writable_folder
from gptlib._helpers.messages import shown

WEIGHTS = "model.safetensors"


def write_pair(folder: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write weights and configuration under names nobody else uses, then rename both."""
    with tempfile.TemporaryDirectory(prefix=ASIDE, dir=folder) as aside:
        fill(Path(aside), tensors, about)
        for name in (WEIGHTS, CONFIG):
            os.replace(Path(aside, name), folder / name)


def fill(folder: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write both files in place, into a folder that nobody reads yet."""
    write_tensors(folder / WEIGHTS, tensors)
    (folder / CONFIG).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file; raise OSError where the disk is full."""
    try:
        safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    except safetensors.SafetensorError as error:
        raise OSError(f"cannot write {path}: {error}") from error
    path.chmod(0o644)  # it was made for its owner only


def prepare_folder(folder: str | Path) -> Path:
    """Make `folder` if need be and prove that a model can be written in it.

    Raises:
        OSError: one line that names the folder and the reason.
    """
    folder = Path(folder)
    for name in (WEIGHTS, CONFIG):
        if (folder / name).is_dir():
            raise IsADirectoryError(f"{folder / name} is a folder, a file is to be written there")
    return writable_folder(folder)


def model_folder(folder: str | Path) -> Path:
    """Prepare a folder for one model, but not a run's, whose checkpoints it would hide.

    Raises:
        ValueError: the folder holds a training run.
        OSError: as for `prepare_folder`.
    """
    if run_folder.checkpoints(folder):
        raise ValueError(f"{shown(folder)} holds a training run; choose another folder")
    return prepare_folder(folder)


def held(folder: str | Path) -> str:
    """Say what a folder holds: "a run (step-00000400)", "a model or its config.json", ""."""
    if newest := run_folder.newest(folder):
        return f"a run ({newest.name})"
    model = [name for name in (WEIGHTS, CONFIG) if Path(folder, name).exists()]
    return f"a model or its {model[0]}" if model else ""


@contextlib.contextmanager
def written_aside(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill; when it is full, rename it to `folder` in one step.

    After a crash or an error `folder` is not there or complete; where it was there before, it is
    moved away just before the renaming.
    """
    prepare_folder(folder.parent)
    with tempfile.TemporaryDirectory(prefix=ASIDE, dir=folder.parent) as aside:
        fresh, old = Path(aside, "new"), Path(aside, "old")
        fresh.mkdir()
        yield fresh
        if folder.exists():
            os.rename(folder, old)
        os.rename(fresh, folder)
