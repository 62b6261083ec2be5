"""Train stacks with and without addition and norm, and write `notebooks/results/residual.json`.

python tools/experiment_residual.py     # about four minutes of one core
"""

import argparse
from functools import partial
from itertools import product

import torch
from small_runs import (
    SHAPE,
    alike,
    alike_across,
    curve,
    frequencies,
    gradient_ratio,
    store,
    trained,
)
from torch import Tensor, nn

from gptlib import GPT, GPTConfig, Trainer
from gptlib.attention import Trace
from gptlib.kv_cache import KVCache
from gptlib.model import Block

SEEDS, STEPS, BLOCKS, RATE = range(5), 300, 12, 3e-3
LOOKS = (0, 5, 10, 20, 50, 100, 200, 300)  # steps after which gradients are compared


def forward(
    block: Block,
    x: Tensor,
    layer: int = 0,
    cache: KVCache | None = None,
    trace: Trace | None = None,
    *,
    keep: float,
) -> Tensor:
    """Run a block that adds `keep` times its input."""
    x = keep * x + block.attn(block.norm1(x), layer, cache, trace)
    out: Tensor = keep * x + block.ff(block.norm2(x))
    return out


def stack(cfg: GPTConfig, keep: float, norm: bool) -> GPT:
    """Return a GPT with or without the additions and the norms."""
    model = GPT(cfg)
    for block in model.blocks:
        block.forward = partial(forward, block, keep=keep)
        if not norm:
            block.norm1 = block.norm2 = nn.Identity()
    if not norm:
        model.final_norm = nn.Identity()  # type: ignore[assignment]
    return model


def note_ratio(ratios: list[list[float]], trainer: Trainer) -> None:
    """Append the steps taken and block 12's gradient over block 1's."""
    ratios.append([len(trainer.history), float(f"{gradient_ratio(trainer):.3g}")])


def main() -> None:
    """Train the four stacks from every seed."""
    torch.set_num_threads(1)
    runs = []
    for keep, norm, seed in product((1, 0), (True, False), SEEDS):
        ratios: list[list[float]] = []
        look = partial(note_ratio, ratios)
        trainer = trained(
            seed,
            steps=STEPS,
            rate=RATE,
            warmup=50,
            build=partial(stack, keep=keep, norm=norm),
            n_layers=BLOCKS,
            init="torch",
            looks=dict.fromkeys(LOOKS, look),
        )
        run = {"keep": keep, "norm": norm, "seed": seed, "losses": curve(trainer)}
        likeness = {"alike": alike(trainer), "across": alike_across(trainer)}
        run |= {name: round(value, 3) for name, value in likeness.items()}
        runs.append({**run, "ratios": ratios})
        print(runs[-1], flush=True)
    what = (
        f"{BLOCKS} blocks, torch's first weights, {STEPS} steps of AdamW at {RATE} after 50 steps"
        " of warm-up; losses in nats per byte on 64 held-out windows; alike: mean cosine of the"
        " positions of a window after the last block; across: of the last positions of two windows;"
        " ratios: steps, and the gradient norm of block 12 over block 1's on these windows"
    )
    shared = {"what": what, "shape": SHAPE, "frequencies": frequencies(SHAPE["context_length"])}
    store("residual", {**shared, "runs": runs})


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help trains nothing
    main()
