"""Causal self-attention: how each position reads what came before it.

Shape letters: B batch, T new positions, S all positions so far, C emb_dim, H heads, G heads of keys
and values (H, or fewer where query heads share them), D head size.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gptlib.config import GPTConfig
from gptlib.kv_cache import KVCache
from gptlib.norms import make_norm

Trace = dict[str, Tensor]  # name of a stage -> what the forward pass computed there
Turn = tuple[Tensor, Tensor]  # cosines and sines (T, D/2) of the angles that positions turn by


def causal_mask(T: int, S: int, device: torch.device | str | None = None) -> Tensor:
    """Return (T, S) booleans: may new position i, which sits at S - T + i, read position j?"""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)


class CausalSelfAttention(nn.Module):
    """Let each position read itself and the positions before it, in H heads at once.

    softmax(Q K^T / sqrt(D)) V per head (Vaswani et al., 2017, equation 1; chapter "Attention"). One
    fused projection makes Q, K and V. With fewer key-value heads, H / G query heads in a row read
    the same keys and values (Ainslie et al., 2023).
    """

    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        self.head_dim, self.qkv_dims = cfg.head_dim, cfg.qkv_dims
        self.turns, self.rotary_base = cfg.turns, cfg.rotary_base
        self.drop_rate = cfg.drop_rate
        self.qkv = nn.Linear(cfg.emb_dim, sum(cfg.qkv_dims), bias=cfg.qkv_bias)
        self.out_proj = nn.Linear(cfg.qkv_dims[0], cfg.emb_dim, bias=cfg.bias)
        self.q_norm = make_norm(cfg, cfg.head_dim) if cfg.qk_norm else None
        self.k_norm = make_norm(cfg, cfg.head_dim) if cfg.qk_norm else None

    def forward(
        self, x: Tensor, layer: int = 0, cache: KVCache | None = None, trace: Trace | None = None
    ) -> Tensor:
        """Map (B, T, C) to (B, T, C); with a cache the T positions follow those it holds."""
        B, T, _ = x.shape
        q, k, v = (
            part.view(B, T, -1, self.head_dim).transpose(1, 2)  # -> (B, H or G, T, D)
            for part in self.qkv(x).split(self.qkv_dims, dim=-1)
        )
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.turns(layer):
            start = 0 if cache is None else cache.length
            pos = torch.arange(start, start + T, device=x.device)  # (T,)
            turn = rotary_turn(pos, self.head_dim, self.rotary_base)
            q, k = rotary(q, turn), rotary(k, turn)
        if cache is not None:
            k, v = cache.append(layer, k, v)  # (B, G, T, D) -> (B, G, S, D)
        if trace is None:
            y = self.attend(q, k, v)
        else:
            share = q.shape[1] // k.shape[1]  # query heads in a row that read the same keys
            k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
            y = self.attend_by_steps(q, k, v, trace, f"blocks.{layer}.attn")
        y = y.transpose(1, 2).reshape(B, T, -1)  # (B, H, T, D) -> (B, T, H, D) -> (B, T, HD)
        return self.out_proj(y)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend without storing the (T, S) weights, in PyTorch's own kernel."""
        T, S = q.shape[2], k.shape[2]
        drop = self.drop_rate if self.training else 0.0
        shared = k.shape[1] < q.shape[1]
        if T == S:
            return F.scaled_dot_product_attention(
                q, k, v, dropout_p=drop, is_causal=T > 1, enable_gqa=shared
            )
        mask = None if T == 1 else causal_mask(T, S, q.device)  # one new token sees everything
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=drop, enable_gqa=shared
        )

    def attend_by_steps(self, q: Tensor, k: Tensor, v: Tensor, trace: Trace, name: str) -> Tensor:
        """Attend step by step, recording each step; equal to `attend`."""
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, S)
        mask = causal_mask(q.shape[2], k.shape[2], q.device)
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)  # (B, H, T, S)
        y = F.dropout(weights, self.drop_rate, self.training) @ v  # (B, H, T, S) @ (B, H, S, D)
        steps = {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "heads": y}
        trace.update({f"{name}.{step}": value for step, value in steps.items()})
        return y


def rotary_turn(pos: Tensor, D: int, base: float) -> Turn:
    """Return the cosines and sines (T, D/2) by which positions (T,) turn the D/2 pairs of a head.

    Pair i turns by base^(-2i/D) per position: the first quickly, the last hardly (Su et al., 2021).
    """
    exact = torch.float32 if pos.device.type == "mps" else torch.float64
    speeds = base ** (-torch.arange(0, D, 2, dtype=exact, device=pos.device) / D)
    angles = pos[:, None] * speeds  # (T, D/2)
    return angles.cos(), angles.sin()


def rotary(x: Tensor, turn: Turn) -> Tensor:
    """Turn each pair of numbers in (B, H, T, D) by its angle; i and i + D/2 are a pair.

    The score of two turned vectors depends on their distance only, not on where they stand.
    """
    cos, sin = (part.to(x.dtype) for part in turn)
    a, b = x.chunk(2, dim=-1)  # (B, H, T, D/2) each
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
