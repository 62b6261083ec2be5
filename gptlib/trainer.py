"""Train a GPT on a token array, one recorded step at a time."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from tqdm.auto import tqdm

from gptlib import parallel
from gptlib._helpers import signals
from gptlib._helpers.ids import IGNORE
from gptlib.config import GPTConfig
from gptlib.model import GPT, evaluating, loss_of_checked, unwrapped, whole
from gptlib.muon import make_optimizers
from gptlib.recipe import TrainConfig
from gptlib.text import corpus
from gptlib.text.tokenizers import Tokenizer

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets, (B, T) each


@dataclass(frozen=True)
class StepRecord:
    """What one optimizer step did."""

    step: int  # 0 is the first
    tokens: int  # trained on so far, this step included
    loss: float  # nats per counted token on the step's batch, before its update
    learning_rate: float  # AdamW's
    grad_norm: float  # of all gradients together, before clipping
    clipped: bool
    seconds: float


@dataclass(frozen=True)
class EvalRecord:
    """One look at the validation text."""

    step: int  # updates made so far
    loss: float  # nats per token on the fixed windows


def window_of(config: TrainConfig, cfg: GPTConfig) -> int:
    """Return how many tokens a training window has, or raise ValueError where it is too long."""
    window = cfg.context_length if config.window is None else config.window
    if window > cfg.context_length:
        raise ValueError(
            f"window must be at most the context length {cfg.context_length}, got {window}"
        )
    return window


class Trainer:
    """Train `model` in place, on the device it is on.

    Everything that outlives a step belongs to this object: the optimizers, the generator of the
    training windows and the history. Dropout draws from torch's global generator. Under torchrun
    all processes build the same trainer; each takes its share of every batch.

    Args:
        model: the GPT to train, also as `torch.compile` returns it.
        train_tokens, val_tokens: (N,) integer arrays or `shards`, each longer than the context.
        config: the run's numbers.
        tokenizer: saved with the model; needed only where the trainer is saved.

    Raises:
        TypeError: the model is no GPT, or a text is no flat array of integers.
        ValueError: an array is too short or holds an id outside the vocabulary, the windows are
            longer than the context, or the batch cannot be shared equally by the processes.
    """

    def __init__(
        self,
        model: GPT,
        train_tokens: corpus.Tokens,
        val_tokens: corpus.Tokens,
        config: TrainConfig,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        if unwrapped(model) is not model:  # it came from torch.compile
            model, config = unwrapped(model), replace(config, compile=True)
        self.window = window_of(config, model.cfg)
        for what, tokens in (("training", train_tokens), ("validation", val_tokens)):
            corpus.check(what, tokens, self.window, model.cfg.vocab_size)
        if config.batch_size % parallel.world_size():
            raise ValueError(
                f"batch_size {config.batch_size} cannot be shared equally by"
                f" {parallel.world_size()} processes"
            )
        self.model, self.config, self.tokenizer = model, config, tokenizer
        self.device = model.tok_emb.weight.device
        self.train_tokens, self.val_tokens = train_tokens, val_tokens
        x, y = corpus.fixed_windows(val_tokens, config.eval_windows, self.window)
        self.val_windows = x, self._without_ignored(y)
        if (self.val_windows[1] == IGNORE).all():
            raise ValueError(f"the validation text holds only ignored tokens {config.ignore_token}")
        self.loss_module = parallel.loss_module(
            model, recompute=config.recompute, compile=config.compile, fsdp=config.fsdp
        )
        self.optimizers = make_optimizers(model, config)
        self.rng = np.random.default_rng(config.seed)
        self.history: list[StepRecord] = []
        self.evaluations: list[EvalRecord] = []
        self.stopped = ""  # why the last `run` ended before its last step, if it did
        if parallel.rank() > 0:  # each process drops out other numbers
            torch.manual_seed(config.seed + parallel.rank())

    def step(self) -> StepRecord:
        """Draw a batch, update the model once, and return the record.

        A batch without any counted target updates nothing, warns, and has a loss of 0.

        Raises:
            FloatingPointError: the loss or a gradient is not finite; the weights stay as they were.
        """
        start, number, cfg = time.perf_counter(), len(self.history), self.config
        rate = self._set_rates(number)
        self.model.train()
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss, counted = self.accumulate(self.draw())
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = get_total_norm(grads)
        values = loss, whole(norm).item()
        if not np.isfinite(values).all():
            raise FloatingPointError(
                f"step {number}: loss {values[0]}, gradient norm {values[1]}, first in"
                f" {self._first_not_finite()}; no update was made. A lower learning rate or a"
                " longer warm-up usually helps"
            )
        if counted:
            clip_grads_with_norm_(self.model.parameters(), cfg.grad_clip, norm)
            for optimizer in self.optimizers:
                optimizer.step()
        else:
            warnings.warn(f"step {number}: every target is ignored; no update", stacklevel=2)
        record = StepRecord(
            step=number,
            tokens=(self.history[-1].tokens if self.history else 0) + counted,
            loss=values[0],
            learning_rate=rate,
            grad_norm=values[1],
            clipped=values[1] > cfg.grad_clip,
            seconds=time.perf_counter() - start,
        )
        self.history.append(record)
        return record

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the validation loss in nats per counted token.

        The windows are the same at every call and nothing of the training changes, so evaluating
        more often never changes a run.
        """
        x, y = self._to_device(self.val_windows)
        total = counted = 0.0
        with evaluating(self.model), parallel.autocast(self.device, self.config.precision):
            for i in range(0, len(x), 8):  # eight windows at a time bound the memory
                part = y[i : i + 8]
                n = int((part != IGNORE).sum())
                total += loss_of_checked(self.model, x[i : i + 8], part).item() * n
                counted += n
        self.evaluations.append(EvalRecord(len(self.history), total / counted))
        return self.evaluations[-1].loss

    def run(
        self,
        steps: int | None = None,
        *,
        save: Callable[[Trainer], object] | None = None,
        callback: Callable[[StepRecord], None] | None = None,
        progress: bool | None = None,
    ) -> list[StepRecord]:
        """Train for `steps` more steps, by default to the end of the schedule.

        Evaluates before the first step, every `eval_every` steps, at every checkpoint and after
        the last step. Stops early at the budgets `max_tokens` and `max_seconds`, and says so in
        `stopped`. Ctrl-C (SIGINT) and SIGTERM let the step end and save it; a second one is
        obeyed at once.

        Args:
            save: called with this trainer every `save_every` steps and after the last one, such
                as `Run("runs/mini").save`.
            callback: called with each record after its step.
            progress: show a progress bar; by default where a person sees it: in a terminal or in
                a notebook that JupyterLab has opened.

        Returns:
            The whole history.

        Raises:
            KeyboardInterrupt: after Ctrl-C, when everything is saved.
            ValueError: negative `steps`, or a model that cannot be saved.
        """
        if steps is not None and steps < 0:
            raise ValueError(f"steps must be None or at least 0, got {steps}")
        start, cfg = time.monotonic(), self.config
        todo = max(cfg.steps - len(self.history), 0) if steps is None else steps
        if save is not None:
            self.check_savable()
        if not self.evaluations:
            self.evaluate()
        self.stopped = ""
        hidden = not (_watched() if progress is None else progress) or parallel.rank() > 0
        shown = tqdm(total=todo, disable=hidden, unit="step", leave=sys.stderr.isatty())
        with signals.collected() as received, shown as bar:
            for i in range(1, todo + 1):
                record, done = self.step(), len(self.history)
                self.stopped = self._reason_to_stop(start, received) if i < todo else ""
                last = i == todo or bool(self.stopped)
                saves = save if done % cfg.save_every == 0 or last else None
                if done % cfg.eval_every == 0 or saves or last:
                    self.evaluate()
                if saves:
                    saves(self)
                bar.update()
                bar.set_postfix_str(
                    f"loss {record.loss:.3f}, validation {self.evaluations[-1].loss:.3f}",
                    refresh=False,
                )
                if callback is not None:
                    callback(record)
                if last:
                    break
        if self.stopped == "interrupted":
            raise KeyboardInterrupt(f"stopped after {len(self.history)} steps")
        return self.history

    def check_savable(self) -> None:
        """Raise ValueError unless a checkpoint can hold this trainer and its model."""
        if self.tokenizer is None:
            raise ValueError("a checkpoint holds the tokenizer too: Trainer(..., tokenizer=...)")
        self.model.check_fits()

    def draw(self) -> list[Batch]:
        """Draw the global batch and return this process's rows of it, cut into micro-batches."""
        cfg, each = self.config, self.config.batch_size // parallel.world_size()
        starts = corpus.random_starts(self.train_tokens, cfg.batch_size, self.window, self.rng)
        mine = starts[parallel.rank() * each :][:each]
        micro = cfg.micro_batch_size or each
        batches = []
        for i in range(0, each, micro):
            x, y = corpus.windows(self.train_tokens, mine[i : i + micro], self.window)
            batches.append(self._to_device((x, self._without_ignored(y))))
        return batches

    def accumulate(self, batches: list[Batch]) -> tuple[float, int]:
        """Add up the gradients of the mean loss over all counted tokens of the global batch.

        Each micro-batch weighs as many tokens as it counts. Returns that mean and that number.
        """
        counts = [int((y != IGNORE).sum()) for _, y in batches]
        counted = int(parallel.total(sum(counts), self.device))
        loss = torch.zeros((), device=self.device)
        for i, ((x, y), n) in enumerate(zip(batches, counts, strict=True)):
            with contextlib.ExitStack() as stack:
                if i < len(batches) - 1 and isinstance(self.loss_module, DistributedDataParallel):
                    stack.enter_context(self.loss_module.no_sync())  # exchange gradients once
                with parallel.autocast(self.device, self.config.precision):
                    part = self.loss_module(x, y) * (n / max(counted, 1))
                (part * parallel.world_size()).backward()  # DDP and FSDP divide by it again
                loss += part.detach()
        return parallel.total(loss.item(), self.device), counted

    def _set_rates(self, step: int) -> float:
        rate = self.config.rate(step)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["ratio"]
        return rate

    def _reason_to_stop(self, start: float, received: list[int]) -> str:
        """Return why to stop after this step, the same on every process, or ""."""
        cfg = self.config
        reasons = {
            "interrupted": bool(received),
            "max_seconds": time.monotonic() - start >= (cfg.max_seconds or np.inf),
            "max_tokens": self.history[-1].tokens >= (cfg.max_tokens or np.inf),
        }
        for name, holds in reasons.items():
            if parallel.total(holds, self.device):
                return name
        return ""

    def _first_not_finite(self) -> str:
        """Name the first weight or gradient that holds a NaN or an infinity."""
        for name, param in self.model.named_parameters():
            if not whole(param.detach()).isfinite().all():
                return f"the weight {name}"
        for name, param in self.model.named_parameters():
            if param.grad is not None and not whole(param.grad).isfinite().all():
                return f"the gradient of {name}"
        return "the loss"

    def _without_ignored(self, targets: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.config.ignore_token is None:
            return targets
        return np.where(targets == self.config.ignore_token, IGNORE, targets)

    def _to_device(self, windows: corpus.Windows) -> Batch:
        x, y = (torch.from_numpy(part).to(self.device) for part in windows)
        return x, y


def _watched() -> bool:
    """Return whether a person sees a progress bar: in a terminal, or in an open JupyterLab."""
    return sys.stderr.isatty() or "JPY_SESSION_NAME" in os.environ  # set by Jupyter's server
