"""How a run is trained: its numbers and its learning-rate schedule. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainConfig:
    """Describe one training run.

    Raises:
        TypeError: a count is not an integer.
        ValueError: a number is outside its range.
    """

    steps: int = 1000  # optimizer steps
    batch_size: int = 12  # B, windows per step
    learning_rate: float = 1e-3  # at the end of the warm-up
    min_learning_rate: float = 1e-4  # at the last step and after it
    warmup_steps: int = 100  # linear rise to the peak
    beta1: float = 0.9  # AdamW's memory of the gradient, in [0, 1)
    beta2: float = 0.99  # AdamW's memory of its square, in [0, 1)
    weight_decay: float = 0.1  # of matrices and tables only, not of biases and norms
    grad_clip: float = 1.0  # largest global gradient norm that reaches the optimizer
    eval_every: int = 100  # steps between two looks at the validation text
    eval_windows: int = 32  # fixed validation windows per look
    seed: int = 0  # of the windows drawn from the training text

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "eval_every", "eval_windows", "warmup_steps", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an integer, got {value!r}")
        for name in ("steps", "batch_size", "eval_every", "eval_windows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be in 0..2**63 - 1, got {self.seed}")
        if not 0 <= self.warmup_steps <= self.steps:
            raise ValueError(
                f"warmup_steps must be in 0..steps={self.steps}, got {self.warmup_steps}"
            )
        for name in ("learning_rate", "grad_clip"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be finite and above 0, got {value}")
        if not 0 <= self.min_learning_rate <= self.learning_rate:
            raise ValueError(
                f"min_learning_rate must be in [0, learning_rate={self.learning_rate}],"
                f" got {self.min_learning_rate}"
            )
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise ValueError(f"weight_decay must be finite and at least 0, got {self.weight_decay}")


def learning_rate(step: int, *, peak: float, floor: float, warmup: int, end: int) -> float:
    """Return the rate at `step`: a linear warm-up, then half a cosine down to the floor.

    The warm-up's first rate is peak / (warmup + 1), never 0; the peak is reached once, at step
    `warmup`; from step `end` on the rate is the floor (Loshchilov & Hutter, 2017; chapter 10).
    """
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if step == warmup:
        return peak
    if step >= end:
        return floor
    progress = (step - warmup) / (end - warmup)
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2
