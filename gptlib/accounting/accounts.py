"""`account`: one model's parameters, bytes, cache and FLOPs, each by a formula that is tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from gptlib._helpers.numbers import integer
from gptlib.accounting.ledger import Component, Part, ledger
from gptlib.accounting.shape import Shape
from gptlib.accounting.sources import read_shape
from gptlib.config import GPTConfig

Dtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]
CacheKind = Literal["needed", "unwindowed", "expanded", "transformers"]
BITS: dict[Dtype, int] = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4}
_SCALE_BYTES = 2  # fp16
_LONG = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8": "fp8"}


def account(source: GPTConfig | Mapping[str, Any] | str | Path) -> Account:
    """Take the accounts of a model from its configuration alone.

    Args:
        source: a `GPTConfig`, a Hugging Face configuration as a dictionary, a `config.json`, a
            folder that holds one (also one of `gptlib train`), or a preset such as "gpt2-small".

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an unknown architecture, or fields that are missing or wrong, by name.
    """
    shape = read_shape(source)
    return Account(shape, ledger(shape))


@dataclass(frozen=True)
class Account:
    """The accounts of one model."""

    shape: Shape  # what the counts depend on
    components: tuple[Component, ...]  # the ledger; sums to `total`

    @cached_property
    def total(self) -> int:
        """Return the parameters, a tied table counted once."""
        return sum(c.parameters for c in self.components)

    @cached_property
    def active(self) -> int:
        """Return the parameters that one token visits; fewer than `total` only with experts."""
        return sum(c.active for c in self.components)

    @cached_property
    def parts(self) -> dict[Part, int]:
        """Return the parameters of embeddings, attention, feed-forward, norms and head."""
        return {
            p: sum(c.parameters for c in self.components if c.part == p) for p in get_args(Part)
        }

    @property
    def buffers(self) -> int:
        """Return stored numbers that are not parameters: DeepSeek-V3's routing offsets."""
        return sum(ff.router_buffers for ff in self.shape.feed_forward)

    def shares(self) -> dict[str, float]:
        """Return each component's share of `total`, in [0, 1]."""
        return {c.name: c.parameters / self.total for c in self.components}

    def bytes(self, dtype: str = "fp32") -> int:
        """Return the bytes of all weights.

        int8 keeps one fp16 scale for each output of a matrix and each row of the token table (as
        Dettmers et al., 2022, "LLM.int8()", do by rows), int4 one fp16 scale for each group of 128
        inputs (as in Frantar et al., 2022, "GPTQ"; no zero points). Norms, biases and the position
        table stay in 16 bits there.
        """
        return sum(component_bytes(c, dtype) for c in self.components)

    def kv_cache_bytes(
        self, n_tokens: int, dtype: str = "bf16", batch_size: int = 1, kind: CacheKind = "needed"
    ) -> int:
        """Return the bytes of keys and values after `n_tokens` positions.

        Per block 2 x batch x positions x KV heads x head size (Pope et al., 2022; with grouped
        heads Ainslie et al., 2023), the key's head and the value's counted apart.

        Args:
            kind: "needed" keeps at most a window's positions where a block has a window, and
                DeepSeek's latent vector with its rotary key (Liu et al., 2024, table 1). It equals
                transformers' StaticCache. "unwindowed" keeps every position. "expanded" keeps every
                position and, in latent attention, full keys and values of each head, which the
                paper avoids. "transformers" is what its DynamicCache holds after the step: one
                position less than a full window, the latent vector for DeepSeek.
        """
        if kind not in get_args(CacheKind):
            raise ValueError(f"kind must be one of {', '.join(get_args(CacheKind))}; got {kind!r}")
        integer("n_tokens", n_tokens, 0)
        integer("batch_size", batch_size, 1)
        bits = BITS[_dtype(dtype, cache=True)]
        values = sum(self._kept(n_tokens, window, kind) for window in self.shape.windows)
        return batch_size * values * self.cache_width(expanded=kind == "expanded") * bits // 8

    def cache_width(self, *, expanded: bool = False) -> int:
        """Return the numbers that one block caches for one position."""
        a = self.shape.attention
        if a.latent is not None and not expanded:
            return a.latent.kv_rank + a.latent.rope_dim
        return a.n_kv_heads * (a.head_dim + a.value_dim)

    def _kept(self, n_tokens: int, window: int | None, kind: CacheKind) -> int:
        if window is None or kind in ("unwindowed", "expanded"):
            return n_tokens
        if kind == "transformers":
            # Slicing from -window + 1 keeps everything where that is 0.
            return min(n_tokens, window - 1 or n_tokens) if self.shape.cache_windowed else n_tokens
        return min(n_tokens, window)

    @cached_property
    def matrix_flops(self) -> int:
        """Return the FLOPs that one token spends in matrices: 2 per weight it is multiplied by."""
        return 2 * sum(c.multiplied for c in self.components)

    @property
    def rule_flops(self) -> int:
        """Return 2N, the usual estimate of a token's forward FLOPs, N the active parameters.

        Kaplan et al., 2020, section 2.1, leave tables out of N; here all of `active` count, as
        people quote the rule.
        """
        return 2 * self.active

    def flops_per_token(self, T: int, *, causal: bool = False, training: bool = False) -> float:
        """Return the FLOPs per token of reading a window of `T` tokens at once (prefill).

        Matrices, head and attention's two products at 2 FLOPs per multiply-add, as
        `torch.utils.flop_counter` counts; norms, softmax and activations are left out.

        Args:
            causal: False counts all T x T pairs, which is what the counter sees and a plain kernel
                computes. True counts the pairs that the mask (and a window) leaves: (T + 1) / 2 a
                token without windows, the least that a kernel can do.
            training: three times the forward pass: the backward pass has two products for each one
                of the forward (Kaplan et al., 2020, section 2.1).
        """
        integer("T", T, 1)
        pairs = sum(_mean_pairs(T, w) if causal else T for w in self.shape.windows)
        a = self.shape.attention
        flops = self.matrix_flops + pairs * 2 * a.n_heads * (a.head_dim + a.value_dim)
        return 3 * flops if training else flops

    def decode_flops(self, S: int) -> int:
        """Return the FLOPs of one new token that is position number `S`, the others cached.

        Latent attention is counted as the paper runs it, with the expanding matrices absorbed into
        query and output (Liu et al., 2024, section 2.1.2), so that it works on the latent vectors.
        """
        integer("S", S, 1)
        a = self.shape.attention
        wide = a.head_dim + a.value_dim
        if a.latent is not None:
            wide = 2 * a.latent.kv_rank + a.latent.rope_dim
        keys = sum(S if w is None else min(S, w) for w in self.shape.windows)
        return self.matrix_flops + keys * 2 * a.n_heads * wide


def cache_dtype(dtype: str) -> str:
    """Return the type of the cache beside weights of type `dtype`: 16 bits where they are int."""
    return "bf16" if dtype.startswith("int") else dtype


def component_bytes(c: Component, dtype: str) -> int:
    """Return the bytes of one component's weights with their scales."""
    kind = _dtype(dtype)
    if kind not in ("int8", "int4"):
        return c.parameters * BITS[kind] // 8
    if not c.quantised:
        return 2 * c.parameters  # norms, biases and positions stay in 16 bits
    scales = c.int8_scales if kind == "int8" else c.int4_scales
    return (c.parameters * BITS[kind] + 7) // 8 + _SCALE_BYTES * scales


def _dtype(name: str, cache: bool = False) -> Dtype:
    short = _LONG.get(name, name)
    allowed = [d for d in BITS if not cache or cache_dtype(d) == d]
    for kind in allowed:
        if short == kind:
            return kind
    what = "of a cache " if cache else ""
    raise ValueError(f"dtype {what}must be one of {', '.join(allowed)}; got {name!r}")


def _mean_pairs(T: int, window: int | None) -> float:
    """Return the mean over positions 1..T of min(position, window)."""
    w = T if window is None else min(window, T)
    return (w * (w + 1) / 2 + (T - w) * w) / T
