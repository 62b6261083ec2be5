"""What arithmetic and memory of an accelerator allow: the roofline of reading and of writing."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

from gptlib.accounting.accounts import Account, cache_dtype, component_bytes


@dataclass(frozen=True)
class Accelerator:
    """Describe one accelerator by its peak figures; real programs reach a part of both."""

    name: str
    flops: float  # dense 16-bit matrix products with wide sums, FLOP/s
    bandwidth: float  # memory, bytes/s
    memory: float  # bytes
    source: str

    @property
    def ridge(self) -> float:
        """Return the FLOPs per byte from which arithmetic is the limit (Williams et al., 2009)."""
        return self.flops / self.bandwidth


def _accelerator(name: str, tflops: float, gb_s: float, gb: float, source: str) -> Accelerator:
    return Accelerator(name, tflops * 1e12, gb_s * 1e9, gb * 1e9, source)


# Dense figures; data sheets that quote sparsity are halved.
ACCELERATORS: dict[str, Accelerator] = {
    a.name: a
    for a in (
        _accelerator("v100", 125, 900, 32, "NVIDIA V100 data sheet, SXM2 32 GB, fp16"),
        _accelerator("a100", 312, 2039, 80, "NVIDIA A100 data sheet, SXM4 80 GB"),
        _accelerator("h100", 989.4, 3350, 80, "NVIDIA H100 data sheet, SXM5, without sparsity"),
        _accelerator("h200", 989.4, 4800, 141, "NVIDIA H200 data sheet, SXM, without sparsity"),
        _accelerator("b200", 2250, 8000, 180, "NVIDIA DGX B200 data sheet, an eighth, no sparsity"),
        _accelerator("mi300x", 1307.4, 5300, 192, "AMD Instinct MI300X data sheet, no sparsity"),
        _accelerator("tpu-v5e", 197, 819, 16, "Google Cloud TPU v5e documentation"),
        _accelerator("rtx4090", 165.2, 1008, 24, "NVIDIA Ada white paper, fp32 sums, no sparsity"),
    )
}


def accelerator(name: str) -> Accelerator:
    """Return an accelerator by name.

    Raises:
        ValueError: the name is unknown; the message, worded for `--machine`, lists the known ones.
    """
    if name not in ACCELERATORS:
        raise ValueError(f"unknown machine {name!r}; known machines: {', '.join(ACCELERATORS)}")
    return ACCELERATORS[name]


@dataclass(frozen=True)
class Limit:
    """State the two lower bounds on the time of one pass, and which one holds."""

    flops: float  # of the pass
    bytes: float  # weights and cache that it must move at least once
    compute_seconds: float
    memory_seconds: float
    tokens: int  # that the pass reads or writes

    @property
    def intensity(self) -> float:
        """Return the arithmetic intensity, FLOPs per byte."""
        return self.flops / self.bytes

    @property
    def seconds(self) -> float:
        """Return the larger bound."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def bound(self) -> Literal["memory", "compute"]:
        """Return what limits the pass."""
        return "memory" if self.memory_seconds >= self.compute_seconds else "compute"

    @property
    def tokens_per_second(self) -> float:
        """Return the most tokens per second, over the whole batch."""
        return self.tokens / self.seconds


def weight_bytes_read(acc: Account, n_tokens: int, dtype: str) -> float:
    """Return the weight bytes that a pass over `n_tokens` tokens must read.

    Every matrix once; of tables that are only looked up, one row for each token. Of E experts, of
    which a token visits k, n tokens that choose evenly and independently are expected to visit
    E (1 - (1 - k/E)^n).
    """
    rows = {"token table": acc.shape.vocab_size, "position table": acc.shape.position_rows}
    total = 0.0
    for c in acc.components:
        size = float(component_bytes(c, dtype))
        if c.name in rows and not (c.name == "token table" and acc.shape.tied):
            size *= min(n_tokens / rows[c.name], 1)
        elif c.active < c.parameters:
            size *= 1 - (1 - c.active / c.parameters) ** n_tokens
        total += size
    return total


def decode_limit(
    acc: Account, on: Accelerator, S: int, batch_size: int = 1, dtype: str = "bf16"
) -> Limit:
    """Return the limit of one step that gives each of `batch_size` texts its token number `S`.

    It reads the weights once for the whole batch, and each text's own cache (Pope et al., 2022,
    section 2), stored as `cache_dtype` says.
    """
    cache = acc.kv_cache_bytes(S, cache_dtype(dtype), batch_size)
    moved = weight_bytes_read(acc, batch_size, dtype) + cache
    return _limit(on, batch_size * acc.decode_flops(S), moved, batch_size)


def prefill_limit(
    acc: Account, on: Accelerator, T: int, batch_size: int = 1, dtype: str = "bf16"
) -> Limit:
    """Return the limit of reading `batch_size` prompts of `T` tokens, causal pairs only.

    It reads the weights and writes the cache once; activations are taken to stay on the chip.
    """
    n = batch_size * T
    cache = acc.kv_cache_bytes(T, cache_dtype(dtype), batch_size)
    moved = weight_bytes_read(acc, n, dtype) + cache
    return _limit(on, n * acc.flops_per_token(T, causal=True), moved, n)


def limits(acc: Account, on: Accelerator, S: int, batch_size: int, dtype: str) -> dict[str, Limit]:
    """Return the limits of both passes: decoding token number `S`, and reading `S` tokens."""
    return {
        "decode": decode_limit(acc, on, S, batch_size, dtype),
        "prefill": prefill_limit(acc, on, S, batch_size, dtype),
    }


def ridge_batch(
    acc: Account, on: Accelerator, S: int, dtype: str = "bf16", most: int = 2**20
) -> int | None:
    """Return the smallest batch whose decoding step is limited by arithmetic.

    None where no batch up to `most` is: the caches grow with the batch and keep memory the limit.
    """

    def computes(batch: int) -> bool:
        return decode_limit(acc, on, S, batch, dtype).bound == "compute"

    below = bisect_left(range(1, most + 1), True, key=computes)
    return below + 1 if below < most else None


def _limit(on: Accelerator, flops: float, moved: float, tokens: int) -> Limit:
    return Limit(flops, moved, flops / on.flops, moved / on.bandwidth, tokens)
