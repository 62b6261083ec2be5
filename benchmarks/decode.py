"""Decoding at GPT-2 small's shape: ours against transformers, and the cache against none.

Batch 1, a prompt of 32 tokens, float32, the same random weights on both sides, greedy, the same ids
asserted. The two are timed in turn, so that a slow moment of the machine hits both; the figure is
the ratio of medians.
"""

import statistics
import time
from collections.abc import Callable

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from gptlib import GPT, GPTConfig, generate

PROMPT, NEW, ROUNDS = list(range(1000, 1032)), 64, 5
CACHE_NEW = 200  # the uncached path is timed once, over the length the promise names


def same_weights(reference: GPT2LMHeadModel) -> GPT:
    """Build our model with the weights of a transformers model, whose Conv1D stores (in, out)."""
    model = GPT(GPTConfig.preset("gpt2-small")).eval()
    theirs = reference.state_dict()
    ours = model.state_dict()
    names = {"tok_emb": "wte", "pos_emb": "wpe", "final_norm": "ln_f"}
    parts = {
        "norm1": "ln_1",
        "norm2": "ln_2",
        "attn.qkv": "attn.c_attn",
        "attn.out_proj": "attn.c_proj",
        "ff.up": "mlp.c_fc",
        "ff.down": "mlp.c_proj",
    }
    for i in range(model.cfg.n_layers):
        names |= {f"blocks.{i}.{a}": f"h.{i}.{b}" for a, b in parts.items()}
    for name, value in ours.items():
        stem, kind = name.rsplit(".", 1)
        if stem == "head":
            continue  # tied to the token table
        source = theirs[
            f"transformer.{names[stem]}.{'bias' if kind in ('bias', 'shift') else 'weight'}"
        ]
        transposed = kind == "weight" and stem not in ("tok_emb", "pos_emb")
        value.copy_(source.T if transposed else source)
    return model


def seconds(call: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Print the two ratios."""
    torch.manual_seed(0)
    reference = GPT2LMHeadModel(GPT2Config(pad_token_id=0, eos_token_id=None)).eval()
    model = same_weights(reference)
    prompt = torch.tensor([PROMPT])

    def theirs() -> list[int]:
        with torch.no_grad():
            out = reference.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=NEW,
                do_sample=False,
                use_cache=True,
            )
        return out[0].tolist()

    def ours(new: int = NEW, use_cache: bool = True) -> list[int]:
        return generate(model, PROMPT, new, temperature=0, use_cache=use_cache)

    assert ours() == theirs(), "the two models continue differently"  # and a warm-up of both
    times = [(seconds(theirs), seconds(ours)) for _ in range(ROUNDS)]
    slow, fast = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"decode, float32: {NEW / fast:.1f} tokens/s against transformers' {NEW / slow:.1f},"
        f" ratio {slow / fast:.2f}"
    )
    cached, uncached = seconds(lambda: ours(CACHE_NEW)), seconds(lambda: ours(CACHE_NEW, False))
    print(f"{CACHE_NEW} new tokens: the cache is {uncached / cached:.1f} times faster than none")


if __name__ == "__main__":
    main()
