"""The NumPy engine: a training step against torch's, decoding against transformers.

Training: 4 layers, 4 heads, 128 wide, 64 positions, batch 12, float32; forward, backward, clipping
and AdamW on both sides, torch in eager mode. Decoding: GPT-2 small's shape, batch 1, a prompt of 32
tokens, greedy, the same ids asserted. The figures are ratios of medians of runs taken in turn.
"""

import numpy as np
import torch
from _common import NEW, PROMPT, medians, reference_generate, reference_model, same_weights

from gptlib import GPT, GPTConfig, NumpyGPT, TrainConfig, Trainer, corpus, generate
from gptlib.numpy_gpt import AdamW, clip_grad_norm


def training() -> None:
    """Print the ratio of a training step."""
    cfg = GPTConfig.preset("mini", context_length=64)
    tokens = np.random.default_rng(0).integers(256, size=100_000)
    torch.manual_seed(0)
    trainer = Trainer(GPT(cfg), tokens, tokens, TrainConfig.plain(batch_size=12))
    net = NumpyGPT.from_torch(trainer.model)
    optimizer = AdamW(net.params)
    rng = np.random.default_rng(0)

    def numpy_step() -> None:
        _, grads = net.loss_and_grads(*corpus.random_windows(tokens, 12, 64, rng))
        clip_grad_norm(grads, 1.0)
        optimizer.step(grads)

    for _ in range(5):  # warm both up
        trainer.step()
        numpy_step()
    torchs, numpys = medians(trainer.step, numpy_step, rounds=40)
    print(
        f"training step: {1e3 * numpys:.0f} ms against torch's {1e3 * torchs:.0f} ms,"
        f" ratio {numpys / torchs:.2f}"
    )


def decoding() -> None:
    """Print the ratio of decoding."""
    reference = reference_model()
    net = NumpyGPT.from_torch(same_weights(reference))

    def ours() -> list[int]:
        return generate(net, PROMPT, NEW, temperature=0)

    def theirs() -> list[int]:
        return reference_generate(reference)

    assert ours() == theirs(), "the two models continue differently"
    slow, fast = medians(theirs, ours)
    print(
        f"decode, float32: {NEW / fast:.1f} tokens/s against transformers' {NEW / slow:.1f},"
        f" ratio {slow / fast:.2f}"
    )


if __name__ == "__main__":
    training()
    decoding()
