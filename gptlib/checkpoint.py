"""A trained model on disk: `model.safetensors` and a readable `config.json`, never pickle."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

import gptlib
from gptlib import tokenizers
from gptlib._files import read_object
from gptlib.config import GPTConfig
from gptlib.model import GPT
from gptlib.numpy_gpt.model import parameter_shapes

WEIGHTS, CONFIG = "model.safetensors", "config.json"


def save(folder: str | Path, model: GPT, tokenizer: tokenizers.Tokenizer) -> None:
    """Write the model and its tokenizer into `folder`, each file aside first and then renamed.

    A tied head is stored once.

    Raises:
        ValueError: the tokenizer has more tokens than the model.
        OSError: the folder cannot be made or written.
    """
    if tokenizer.n_vocab > model.cfg.vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.n_vocab} tokens, the model only {model.cfg.vocab_size}"
        )
    folder = prepare_folder(folder)
    state = model.state_dict()
    if model.cfg.tie_weights:
        del state["head.weight"]  # the same tensor as tok_emb.weight
    about = {
        "gptlib": gptlib.__version__,
        "model": model.cfg.to_dict(),
        "tokenizer": tokenizer.to_dict(),
    }
    write_pair(folder, {k: v.contiguous() for k, v in state.items()}, about)


def write_pair(folder: Path, tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
    """Write weights and configuration under names nobody else uses, then rename both."""
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=folder) as aside:
        weights, config = Path(aside, WEIGHTS), Path(aside, CONFIG)
        safetensors.torch.save_file(tensors, weights, metadata={"format": "pt"})
        config.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        os.replace(weights, folder / WEIGHTS)
        os.replace(config, folder / CONFIG)


def prepare_folder(folder: str | Path) -> Path:
    """Make `folder` if need be and prove that files can be written in it.

    Raises:
        OSError: one line that names the folder and the reason.
    """
    folder = Path(folder)
    for name in (WEIGHTS, CONFIG):
        if (folder / name).is_dir():
            raise IsADirectoryError(f"{folder / name} is a folder, a file is to be written there")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(f"cannot write into the folder {folder}: {error.strerror}") from error
    return folder


def load(folder: str | Path) -> tuple[GPT, tokenizers.Tokenizer]:
    """Read back what `save` wrote, or any GPT-2 in Hugging Face layout, in evaluation mode.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: a file is damaged, or names and shapes do not fit the configuration.
    """
    folder = Path(folder)
    if _is_gpt2(folder / CONFIG):
        from gptlib import gpt2  # here, because it builds on this module

        return gpt2.load(folder), gpt2.load_tokenizer(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder} holds no saved model: {name} is missing; `gptlib train --out` makes one"
            )
    about = _read_config(folder / CONFIG)
    cfg = GPTConfig.from_dict(about["model"])
    tokenizer = tokenizers.from_dict(about["tokenizer"])
    if tokenizer.n_vocab > cfg.vocab_size:
        raise ValueError(
            f"{folder / CONFIG}: the tokenizer has {tokenizer.n_vocab} tokens, the model only"
            f" {cfg.vocab_size}"
        )
    try:
        state = safetensors.torch.load_file(folder / WEIGHTS)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{folder / WEIGHTS} is damaged: {error}") from error
    dtypes = sorted({str(value.dtype) for value in state.values()})
    if len(dtypes) != 1 or not all(value.is_floating_point() for value in state.values()):
        raise ValueError(
            f"{folder / WEIGHTS} must hold tensors of one floating dtype, found {', '.join(dtypes)}"
        )
    expected = parameter_shapes(cfg)
    found = {name: tuple(value.shape) for name, value in state.items()}
    wrong = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if wrong:
        listed = "; ".join(
            f"{name} expected {expected.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
            for name in wrong[:3]
        )
        raise ValueError(
            f"{folder / WEIGHTS} does not fit {CONFIG}: {len(wrong)} tensors, {listed}"
        )
    return GPT.from_state(cfg, state).eval(), tokenizer


def _is_gpt2(path: Path) -> bool:
    try:
        return "model_type" in json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, RecursionError):
        return False  # the reader below says what is wrong


def _read_config(path: Path) -> dict[str, Any]:
    about = read_object(path)
    if not {"model", "tokenizer"} <= about.keys():
        raise ValueError(f"{path} is not a gptlib config: it needs 'model' and 'tokenizer'")
    for name in ("model", "tokenizer"):
        if not isinstance(about[name], dict):
            raise ValueError(f"{path}: {name!r} must be an object, got {about[name]!r:.60}")
    return about
