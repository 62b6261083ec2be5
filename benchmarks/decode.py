"""Decoding at GPT-2 small's shape: against transformers, the memory and no cache.

Batch 1, a prompt of 32 tokens, the same random weights on both sides, greedy, the same ids asserted
in float32. Ratios are of medians of runs taken in turn; the bandwidth is measured beside them.
"""

import numpy as np
import torch
from _common import NEW, PROMPT, medians, reference_generate, reference_model, same_weights

from gptlib import (
    GPT,
    ByteTokenizer,
    GPTConfig,
    TrainConfig,
    Trainer,
    corpus,
    for_decoding,
    generate,
    stream,
)
from gptlib.numpy_gpt.packed import Precision

CACHE_NEW = 200
PRECISIONS: dict[Precision, int] = {"float32": 4, "bfloat16": 2, "int8": 1}  # bytes per weight


def main() -> None:
    """Print every ratio."""
    against_transformers()
    against_no_cache()
    loss_by_precision()


def against_transformers() -> None:
    """Print tokens per second of each precision, and the share of the memory's bandwidth."""
    reference = reference_model()
    plain = same_weights(reference)
    models = {"plain torch": plain} | {p: for_decoding(plain, p) for p in PRECISIONS}
    calls = [
        lambda model=model: generate(model, PROMPT, NEW, temperature=0) for model in models.values()
    ]
    expected = reference_generate(reference)  # and a warm-up of all
    same = [call() == expected for call in calls]
    assert all(same[:2]), "float32 continues differently from transformers"
    big = torch.ones(100_000_000)  # summed by all cores
    slow, read, *fast = medians(lambda: reference_generate(reference), big.sum, *calls, rounds=5)
    bandwidth = big.nbytes / read
    print(f"transformers: {NEW / slow:.1f} tokens/s; memory read at {bandwidth / 1e9:.1f} GB/s")
    weights = plain.num_params() - plain.pos_emb.weight.numel()  # what a step reads
    for name, seconds in zip(models, fast, strict=True):
        limit = PRECISIONS.get(name, 4) * weights / bandwidth
        print(
            f"{name:>12}: {NEW / seconds:.1f} tokens/s, ratio {slow / seconds:.2f}, "
            f"{limit * NEW / seconds:.2f} of the bandwidth limit"
        )


def against_no_cache() -> None:
    """Print what the cache saves, and how the time per token grows with the position."""
    torch.manual_seed(0)
    net = for_decoding(GPT(GPTConfig.preset("gpt2-small")))
    cached, uncached = medians(
        lambda: generate(net, PROMPT, CACHE_NEW, temperature=0),
        lambda: generate(net, PROMPT, CACHE_NEW, temperature=0, use_cache=False),
        rounds=1,
    )
    print(f"{CACHE_NEW} new tokens: the cache is {uncached / cached:.1f} times faster than none")
    steps = stream(net, PROMPT, 1024 - len(PROMPT), temperature=0)
    times = 1e3 * np.array([step.seconds for step in steps])[1:]  # without the prompt's
    middles = np.arange(64, len(times), 128)
    medians_ms = np.array([np.median(times[m - 64 : m + 64]) for m in middles])
    slope, start = np.polyfit(middles, medians_ms, 1)
    off = np.abs(medians_ms - (start + slope * middles)).max() / medians_ms.mean()
    print("position " + "".join(f"{m + len(PROMPT):7}" for m in middles))
    print("ms/token " + "".join(f"{ms:7.1f}" for ms in medians_ms))
    print(
        f"a straight line, {start:.1f} ms + {1e3 * slope:.1f} ms per 1,000 positions, misses at"
        f" most {off:.0%}"
    )


def loss_by_precision() -> None:
    """Print the validation loss of a quickly trained mini model in each precision."""
    cfg = GPTConfig.preset("mini", context_length=64)
    tokens = corpus.encode_corpus(corpus.shakespeare(), ByteTokenizer())
    torch.manual_seed(0)
    config = TrainConfig.plain(steps=300, learning_rate=3e-3, warmup_steps=50)
    trainer = Trainer(GPT(cfg), *corpus.split(tokens, context_length=64), config)
    trainer.run(progress=False)
    exact = trainer.evaluations[-1].loss
    for precision in PRECISIONS:
        loss = for_decoding(trainer.model, precision).loss(*trainer.val_windows)
        print(f"{precision:>12}: loss {loss:.4f} on held-out text, {loss / exact - 1:+.2%}")


if __name__ == "__main__":
    main()
