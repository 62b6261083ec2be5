"""Train a GPT on a token array, one recorded step at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from gptlib import corpus
from gptlib.model import GPT, evaluating
from gptlib.train_config import TrainConfig, learning_rate

Tokens = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class StepRecord:
    """What one optimizer step did."""

    step: int  # 0 is the first
    tokens: int  # trained on so far, this step included
    loss: float  # nats per token on the step's batch, before its update
    learning_rate: float
    grad_norm: float  # of all gradients together, before clipping
    clipped: bool
    seconds: float


@dataclass(frozen=True)
class EvalRecord:
    """One look at the validation text."""

    step: int  # updates made so far
    loss: float  # nats per token on the fixed windows


def parameter_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split the parameters in two: matrices and tables decay, biases and norms do not.

    Each parameter is in exactly one group; a tied one counts once.
    """
    params = list(model.parameters())
    return [
        {"params": [p for p in params if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]


class Trainer:
    """Train `model` in place with AdamW, warm-up and cosine decay.

    Everything that outlives a step belongs to this object: the optimizer, the generator of the
    training windows and the history. Dropout draws from torch's global generator.

    Args:
        model: the GPT to train, on the device it is on.
        train_tokens, val_tokens: (N,) integer arrays, each longer than the context.
        config: the run's numbers.

    Raises:
        ValueError: an array is too short, or holds an id outside the vocabulary.
    """

    def __init__(
        self, model: GPT, train_tokens: Tokens, val_tokens: Tokens, config: TrainConfig
    ) -> None:
        vocab_size, context_length = model.cfg.vocab_size, model.cfg.context_length
        for name, tokens in (("training", train_tokens), ("validation", val_tokens)):
            if len(tokens) < context_length + 1:
                raise ValueError(
                    f"the {name} text has {len(tokens)} tokens, a context of {context_length}"
                    f" needs at least {context_length + 1}; use more text or a shorter context"
                )
            if tokens.max() >= vocab_size or tokens.min() < 0:
                raise ValueError(
                    f"the {name} text holds ids {tokens.min()}..{tokens.max()}, the model's"
                    f" vocabulary is 0..{vocab_size - 1}"
                )
        self.model, self.config = model, config
        self.train_tokens = train_tokens
        self.val_windows = corpus.fixed_windows(val_tokens, config.eval_windows, context_length)
        self.optimizer = torch.optim.AdamW(
            parameter_groups(model, config.weight_decay),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            fused=True,
        )
        self.rng = np.random.default_rng(config.seed)
        self.history: list[StepRecord] = []
        self.evaluations: list[EvalRecord] = []

    def step(self) -> StepRecord:
        """Draw a batch, update the model once, and return the record.

        Raises:
            FloatingPointError: the loss or a gradient is not finite; the weights stay as they were.
        """
        start = time.perf_counter()
        cfg, number = self.config, len(self.history)
        x, y = self._batch(
            corpus.random_windows(
                self.train_tokens, cfg.batch_size, self.model.cfg.context_length, self.rng
            )
        )
        rate = learning_rate(
            number,
            peak=cfg.learning_rate,
            floor=cfg.min_learning_rate,
            warmup=cfg.warmup_steps,
            end=cfg.steps,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model.loss(x, y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), cfg.grad_clip)
        values = loss.item(), norm.item()
        if not np.isfinite(values).all():
            raise FloatingPointError(
                f"step {number}: loss {values[0]}, gradient norm {values[1]}; no update was made."
                " A lower learning rate or a longer warm-up usually helps"
            )
        self.optimizer.step()
        record = StepRecord(
            step=number,
            tokens=(number + 1) * x.numel(),
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
        """Return the validation loss in nats per token.

        The windows are the same at every call and nothing of the training changes, so evaluating
        more often never changes a run.
        """
        x, y = self._batch(self.val_windows)
        with evaluating(self.model):
            losses = [
                self.model.loss(x[i : i + 8], y[i : i + 8]).item() * len(x[i : i + 8])
                for i in range(0, len(x), 8)  # eight windows at a time bound the memory
            ]
        self.evaluations.append(EvalRecord(len(self.history), sum(losses) / len(x)))
        return self.evaluations[-1].loss

    def run(
        self,
        steps: int | None = None,
        *,
        callback: Callable[[StepRecord], None] | None = None,
        progress: bool = True,
    ) -> list[StepRecord]:
        """Train for `steps` more steps, by default to the end of the schedule.

        Evaluates before the first step, every `eval_every` steps and after the last one.

        Args:
            callback: called with each record after its step.
            progress: show a progress bar on standard error.

        Returns:
            The whole history.
        """
        if steps is not None and steps < 0:
            raise ValueError(f"steps must be None or at least 0, got {steps}")
        todo = max(self.config.steps - len(self.history), 0) if steps is None else steps
        if not self.evaluations:
            self.evaluate()
        with tqdm(total=todo, disable=not progress, unit="step") as bar:
            for i in range(1, todo + 1):
                record = self.step()
                if len(self.history) % self.config.eval_every == 0 or i == todo:
                    self.evaluate()
                bar.update()
                bar.set_postfix_str(
                    f"loss {record.loss:.3f}, validation {self.evaluations[-1].loss:.3f}",
                    refresh=False,
                )
                if callback is not None:
                    callback(record)
        return self.history

    def _batch(
        self, windows: tuple[NDArray[np.int64], NDArray[np.int64]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        device = self.model.tok_emb.weight.device
        x, y = (torch.from_numpy(part).to(device) for part in windows)  # (B, T) each
        return x, y
