"""Readers of architectures with rotary positions, RMSNorm and gates: Llama and its relatives."""

from __future__ import annotations

from collections.abc import Callable

from gptlib.accounting import windows as rules
from gptlib.accounting.fields import SIZES, Fields
from gptlib.accounting.shape import FeedForward, Shape, Windows, plain_attention

Blocks = tuple[FeedForward, ...]  # the feed-forward part of each


def dense(f: Fields, bias: bool) -> Blocks:
    """Give every block one network."""
    layers = f.layers("num_hidden_layers")
    return (FeedForward(f.count("intermediate_size"), True, bias),) * layers


def mixtral_experts(f: Fields, bias: bool) -> Blocks:
    """Give every block experts, each as wide as a dense network would be."""
    blocks = dense(f, bias)
    return (checked(f, _experts(f, "num_local_experts", "intermediate_size")),) * len(blocks)


def qwen3_experts(f: Fields, bias: bool) -> Blocks:
    """Give experts to each `decoder_sparse_step`-th block that `mlp_only_layers` does not name."""
    blocks = dense(f, bias)
    total = "num_experts" if "num_experts" in f.data else "num_local_experts"  # two spellings
    sparse = _experts(f, total, "moe_intermediate_size")
    step, only = f.count("decoder_sparse_step", 1), f.data.get("mlp_only_layers")
    only = [] if only is None else only
    if not isinstance(only, list) or not all(type(i) is int for i in only):
        raise f.error(f"mlp_only_layers must be a list of whole numbers, got {only!r:.60}")
    return tuple(
        block if i in only or (i + 1) % step else checked(f, sparse)
        for i, block in enumerate(blocks)
    )


def _experts(f: Fields, total: str, width: str) -> FeedForward:
    used = "num_experts_per_tok"
    f.require(total, used, width)
    return FeedForward(f.count(width), True, False, f.count(total), f.count(used))


def checked(f: Fields, sparse: FeedForward) -> FeedForward:
    """Return `sparse`, or raise ValueError where a token would visit more experts than it has."""
    used, experts = sparse.n_active, sparse.n_experts
    if used > experts:
        raise f.error(f"num_experts_per_tok={used} is more than the {experts} experts")
    return sparse


def llama_like(
    f: Fields,
    *,
    kv_heads_required: bool = True,
    head_dim_required: bool = False,
    tied: bool = False,
    qkv_bias: bool | None = None,  # None: the field `attention_bias` decides, for all four
    mlp_bias: bool = False,  # whether the field `mlp_bias` decides; else there is none
    qk_norm_of_head: bool = False,  # one norm for the query of any head, one for the key
    qk_norm_of_width: bool = False,  # one norm over the queries of all heads, one over the keys
    norms_per_block: int = 2,
    windows: Callable[[Fields], Windows] = rules.nowhere,
    feed_forward: Callable[[Fields, bool], Blocks] = dense,
) -> Shape:
    """Return the shape of an architecture with rotary positions, RMSNorm and gates."""
    f.require(*SIZES, *(["num_key_value_heads"] if kv_heads_required else []))
    if head_dim_required:
        f.require("head_dim")
    width, heads = f.count("hidden_size"), f.count("num_attention_heads")
    n_kv = f.count("num_key_value_heads", heads)
    f.divide("num_attention_heads", "num_key_value_heads")
    head_dim = f.optional_count("head_dim") or f.divide("hidden_size", "num_attention_heads")
    bias = f.switch("attention_bias", False) if qkv_bias is None else qkv_bias
    out_bias = bias and qkv_bias is None
    normed = head_dim * (2 * qk_norm_of_head + (heads + n_kv) * qk_norm_of_width)
    return Shape(
        architecture=f.architecture,
        vocab_size=f.count("vocab_size"),
        context_length=f.count("max_position_embeddings"),
        emb_dim=width,
        attention=plain_attention(heads, n_kv, head_dim, bias, out_bias, normed),
        feed_forward=feed_forward(f, f.switch("mlp_bias", False) and mlp_bias),
        windows=windows(f),
        tied=f.switch("tie_word_embeddings", tied),
        norm="rmsnorm",
        norms_per_block=norms_per_block,
    )
