"""What decides a decoder's costs, whatever its architecture is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Windows = tuple[int | None, ...]  # positions each block looks back on, itself too; None: all
Norm = Literal["layernorm", "scale-only", "rmsnorm", "none"]

# Numbers per channel: LayerNorm has a scale and a shift (Ba et al., 2016), or a scale only where
# biases are off; RMSNorm has a scale (Zhang and Sennrich, 2019), a norm without parameters none.
NORM_NUMBERS: dict[Norm, int] = {"layernorm": 2, "scale-only": 1, "rmsnorm": 1, "none": 0}


@dataclass(frozen=True)
class Latent:
    """Describe multi-head latent attention (DeepSeek-V2, Liu et al., 2024, section 2.1)."""

    kv_rank: int  # width of the compressed key-value vector, cached
    rope_dim: int  # width of the one rotary key that all heads share, cached too
    nope_dim: int  # part of a head's query and key that carries no position
    query_rank: int | None  # width of the compressed query; None: one full matrix
    bias: bool  # on the two compressing projections


@dataclass(frozen=True)
class Attention:
    """Describe the attention of every block."""

    n_heads: int  # query heads, H
    n_kv_heads: int  # key and value heads; fewer than H: grouped, 1: multi-query
    head_dim: int  # D, width of a query and of a key
    value_dim: int  # width of a value; D except in latent attention
    qkv_bias: bool
    out_bias: bool
    qk_norm: int = 0  # numbers in the norms of query and key together, per block
    latent: Latent | None = None


def plain_attention(
    n_heads: int, n_kv: int, head_dim: int, qkv_bias: bool, out_bias: bool, qk_norm: int = 0
) -> Attention:
    """Return attention whose values are as wide as its keys."""
    return Attention(n_heads, n_kv, head_dim, head_dim, qkv_bias, out_bias, qk_norm)


@dataclass(frozen=True)
class FeedForward:
    """Describe the feed-forward part of one block, dense or a mixture of experts."""

    hidden: int  # F, width in the middle (of one expert)
    gated: bool  # a third matrix multiplies the middle (Shazeer, 2020)
    bias: bool
    n_experts: int = 0  # routed experts; 0: one dense network and no router
    n_active: int = 0  # routed experts that each token visits
    n_shared: int = 0  # experts that every token visits
    router_buffers: int = 0  # numbers stored with the router and not trained


@dataclass(frozen=True)
class Shape:
    """Describe a decoder: all that parameters, bytes, FLOPs and cache depend on."""

    architecture: str  # `model_type` of the file, or "gptlib"
    vocab_size: int  # V
    context_length: int  # most positions the file promises
    emb_dim: int  # C, width of the residual stream
    attention: Attention
    feed_forward: tuple[FeedForward, ...]  # one per block
    windows: Windows
    tied: bool  # the head reuses the token table
    norm: Norm
    norms_per_block: int = 2
    final_norm: bool = True
    position_rows: int = 0  # rows of a learned position table
    table_dim: int = 0  # width of the token table where it is not C (OPT-350m); 0: C
    cache_windowed: bool = True  # transformers drops what lies outside a window
    notes: tuple[str, ...] = ()  # what was read otherwise than a reader may expect

    @property
    def n_layers(self) -> int:
        """Return L, the number of blocks."""
        return len(self.feed_forward)
