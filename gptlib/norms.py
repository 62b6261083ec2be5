"""The two norms: LayerNorm, which GPT-2 has, and RMSNorm, which most models of today have."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gptlib.config import NORM_EPS, GPTConfig


class LayerNorm(nn.Module):
    """Normalise each token's C features to mean 0 and variance 1, then scale and shift.

    The variance divides by n, as in GPT-2's original code (Ba et al., 2016; chapter "Layer norm").
    """

    shift: nn.Parameter | None

    def __init__(self, emb_dim: int, eps: float = NORM_EPS, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(emb_dim))
        self.register_parameter("shift", nn.Parameter(torch.zeros(emb_dim)) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., C) to (..., C)."""
        return F.layer_norm(x, self.scale.shape, self.scale, self.shift, self.eps)


class RMSNorm(nn.Module):
    """Divide each token's C features by the root of their mean square, then scale.

    No mean is taken away and nothing is added (Zhang and Sennrich, 2019).
    """

    def __init__(self, emb_dim: int, eps: float = NORM_EPS) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(emb_dim))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., C) to (..., C)."""
        return F.rms_norm(x, self.scale.shape, self.scale, self.eps)


def make_norm(cfg: GPTConfig, width: int) -> LayerNorm | RMSNorm:
    """Return the configuration's norm for rows of `width` numbers."""
    if cfg.norm == "rms":
        return RMSNorm(width, cfg.norm_eps)
    return LayerNorm(width, cfg.norm_eps, cfg.bias)
