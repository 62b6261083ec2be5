"""What training holds in memory: weights, gradients, the optimizer's state and activations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from gptlib._helpers.numbers import integer
from gptlib.accounting.accounts import Account

Optimizer = Literal["adamw", "muon"]
Precision = Literal["fp32", "mixed"]

# Chinchilla: about 20 tokens per parameter (Hoffmann et al., 2022, table 3).
CHINCHILLA = 20


@dataclass(frozen=True)
class TrainingBytes:
    """List what stays in memory between two steps; activations come on top."""

    weights: int  # fp32, or a 16-bit copy to compute with
    gradients: int
    master: int  # the fp32 weights of mixed precision
    optimizer: int  # running averages, fp32

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.weights + self.gradients + self.master + self.optimizer


def optimizer_bytes(acc: Account, optimizer: Optimizer = "adamw") -> int:
    """Return the bytes of the optimizer's running averages, in fp32.

    AdamW keeps two for every parameter (Kingma and Ba, 2015, algorithm 1; Loshchilov and Hutter,
    2019). Muon (Jordan et al., 2024) keeps one for the matrices of the blocks and leaves tables,
    head, norms and biases to AdamW.
    """
    if optimizer not in get_args(Optimizer):
        raise ValueError(f"optimizer must be one of {', '.join(get_args(Optimizer))}")
    if optimizer == "adamw":
        return 8 * acc.total
    in_blocks = sum(c.parameters for c in acc.components if c.blocks and c.quantised)
    return 4 * in_blocks + 8 * (acc.total - in_blocks)


def training_bytes(
    acc: Account, optimizer: Optimizer = "adamw", precision: Precision = "fp32"
) -> TrainingBytes:
    """Return the bytes that training holds before any activation: with AdamW 16 per parameter.

    In fp32 that is 4 + 4 + 8; in mixed precision 2 + 2 + 4 + 8 (Rajbhandari et al., 2020, "ZeRO",
    section 3.1).
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}")
    n, width = acc.total, 4 if precision == "fp32" else 2
    master = 4 * n if precision == "mixed" else 0
    return TrainingBytes(width * n, width * n, master, optimizer_bytes(acc, optimizer))


def activation_bytes(
    acc: Account,
    T: int,
    batch_size: int = 1,
    *,
    explicit_attention: bool = False,
    dropout: bool = False,
) -> int:
    """Estimate what one 16-bit training step keeps for its backward pass, head and loss included.

    Per token and block, 2 bytes for: both norms' inputs and outputs (4 C), query, key and value,
    attention's output, and the middle of the feed-forward part: before and after the activation,
    or gate, activated gate, up and their product. With explicit attention also 5 bytes per head and
    pair of positions; a fused kernel recomputes them (Dao et al., 2022). For GPT-2's block with
    dropout this is T B C (34 + 5 H T / C) bytes, as in Korthikanti et al., 2022. The logits
    take 4 bytes each, as there. Allocators and copies come on top.

    Raises:
        TypeError, ValueError: a length or a batch that is no integer of at least 1.
    """
    integer("T", T, 1)
    integer("batch_size", batch_size, 1)
    a, C = acc.shape.attention, acc.shape.emb_dim
    heads = a.n_heads * a.head_dim + a.n_kv_heads * (a.head_dim + a.value_dim)
    heads += a.n_heads * a.value_dim  # attention's output, the input of the last matrix
    per_token = 0
    for ff in acc.shape.feed_forward:
        copies = ff.n_active + ff.n_shared if ff.n_experts else 1
        middle = copies * ff.hidden * (4 if ff.gated else 2)
        per_token += 2 * (4 * C + heads + middle) + (2 * C if dropout else 0)
        if explicit_attention:
            # scores after softmax, and after dropout; without dropout its mask and copy are absent
            per_token += a.n_heads * T * (5 if dropout else 2)
    return batch_size * T * (per_token + 4 * acc.shape.vocab_size)


def tokens_per_parameter(acc: Account, tokens: float) -> float:
    """Return the training tokens for each (active) parameter; Chinchilla's optimum is about 20.

    Raises:
        ValueError: `tokens` is not a finite number above 0.
    """
    if not 0 < tokens < math.inf:
        raise ValueError(f"training_tokens must be above 0 and finite, got {tokens}")
    return tokens / acc.active


def training_flops(acc: Account, n_tokens: float, T: int | None = None) -> float:
    """Return the FLOPs of training on `n_tokens`, by the exact count with causal attention.

    The rule beside it is 6 N D (Kaplan et al., 2020, section 2.1).

    Raises:
        ValueError: `n_tokens` is negative or not finite.
    """
    if not 0 <= n_tokens < math.inf:
        raise ValueError(f"n_tokens must be finite and at least 0, got {n_tokens}")
    window = acc.shape.context_length if T is None else T
    return n_tokens * acc.flops_per_token(window, causal=True, training=True)
