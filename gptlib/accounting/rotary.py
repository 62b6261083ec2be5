"""Readers of architectures with rotary positions, RMSNorm and gates: Llama and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gptlib.accounting.fields import Fields
from gptlib.accounting.shape import Attention, FeedForward, Shape

SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
)


def llama_like(
    name: str,
    *,
    kv_heads_required: bool = True,
    head_dim_required: bool = False,
    tied: bool = False,
    qkv_bias: bool | None = None,  # None: the field `attention_bias` decides, for all four
    qk_norm: str = "",  # "head": over one head, "width": over all heads
    norms_per_block: int = 2,
    windows: str = "",  # "": none, else which blocks have one
    experts: str = "",
) -> Callable[[Fields], Shape]:
    """Return the reader of an architecture with rotary positions, RMSNorm and gates."""

    def read(f: Fields) -> Shape:
        f.require(*SIZES, *(["num_key_value_heads"] if kv_heads_required else []))
        if head_dim_required:
            f.require("head_dim")
        width, heads = f.count("hidden_size"), f.count("num_attention_heads")
        n_kv = f.count("num_key_value_heads", heads)
        f.divide("num_attention_heads", heads, "num_key_value_heads", n_kv)
        head_dim = f.optional_count("head_dim") or f.divide(
            "hidden_size", width, "num_attention_heads", heads
        )
        bias = f.switch("attention_bias", False) if qkv_bias is None else qkv_bias
        normed = {"": 0, "head": 2 * head_dim, "width": (heads + n_kv) * head_dim}[qk_norm]
        out_bias = bias and qkv_bias is None
        return Shape(
            architecture=name,
            vocab_size=f.count("vocab_size"),
            context_length=f.count("max_position_embeddings"),
            emb_dim=width,
            attention=plain_attention(heads, n_kv, head_dim, bias, out_bias, normed),
            feed_forward=_feed_forwards(f, experts, f.switch("mlp_bias", False), name == "llama"),
            windows=_layer_windows(f, windows),
            tied=f.switch("tie_word_embeddings", tied),
            norm="rmsnorm",
            norms_per_block=norms_per_block,
        )

    return read


def _feed_forwards(f: Fields, experts: str, bias: bool, may_bias: bool) -> tuple[FeedForward, ...]:
    layers, hidden = f.layers("num_hidden_layers"), f.count("intermediate_size")
    dense = FeedForward(hidden, True, bias and may_bias)
    if not experts:
        return (dense,) * layers
    if experts == "mixtral":
        f.require("num_local_experts", "num_experts_per_tok")
        sparse = FeedForward(
            hidden, True, False, f.count("num_local_experts"), f.count("num_experts_per_tok")
        )
        return (checked(f, sparse),) * layers
    total = "num_experts" if "num_experts" in f.data else "num_local_experts"  # two spellings
    f.require(total, "num_experts_per_tok", "moe_intermediate_size")
    sparse = FeedForward(
        f.count("moe_intermediate_size"),
        True,
        False,
        f.count(total),
        f.count("num_experts_per_tok"),
    )
    step, only = f.count("decoder_sparse_step", 1), f.data.get("mlp_only_layers")
    only = [] if only is None else only
    if not isinstance(only, list) or not all(type(i) is int for i in only):
        raise ValueError(
            f"{f.architecture} config: mlp_only_layers must be a list of whole numbers,"
            f" got {only!r:.60}"
        )
    return tuple(
        dense if i in only or (i + 1) % step else checked(f, sparse) for i in range(layers)
    )


def checked(f: Fields, sparse: FeedForward) -> FeedForward:
    if sparse.n_active > sparse.n_experts:
        raise ValueError(
            f"{f.architecture} config: num_experts_per_tok={sparse.n_active} is more than the"
            f" {sparse.n_experts} experts"
        )
    return sparse


def _layer_windows(f: Fields, rule: str) -> tuple[int | None, ...]:
    """Return each block's window: from `layer_types` if there, else from the rule."""
    layers = f.layers("num_hidden_layers")
    if not rule:
        return (None,) * layers
    if rule.startswith("switch") and not f.switch("use_sliding_window", False):
        return (None,) * layers
    if rule != "any":
        f.require("sliding_window")
    if f.data.get("sliding_window") is None:
        return (None,) * layers
    kinds = f.data.get("layer_types") if rule != "switch all" else None
    if kinds is None and rule == "switch later":
        first = f.count("max_window_layers", least=0)
        kinds = ["full_attention"] * min(first, layers)
        kinds += ["sliding_attention"] * (layers - len(kinds))
    elif kinds is None and rule.startswith("every"):  # "every 6": the sixth looks at everything
        step = f.count("sliding_window_pattern", int(rule.split()[1]))
        kinds = ["full_attention" if (i + 1) % step == 0 else "sliding_attention"
                 for i in range(layers)]  # fmt: skip
    elif kinds is None:
        kinds = ["sliding_attention"] * layers
    known = {"full_attention": False, "sliding_attention": True}
    return windows_of(f, kinds, known, "sliding_window", layers)


def windows_of(
    f: Fields, kinds: Any, known: dict[str, bool], field: str, layers: int
) -> tuple[int | None, ...]:
    if not isinstance(kinds, list) or len(kinds) != layers:
        got = len(kinds) if isinstance(kinds, list) else f"{kinds!r:.60}"
        raise ValueError(
            f"{f.architecture} config: one attention type per layer is needed, {layers}; got {got}"
        )
    wrong = [kind for kind in kinds if not isinstance(kind, str) or kind not in known]
    if wrong:
        raise ValueError(
            f"{f.architecture} config: attention type {wrong[0]!r:.60} is not known; known:"
            f" {', '.join(known)}"
        )
    return tuple(f.count(field) if known[kind] else None for kind in kinds)


def plain_attention(
    n_heads: int, n_kv: int, head_dim: int, qkv_bias: bool, out_bias: bool, qk_norm: int = 0
) -> Attention:
    return Attention(n_heads, n_kv, head_dim, head_dim, qkv_bias, out_bias, qk_norm)
