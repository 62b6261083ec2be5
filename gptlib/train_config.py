"""How a run is trained: its numbers and its learning-rate schedule. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gptlib._numbers import integer, number

Optimizer = Literal["muon", "adamw"]
Decay = Literal["linear", "cosine"]
Precision = Literal["auto", "float32", "bfloat16"]

_COUNTS = (
    "steps",
    "batch_size",
    "muon_every",
    "eval_every",
    "eval_windows",
    "save_every",
    "keep_checkpoints",
)

_RATES = (
    "learning_rate",
    "muon_learning_rate",
    "min_learning_rate",
    "decay_share",
    "momentum",
    "beta1",
    "beta2",
    "weight_decay",
    "grad_clip",
)

MOST_EVERY = 8  # steps between two updates of a matrix; each goes as many times as far


@dataclass(frozen=True)
class TrainConfig:
    """Describe one training run; `TrainConfig.plain()` is the recipe without Muon.

    Raises:
        TypeError: a count is not an integer, a number no number, a switch not True or False.
        ValueError: a number is outside its range.
    """

    steps: int = 1000  # optimizer steps
    batch_size: int = 8  # B, windows per step, over all processes together
    micro_batch_size: int | None = None  # most windows at once per process; None is all of them
    optimizer: Optimizer = "muon"  # of the blocks' matrices; everything else always has AdamW
    learning_rate: float = 6e-3  # AdamW's, after the warm-up
    muon_learning_rate: float = 2e-2  # Muon's, after the warm-up
    muon_every: int = 2  # steps between two updates of a matrix, each so many times as far
    min_learning_rate: float = 0.0  # AdamW's at the last step and after; Muon's in proportion
    warmup_steps: int = 20  # linear rise to the peak; a shorter run is all rise
    decay: Decay = "linear"  # the way down from the peak
    decay_share: float = 0.6  # of the steps after the warm-up, in (0, 1]; before it the peak holds
    momentum: float = 0.9  # Muon's memory of the gradient, in [0, 1)
    beta1: float = 0.9  # AdamW's memory of the gradient, in [0, 1)
    beta2: float = 0.99  # AdamW's memory of its square, in [0, 1)
    weight_decay: float = 0.1  # of matrices and tables only, not of biases and norms
    grad_clip: float = 1.0  # largest global gradient norm that reaches the optimizer
    ignore_token: int | None = None  # a target with this id, such as padding, is not counted
    eval_every: int = 100  # steps between two looks at the validation text
    eval_windows: int = 32  # fixed validation windows per look
    save_every: int = 100  # steps between two checkpoints, where the run has a folder
    keep_checkpoints: int = 2  # newest ones kept; the best one is kept beside them
    max_tokens: int | None = None  # stop after so many training tokens
    max_seconds: float | None = None  # stop after so much time, in this process
    seed: int = 0  # of the windows drawn from the training text
    precision: Precision = "auto"  # of the products; auto is bfloat16 on GPUs that have it
    compile: bool = False  # let torch.compile fuse the operations; needs a C++ compiler on CPUs
    recompute: bool = False  # compute activations again in the backward pass; saves memory
    fsdp: bool = False  # shard the model over torchrun's processes; otherwise each has a copy

    @classmethod
    def plain(cls, **changes: Any) -> TrainConfig:
        """Return the usual recipe: AdamW for everything, warm-up and one cosine (nanoGPT's)."""
        recipe: dict[str, Any] = {
            "optimizer": "adamw",
            "batch_size": 12,
            "learning_rate": 1e-3,
            "min_learning_rate": 1e-4,
            "warmup_steps": 100,
            "decay": "cosine",
            "decay_share": 1.0,
        }
        return cls(**recipe | changes)

    def __post_init__(self) -> None:
        optional = [
            name for name in ("micro_batch_size", "max_tokens") if getattr(self, name) is not None
        ]
        ignored = [] if self.ignore_token is None else ["ignore_token"]
        least = dict.fromkeys((*_COUNTS, *optional), 1) | {"warmup_steps": 0}
        for name in (*least, *ignored, "seed"):
            object.__setattr__(self, name, integer(name, getattr(self, name), least.get(name)))
        for name in (*_RATES, *(["max_seconds"] if self.max_seconds is not None else [])):
            object.__setattr__(self, name, number(name, getattr(self, name)))
        for name in ("compile", "recompute", "fsdp"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.muon_every > MOST_EVERY:  # the jump would be too far
            raise ValueError(f"muon_every must be in 1..{MOST_EVERY}, got {self.muon_every}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be in 0..2**63 - 1, got {self.seed}")
        for name in ("learning_rate", "muon_learning_rate", "grad_clip", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be finite and above 0, got {value}")
        if not 0 <= self.min_learning_rate <= self.learning_rate:
            raise ValueError(
                f"min_learning_rate must be in [0, learning_rate={self.learning_rate}],"
                f" got {self.min_learning_rate}"
            )
        if not 0 < self.decay_share <= 1:
            raise ValueError(f"decay_share must be in (0, 1], got {self.decay_share}")
        for name in ("beta1", "beta2", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise ValueError(f"weight_decay must be finite and at least 0, got {self.weight_decay}")
        for name, choices in (("optimizer", Optimizer), ("decay", Decay), ("precision", Precision)):
            if getattr(self, name) not in get_args(choices):
                allowed = ", ".join(get_args(choices))
                raise ValueError(f"{name} must be one of {allowed}; got {getattr(self, name)!r}")

    def rate(self, step: int) -> float:
        """Return AdamW's learning rate at `step`; Muon's has the same share of its own peak."""
        return learning_rate(
            step,
            peak=self.learning_rate,
            floor=self.min_learning_rate,
            warmup=min(self.warmup_steps, self.steps),
            end=self.steps,
            decay=self.decay,
            decay_share=self.decay_share,
        )


def learning_rate(
    step: int,
    *,
    peak: float,
    floor: float,
    warmup: int,
    end: int,
    decay: Decay = "cosine",
    decay_share: float = 1.0,
) -> float:
    """Return the rate at `step`: a linear warm-up, the peak for a while, then down to the floor.

    The warm-up's first rate is peak / (warmup + 1), never 0, and the peak is reached at step
    `warmup`. The last `decay_share` of the steps after it lead down, on half a cosine (Loshchilov &
    Hutter, 2017) or a straight line; from step `end` on the rate is the floor (chapter 10).

    Raises:
        ValueError: the warm-up is longer than the run, or a decay of an unknown shape.
    """
    if not 0 <= warmup <= end:
        raise ValueError(f"warmup must be in 0..end={end}, got {warmup}")
    if decay not in get_args(Decay):
        raise ValueError(f"decay must be one of {', '.join(get_args(Decay))}; got {decay!r}")
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    start = end - (end - warmup) * decay_share  # the last step at the peak
    if step == warmup or step <= start:
        return peak
    if step >= end:
        return floor
    progress = (step - start) / (end - start)
    down = (1 + math.cos(math.pi * progress)) / 2 if decay == "cosine" else 1 - progress
    return floor + (peak - floor) * down
