"""How the folder of a training run is laid out: one folder per checkpoint, `step-00000400`.

Whoever reads a model accepts a run's folder too; `gptlib.run.Run` is what writes one.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from gptlib._helpers.folders import CONFIG, read_object

STEP = "step-"
NUMBERS = "training.json"  # of one checkpoint: the run's settings and what is needed to go on


def checkpoints(run: str | Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first."""
    found = [path for path in Path(run).glob(f"{STEP}*") if (path / CONFIG).is_file()]
    return sorted(
        (path for path in found if _number(path).isdecimal()),
        key=lambda path: (step_of(path), path.name),
    )


def step_of(checkpoint: Path) -> int:
    """Return how many steps a checkpoint's folder says were done."""
    return int(_number(checkpoint))


def checkpoint_at(run: Path, step: int) -> Path:
    """Return where the checkpoint after `step` steps lies."""
    return run / f"{STEP}{step:08d}"


def newest(run: str | Path) -> Path | None:
    """Return the run's newest checkpoint, if it has one."""
    return next(reversed(checkpoints(run)), None)


def best(run: str | Path) -> Path | None:
    """Return the run's checkpoint with the lowest validation loss, else the newest."""
    return min(reversed(checkpoints(run)), key=_validation_loss, default=None)


def _validation_loss(checkpoint: Path) -> float:
    with contextlib.suppress(OSError, ValueError):  # a damaged one is never the best
        loss = read_object(checkpoint / NUMBERS).get("validation_loss")
        if isinstance(loss, int | float):
            return loss
    return float("inf")


def _number(checkpoint: Path) -> str:
    return checkpoint.name.removeprefix(STEP)
