"""A training run on disk: its folder, its checkpoints, saving and going on.

A checkpoint is one folder, `step-00000400`, inside the run's folder. It holds the model as
`checkpoint.save` writes it, `training.safetensors` (the optimizers' tensors and torch's
generators), `training.json` (the run's numbers, the generator of its windows, fingerprints of its
texts) and the history as plain tables.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import safetensors
import safetensors.torch
import torch

from gptlib import parallel
from gptlib._helpers import run_folder
from gptlib._helpers.folders import ASIDE, CONFIG, read_object
from gptlib._helpers.run_folder import NUMBERS
from gptlib._helpers.tables import read_table, write_table
from gptlib.config import GPTConfig
from gptlib.recipe import TrainConfig
from gptlib.storage import checkpoint, files
from gptlib.text import corpus
from gptlib.text.tokenizers import Tokenizer
from gptlib.trainer import EvalRecord, StepRecord, Trainer

TENSORS, HISTORY, VALIDATION = "training.safetensors", "history.csv", "validation.csv"

# What no resumed run can change, and why.
LASTING = {
    "window": "the losses of other windows could not be compared",
    "optimizer": "another one cannot use its memory",
    "seed": "the generators go on from where they were",
}


class Run:
    """The folder of one training run.

    Args:
        folder: made by the first `save`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @property
    def checkpoints(self) -> list[Path]:
        """Return the checkpoints' folders, oldest first; `checkpoint.load` reads each."""
        return run_folder.checkpoints(self.folder)

    @property
    def newest(self) -> Path | None:
        """Return the newest checkpoint, if there is one."""
        return run_folder.newest(self.folder)

    @property
    def best(self) -> Path | None:
        """Return the checkpoint with the lowest validation loss, else the newest."""
        return run_folder.best(self.folder)

    def at(self, step: int) -> Path:
        """Return where the checkpoint after `step` steps lies, or would lie."""
        return run_folder.checkpoint_at(self.folder, step)

    def read_about(self) -> tuple[GPTConfig, Tokenizer]:
        """Return the configuration of the run's model and its tokenizer, without reading weights.

        Raises:
            FileNotFoundError: there is no checkpoint.
            ValueError: its file is damaged; names the file.
        """
        return checkpoint.read_about(self.newest or self.folder)

    def config(self) -> TrainConfig:
        """Return the run's own numbers, from its newest checkpoint.

        Raises:
            FileNotFoundError: there is no checkpoint.
            ValueError: its file is damaged.
        """
        return self._read_numbers()[2]

    def save(self, trainer: Trainer) -> Path:
        """Write a checkpoint, aside first and then renamed; every process takes part.

        The newest `keep_checkpoints` and the one with the best validation loss are kept, older
        ones are removed.

        Returns:
            The new checkpoint's folder.

        Raises:
            ValueError: the trainer was made without a tokenizer, or the model's parameters are not
                those of its configuration.
            FloatingPointError: the last validation loss is not finite.
            OSError: the folder cannot be written, or the disk is full; what was there remains.
        """
        trainer.check_savable()
        assert trainer.tokenizer is not None
        step, last = len(trainer.history), trainer.evaluations[-1:]
        loss = last[0].loss if last and last[0].step == step else None
        if loss is not None and not math.isfinite(loss):
            raise FloatingPointError(
                f"the validation loss after step {step - 1} is {loss}; nothing was saved, and"
                " earlier checkpoints stay. A lower learning rate or a longer warm-up usually helps"
            )
        weights = trainer.model.weights()  # gathered by all processes together
        tensors = _optimizer_tensors(trainer) | _generators(trainer.device)
        about = checkpoint.about(trainer.model.cfg, trainer.tokenizer)
        numbers = {
            "config": dataclasses.asdict(trainer.config),
            "windows": trainer.rng.bit_generator.state,
            "texts": _texts(trainer),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "tensors": sorted(tensors),
            "looks": len(trainer.evaluations),
            "validation_loss": loss,
        }
        folder = self.at(step)
        if parallel.rank() == 0:
            self._clear_leftovers()
            with files.written_aside(folder) as aside:
                files.fill(aside, weights, about)
                files.write_tensors(aside / TENSORS, tensors)
                (aside / NUMBERS).write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
                write_table(aside / HISTORY, trainer.history)
                write_table(aside / VALIDATION, trainer.evaluations)
            self.prune(trainer.config.keep_checkpoints)
        parallel.wait_for_all()
        return folder

    def resume(
        self,
        train_tokens: corpus.Tokens,
        val_tokens: corpus.Tokens,
        *,
        changes: Mapping[str, Any] = MappingProxyType({}),
        device: torch.device | str = "cpu",
    ) -> tuple[Trainer, str]:
        """Return a trainer in the state of the newest checkpoint, and a report in words.

        On the CPU, and with the same number of threads, it goes on bit for bit as the run would
        have gone on. The number of processes may be another one.

        Args:
            changes: new values for some of the run's own numbers, for example more `steps`.

        Raises:
            FileNotFoundError: there is no checkpoint.
            ValueError: the text is not the run's, or a file is damaged.
        """
        folder, numbers, saved = self._read_numbers()
        config = self._changed(saved, changes)
        done = run_folder.step_of(folder)
        if config.steps < done:
            raise ValueError(f"steps must be at least the {done} that are done, got {config.steps}")
        model, tokenizer = checkpoint.load(folder)
        trainer = Trainer(model.to(device), train_tokens, val_tokens, config, tokenizer)
        for name, found in _texts(trainer).items():
            if found != numbers["texts"][name]:
                raise ValueError(
                    f"the {name} text is not the one of the run in {self.folder}: that had"
                    f" {numbers['texts'][name]}, this has {found}; give the run's own text"
                )
        with _damage_named(folder):
            _restore(trainer, folder, numbers)
        return trainer, _report(trainer, folder, saved, numbers)

    def prune(self, keep: int) -> None:
        """Remove all checkpoints but the newest `keep` and, where keep is not 0, the best."""
        kept = [*self.checkpoints[-keep:], self.best] if keep else []
        for folder in self.checkpoints:
            if folder not in kept:
                doomed = self.folder / f"{ASIDE}{folder.name}"  # half removed, it is no checkpoint
                os.rename(folder, doomed)
                shutil.rmtree(doomed)

    def clear(self) -> None:
        """Make the folder, and remove old checkpoints and models that would pass for the new run's.

        Raises:
            OSError: it cannot be written; one line that names it and the reason.
        """
        files.prepare_folder(self.folder)
        self._clear_leftovers()
        self.prune(0)
        for name in (files.WEIGHTS, CONFIG):
            (self.folder / name).unlink(missing_ok=True)

    def _clear_leftovers(self) -> None:
        """Remove what a killed process had not finished writing."""
        for path in self.folder.glob(f"{ASIDE}*"):
            shutil.rmtree(path, ignore_errors=True)

    def _read_numbers(self) -> tuple[Path, dict[str, Any], TrainConfig]:
        """Return the newest checkpoint's folder, all its numbers, and the run's own among them."""
        folder = self.newest
        if folder is None:
            raise FileNotFoundError(f"{self.folder} holds no checkpoint to resume from")
        with _damage_named(folder):
            numbers = read_object(folder / NUMBERS)
            numbers["texts"] = {name: numbers["texts"][name] for name in ("training", "validation")}
            return folder, numbers, TrainConfig(**numbers["config"])

    def _changed(self, saved: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
        unknown = sorted(changes.keys() - dataclasses.asdict(saved).keys())
        if unknown:
            raise TypeError(f"TrainConfig has no {', '.join(unknown)}")
        config = dataclasses.replace(saved, **changes)
        for name, why in LASTING.items():
            if getattr(config, name) != getattr(saved, name):
                raise ValueError(
                    f"the run in {self.folder} has the {name} {getattr(saved, name)}: {why}; start"
                    f" a new run for {getattr(config, name)}"
                )
        return config


@contextlib.contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """Turn what unreadable files of a checkpoint raise into one line that names its folder."""
    try:
        yield
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        OSError,
        RuntimeError,
        safetensors.SafetensorError,
    ) as error:
        what = str(error) if isinstance(error, ValueError | OSError) else repr(error)
        raise ValueError(f"{folder} is damaged: {what:.200}") from error


def _texts(trainer: Trainer) -> dict[str, str]:
    return {
        "training": corpus.fingerprint(trainer.train_tokens),
        "validation": corpus.fingerprint(trainer.val_tokens),
    }


def _optimizer_tensors(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Return the optimizers' tensors, whole and on the CPU, as "optimizer.<parameter>.<what>"."""
    if not trainer.history:
        return {}  # to ask a fresh optimizer for its state would make one
    state = parallel.optimizer_state(trainer.model, trainer.optimizers)
    return {
        f"optimizer.{name}.{what}": value.contiguous()
        for name, own in state.items()
        for what, value in own.items()
    }


def _restore(trainer: Trainer, folder: Path, numbers: dict[str, Any]) -> None:
    """Put back the histories, the optimizers' memory and the generators of a checkpoint."""
    trainer.history = read_table(folder / HISTORY, StepRecord)
    trainer.evaluations = read_table(folder / VALIDATION, EvalRecord)
    for name, rows, n in (
        (HISTORY, trainer.history, run_folder.step_of(folder)),
        (VALIDATION, trainer.evaluations, numbers.get("looks", len(trainer.evaluations))),
    ):
        if len(rows) != n:
            raise ValueError(f"{name} has {len(rows)} rows, expected {n}")
    tensors = safetensors.torch.load_file(folder / TENSORS)
    if missing := set(numbers.get("tensors", ())) - tensors.keys():
        raise ValueError(f"{TENSORS} lacks {len(missing)} tensors, such as {min(missing)}")
    trainer.rng.bit_generator.state = numbers["windows"]
    _restore_optimizers(trainer, tensors)
    _restore_generators(trainer, tensors)


def _restore_optimizers(trainer: Trainer, tensors: dict[str, torch.Tensor]) -> None:
    shapes = {name: param.shape for name, param in trainer.model.named_parameters()}
    state: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        kind, _, rest = key.partition(".")
        if kind != "optimizer":
            continue
        name, _, what = rest.rpartition(".")
        if value.dim() and value.shape != shapes[name]:
            raise ValueError(f"{key} has the shape {tuple(value.shape)}")
        state.setdefault(name, {})[what] = value
    if state:
        parallel.restore_optimizers(trainer.model, trainer.optimizers, state)


def _generators(device: torch.device) -> dict[str, torch.Tensor]:
    states = {"generator.cpu": torch.get_rng_state()}
    if device.type in ("cuda", "mps"):
        states[f"generator.{device.type}"] = getattr(torch, device.type).get_rng_state()
    return states


def _restore_generators(trainer: Trainer, tensors: dict[str, torch.Tensor]) -> None:
    if parallel.rank() > 0:  # the others need numbers of their own, not the first one's
        torch.manual_seed(hash((trainer.config.seed, parallel.rank(), len(trainer.history))))
        return
    torch.set_rng_state(tensors["generator.cpu"])
    kind = trainer.device.type
    if f"generator.{kind}" in tensors and kind != "cpu":
        getattr(torch, kind).set_rng_state(tensors[f"generator.{kind}"])


def _report(trainer: Trainer, folder: Path, saved: TrainConfig, numbers: dict[str, Any]) -> str:
    """Say what goes on, what was changed, and what may keep it from being equal bit for bit."""
    done, cfg = len(trainer.history), trainer.config
    lines = [f"resumed from {folder}: {done:,} of {cfg.steps:,} steps done"]
    if trainer.history:
        lines[0] += f", {trainer.history[-1].tokens:,} tokens, loss {trainer.history[-1].loss:.3f}"
    if trainer.evaluations:
        lines[0] += f", validation {trainer.evaluations[-1].loss:.3f}"
    for field in dataclasses.fields(cfg):
        before, now = getattr(saved, field.name), getattr(cfg, field.name)
        if before != now:
            lines.append(f"changed: {field.name} {before} -> {now}")
    for what, before, now in (
        ("threads", numbers.get("threads"), torch.get_num_threads()),
        ("torch", numbers.get("torch"), torch.__version__),
    ):
        if before != now:
            lines.append(f"{what} {before} -> {now}: the last digits will differ")
    return "\n".join(lines)
