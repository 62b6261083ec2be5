"""Find the configuration: an object, a dictionary, a file, a folder or a preset's name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gptlib._helpers import run_folder
from gptlib._helpers.folders import CONFIG, read_object
from gptlib._helpers.messages import shown
from gptlib.accounting.architectures import from_gpt, from_hf
from gptlib.accounting.shape import Shape
from gptlib.config import PRESETS, GPTConfig


def read_shape(source: GPTConfig | Mapping[str, Any] | str | Path) -> Shape:
    """Return the shape that `source` describes; errors name the file, then the field."""
    if isinstance(source, GPTConfig):
        return from_gpt(source)
    if isinstance(source, Mapping):
        return _from_mapping(source)
    if not isinstance(source, str | Path):
        raise TypeError(
            "a model is given as a GPTConfig, a dictionary, a file, a folder or a preset's name,"
            f" got {source!r:.60}"
        )
    if str(source) in PRESETS and not Path(source).exists():
        return from_gpt(GPTConfig.preset(str(source)))
    path = _find(Path(source))
    data = read_object(path)
    try:
        return _from_mapping(data)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{shown(path)}: {error}") from error


def _from_mapping(data: Mapping[str, Any]) -> Shape:
    if isinstance(data.get("model"), Mapping):  # a run's
        return from_gpt(GPTConfig.from_dict(data["model"]))
    if isinstance(data.get("gptlib"), Mapping):  # `gpt2.export` notes our configuration there
        return from_gpt(GPTConfig.from_hf(data))
    if "model_type" not in data and "emb_dim" in data:
        return from_gpt(GPTConfig.from_dict(data))
    return from_hf(data)


def _find(path: Path) -> Path:
    file = path / CONFIG if path.is_dir() else path
    if file.is_file():
        return file
    if path.is_dir():
        if checkpoint := run_folder.newest(path):  # all are of one architecture
            return checkpoint / CONFIG
        raise FileNotFoundError(f"the folder {shown(path)} holds no {CONFIG}")
    raise FileNotFoundError(
        f"{shown(path)} is neither a file nor a folder here, nor a preset ({', '.join(PRESETS)})"
    )
