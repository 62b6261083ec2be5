"""Train Pre-LN and Post-LN side by side, and write `notebooks/results/norm_order.json`.

python tools/experiment_norm_order.py     # about a quarter of an hour of one core
"""

import argparse
from itertools import product

import torch
from small_runs import SHAPE, alike, curve, frequencies, gradient_ratio, store, trained

SEEDS, STEPS, BLOCKS = range(5), 200, 12
STARTS, RATES, WARMUPS = ("torch", "gpt2"), (1e-3, 3e-3, 1e-2), (0, 100)


def main() -> None:
    """Train every combination from every seed."""
    torch.set_num_threads(1)
    runs = []
    for init, rate, warmup, norm_first in product(STARTS, RATES, WARMUPS, (True, False)):
        for seed in SEEDS:
            switches = {"init": init, "norm_first": norm_first, "n_layers": BLOCKS}
            trainer = trained(seed, steps=STEPS, rate=rate, warmup=warmup, **switches)
            run = {"init": init, "rate": rate, "warmup": warmup, "norm_first": norm_first}
            run |= {"seed": seed, "losses": curve(trainer), "alike": round(alike(trainer), 3)}
            run["ratio"] = float(f"{gradient_ratio(trainer):.3g}")
            runs.append(run)
            print(run, flush=True)
    what = (
        f"{BLOCKS} blocks, {STEPS} steps of AdamW at a constant rate after a linear warm-up;"
        " losses in nats per byte on 64 held-out windows; alike: mean cosine of the positions of"
        " a window after the last block; ratio: block 12's gradient norm over block 1's at the end"
    )
    shared = {"what": what, "shape": SHAPE, "frequencies": frequencies(SHAPE["context_length"])}
    store("norm_order", {**shared, "runs": runs})


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help trains nothing
    main()
