"""The panel of chapter "Training": a recorded training run, to be scrubbed along."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import traitlets

from gptlib.panels.base import Panel, Whole

RECORDED = Path(__file__).parent.parent / "weights" / "history.json"  # by tools/train_weights.py
MOST_ROWS = 200
ASIDE = 2  # batches taken on each side for the training loss at a step
COLUMNS = ("step", "tokens", "loss", "learning_rate")


class History(traitlets.Dict):
    """A run in the form of `gptlib/weights/history.json`.

    "history": columns step (0 is the first), tokens, loss (nats per token) and learning_rate;
    "validation": columns step (how many were done) and loss; "samples": [{step, text}], again by
    how many were done. The steps of each rise.
    """

    def validate(self, obj: Any, value: Any) -> dict[str, Any]:
        """Return the run, or raise TraitError."""
        if fault := _fault(value):
            raise traitlets.TraitError(f"history {fault}")
        return dict(value)


class ReplayPanel(Panel):
    """Scrub along a run: loss, learning rate, and the text the model wrote at that step.

    Args:
        row: row of the recorded curve, 0 the first; the last one where there are fewer.
        log_steps: give each doubling of the steps the same width.
        history: the run, see `History`; that of the packaged model by default.
    """

    script = "panels/replay.js"
    title = "A training run, replayed"
    heights = (606, 1098)

    row = Whole(76, min=0, max=MOST_ROWS - 1).tag(sync=True)  # beside the text of step 300
    log_steps = traitlets.Bool(True).tag(sync=True)
    history = History().tag(sync=True)

    @traitlets.default("history")
    def _packaged(self) -> dict[str, Any]:
        run: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
        return run

    def numbers(self) -> dict[str, float]:
        """Return what was recorded at the present row, and last before it."""
        curve, looks = self.history["history"], self.history["validation"]
        row = min(self.row, len(curve["step"]) - 1)
        done = curve["step"][row] + 1  # the row's own included
        look = max(i for i, step in enumerate(looks["step"]) if step <= done)
        around = _around(curve, looks["step"][look])
        return {
            "steps": done,
            "tokens": curve["tokens"][row],
            "loss": curve["loss"][row],
            "choices": _exp(curve["loss"][row]),
            "learning rate": curve["learning_rate"][row],
            "validation loss": looks["loss"][look],
            "steps before it": looks["step"][look],
            "training loss then": sum(loss / len(around) for loss in around),
            "batches in it": len(around),
            "steps before the sample": max(
                sample["step"] for sample in self.history["samples"] if sample["step"] <= done
            ),
        }


def _around(curve: dict[str, list[float]], steps: float) -> list[float]:
    """Return the losses of the recorded batch nearest to a step, and of those beside it.

    As many before as after it: the losses fall, and more on one side would move the mean.
    """
    apart = [abs(step - steps) for step in curve["step"]]  # a batch meets the model of that step
    near = apart.index(min(apart))
    aside = min(ASIDE, near, len(apart) - 1 - near)
    return curve["loss"][near - aside : near + aside + 1]


def _exp(value: float) -> float:
    """Return e to a power, infinite where no float is as large (from 710 on)."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _fault(run: Any) -> str:
    """Say what is wrong with a run, or nothing."""
    try:
        groups = {
            "history": [run["history"][name] for name in COLUMNS],
            "validation": [run["validation"][name] for name in ("step", "loss")],
            "samples": [[sample["step"] for sample in run["samples"]]],
        }
        texts = [sample["text"] for sample in run["samples"]]
    except (KeyError, TypeError) as error:
        return f"lacks a part of the packaged history.json: {error!r}"
    for name, columns in groups.items():
        if not all(isinstance(c, list) and len(c) == len(columns[0]) > 0 for c in columns):
            return f"must have lists of one length, not empty, in {name!r}"
        if not all(_finite(value) for column in columns for value in column):
            return f"must have finite numbers in {name!r}"
        if any(a >= b for a, b in pairwise(columns[0])):
            return f"must have rising steps in {name!r}"
        if columns[0][0] > 1:
            return f"must begin before the second step in {name!r}"
    if not 2 <= len(groups["history"][0]) <= MOST_ROWS:
        return f"must have 2 to {MOST_ROWS} rows, got {len(groups['history'][0])}"
    return "" if all(isinstance(text, str) for text in texts) else "must have texts as samples"


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
