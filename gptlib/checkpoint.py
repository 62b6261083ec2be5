"""A trained model on disk: `model.safetensors` and a readable `config.json`, never pickle."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

import gptlib
from gptlib import parallel, tokenizers
from gptlib._files import ASIDE, STEP, read_object, shown, writable_folder
from gptlib._files import CONFIG as CONFIG  # of this module too, as `checkpoint.CONFIG`
from gptlib._files import steps as steps
from gptlib.config import GPTConfig
from gptlib.model import GPT, plain
from gptlib.numpy_gpt.model import parameter_shapes

WEIGHTS = "model.safetensors"


def save(folder: str | Path, model: GPT, tokenizer: tokenizers.Tokenizer) -> None:
    """Write the model and its tokenizer into `folder`, each file aside first and then renamed.

    A tied head is stored once.

    Raises:
        TypeError: not a GPT, or no tokenizer.
        ValueError: the tokenizer has more tokens than the model, the model's parameters are not
            those of its configuration, or the folder holds a training run.
        OSError: the folder cannot be made or written, or the disk is full.
    """
    model = plain(model)
    if tokenizer is None:
        raise TypeError("a checkpoint holds the tokenizer too, got None")
    if tokenizer.n_vocab > model.cfg.vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.n_vocab} tokens, the model only {model.cfg.vocab_size}"
        )
    weights = weights_of(model)
    write_pair(model_folder(folder), weights, describe(model.cfg, tokenizer))


def weights_of(model: GPT) -> dict[str, torch.Tensor]:
    """Return the model's weights by name, gathered where FSDP has sharded them, a tied one once.

    Raises:
        ValueError: they are not those of its configuration.
    """
    check_fits(model)
    return {
        name: parallel.whole(param.detach()).contiguous()
        for name, param in model.named_parameters()
    }


def check_fits(model: GPT) -> None:
    """Raise ValueError where the parameters are not those that `load` will expect."""
    misfit = _misfit(model.cfg, dict(model.named_parameters()))
    if misfit:
        raise ValueError(
            f"the model is not as its configuration says: {misfit}; tie_weights must be True where"
            " the head is the token table, and only there"
        )


def describe(cfg: GPTConfig, tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """Return what `config.json` says."""
    return {
        "gptlib": gptlib.__version__,
        "model": cfg.to_dict(),
        "tokenizer": tokenizer.to_dict(),
    }


def write_pair(folder: Path, tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
    """Write weights and configuration under names nobody else uses, then rename both."""
    with tempfile.TemporaryDirectory(prefix=ASIDE, dir=folder) as aside:
        fill(Path(aside), tensors, about)
        for name in (WEIGHTS, CONFIG):
            os.replace(Path(aside, name), folder / name)


def fill(folder: Path, tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
    """Write both files in place, into a folder that nobody reads yet."""
    write_tensors(folder / WEIGHTS, tensors)
    (folder / CONFIG).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
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
    if steps(folder):
        raise ValueError(f"{shown(folder)} holds a training run; choose another folder")
    return prepare_folder(folder)


def load(folder: str | Path) -> tuple[GPT, tokenizers.Tokenizer]:
    """Read back what `save` wrote, or any GPT-2 in Hugging Face layout, in evaluation mode.

    From the folder of a training run, the checkpoint with the best validation loss.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: a file is damaged, or names and shapes do not fit the configuration.
    """
    folder = Path(folder)
    if not (folder / CONFIG).exists():
        folder = best(folder) or folder
    if _is_gpt2(folder / CONFIG):
        from gptlib import gpt2  # here, because it builds on this module

        return gpt2.load(folder), gpt2.load_tokenizer(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder} holds no saved model: {name} is missing; `gptlib train --out` makes one"
            )
    cfg, tokenizer = described(folder)
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
    misfit = _misfit(cfg, state)
    if misfit:
        raise ValueError(f"{folder / WEIGHTS} does not fit {CONFIG}: {misfit}")
    return GPT.from_state(cfg, state).eval(), tokenizer


def _misfit(cfg: GPTConfig, tensors: Mapping[str, torch.Tensor]) -> str:
    """Say which tensors a model of this configuration lacks, or has otherwise; "" if none."""
    expected = parameter_shapes(cfg)
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    wrong = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    listed = "; ".join(
        f"{name} expected {expected.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
        for name in wrong[:3]
    )
    return f"{len(wrong)} tensors, {listed}" if wrong else ""


def described(folder: Path) -> tuple[GPTConfig, tokenizers.Tokenizer]:
    """Return what `config.json` says of the model that `save` wrote, without its weights.

    Raises:
        FileNotFoundError: it is missing.
        ValueError: it is damaged; names the file.
    """
    about = _read_config(folder / CONFIG)
    try:
        return GPTConfig.from_dict(about["model"]), tokenizers.from_dict(about["tokenizer"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{shown(folder / CONFIG)}: {error}") from error


def packaged() -> tuple[GPT, tokenizers.Tokenizer]:
    """Return the mini model that comes with the package, trained on Shakespeare, and its bytes."""
    model, tokenizer = load(Path(__file__).with_name("weights"))
    return model.float(), tokenizer


def step_folder(run: Path, step: int) -> Path:
    """Return where the checkpoint after `step` steps of a run lies."""
    return run / f"{STEP}{step:08d}"


def step_of(folder: Path) -> int:
    """Return how many steps a checkpoint's folder says were done."""
    return int(folder.name.removeprefix(STEP))


def newest(run: str | Path) -> Path | None:
    """Return the run's newest checkpoint, if it has one."""
    return next(reversed(steps(run)), None)


def best(run: str | Path) -> Path | None:
    """Return the run's checkpoint with the lowest validation loss, else the newest."""
    return min(reversed(steps(run)), key=_validation_loss, default=None)


def _validation_loss(folder: Path) -> float:
    with contextlib.suppress(OSError, ValueError):  # a damaged one is never the best
        loss = read_object(folder / "training.json").get("validation_loss")
        if isinstance(loss, int | float):
            return loss
    return float("inf")


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


def clear_leftovers(run: str | Path) -> None:
    """Remove what a killed process had not finished writing."""
    for path in Path(run).glob(f"{ASIDE}*"):
        shutil.rmtree(path, ignore_errors=True)


def prune(run: Path, keep: int) -> None:
    """Remove all checkpoints but the newest `keep` and, where keep is not 0, the best."""
    kept = [*steps(run)[-keep:], best(run)] if keep else []
    for folder in steps(run):
        if folder not in kept:
            doomed = run / f"{ASIDE}{folder.name}"  # half removed, it must not look like one
            os.rename(folder, doomed)
            shutil.rmtree(doomed)


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
