"""Train from first weights of several sizes, and write `notebooks/results/first_weights.json`.

python tools/experiment_first_weights.py     # about six minutes of one core
"""

import argparse
from functools import partial
from itertools import product
from typing import Any

import torch
from small_runs import SHAPE, curve, store, trained

from gptlib import GPT, GPTConfig

SEEDS, STEPS, BLOCKS = range(5), 300, 4
SPREADS = (0.002, 0.02, None, 0.5)  # None is one over the root of the width
WIDTHS: dict[int, dict[str, Any]] = {64: {}, 256: {"emb_dim": 256}}


@torch.no_grad()
def scaled(cfg: GPTConfig, spread: float) -> GPT:
    """Return a GPT whose matrices are drawn as GPT-2's, with `spread` in place of 0.02."""
    model = GPT(cfg)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter *= spread / 0.02
    return model


def main() -> None:
    """Train from each size of first weights, at two widths."""
    torch.set_num_threads(1)
    runs = []
    for (width, changes), spread, seed in product(WIDTHS.items(), SPREADS, SEEDS):
        size = spread or width**-0.5
        build = partial(scaled, spread=size)
        more = {"warmup": 50, "n_layers": BLOCKS, "build": build, **changes}
        trainer = trained(seed, steps=STEPS, rate=1e-3, **more)
        run = {"width": width, "spread": size, "seed": seed, "losses": curve(trainer)}
        runs.append(run)
        print(run, flush=True)
    what = (
        f"{BLOCKS} blocks, {STEPS} steps of AdamW at 0.001 after 50 steps of warm-up; losses in"
        " nats per byte on 64 held-out windows"
    )
    store("first_weights", {"what": what, "shape": SHAPE, "runs": runs})


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help trains nothing
    main()
