"""The ledger: every parameter of a decoder under the name of the component that owns it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gptlib.accounting.shape import NORM_NUMBERS, FeedForward, Shape

Part = Literal["embeddings", "attention", "feed-forward", "norm", "head"]
INT4_GROUP = 128  # weights that share one scale in int4


@dataclass(frozen=True)
class Component:
    """Count one component over all blocks that have it."""

    name: str
    part: Part
    blocks: int  # blocks that have it; 0: it stands outside them
    parameters: int  # in all blocks together
    active: int  # of these, the ones that one token visits (fewer with experts)
    multiplied: int  # of these, the ones that one token is multiplied by: 2 FLOPs each
    int8_scales: int = 0  # outputs of its matrices, one scale each
    int4_scales: int = 0  # groups of at most 128 inputs of one output, one scale each

    @property
    def per_block(self) -> int:
        """Return the parameters of one block, or all of them outside the blocks."""
        return self.parameters // max(self.blocks, 1)

    @property
    def quantised(self) -> bool:
        """Return whether int8 and int4 store it in that type: matrices and the token table."""
        return self.int8_scales > 0


def ledger(shape: Shape) -> tuple[Component, ...]:
    """Return the components in the order in which a token meets them; they sum to the total.

    A tied head owns nothing and is still multiplied; a table is looked up and multiplied by
    nothing. Components without parameters are left out.
    """
    L, width = shape.n_layers, shape.table_dim or shape.emb_dim
    V, C, norm = shape.vocab_size, shape.emb_dim, NORM_NUMBERS[shape.norm] * shape.emb_dim
    parts = [_table("token table", V, width)]
    if shape.position_rows:
        n = shape.position_rows * C
        parts.append(Component("position table", "embeddings", 0, n, n, 0))
    if width != C:
        parts.append(_matrix("table to width", "embeddings", 0, C, width))
    parts += [_plain("block norms", "norm", L, L * shape.norms_per_block * norm)]
    parts += _attention(shape)
    for kind in dict.fromkeys(shape.feed_forward):  # one or two kinds, in order of appearance
        parts += _feed_forward(kind, shape.feed_forward.count(kind), C)
    parts += [_plain("final norm", "norm", 0, norm * shape.final_norm)]
    if width != C:
        parts.append(_matrix("width to table", "head", 0, width, C))
    head = _matrix("head", "head", 0, V, width)
    parts.append(Component("head (tied)", "head", 0, 0, 0, V * width) if shape.tied else head)
    return _merged(p for p in parts if p.parameters or p.multiplied)


def _attention(shape: Shape) -> list[Component]:
    a, C, L = shape.attention, shape.emb_dim, shape.n_layers
    H, n_kv, D = a.n_heads, a.n_kv_heads, a.head_dim
    if a.latent is None:
        parts = [
            _matrix("query", "attention", L, H * D, C),
            _matrix("key", "attention", L, n_kv * D, C),
            _matrix("value", "attention", L, n_kv * a.value_dim, C),
        ]
        biases = a.qkv_bias * (H * D + n_kv * D + n_kv * a.value_dim)
        norms = _plain("query-key norms", "norm", L, L * a.qk_norm)
    else:
        m = a.latent
        compressed = m.kv_rank + (m.query_rank or 0)  # together; each has an RMSNorm
        if m.query_rank is None:
            parts = [_matrix("query", "attention", L, H * D, C)]
        else:
            parts = [_matrix("query down", "attention", L, m.query_rank, C)]
            parts += [_matrix("query up", "attention", L, H * D, m.query_rank)]
        out = H * (m.nope_dim + a.value_dim)
        parts += [_matrix("key-value down", "attention", L, m.kv_rank + m.rope_dim, C)]
        parts += [_matrix("key-value up", "attention", L, out, m.kv_rank)]
        biases = m.bias * (compressed + m.rope_dim)
        norms = _plain("latent norms", "norm", L, L * compressed)
    biases += a.out_bias * C
    output = _matrix("attention output", "attention", L, C, H * a.value_dim)
    return [*parts, output, _plain("attention biases", "attention", L, L * biases), norms]


def _feed_forward(ff: FeedForward, blocks: int, C: int) -> list[Component]:
    F = ff.hidden
    if not ff.n_experts:
        return _network("feed-forward", ff, blocks, C, F)
    router = _matrix("router", "feed-forward", blocks, ff.n_experts, C)
    # Only dense and shared networks have biases: routed experts are stored as bare stacks.
    bare = dataclasses.replace(ff, bias=False)
    routed = _network("expert", bare, blocks, C, F, ff.n_experts, ff.n_active)
    shared = _network("shared expert", ff, blocks, C, F * ff.n_shared) if ff.n_shared else []
    return [router, *routed, *shared]


def _network(
    name: str, ff: FeedForward, blocks: int, C: int, F: int, copies: int = 1, used: int = 1
) -> list[Component]:
    part: Part = "feed-forward"
    gate = [_matrix(f"{name} gate", part, blocks, F, C, copies, used)] if ff.gated else []
    biases = blocks * ff.bias * ((1 + ff.gated) * F + C)
    return [
        *gate,
        _matrix(f"{name} up", part, blocks, F, C, copies, used),
        _matrix(f"{name} down", part, blocks, C, F, copies, used),
        _plain(f"{name} biases", part, blocks, biases),
    ]


def _matrix(
    name: str, part: Part, blocks: int, out: int, inputs: int, copies: int = 1, used: int = 1
) -> Component:
    stacks = max(blocks, 1)
    active = stacks * used * out * inputs
    return Component(
        name=name,
        part=part,
        blocks=blocks,
        parameters=stacks * copies * out * inputs,
        active=active,
        multiplied=active,
        int8_scales=stacks * copies * out,
        int4_scales=stacks * copies * out * math.ceil(inputs / INT4_GROUP),
    )


def _table(name: str, rows: int, width: int) -> Component:
    return dataclasses.replace(_matrix(name, "embeddings", 0, rows, width), multiplied=0)


def _plain(name: str, part: Part, blocks: int, count: int) -> Component:
    return Component(name, part, blocks, count, count, 0)


def _merged(parts: Iterable[Component]) -> tuple[Component, ...]:
    """Add up components of one name: dense blocks of different widths share theirs."""
    counts = [f.name for f in dataclasses.fields(Component) if f.name not in ("name", "part")]
    merged: dict[str, Component] = {}
    for p in parts:
        if old := merged.get(p.name):
            p = dataclasses.replace(p, **{n: getattr(old, n) + getattr(p, n) for n in counts})
        merged[p.name] = p
    return tuple(merged.values())
