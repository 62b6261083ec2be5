"""What the benchmarks share: the reference model with our weights, and fair timing."""

import statistics
import time
from collections.abc import Callable

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from gptlib import GPT, gpt2

PROMPT = list(range(1000, 1032))  # 32 tokens
NEW = 64


def medians(*calls: Callable[[], object], rounds: int = 5) -> list[float]:
    """Return the median seconds of each call, timed in turn so that a slow moment hits them all."""
    times = []
    for _ in range(rounds):
        row = []
        for call in calls:
            start = time.perf_counter()
            call()
            row.append(time.perf_counter() - start)
        times.append(row)
    return [statistics.median(column) for column in zip(*times, strict=True)]


def reference_model() -> GPT2LMHeadModel:
    """Return transformers' GPT-2 small with random weights."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(pad_token_id=0, eos_token_id=None)).eval()


def reference_generate(reference: GPT2LMHeadModel) -> list[int]:
    """Continue PROMPT greedily by NEW tokens with transformers' cached `generate`."""
    prompt = torch.tensor([PROMPT])
    with torch.no_grad():
        out = reference.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW,
            do_sample=False,
            use_cache=True,
        )
    ids: list[int] = out[0].tolist()
    return ids


def same_weights(reference: GPT2LMHeadModel) -> GPT:
    """Build our model with a copy of the weights of a transformers model."""
    return gpt2.load(reference.state_dict())
