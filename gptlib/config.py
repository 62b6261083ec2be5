"""The seven numbers that fix a GPT, the four switches beside them, and the named sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gptlib._files import shown
from gptlib._numbers import integer, number

MOST_LAYERS = 10_000  # each block is kept apart, so an absurd number would fill the memory

Activation = Literal["gelu_tanh", "gelu", "relu"]
Init = Literal["gpt2", "torch"]

# The released GPT-2 family (Radford et al., 2019): QKV biases and a tied head.
_GPT2: dict[str, Any] = {"qkv_bias": True, "tie_weights": True}
PRESETS: dict[str, dict[str, Any]] = {
    "gpt2-small": {"emb_dim": 768, "n_heads": 12, "n_layers": 12, **_GPT2},
    "gpt2-medium": {"emb_dim": 1024, "n_heads": 16, "n_layers": 24, **_GPT2},
    "gpt2-large": {"emb_dim": 1280, "n_heads": 20, "n_layers": 36, **_GPT2},
    "gpt2-xl": {"emb_dim": 1600, "n_heads": 25, "n_layers": 48, **_GPT2},
    # The model the book trains on two CPU cores: one token per byte.
    "mini": {
        "vocab_size": 256,
        "context_length": 256,
        "emb_dim": 128,
        "n_heads": 4,
        "n_layers": 4,
        "drop_rate": 0.0,
        "tie_weights": True,
    },
}

# Hugging Face spells GPT-2's activation "gelu_new" for the tanh form and "gelu" for the erf form.
_HF_ACTIVATIONS: dict[str, Activation] = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
}

# Options of Hugging Face's GPT-2 that change what it computes, and the only values we compute.
_HF_FIXED: dict[str, Any] = {
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}


@dataclass(frozen=True)
class GPTConfig:
    """Describe one GPT; the defaults are the machine of chapter 1 (163,009,536 parameters).

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is outside its range, or `n_heads` does not divide `emb_dim`.
    """

    vocab_size: int = 50257  # V, rows of the token table, > 0
    context_length: int = 1024  # most positions the model reads at once, > 0
    emb_dim: int = 768  # C, width of the residual stream, > 0
    n_heads: int = 12  # H, attention heads per block, divides emb_dim
    n_layers: int = 12  # blocks, > 0
    drop_rate: float = 0.1  # probability of dropping a value in training, in [0, 1)
    qkv_bias: bool = False  # bias on the query, key and value projections
    tie_weights: bool = False  # the head reuses the token table
    activation: Activation = "gelu_tanh"  # non-linearity of the feed-forward part
    norm_first: bool = True  # True: Pre-LayerNorm (GPT-2), False: Post-LayerNorm (2017)
    init: Init = "gpt2"  # "gpt2": N(0, 0.02) and scaled residuals; "torch": layer defaults

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context_length", "emb_dim", "n_heads", "n_layers"):
            value = integer(name, getattr(self, name), 1)
            object.__setattr__(self, name, value)
            most = MOST_LAYERS if name == "n_layers" else 2**31 - 1
            if value > most:
                raise ValueError(f"{name} must be at most {most:,}, got {value}")
        for name in ("qkv_bias", "tie_weights", "norm_first"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        object.__setattr__(self, "drop_rate", number("drop_rate", self.drop_rate))
        if not 0.0 <= self.drop_rate < 1.0:
            raise ValueError(f"drop_rate must be in [0, 1), got {self.drop_rate}")
        for name, allowed in (("activation", get_args(Activation)), ("init", get_args(Init))):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
        if self.emb_dim % self.n_heads != 0:
            raise ValueError(
                f"n_heads must divide emb_dim, got n_heads={self.n_heads}"
                f" and emb_dim={self.emb_dim} (remainder {self.emb_dim % self.n_heads})"
            )

    @property
    def head_dim(self) -> int:
        """Return D, the width of one attention head."""
        return self.emb_dim // self.n_heads

    @classmethod
    def preset(cls, name: str, **changes: Any) -> GPTConfig:
        """Return a named size, with `changes` applied on top.

        Raises:
            ValueError: the name is unknown; the message lists the known ones.
        """
        if name not in PRESETS:
            raise ValueError(f"unknown preset {name!r}; known presets: {', '.join(PRESETS)}")
        return cls(**{**PRESETS[name], **changes})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GPTConfig:
        """Rebuild a config from `to_dict`, refusing unknown fields by name."""
        if not isinstance(data, Mapping):
            raise TypeError(f"a config must be a dictionary, got {data!r:.60}")
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise ValueError(
                f"unknown config fields {', '.join(map(shown, unknown))};"
                f" known: {', '.join(sorted(known))}"
            )
        return cls(**data)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dictionary, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_hf(cls, data: Mapping[str, Any]) -> GPTConfig:
        """Read a Hugging Face `config.json` of a GPT-2 model.

        A file that `gpt2.export` wrote also holds our own fields, which say more.

        Raises:
            ValueError: another architecture, a missing field, an activation we do not have, or an
                exported file whose two halves contradict each other.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"a config must be a dictionary, got {data!r:.60}")
        if data.get("model_type") != "gpt2":
            raise ValueError(f"model_type must be 'gpt2', got {data.get('model_type')!r}")
        names = {
            "vocab_size": "vocab_size",
            "n_positions": "context_length",
            "n_embd": "emb_dim",
            "n_head": "n_heads",
            "n_layer": "n_layers",
        }
        missing = [name for name in names if name not in data]
        if missing:
            raise ValueError(f"GPT-2 config lacks {', '.join(missing)}")
        for name in names:
            if isinstance(data[name], bool) or not isinstance(data[name], int):
                raise ValueError(f"{name} must be an integer, got {data[name]!r:.60}")
        inner = data.get("n_inner")
        if inner not in (None, 4 * data["n_embd"]):
            expected = 4 * data["n_embd"]
            raise ValueError(f"n_inner must be 4 x n_embd = {expected}, got {inner!r:.60}")
        for name, ours in _HF_FIXED.items():
            if data.get(name, ours) != ours:
                raise ValueError(f"{name} must be {ours}, got {data[name]!r:.60}: another function")
        activation = data.get("activation_function", "gelu_new")
        if not isinstance(activation, str) or activation not in _HF_ACTIVATIONS:
            raise ValueError(
                f"activation_function must be one of {', '.join(_HF_ACTIVATIONS)};"
                f" got {activation!r:.60}"
            )
        cfg = cls(
            **{ours: data[theirs] for theirs, ours in names.items()},
            drop_rate=data.get("resid_pdrop", 0.1),
            qkv_bias=True,
            tie_weights=data.get("tie_word_embeddings", True),
            activation=_HF_ACTIVATIONS[activation],
        )
        noted = data.get("gptlib")
        if not isinstance(noted, Mapping):
            return cfg
        own = cls.from_dict(noted.get("model", {}))
        for name in (*names.values(), "tie_weights", "activation"):
            if getattr(own, name) != getattr(cfg, name):
                raise ValueError(
                    f"{name} is {getattr(own, name)} under 'gptlib' and {getattr(cfg, name)} beside"
                    " it; take the 'gptlib' part out or set both"
                )
        return own


def check_config(cfg: GPTConfig) -> GPTConfig:
    """Return `cfg`, or raise TypeError where it is none."""
    if not isinstance(cfg, GPTConfig):
        raise TypeError(f"cfg must be a GPTConfig, got {type(cfg).__name__}")
    return cfg
