"""Everything a training run is made of, on disk and back: weights, optimizers, generators, history.

A checkpoint is one folder, `step-00000400`, inside the run's folder. It holds the model as
`checkpoint.save` writes it, `training.safetensors` (the optimizers' tensors and torch's
generators), `training.json` (the run's numbers, the generator of its windows, fingerprints of its
texts) and the history as plain tables.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors
import safetensors.torch
import torch

from gptlib import checkpoint, corpus, parallel
from gptlib._files import read_object
from gptlib.train_config import TrainConfig

if TYPE_CHECKING:
    from gptlib.trainer import Trainer

TENSORS, NUMBERS = "training.safetensors", "training.json"
HISTORY, VALIDATION = "history.csv", "validation.csv"

# What no resumed run can change, and why.
LASTING = {
    "optimizer": "another one cannot use its memory",
    "seed": "the generators go on from where they were",
}


def save(trainer: Trainer, out: Path) -> Path:
    """Write one checkpoint; see `Trainer.save`. Every process takes part, the first one writes."""
    assert trainer.tokenizer is not None
    step, last = len(trainer.history), trainer.evaluations[-1:]
    loss = last[0].loss if last and last[0].step == step else None
    if loss is not None and not math.isfinite(loss):
        raise FloatingPointError(
            f"the validation loss after step {step - 1} is {loss}; nothing was saved, and"
            " earlier checkpoints stay. A lower learning rate or a longer warm-up usually helps"
        )
    weights = checkpoint.weights_of(trainer.model)  # gathered by all processes together
    tensors = _optimizer_tensors(trainer) | _generators(trainer.device)
    about = checkpoint.describe(trainer.model.cfg, trainer.tokenizer)
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
    folder = checkpoint.step_folder(out, step)
    if parallel.rank() == 0:
        with checkpoint.written_aside(folder) as aside:
            checkpoint.fill(aside, weights, about)
            checkpoint.write_tensors(aside / TENSORS, tensors)
            (aside / NUMBERS).write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
            _write_table(aside / HISTORY, trainer.history)
            _write_table(aside / VALIDATION, trainer.evaluations)
        checkpoint.prune(out, trainer.config.keep_checkpoints)
    parallel.wait_for_all()
    return folder


def resume(
    kind: type[Trainer],
    out: Path,
    train_tokens: corpus.Tokens,
    val_tokens: corpus.Tokens,
    changes: Mapping[str, Any],
    device: torch.device | str,
) -> tuple[Trainer, str]:
    """Build a trainer from the newest checkpoint; see `Trainer.resume`."""
    from gptlib.trainer import EvalRecord, StepRecord

    folder, numbers, saved = _read_numbers(out)
    unknown = sorted(changes.keys() - dataclasses.asdict(saved).keys())
    if unknown:
        raise TypeError(f"TrainConfig has no {', '.join(unknown)}")
    config = dataclasses.replace(saved, **changes)
    for name, why in LASTING.items():
        if getattr(config, name) != getattr(saved, name):
            raise ValueError(
                f"the run in {out} has the {name} {getattr(saved, name)}: {why}; start a new run"
                f" for {getattr(config, name)}"
            )
    done = checkpoint.step_of(folder)
    if config.steps < done:
        raise ValueError(f"steps must be at least the {done} that are done, got {config.steps}")
    model, tokenizer = checkpoint.load(folder)
    trainer = kind(model.to(device), train_tokens, val_tokens, config, tokenizer)
    for name, found in _texts(trainer).items():
        if found != numbers["texts"][name]:
            raise ValueError(
                f"the {name} text is not the one of the run in {out}: that had"
                f" {numbers['texts'][name]}, this has {found}; give the run's own text"
            )
    with _damage_named(folder):
        trainer.history = _read_table(folder / HISTORY, StepRecord)
        trainer.evaluations = _read_table(folder / VALIDATION, EvalRecord)
        for name, rows, n in (
            (HISTORY, trainer.history, done),
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
    return trainer, _report(trainer, folder, saved, numbers)


def saved_config(out: Path) -> TrainConfig:
    """Return the numbers of the run in `out`, from its newest checkpoint.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: its file is damaged.
    """
    return _read_numbers(out)[2]


def _read_numbers(out: Path) -> tuple[Path, dict[str, Any], TrainConfig]:
    """Return the newest checkpoint's folder, all its numbers, and the run's own among them."""
    folder = checkpoint.newest(out)
    if folder is None:
        raise FileNotFoundError(f"{out} holds no checkpoint to resume from")
    with _damage_named(folder):
        numbers = read_object(folder / NUMBERS)
        numbers["texts"] = {name: numbers["texts"][name] for name in ("training", "validation")}
        return folder, numbers, TrainConfig(**numbers["config"])


@contextlib.contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    """Turn what unreadable files of a checkpoint raise into one line that names its folder."""
    kinds = AttributeError, KeyError, TypeError, ValueError, OSError, safetensors.SafetensorError
    try:
        yield
    except kinds as error:
        what = str(error) if isinstance(error, ValueError | OSError) else repr(error)
        raise ValueError(f"{folder} is damaged: {what:.200}") from error


def _texts(trainer: Trainer) -> dict[str, str]:
    return {
        "training": corpus.fingerprint(trainer.train_tokens),
        "validation": corpus.fingerprint(trainer.val_tokens),
    }


def _optimizer_tensors(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Return the optimizers' tensors, whole and on the CPU, as "optimizer.<parameter>.<what>"."""
    return {
        f"optimizer.{name}.{what}": parallel.whole(value).cpu().contiguous()
        for name, param in trainer.model.named_parameters()
        for optimizer in trainer.optimizers
        for what, value in optimizer.state.get(param, {}).items()
    }


def _restore_optimizers(trainer: Trainer, tensors: dict[str, torch.Tensor]) -> None:
    params = dict(trainer.model.named_parameters())
    owner = {
        id(param): optimizer
        for optimizer in trainer.optimizers
        for group in optimizer.param_groups
        for param in group["params"]
    }
    for key, value in tensors.items():
        kind, _, rest = key.partition(".")
        if kind != "optimizer":
            continue
        name, _, what = rest.rpartition(".")
        param, value = params[name], value.to(trainer.device)
        if value.shape == param.shape:
            value = parallel.like(value, param)
        elif value.dim():
            raise ValueError(f"{key} has the shape {tuple(value.shape)}")
        owner[id(param)].state[param][what] = value


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


def _write_table(path: Path, rows: Sequence[Any]) -> None:
    """Write dataclass instances as CSV, floats with every digit."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if rows:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(field.name for field in dataclasses.fields(rows[0]))
            writer.writerows(dataclasses.astuple(row) for row in rows)


def _read_table(path: Path, kind: Any) -> list[Any]:
    """Read back what `_write_table` wrote, as instances of the dataclass `kind`."""
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
