"""Read the `config.json` of each known architecture as a `Shape`.

Sizes must stand in the file. A switch that the file leaves out has the value that the architecture
documents for it in `transformers`; nothing else is filled in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gptlib.accounting import windows
from gptlib.accounting.fields import SIZES, Fields, check_layers
from gptlib.accounting.rotary import checked, llama_like, mixtral_experts, qwen3_experts
from gptlib.accounting.shape import (
    NORM_NUMBERS,
    Attention,
    FeedForward,
    Latent,
    Norm,
    Shape,
    plain_attention,
)
from gptlib.config import GPTConfig


def from_gpt(cfg: GPTConfig) -> Shape:
    """Return the shape of our own model."""
    check_layers("n_layers", cfg.n_layers)
    norm: Norm = "rmsnorm" if cfg.norm == "rms" else "layernorm" if cfg.bias else "scale-only"
    attention = plain_attention(
        cfg.n_heads,
        cfg.kv_heads,
        cfg.head_dim,
        cfg.qkv_bias,
        cfg.bias,
        qk_norm=2 * cfg.head_dim * NORM_NUMBERS[norm] if cfg.qk_norm else 0,
    )
    return Shape(
        architecture="gptlib",
        vocab_size=cfg.vocab_size,
        context_length=cfg.context_length,
        emb_dim=cfg.emb_dim,
        attention=attention,
        feed_forward=(FeedForward(cfg.ff_dim, cfg.gated, cfg.bias),) * cfg.n_layers,
        windows=(None,) * cfg.n_layers,
        tied=cfg.tie_weights,
        norm=norm,
        position_rows=cfg.context_length if cfg.positions == "learned" else 0,
    )


def _gpt2(f: Fields) -> Shape:
    f.require("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    f.refuse("add_cross_attention", False, "adds an encoder's attention, which is not counted here")
    width, layers, heads = f.count("n_embd"), f.layers("n_layer"), f.count("n_head")
    return Shape(
        architecture=f.architecture,
        vocab_size=f.count("vocab_size"),
        context_length=f.count("n_positions"),
        emb_dim=width,
        attention=plain_attention(heads, heads, f.divide("n_embd", "n_head"), True, True),
        feed_forward=(FeedForward(f.optional_count("n_inner") or 4 * width, False, True),) * layers,
        windows=(None,) * layers,
        tied=f.switch("tie_word_embeddings", True),
        norm="layernorm",
        position_rows=f.count("n_positions"),
    )


def _gpt_neo(f: Fields) -> Shape:
    f.require("vocab_size", "max_position_embeddings", "hidden_size", "num_layers", "num_heads")
    width, layers, heads = f.count("hidden_size"), f.layers("num_layers"), f.count("num_heads")
    kinds = f.data.get("attention_layers")
    if kinds is None:
        f.require("attention_types")
        try:
            pairs = [(g, check_layers("attention_types", n)) for g, n in f.data["attention_types"]]
            kinds = [kind for group, n in pairs for _ in range(n) for kind in group]
        except (TypeError, ValueError):
            raise f.error(
                "attention_types must be like [[['global', 'local'], 12]],"
                f" got {f.data['attention_types']!r:.60}"
            ) from None
    local = windows.by_kind(f, kinds, ("global", "local"), "window_size", layers)
    return Shape(
        architecture=f.architecture,
        vocab_size=f.count("vocab_size"),
        context_length=f.count("max_position_embeddings"),
        emb_dim=width,
        attention=plain_attention(heads, heads, f.divide("hidden_size", "num_heads"), False, True),
        feed_forward=(FeedForward(f.count("intermediate_size", 4 * width), False, True),) * layers,
        windows=local,
        tied=f.switch("tie_word_embeddings", True),
        norm="layernorm",
        position_rows=f.count("max_position_embeddings"),
        cache_windowed=False,  # transformers masks what lies outside, and keeps it
    )


def _gpt_neox(f: Fields) -> Shape:
    f.require(*SIZES)
    width, heads = f.count("hidden_size"), f.count("num_attention_heads")
    bias, layers = f.switch("attention_bias", True), f.layers("num_hidden_layers")
    head_dim = f.divide("hidden_size", "num_attention_heads")
    return Shape(
        architecture=f.architecture,
        vocab_size=f.count("vocab_size"),
        context_length=f.count("max_position_embeddings"),
        emb_dim=width,
        attention=plain_attention(heads, heads, head_dim, bias, bias),
        feed_forward=(FeedForward(f.count("intermediate_size"), False, True),) * layers,
        windows=(None,) * layers,
        tied=f.switch("tie_word_embeddings", False),
        norm="layernorm",
    )


def _opt(f: Fields) -> Shape:
    sizes = (name for name in SIZES if name != "intermediate_size")
    f.require("ffn_dim", "do_layer_norm_before", *sizes)
    width, heads = f.count("hidden_size"), f.count("num_attention_heads")
    bias, layers = f.switch("enable_bias", True), f.layers("num_hidden_layers")
    positions = f.count("max_position_embeddings")
    removed = f.switch("_remove_final_layer_norm", False)
    head_dim = f.divide("hidden_size", "num_attention_heads")
    return Shape(
        architecture=f.architecture,
        vocab_size=f.count("vocab_size"),
        context_length=positions,
        emb_dim=width,
        attention=plain_attention(heads, heads, head_dim, bias, bias),
        feed_forward=(FeedForward(f.count("ffn_dim"), False, bias),) * layers,
        windows=(None,) * layers,
        tied=f.switch("tie_word_embeddings", True),
        norm="layernorm" if f.switch("layer_norm_elementwise_affine", True) else "none",
        final_norm=f.switch("do_layer_norm_before", True) and not removed,
        position_rows=positions + 2,  # OPT's positions start at row 2
        table_dim=f.count("word_embed_proj_dim", width),
    )


def _deepseek(f: Fields, *, mlp_bias: bool = False, routing_offsets: bool = False) -> Shape:
    f.require(
        *SIZES,
        *("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"),
        *("moe_intermediate_size", "n_routed_experts", "n_shared_experts"),
        *("num_experts_per_tok", "first_k_dense_replace"),
    )
    f.refuse("moe_layer_freq", 1, "is not counted: every block after the dense ones has experts")
    heads, layers = f.count("num_attention_heads"), f.layers("num_hidden_layers")
    bias = f.switch("attention_bias", False)
    latent = Latent(
        kv_rank=f.count("kv_lora_rank"),
        rope_dim=f.count("qk_rope_head_dim"),
        nope_dim=f.count("qk_nope_head_dim"),
        query_rank=f.optional_count("q_lora_rank"),
        bias=bias,
    )
    mlp_bias = mlp_bias and f.switch("mlp_bias", False)
    sparse = FeedForward(
        hidden=f.count("moe_intermediate_size"),
        gated=True,
        bias=mlp_bias,
        n_experts=f.count("n_routed_experts"),
        n_active=f.count("num_experts_per_tok"),
        n_shared=f.count("n_shared_experts"),
        router_buffers=f.count("n_routed_experts") if routing_offsets else 0,
    )
    n_dense = min(f.count("first_k_dense_replace", least=0), layers)
    dense = FeedForward(f.count("intermediate_size"), True, mlp_bias)
    extra = f.count("num_nextn_predict_layers", 0, least=0)
    note = f"{extra} extra block(s) that predict a token further on are not counted"
    return Shape(
        architecture=f.architecture,
        vocab_size=f.count("vocab_size"),
        context_length=f.count("max_position_embeddings"),
        emb_dim=f.count("hidden_size"),
        attention=Attention(
            n_heads=heads,
            n_kv_heads=heads,
            head_dim=latent.nope_dim + latent.rope_dim,
            value_dim=f.count("v_head_dim"),
            qkv_bias=False,
            out_bias=bias,
            latent=latent,
        ),
        feed_forward=(dense,) * n_dense + (checked(f, sparse),) * (layers - n_dense),
        windows=(None,) * layers,
        tied=f.switch("tie_word_embeddings", False),
        norm="rmsnorm",
        notes=(note,) if extra else (),
    )


_unbiased = partial(llama_like, qkv_bias=False)
_gemma = partial(llama_like, head_dim_required=True, tied=True)
_gemma2 = partial(_gemma, norms_per_block=4, windows=windows.all_but_each(2))
_qwen3 = partial(llama_like, qk_norm_of_head=True)

READERS: dict[str, Callable[[Fields], Shape]] = {
    "gpt2": _gpt2,
    "gpt_neo": _gpt_neo,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "llama": partial(llama_like, kv_heads_required=False, mlp_bias=True),
    "mistral": partial(_unbiased, windows=windows.required),
    "mixtral": partial(_unbiased, windows=windows.if_given, feed_forward=mixtral_experts),
    "qwen2": partial(llama_like, qkv_bias=True, windows=windows.later_if_on),
    "qwen3": partial(_qwen3, head_dim_required=True, windows=windows.later_if_on),
    "smollm3": partial(llama_like, tied=True, mlp_bias=True, windows=windows.unturned_if_on),
    "qwen3_moe": partial(_qwen3, windows=windows.all_if_on, feed_forward=qwen3_experts),
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": partial(_gemma2, qk_norm_of_head=True, windows=windows.all_but_each(6)),
    "phi3": partial(_unbiased, kv_heads_required=False, windows=windows.if_given),
    "deepseek_v2": partial(_deepseek, mlp_bias=True),
    "deepseek_v3": partial(_deepseek, routing_offsets=True),
    "olmo2": partial(llama_like, kv_heads_required=False, qk_norm_of_width=True),
}

ARCHITECTURES = (*READERS, "gemma3")

# Released Gemma 3 files leave these out of their text part, which then has transformers' values.
_GEMMA3_DEFAULTS = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
}


def from_hf(data: Mapping[str, Any]) -> Shape:
    """Return the shape of a Hugging Face configuration.

    Raises:
        ValueError: an unknown architecture, or fields that are missing, wrong or not counted.
    """
    kind = data.get("model_type")
    if kind is None:
        raise ValueError("the config lacks model_type, so its architecture is not known")
    if kind == "gemma3":
        return _gemma3(data)
    if not isinstance(kind, str) or kind not in READERS:
        raise ValueError(_unknown(kind, data))
    return READERS[kind](Fields(data, kind))


def _gemma3(data: Mapping[str, Any]) -> Shape:
    text = data.get("text_config")
    if not isinstance(text, Mapping):
        raise ValueError("gemma3 config lacks text_config, the part that reads text")
    filled = [f"{name}={value}" for name, value in _GEMMA3_DEFAULTS.items() if name not in text]
    tied = Fields(data, "gemma3").switch("tie_word_embeddings", True)
    full = {**_GEMMA3_DEFAULTS, **text, "tie_word_embeddings": tied}
    shape = READERS["gemma3_text"](Fields(full, "gemma3 text"))
    notes = ["only the text part is counted, not what reads images"]
    if filled:
        notes.append(f"left out by the file, so as transformers documents: {', '.join(filled)}")
    return dataclasses.replace(shape, architecture="gemma3_text", notes=tuple(notes))


def _unknown(kind: Any, data: Mapping[str, Any]) -> str:
    text = data.get("text_config")
    if isinstance(text, Mapping) and text.get("model_type") in ARCHITECTURES:
        return (
            f"architecture {kind!r:.60} is not known; its text part is {text['model_type']!r},"
            " which can be read alone: pass its text_config"
        )
    missing = [name for name in (*SIZES, "num_key_value_heads") if name not in data]
    lacks = f"; of the usual fields it lacks {', '.join(missing)}" if missing else ""
    return f"architecture {kind!r:.60} is not known{lacks}; known: {', '.join(ARCHITECTURES)}"
