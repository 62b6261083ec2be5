"""How a run is trained: its numbers and its learning-rate schedule. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from gptlib._helpers.numbers import FromZero, Range, WholeFromZero, check_fields

Optimizer = Literal["muon", "adamw"]
Decay = Literal["linear", "cosine"]
Precision = Literal["auto", "float32", "bfloat16"]

Count = Annotated[int, Range(least=1)]
Rate = Annotated[float, Range(above=0)]
Share = Annotated[float, Range(above=0, most=1)]
Memory = Annotated[float, Range(least=0, below=1)]  # share of a running mean that stays
Turn = Annotated[int, Range(least=1, most=8)]  # beyond 8 steps the jump is too far
Seed = Annotated[int, Range(least=0, most=2**63 - 1)]


@dataclass(frozen=True)
class TrainConfig:
    """Describe one training run; `TrainConfig.plain()` is the recipe without Muon.

    Raises:
        TypeError: a count is not an integer, a number no number, a switch not True or False.
        ValueError: a number is outside its range.
    """

    steps: Count = 1000  # optimizer steps
    batch_size: Count = 8  # B, windows per step, over all processes together
    window: Count | None = None  # tokens in a window, at most the model's context; None: all of it
    micro_batch_size: Count | None = None  # most windows at once per process; None is all of them
    optimizer: Optimizer = "muon"  # of the blocks' matrices; everything else always has AdamW
    learning_rate: Rate = 6e-3  # AdamW's, after the warm-up
    muon_learning_rate: Rate = 2e-2  # Muon's, after the warm-up
    muon_every: Turn = 2  # steps between two updates of a matrix, each so many times as far
    min_learning_rate: FromZero = 0.0  # AdamW's at the last step and after; Muon's in proportion
    warmup_steps: WholeFromZero = 20  # linear rise to the peak; a shorter run is all rise
    decay: Decay = "linear"  # the way down from the peak
    decay_share: Share = 0.6  # of the steps after the warm-up, in (0, 1]; before it the peak holds
    momentum: Memory = 0.9  # Muon's memory of the gradient, in [0, 1)
    beta1: Memory = 0.9  # AdamW's memory of the gradient, in [0, 1)
    beta2: Memory = 0.99  # AdamW's memory of its square, in [0, 1)
    weight_decay: FromZero = 0.1  # of matrices and tables only, not of biases and norms
    grad_clip: Rate = 1.0  # largest global gradient norm that reaches the optimizer
    ignore_token: int | None = None  # a target with this id, such as padding, is not counted
    eval_every: Count = 100  # steps between two looks at the validation text
    eval_windows: Count = 32  # fixed validation windows per look
    save_every: Count = 100  # steps between two checkpoints, where the run has a folder
    keep_checkpoints: Count = 2  # newest ones kept; the best one is kept beside them
    max_tokens: Count | None = None  # stop after so many training tokens
    max_seconds: Rate | None = None  # stop after so much time, in this process
    seed: Seed = 0  # of the windows drawn from the training text
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

    @classmethod
    def further(cls, **changes: Any) -> TrainConfig:
        """Return the recipe that goes on from trained weights: small steps, few and short windows.

        What the weights know would be lost in steps as large as those that made them.
        """
        recipe: dict[str, Any] = {
            "steps": 200,
            "batch_size": 4,
            "window": 128,
            "learning_rate": 1e-4,
            "min_learning_rate": 0.0,
            "warmup_steps": 20,
            "eval_every": 50,
            "save_every": 200,
        }
        return cls.plain(**recipe | changes)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate must be at most learning_rate={self.learning_rate},"
                f" got {self.min_learning_rate}"
            )

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
    Hutter, 2017) or a straight line; from step `end` on the rate is the floor (chapter "Training").

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
