"""Tiny GGUF files with random weights, for the tests that read them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from gptlib.text.tokenizers import byte_of_printed_char

KIND = gguf.GGMLQuantizationType
MERGES = ["Ġ t", "h e", "Ġt he", "i n"]
TOKENS = [*byte_of_printed_char(), *(m.replace(" ", "") for m in MERGES), "<|endoftext|>", "<|hi|>"]
# Width 256, so that a row is one block of the K-quants; 4 query heads share 2 of keys and values.
SIZES = {
    "block_count": 2,
    "context_length": 32,
    "embedding_length": 256,
    "feed_forward_length": 512,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 5000.0,
}
QUANTISED = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]  # the library can
K_QUANTS = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]  # the library reads them only


def shapes(architecture: str = "llama", *, tied: bool = True) -> dict[str, tuple[int, ...]]:
    """Return the tensors of a model with SIZES, rows first."""
    C, F, V, q, kv = 256, 512, len(TOKENS), 256, 128
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (V, C), "output_norm.weight": (C,)}
    if not tied:
        found["output.weight"] = (V, C)
    for i in range(2):
        block: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (C,),
            "attn_q.weight": (q, C),
            "attn_k.weight": (kv, C),
            "attn_v.weight": (kv, C),
            "attn_output.weight": (C, q),
            "ffn_norm.weight": (C,),
            "ffn_gate.weight": (F, C),
            "ffn_up.weight": (F, C),
            "ffn_down.weight": (C, F),
        }
        if architecture == "qwen2":
            block |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
        if architecture == "qwen3":
            block |= {"attn_q_norm.weight": (64,), "attn_k_norm.weight": (64,)}
        found |= {f"blk.{i}.{name}": shape for name, shape in block.items()}
    return found


def stored(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return random numbers as a file holds them; vectors stay float32, as in real files."""
    if len(shape) == 1:
        return (1 + 0.1 * rng.standard_normal(shape)).astype(np.float32)
    if kind in K_QUANTS:
        return random_blocks(shape, kind, rng)
    values = (0.05 * rng.standard_normal(shape)).astype(np.float32)
    return gguf.quantize(values, KIND[kind])


def random_blocks(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return blocks of random bits, without those whose scales are no numbers."""
    block, size = gguf.GGML_QUANT_SIZES[KIND[kind]]
    wanted = shape[0] * shape[1] // block
    blocks = rng.integers(0, 256, (2 * wanted, size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        values = gguf.dequantize(blocks, KIND[kind])
    return blocks[np.isfinite(values).all(axis=1)][:wanted].reshape(shape[0], -1)


def write(
    path: Path,
    *,
    architecture: str = "llama",
    kind: str = "F32",
    tied: bool = True,
    without: str = "",
    changed: Mapping[str, Any] = {},
    tensors: Mapping[str, tuple[np.ndarray, str]] = {},
) -> dict[str, tuple[np.ndarray, str]]:
    """Write a file; return each tensor's stored form and kind.

    Args:
        without: a key or a tensor to leave out.
        changed: keys, with the architecture's in front of those that begin with a dot.
        tensors: other tensors, or others of the same name.
    """
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, architecture)
    about: dict[str, Any] = {
        **{f"{architecture}.{key}": value for key, value in SIZES.items()},
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2" if architecture.startswith("qwen") else "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [1] * (len(TOKENS) - 2) + [3, 3],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": len(TOKENS) - 2,
    }
    about |= {f"{architecture}{k}" if k[0] == "." else k: v for k, v in changed.items()}
    for key, value in about.items():
        if key != without:
            _add(writer, key, value)
    made = {
        name: (stored(shape, kind, rng), kind if len(shape) == 2 else "F32")
        for name, shape in shapes(architecture, tied=tied).items()
        if name != without
    } | dict(tensors)
    for name, (values, of) in made.items():
        writer.add_tensor(name, values, raw_dtype=KIND[of])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)
