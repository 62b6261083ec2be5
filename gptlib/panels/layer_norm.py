"""The panel of chapter "Layer norm": what LayerNorm does to five numbers, and what it ignores."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets

from gptlib.config import NORM_EPS
from gptlib.numpy_gpt import ops
from gptlib.panels.base import Number, Numbers, Panel

NEIGHBOURS: dict[str, list[list[float]]] = {
    "alone": [],
    "quiet": [[0.2, -0.1, 0.1, 0, -0.2], [-0.1, 0.2, 0, -0.2, 0.1]],
    "loud": [[8, -6, 4, 9, -7], [-9, 5, 7, -8, 6]],
}


class LayerNormPanel(Panel):
    """Drag five inputs, the scale and the shift; see mean, variance and output.

    Args:
        values: the five numbers of one token, each in [-5, 5].
        scale, shift: the norm's two learned numbers, in [-3, 3], the same for every component here.
        unbiased: divide the variance by n - 1 instead of n.
        neighbours: "alone", "quiet" or "loud": the other rows of the batch that batch norm sees.
    """

    script = "panels/layer_norm.js"
    title = "Layer norm, by hand"
    heights = (536, 925)

    values = Numbers([2.0, -1.0, 0.5, 3.0, -2.5], min=-5.0, max=5.0).tag(sync=True)
    scale = Number(1.0, min=-3.0, max=3.0).tag(sync=True)
    shift = Number(0.0, min=-3.0, max=3.0).tag(sync=True)
    unbiased = traitlets.Bool(False).tag(sync=True)
    neighbours = traitlets.Enum(list(NEIGHBOURS), "alone").tag(sync=True)

    def numbers(self) -> dict[str, float]:
        """Return mean, variance and outputs; batch norm's outputs for the same row."""
        row = np.array([self.values])  # (1, 5)
        variance = row.var(ddof=int(self.unbiased))
        if self.unbiased:
            out = self.scale * (row - row.mean()) / np.sqrt(variance + NORM_EPS) + self.shift
        else:
            out = self._norm(row)
        columns = np.array([self.values, *NEIGHBOURS[self.neighbours]]).T  # (5, rows)
        batch = self._norm(columns)[:, 0]
        return {
            "mean": float(row.mean()),
            "variance": float(variance),
            **{f"output {i}": float(v) for i, v in enumerate(out[0], 1)},
            "mean of outputs": float(out.mean()),
            "variance of outputs": float(out.var()),
            **{f"batch norm {i}": float(v) for i, v in enumerate(batch, 1)},
        }

    def _norm(self, rows: Any) -> Any:
        """Normalise each row of `rows` (N, size) by gptlib's own LayerNorm."""
        size = rows.shape[1]
        return ops.layer_norm_forward(rows, np.full(size, self.scale), np.full(size, self.shift))[0]
