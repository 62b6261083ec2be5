"""The accounts as a table for a terminal of 80 columns, side by side, or as JSON."""

from __future__ import annotations

import dataclasses
import textwrap
from typing import Any, get_args

from gptlib._helpers.messages import shown
from gptlib.accounting.accelerators import Accelerator, limits
from gptlib.accounting.accounts import BITS, Account, CacheKind, cache_dtype, component_bytes
from gptlib.accounting.assessment import Finding
from gptlib.accounting.training import (
    activation_bytes,
    optimizer_bytes,
    tokens_per_parameter,
    training_bytes,
    training_flops,
)

WIDTH = 80


def human_bytes(n: float) -> str:
    """Return bytes in MB or GB, powers of ten."""
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.2f} MB"


def human_flops(n: float) -> str:
    """Return FLOPs with a prefix."""
    for size, unit in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")):
        if n >= size:
            return f"{n / size:,.3f} {unit}"
    return f"{n:,.0f} FLOP"


def as_dict(
    acc: Account, on: Accelerator, S: int, dtype: str, batch_size: int, findings: list[Finding]
) -> dict[str, Any]:
    """Return every figure under a name, ready for JSON."""
    store, kinds = cache_dtype(dtype), get_args(CacheKind)
    return {
        "architecture": acc.shape.architecture,
        "total": acc.total,
        "active": acc.active,
        "buffers": acc.buffers,
        "components": [
            {**dataclasses.asdict(c), "share": c.parameters / acc.total, "per_block": c.per_block}
            for c in acc.components
        ],
        "parts": acc.parts,
        "bytes": {name: acc.bytes(name) for name in BITS},
        "context": S,
        "batch_size": batch_size,
        "dtype": dtype,
        "kv_cache_dtype": store,
        "kv_cache_bytes": {k: acc.kv_cache_bytes(S, store, batch_size, k) for k in kinds},
        "flops_per_token": {
            "rule_2n": acc.rule_flops,
            "matrices": acc.matrix_flops,
            "prefill_full": acc.flops_per_token(S),
            "prefill_causal": acc.flops_per_token(S, causal=True),
            "decode": acc.decode_flops(S),
            "training_causal": acc.flops_per_token(S, causal=True, training=True),
        },
        "training_bytes": {
            "fp32_adamw": training_bytes(acc).total,
            "mixed_adamw": training_bytes(acc, precision="mixed").total,
            "adamw_state": optimizer_bytes(acc),
            "muon_state": optimizer_bytes(acc, "muon"),
            "activations_estimate": activation_bytes(acc, S, batch_size),
        },
        "machine": dataclasses.asdict(on),
        "limits": {
            name: {
                **dataclasses.asdict(limit),
                "intensity": limit.intensity,
                "bound": limit.bound,
                "tokens_per_second": limit.tokens_per_second,
            }
            for name, limit in limits(acc, on, S, batch_size, dtype).items()
        },
        "notes": list(acc.shape.notes),
        "assessment": [dataclasses.asdict(f) for f in findings],
    }


def table(
    name: str,
    acc: Account,
    on: Accelerator,
    S: int,
    dtype: str,
    batch_size: int,
    findings: list[Finding],
) -> str:
    """Return the accounts of one model in lines of at most 80 characters."""
    lines = [_cut(f"{shown(name)} ({acc.shape.architecture})", WIDTH)]
    lines += [line for note in acc.shape.notes for line in _wrapped(f"note: {note}")]
    rows = [("component", "blocks", "parameters", "share", dtype)]
    for c in acc.components:
        share = f"{c.parameters / acc.total:.2%}"
        size = human_bytes(component_bytes(c, dtype))
        rows.append((c.name, str(c.blocks or ""), f"{c.parameters:,}", share, size))
    rows.append(("total", "", f"{acc.total:,}", "100.00%", human_bytes(acc.bytes(dtype))))
    lines += ["", *(f"{a:<24.24}{b:>7}{c:>21}{d:>10}{e:>16}" for a, b, c, d, e in rows)]
    below = facts(acc, on, S, dtype, batch_size)
    lines += ["", *(f"{what:<42}{value:>36}" for what, value in below)]
    for finding in findings:
        lines += ["", *_wrapped(finding.sentence)]
        lines += _wrapped(f"Rule: {finding.rule} Source: {finding.source}.", "  ")
    return "\n".join(lines)


def compare(
    names: tuple[str, str],
    accounts: tuple[Account, Account],
    on: Accelerator,
    contexts: tuple[int, int],
    dtype: str,
    batch_size: int,
    training_tokens: float | None = None,
) -> str:
    """Return two models side by side in lines of at most 80 characters."""
    left, right = (_cut(shown(name), 23) for name in names)
    lines = [f"{'':<32}{left:>24}{right:>24}"]
    both = [{c.name: c.parameters for c in acc.components} for acc in accounts]
    for name in dict.fromkeys([*both[0], *both[1]]):
        left, right = (f"{b[name]:,}" if name in b else "-" for b in both)
        lines.append(f"{name:<32.32}{left:>24}{right:>24}")
    lines.append("")
    columns = [
        facts(acc, on, S, dtype, batch_size, short=True) + _trained(acc, training_tokens)
        for acc, S in zip(accounts, contexts, strict=True)
    ]
    for (what, left), (_, right) in zip(*columns, strict=True):
        lines.append(f"{what:<32.32}{left:>24}{right:>24}")
    return "\n".join(lines)


def facts(
    acc: Account, on: Accelerator, S: int, dtype: str, batch_size: int, short: bool = False
) -> list[tuple[str, str]]:
    """Return the figures below the ledger, as pairs of a label and a value with its unit."""
    store = cache_dtype(dtype)
    cache = acc.kv_cache_bytes(S, store, batch_size)
    at = "" if short else f", {batch_size} x {S:,} tokens"
    rows = [("parameters", f"{acc.total:,}"), ("active parameters", f"{acc.active:,}")]
    if short:
        rows.append(("context (tokens)", f"{S:,}"))
    if acc.buffers and not short:
        rows.append(("stored beside them, not trained", f"{acc.buffers:,}"))
    rows += [(f"weights, {d}", human_bytes(acc.bytes(d))) for d in ("fp32", "bf16", "int8", "int4")]
    rows.append((f"KV cache, {store}{at}", human_bytes(cache)))
    if acc.shape.attention.latent is not None and not short:
        full = acc.kv_cache_bytes(S, store, batch_size, "expanded")
        kept = acc.kv_cache_bytes(S, store, batch_size, "transformers")
        rows += [("  as transformers keeps it", human_bytes(kept))]
        rows += [("  if keys and values were expanded", human_bytes(full))]
    rows += [
        ("KV cache per token", f"{acc.kv_cache_bytes(1, store):,} B"),
        ("FLOPs per token, 2N rule", human_flops(acc.rule_flops)),
        ("  prefill, all pairs", human_flops(acc.flops_per_token(S))),
        ("  prefill, causal pairs", human_flops(acc.flops_per_token(S, causal=True))),
        ("  decode, last token", human_flops(acc.decode_flops(S))),
        ("  training, causal", human_flops(acc.flops_per_token(S, causal=True, training=True))),
        ("training, AdamW in fp32", human_bytes(training_bytes(acc).total)),
        ("  mixed precision", human_bytes(training_bytes(acc, precision="mixed").total)),
        ("  activations (estimate)", human_bytes(activation_bytes(acc, S, batch_size))),
        ("  state of AdamW", human_bytes(optimizer_bytes(acc))),
        ("  state of Muon", human_bytes(optimizer_bytes(acc, "muon"))),
    ]
    for name, limit in reversed(limits(acc, on, S, batch_size, dtype).items()):
        rows.append((f"{name} on {on.name}, at most", f"{limit.tokens_per_second:,.0f} tokens/s"))
        rows.append(("  limit and FLOPs per byte", f"{limit.bound}, {limit.intensity:,.1f}"))
    return rows


def _trained(acc: Account, tokens: float | None) -> list[tuple[str, str]]:
    """Return what the training tokens come to, where they are known."""
    if tokens is None:
        return []
    return [
        ("training tokens per parameter", f"{tokens_per_parameter(acc, tokens):,.1f}"),
        ("training FLOPs in all", f"{training_flops(acc, tokens):.3g}"),
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[-width + 1 :]


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent or "  ")
