"""Hugging Face's `config.json` in our words, and our configuration in theirs.

GPT-2 and the relatives of Llama: what a file says of sizes and switches becomes the fields of
`GPTConfig`. A setting that changes the function to one that we do not compute is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gptlib.config import GPTConfig

# The parts in which Llama and its relatives differ from GPT-2, whatever their sizes and biases.
LLAMA = {"norm": "rms", "positions": "rotary", "gated": True}

# Their names of the activations; the first of two is the one we write.
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}

# Their names of the sizes.
GPT2_SIZES = {
    "vocab_size": "vocab_size",
    "n_positions": "context_length",
    "n_embd": "emb_dim",
    "n_head": "n_heads",
    "n_layer": "n_layers",
}
LLAMA_SIZES = {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "context_length",
    "hidden_size": "emb_dim",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "intermediate_size": "ff_size",
}

# Options that change what is computed, and the only values we compute.
_GPT2_FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}


class _File:
    """The fields of one file, checked as they are read."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def sizes(self, names: Mapping[str, str]) -> dict[str, Any]:
        missing = [name for name in names if name not in self.data]
        if missing:
            raise ValueError(f"{self.data['model_type']} config lacks {', '.join(missing)}")
        return {ours: self.whole(theirs) for theirs, ours in names.items()}

    def whole(self, name: str) -> int:
        value = self.data[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be an integer, got {value!r:.60}")
        return value

    def optional(self, name: str, otherwise: int | None = None) -> int | None:
        return otherwise if self.data.get(name) is None else self.whole(name)

    def number(self, name: str, default: float) -> float:
        value = self.data.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number, got {value!r:.60}")
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{name} must be finite, got {value!s:.60}") from None

    def switch(self, name: str, default: bool) -> bool:
        value = self.data.get(name, default)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {value!r:.60}")
        return value

    def activation(self, name: str, default: str) -> str:
        value = self.data.get(name, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise ValueError(f"{name} must be one of {', '.join(ACTIVATIONS)}; got {value!r:.60}")
        return ACTIVATIONS[value]

    def fix(self, allowed: Mapping[str, Any]) -> None:
        for name, ours in allowed.items():
            if self.data.get(name, ours) != ours:
                got = self.data[name]
                raise ValueError(f"{name} must be {ours}, got {got!r:.60}: another function")


def fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a `config.json` says, as fields of `GPTConfig`.

    Raises:
        TypeError: no dictionary.
        ValueError: another architecture, a missing or misshapen field, a function we do not have.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"a config must be a dictionary, got {data!r:.60}")
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in _READERS:
        raise ValueError(f"model_type must be one of {', '.join(_READERS)}; got {kind!r:.60}")
    return _READERS[kind](_File(data))


def _gpt2(file: _File) -> dict[str, Any]:
    file.fix(_GPT2_FIXED)
    return {
        **file.sizes(GPT2_SIZES),
        "ff_size": file.optional("n_inner"),
        "drop_rate": file.number("resid_pdrop", 0.1),
        "qkv_bias": True,
        "tie_weights": file.switch("tie_word_embeddings", True),
        "activation": file.activation("activation_function", "gelu_new"),
        "norm_eps": file.number("layer_norm_epsilon", 1e-5),
    }


def _llama(
    file: _File,
    *,
    tied: bool = False,
    theta: float = 10_000.0,
    qkv_bias: bool | None = None,  # None: the field attention_bias decides
    qk_norm: bool = False,
    window_switch: str | None = None,  # the field that turns a window on; None: none is needed
    has_mlp_bias: bool = True,  # whether the field mlp_bias means something
    kv_required: bool = True,  # without the field the others have a number of their own
) -> dict[str, Any]:
    sizes = file.sizes(LLAMA_SIZES)
    if kv_required and "num_key_value_heads" not in file.data:
        raise ValueError(f"{file.data['model_type']} config lacks num_key_value_heads")
    file.fix({"partial_rotary_factor": 1.0})
    biased = file.switch("attention_bias", False) if qkv_bias is None else False
    if biased != (has_mlp_bias and file.switch("mlp_bias", False)):
        raise ValueError(
            f"attention_bias is {str(biased).lower()} and the feed-forward part differs: we have"
            " biases in both or in neither"
        )
    _check_window(file, sizes["context_length"], window_switch)
    return {
        **LLAMA,
        **sizes,
        "drop_rate": 0.0,
        "qkv_bias": biased if qkv_bias is None else qkv_bias,
        "bias": biased,
        "tie_weights": file.switch("tie_word_embeddings", tied),
        "activation": file.activation("hidden_act", "silu"),
        "norm_eps": file.number("rms_norm_eps", 1e-6),
        "rotary_base": _rotary_base(file, theta),
        "n_kv_heads": file.optional("num_key_value_heads", sizes["n_heads"]),
        "head_size": file.optional("head_dim"),
        "qk_norm": qk_norm,
    }


def _rotary_base(file: _File, theta: float) -> float:
    """Return the base, in the spelling of before or of after transformers 5; refuse scaling."""
    base = file.number("rope_theta", theta)
    for name in ("rope_scaling", "rope_parameters"):
        about = file.data.get(name) or {}
        if not isinstance(about, Mapping) or any(isinstance(v, Mapping) for v in about.values()):
            raise ValueError(f"{name} must be one object for all blocks, got {about!r:.60}")
        kind = about.get("rope_type", about.get("type", "default"))
        if kind != "default":
            raise ValueError(
                f"rotary positions are scaled by the rule {kind!r:.60}, which is not computed here;"
                " only 'default' is"
            )
        _File(about).fix({"partial_rotary_factor": 1.0})
        base = _File(about).number("rope_theta", base)
    return base


def _check_window(file: _File, context: int, switch: str | None) -> None:
    if switch is not None and not file.switch(switch, False):
        return
    window = file.optional("sliding_window")
    if window is not None and window < context:
        raise ValueError(
            f"sliding_window {window} is shorter than the context of {context}, and windows are not"
            f" computed here; with max_position_embeddings {window} the model is the same"
        )


def _smollm3(file: _File) -> dict[str, Any]:
    read = _llama(file, tied=True, theta=2e6, window_switch="use_sliding_window")
    every = file.optional("no_rope_layer_interval", 4)
    turned = file.data.get("no_rope_layers")
    if turned is None and every is not None and every < 1:
        raise ValueError(f"no_rope_layer_interval must be at least 1, got {every}")
    if turned is not None:
        if not isinstance(turned, list):
            raise ValueError(f"no_rope_layers must be a list, got {turned!r:.60}")
        every = next((i for i, turns in enumerate(turned, 1) if not turns), 0)
        regular = [int(not every or i % every > 0) for i in range(1, read["n_layers"] + 1)]
        if [int(bool(turns)) for turns in turned[: read["n_layers"]]] != regular:
            raise ValueError(
                "no_rope_layers must leave out every so many-th block, from that one on;"
                f" got {turned!r:.60}"
            )
    return read | {"rotary_skip": every}


def _qwen2(file: _File) -> dict[str, Any]:
    return _llama(file, qkv_bias=True, window_switch="use_sliding_window", has_mlp_bias=False)


def _qwen3(file: _File) -> dict[str, Any]:
    read = _llama(file, qk_norm=True, window_switch="use_sliding_window", has_mlp_bias=False)
    return read | {"head_size": file.optional("head_dim", 128)}


def _mistral(file: _File) -> dict[str, Any]:
    if "sliding_window" not in file.data:
        raise ValueError("mistral config lacks sliding_window; null stands for none")
    return _llama(file, qkv_bias=False, has_mlp_bias=False)


_READERS: dict[str, Callable[[_File], dict[str, Any]]] = {
    "gpt2": _gpt2,
    "llama": partial(_llama, kv_required=False),
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "smollm3": _smollm3,
    "mistral": _mistral,
}

_CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}


def kind_of(cfg: GPTConfig) -> str:
    """Return the architecture of theirs that computes what `cfg` says.

    Raises:
        ValueError: there is none; names what stands in the way.
    """
    gpt2 = {"norm": "layer", "positions": "learned", "gated": False, "qk_norm": False}
    gpt2 |= {"norm_first": True, "kv_heads": cfg.n_heads}
    llama = LLAMA | {"norm_first": True}
    wanted = llama if cfg.positions == "rotary" else gpt2
    name = "Llama and its relatives have" if cfg.positions == "rotary" else "GPT-2 has"
    for switch, value in wanted.items():
        if (got := getattr(cfg, switch)) != value:
            raise ValueError(
                f"{name} {switch}={value!r}, got {got!r}; no architecture of Hugging Face that is"
                " known here computes this model"
            )
    if wanted is gpt2:
        if cfg.head_dim * cfg.n_heads != cfg.emb_dim:
            raise ValueError(f"GPT-2 has heads of emb_dim / n_heads, got head_size={cfg.head_size}")
        return "gpt2"
    return _relative(cfg)


def _relative(cfg: GPTConfig) -> str:
    if cfg.qk_norm and not (cfg.bias or cfg.qkv_bias or cfg.rotary_skip):
        return "qwen3"
    if not cfg.qk_norm and cfg.qkv_bias and not (cfg.bias or cfg.rotary_skip):
        return "qwen2"
    if not cfg.qk_norm and cfg.qkv_bias == cfg.bias:
        # Llama's own wants a width that its heads divide; SmolLM3's is the same without skips.
        return "smollm3" if cfg.rotary_skip or cfg.emb_dim % cfg.n_heads else "llama"
    raise ValueError(
        f"qk_norm={cfg.qk_norm}, qkv_bias={cfg.qkv_bias}, bias={cfg.bias} and"
        f" rotary_skip={cfg.rotary_skip} do not come together in Llama, Qwen 2, Qwen 3 or SmolLM3"
    )


def described(cfg: GPTConfig) -> dict[str, Any]:
    """Return what a `config.json` of theirs says of these sizes and switches.

    Raises:
        ValueError: no architecture of theirs computes them.
    """
    kind = kind_of(cfg)
    sizes = GPT2_SIZES if kind == "gpt2" else LLAMA_SIZES
    about = {
        "model_type": kind,
        "architectures": [_CLASSES[kind]],
        **{theirs: getattr(cfg, ours) for theirs, ours in sizes.items()},
        "tie_word_embeddings": cfg.tie_weights,
    }
    if kind == "gpt2":
        name = next(name for name, ours in ACTIVATIONS.items() if ours == cfg.activation)
        dropped = {f"{where}_pdrop": cfg.drop_rate for where in ("attn", "embd", "resid")}
        more = {"activation_function": name, "layer_norm_epsilon": cfg.norm_eps}
        return about | more | dropped | ({} if cfg.ff_size is None else {"n_inner": cfg.ff_size})
    about |= {
        "intermediate_size": cfg.ff_dim,
        "num_key_value_heads": cfg.kv_heads,
        "head_dim": cfg.head_dim,
        "hidden_act": {"gelu_tanh": "gelu_pytorch_tanh"}.get(cfg.activation, cfg.activation),
        "rms_norm_eps": cfg.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": cfg.rotary_base},
    }
    if kind in ("llama", "smollm3"):
        about |= {"attention_bias": cfg.bias, "mlp_bias": cfg.bias}
    if kind == "smollm3":
        turns = [int(cfg.turns(layer)) for layer in range(cfg.n_layers)]
        about |= {"no_rope_layers": turns, "no_rope_layer_interval": cfg.rotary_skip or 4}
    return about
