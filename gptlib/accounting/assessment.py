"""An assessment in plain sentences: each has its numbers, the rule it follows and its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gptlib.accounting.accelerators import Accelerator, decode_limit, ridge_batch
from gptlib.accounting.accounts import Account, cache_dtype
from gptlib.accounting.training import CHINCHILLA, tokens_per_parameter, training_flops


@dataclass(frozen=True)
class Finding:
    """State one observation; there is no score, because what matters depends on the use."""

    sentence: str
    rule: str
    source: str


def assess(
    acc: Account,
    on: Accelerator,
    *,
    context: int | None = None,
    dtype: str = "bf16",
    batch_size: int = 1,
    training_tokens: float | None = None,
) -> list[Finding]:
    """Say what stands out in a model's accounts.

    Args:
        on: the accelerator whose limits are applied.
        context: S, positions in the cache; the model's own context when None.
        training_tokens: D, the tokens it was trained on, where they are known.
    """
    S = acc.shape.context_length if context is None else context
    findings = [
        _largest(acc),
        _heads(acc),
        _feed_forward(acc),
        _cache(acc, S, dtype, batch_size),
        _limits(acc, on, S, dtype, batch_size),
        *_unusual(acc),
    ]
    if training_tokens is not None:
        findings.append(_chinchilla(acc, training_tokens))
    return findings


def _largest(acc: Account) -> Finding:
    part, count = max(acc.parts.items(), key=lambda item: item[1])
    top = max(acc.components, key=lambda c: c.parameters)
    sentence = (
        f"The largest part is {part}: {count:,} of {acc.total:,} parameters"
        f" ({count / acc.total:.1%}); the largest component is {top.name} ({top.parameters:,})."
    )
    if acc.active < acc.total:
        sentence += f" A token visits {acc.active:,} parameters ({acc.active / acc.total:.1%})."
    rule = "Parameters counted one by one, a tied table once; of experts those a token is sent to."
    return Finding(sentence, rule, "the ledger; Shazeer et al., 2017, for experts")


def _heads(acc: Account) -> Finding:
    a = acc.shape.attention
    sentence = f"{a.n_heads} query heads are {a.head_dim} wide, "
    if a.latent is not None:
        sentence += f"and share one latent vector of {a.latent.kv_rank}."
    elif a.n_kv_heads == a.n_heads:
        sentence += "and each has its own key and value head."
    else:
        ratio = a.n_heads // a.n_kv_heads
        sentence += f"{ratio} to a key-value head, so the cache is {ratio} times smaller."
    usual = "within" if 64 <= a.head_dim <= 128 else "outside"
    sentence += f" {a.head_dim} is {usual} the usual 64 to 128."
    rule = "Head sizes of 64 (the first Transformer, GPT-2) to 128 (Llama) are usual."
    source = "Vaswani et al., 2017, section 3.2.2; Touvron et al., 2023; Ainslie et al., 2023"
    return Finding(sentence, rule, source)


def _feed_forward(acc: Account) -> Finding:
    ff, C = acc.shape.feed_forward[-1], acc.shape.emb_dim
    kind = "gated" if ff.gated else "plain"
    sentence = f"The feed-forward part is {kind} and {ff.hidden / C:.2f} times the width"
    if ff.n_experts:
        sentence += f" in each of {ff.n_experts} experts; a token visits {ff.n_active}"
        sentence += f" and {ff.n_shared} shared." if ff.n_shared else "."
    else:
        sentence += f"; with {'8/3 = 2.67' if ff.gated else '4'} it would have 8 C² weights."
    rule = "Four times the width without a gate; 8/3 with one holds as many weights."
    return Finding(sentence, rule, "Vaswani et al., 2017, section 3.3; Shazeer, 2020, section 2")


def _cache(acc: Account, S: int, dtype: str, batch_size: int) -> Finding:
    store, weights = cache_dtype(dtype), acc.bytes(dtype)
    cache = acc.kv_cache_bytes(S, store, batch_size)
    sentence = (
        f"With {batch_size} x {S:,} tokens the {store} cache takes {cache / 1e9:,.3f} GB,"
        f" {cache / weights:.1%} of the {weights / 1e9:,.3f} GB of {dtype} weights; "
    )
    full = weights * batch_size / cache
    sentence += f"it equals them at {full:,.1f} such texts."
    rule = "2 x blocks x KV heads x head size x positions x bytes, per text; windows bound it."
    return Finding(sentence, rule, "Pope et al., 2022; Ainslie et al., 2023")


def _limits(acc: Account, on: Accelerator, S: int, dtype: str, batch_size: int) -> Finding:
    step = decode_limit(acc, on, S, batch_size, dtype)
    sentence = (
        f"On {on.name} decoding token {S:,} of {batch_size} text(s) is {step.bound}-bound:"
        f" {step.intensity:,.2f} FLOPs per byte against {on.ridge:,.0f}, so at most"
        f" {step.tokens_per_second:,.0f} tokens/s; "
    )
    batch = ridge_batch(acc, on, S, dtype)
    if batch is None:
        sentence += "no batch makes arithmetic the limit, because each text brings its own cache."
    else:
        sentence += f"arithmetic is the limit from {batch:,} texts on."
    room = on.memory - acc.bytes(dtype)
    each = acc.kv_cache_bytes(S, cache_dtype(dtype))
    if room < 0:
        sentence += f" The weights do not fit into its {on.memory / 1e9:,.0f} GB."
    else:
        sentence += f" Beside the weights its memory has room for {int(room // each):,} such texts."
    rule = "Time is at least FLOPs / peak and at least bytes / bandwidth; the larger one holds."
    return Finding(sentence, rule, f"Williams et al., 2009; {on.source}")


def _unusual(acc: Account) -> Iterator[Finding]:
    s, a = acc.shape, acc.shape.attention
    if a.latent is None and a.n_heads * a.head_dim != s.emb_dim:
        yield Finding(
            f"Unusual: the heads together are {a.n_heads * a.head_dim:,} wide, the residual"
            f" stream {s.emb_dim:,}.",
            "Heads x head size equals the width in most models.",
            "Vaswani et al., 2017, section 3.2.2",
        )
    if s.vocab_size % 64:
        yield Finding(
            f"Unusual: {s.vocab_size:,} tokens are not a multiple of 64;"
            f" {-s.vocab_size % 64} more rows would fill the tiles of the head's product.",
            "Sizes that are multiples of 64 in 16 bits use the matrix units fully.",
            "NVIDIA, Deep Learning Performance: Matrix Multiplication; nanoGPT pads to 50,304",
        )
    tables = acc.parts["embeddings"] + acc.parts["head"]
    if tables > 0.2 * acc.total:
        kind = "tied to" if s.tied else "apart from"
        yield Finding(
            f"Unusual in large models: tables and head hold {tables / acc.total:.1%} of the"
            f" parameters; the head is {kind} the token table.",
            "The share falls as models grow; above a fifth a head of its own is dear.",
            "Press and Wolf, 2017, for tying; the threshold of a fifth is ours",
        )
    bounded = [w for w in s.windows if w is not None]
    if bounded:
        yield Finding(
            f"Unusual: {len(bounded)} of {s.n_layers} blocks look back on"
            f" {max(bounded):,} positions only.",
            "A window bounds cache and attention; deeper blocks reach further through others.",
            "Beltagy et al., 2020, section 3.1; Jiang et al., 2023",
        )


def _chinchilla(acc: Account, tokens: float) -> Finding:
    ratio = tokens_per_parameter(acc, tokens)
    way = "fewer" if ratio < CHINCHILLA else "more"
    sentence = (
        f"{tokens:,.0f} training tokens are {ratio:,.1f} per (active) parameter, {way} than"
        f" {CHINCHILLA}; they take {training_flops(acc, tokens):.3g} FLOPs"
        f" (6 N D = {6 * acc.active * tokens:.3g})."
    )
    rule = "For the least training compute about 20 tokens per parameter; more serve cheap reading."
    return Finding(sentence, rule, "Hoffmann et al., 2022, table 3; found on dense models")
