"""Causal self-attention: how each position reads what came before it.

Shape letters: B batch, T new positions, S all positions so far, C emb_dim, H heads, D head size.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gptlib.config import GPTConfig
from gptlib.kv_cache import KVCache

Trace = dict[str, Tensor]  # name of a stage -> what the forward pass computed there


def causal_mask(T: int, S: int, device: torch.device | str | None = None) -> Tensor:
    """Return (T, S) booleans: may new position i, which sits at S - T + i, read position j?"""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)


class CausalSelfAttention(nn.Module):
    """Let each position read itself and the positions before it, in H heads at once.

    softmax(Q K^T / sqrt(D)) V per head (Vaswani et al., 2017, equation 1; chapter "Attention"). One
    fused projection makes Q, K and V.
    """

    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        self.n_heads, self.head_dim = cfg.n_heads, cfg.head_dim
        self.drop_rate = cfg.drop_rate
        self.qkv = nn.Linear(cfg.emb_dim, 3 * cfg.emb_dim, bias=cfg.qkv_bias)
        self.out_proj = nn.Linear(cfg.emb_dim, cfg.emb_dim)

    def forward(
        self, x: Tensor, layer: int = 0, cache: KVCache | None = None, trace: Trace | None = None
    ) -> Tensor:
        """Map (B, T, C) to (B, T, C); with a cache the T positions follow those it holds."""
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.n_heads, self.head_dim).transpose(1, 2)  # -> (B, H, T, D)
            for part in self.qkv(x).split(C, dim=-1)
        )
        if cache is not None:
            k, v = cache.append(layer, k, v)  # (B, H, T, D) -> (B, H, S, D)
        if trace is None:
            y = self.attend(q, k, v)
        else:
            y = self.attend_by_steps(q, k, v, trace, f"blocks.{layer}.attn")
        y = y.transpose(1, 2).reshape(B, T, C)  # (B, H, T, D) -> (B, T, H, D) -> (B, T, C)
        return self.out_proj(y)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend without storing the (T, S) weights, in PyTorch's own kernel."""
        T, S = q.shape[2], k.shape[2]
        drop = self.drop_rate if self.training else 0.0
        if T == S:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=T > 1)
        mask = None if T == 1 else causal_mask(T, S, q.device)  # one new token sees everything
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)

    def attend_by_steps(self, q: Tensor, k: Tensor, v: Tensor, trace: Trace, name: str) -> Tensor:
        """Attend step by step, recording each step; equal to `attend`."""
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, S)
        mask = causal_mask(q.shape[2], k.shape[2], q.device)
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)  # (B, H, T, S)
        y = F.dropout(weights, self.drop_rate, self.training) @ v  # (B, H, T, S) @ (B, H, S, D)
        steps = {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "heads": y}
        trace.update({f"{name}.{step}": value for step, value in steps.items()})
        return y
