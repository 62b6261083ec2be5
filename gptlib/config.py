"""The seven numbers that fix a GPT, the switches beside them, and the named sizes.

The switches stand at GPT-2's choice of 2019; turned, each by itself, they lead to today's models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from gptlib import hf_config
from gptlib._helpers.messages import shown
from gptlib._helpers.numbers import Range, check_fields

NORM_EPS = 1e-5  # keeps a constant vector from dividing by zero in a norm
MOST_LAYERS = 10_000  # each block is kept apart, so an absurd number would fill the memory

Activation = Literal["gelu_tanh", "gelu", "relu", "silu"]
Norm = Literal["layer", "rms"]
Positions = Literal["learned", "rotary"]
Init = Literal["gpt2", "torch"]
Size = Annotated[int, Range(least=1, most=2**31 - 1)]

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
# The same width and depth with the parts of today; three matrices of 336 are about two of 512.
PRESETS["modern-mini"] = PRESETS["mini"] | {
    **hf_config.LLAMA,
    "activation": "silu",
    "ff_size": 336,
    "n_kv_heads": 2,
    "bias": False,
}

_NOT_IN_BOTH = ("drop_rate", "qkv_bias", "bias")  # exported as zeros, or not at all
# Where a field may be None, the property that says what is meant.
_MEANT = {"head_size": "head_dim", "n_kv_heads": "kv_heads", "ff_size": "ff_dim"}


@dataclass(frozen=True)
class GPTConfig:
    """Describe one GPT; the defaults are chapter "The whole machine"'s (163,009,536 parameters).

    Raises:
        TypeError: a field has the wrong type.
        ValueError: a field is outside its range, or two of them contradict each other.
    """

    vocab_size: Size = 50257  # V, rows of the token table
    context_length: Size = 1024  # most positions the model reads at once
    emb_dim: Size = 768  # C, width of the residual stream
    n_heads: Size = 12  # H, attention heads per block, divides emb_dim
    n_layers: Annotated[int, Range(least=1, most=MOST_LAYERS)] = 12  # blocks
    drop_rate: Annotated[float, Range(least=0, below=1)] = 0.1  # share dropped in training
    qkv_bias: bool = False  # bias on the query, key and value projections
    tie_weights: bool = False  # the head reuses the token table
    activation: Activation = "gelu_tanh"  # non-linearity of the feed-forward part
    norm_first: bool = True  # True: a norm before each part (GPT-2), False: after it (2017)
    init: Init = "gpt2"  # "gpt2": N(0, 0.02) and scaled residuals; "torch": layer defaults
    norm: Norm = "layer"  # "layer": LayerNorm, "rms": RMSNorm, which has no mean and no shift
    norm_eps: Annotated[float, Range(above=0, below=1)] = NORM_EPS  # added to the mean square
    positions: Positions = "learned"  # "learned": a table, "rotary": queries and keys are turned
    rotary_base: Annotated[float, Range(above=1)] = 10_000.0  # the slowest pair turns by 1 / base
    rotary_skip: Annotated[int, Range(least=0)] = 0  # every so many-th block turns nothing; 0: none
    gated: bool = False  # a third matrix multiplies the middle of the feed-forward part
    ff_size: Size | None = None  # F, width of its middle; None: 4C
    n_kv_heads: Size | None = None  # heads of keys and values, divides n_heads; None: as many
    head_size: Size | None = None  # D, width of a head; None: C / H
    qk_norm: bool = False  # a norm on each head's queries and keys
    bias: bool = True  # output projection, feed-forward part and LayerNorm have biases

    def __post_init__(self) -> None:
        check_fields(self)
        if self.head_size is None:
            self._check_divides("n_heads", self.n_heads, "emb_dim", self.emb_dim)
        self._check_divides("n_kv_heads", self.kv_heads, "n_heads", self.n_heads)
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(
                f"rotary positions turn pairs of numbers, got heads of {self.head_dim}, an odd size"
            )
        if self.gated and self.activation == "relu":
            raise ValueError(
                "a gated feed-forward part needs activation='silu', 'gelu' or 'gelu_tanh',"
                " got 'relu'"
            )

    @staticmethod
    def _check_divides(name: str, part: int, of: str, whole: int) -> None:
        if whole % part:
            raise ValueError(
                f"{name} must divide {of}, got {name}={part} and {of}={whole}"
                f" (remainder {whole % part})"
            )

    @property
    def head_dim(self) -> int:
        """Return D, the width of one attention head."""
        return self.emb_dim // self.n_heads if self.head_size is None else self.head_size

    @property
    def kv_heads(self) -> int:
        """Return G, the heads of keys and of values; H / G query heads read each."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def qkv_dims(self) -> tuple[int, int, int]:
        """Return the widths of queries, keys and values, in the order of their fused matrix."""
        D = self.head_dim
        return self.n_heads * D, self.kv_heads * D, self.kv_heads * D

    @property
    def ff_dim(self) -> int:
        """Return F, the width in the middle of the feed-forward part."""
        return 4 * self.emb_dim if self.ff_size is None else self.ff_size

    def turns(self, layer: int) -> bool:
        """Say whether the queries and keys of a block are turned by their positions."""
        skipped = self.rotary_skip and (layer + 1) % self.rotary_skip == 0
        return self.positions == "rotary" and not skipped

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
        """Read a Hugging Face `config.json` of GPT-2, Llama, Qwen 2, Qwen 3, SmolLM3 or Mistral.

        A file that we exported also holds our own fields, which say more.

        Raises:
            ValueError: another architecture, a missing field, a function we do not compute, or an
                exported file whose two halves contradict each other.
        """
        read = hf_config.fields(data)
        cfg = cls(**read)
        noted = data.get("gptlib")
        if not isinstance(noted, Mapping):
            return cfg
        own = cls.from_dict(noted.get("model", {}))
        for name in (_MEANT.get(name, name) for name in read if name not in _NOT_IN_BOTH):
            if getattr(own, name) != getattr(cfg, name):
                raise ValueError(
                    f"{name} is {getattr(own, name)} under 'gptlib' and {getattr(cfg, name)} beside"
                    " it; take the 'gptlib' part out or set both"
                )
        return own

    def to_hf(self) -> dict[str, Any]:
        """Return what a Hugging Face `config.json` says of these sizes and switches.

        Raises:
            ValueError: no architecture of theirs computes them; names what stands in the way.
        """
        return hf_config.described(self)


def check_config(cfg: GPTConfig) -> GPTConfig:
    """Return `cfg`, or raise TypeError where it is none."""
    if not isinstance(cfg, GPTConfig):
        raise TypeError(f"cfg must be a GPTConfig, got {type(cfg).__name__}")
    return cfg


TABLES = ("tok_emb.weight", "pos_emb.weight")  # looked up by row; the other matrices multiply


def parameter_shapes(cfg: GPTConfig) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every parameter, in every engine; (out, in) for matrices."""
    C, F, q = cfg.emb_dim, cfg.ff_dim, cfg.qkv_dims[0]
    shapes: dict[str, tuple[int, ...]] = {"tok_emb.weight": (cfg.vocab_size, C)}
    if cfg.positions == "learned":
        shapes["pos_emb.weight"] = (cfg.context_length, C)

    def norm(name: str, width: int) -> None:
        shapes[f"{name}.scale"] = (width,)
        if cfg.norm == "layer" and cfg.bias:
            shapes[f"{name}.shift"] = (width,)

    for i in range(cfg.n_layers):
        for name, out, into, bias in (
            ("attn.qkv", sum(cfg.qkv_dims), C, cfg.qkv_bias),
            ("attn.out_proj", C, q, cfg.bias),
            ("ff.up", F, C, cfg.bias),
            *([("ff.gate", F, C, cfg.bias)] if cfg.gated else []),
            ("ff.down", C, F, cfg.bias),
        ):
            shapes[f"blocks.{i}.{name}.weight"] = (out, into)
            if bias:
                shapes[f"blocks.{i}.{name}.bias"] = (out,)
        if cfg.qk_norm:
            norm(f"blocks.{i}.attn.q_norm", cfg.head_dim)
            norm(f"blocks.{i}.attn.k_norm", cfg.head_dim)
        norm(f"blocks.{i}.norm1", C)
        norm(f"blocks.{i}.norm2", C)
    norm("final_norm", C)
    if not cfg.tie_weights:
        shapes["head.weight"] = (cfg.vocab_size, C)
    return shapes


def misfit(cfg: GPTConfig, found: Mapping[str, tuple[int, ...]]) -> str:
    """Say which parameters a model of this configuration lacks, or has otherwise; "" if none."""
    expected = parameter_shapes(cfg)
    wrong = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    listed = "; ".join(
        f"{name} expected {expected.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
        for name in wrong[:3]
    )
    return f"{len(wrong)} tensors, {listed}" if wrong else ""
