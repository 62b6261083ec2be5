"""Train with the head tied to the token table and with a head of its own, on the same batches.

python tools/experiment_tied.py     # writes notebooks/results/tied.json; three minutes of one core
"""

import argparse
from itertools import product

import torch
from small_runs import SHAPE, curve, store, trained

SEEDS, STEPS, BLOCKS, RATES = range(5), 1000, 4, (1e-3, 3e-3)


def main() -> None:
    """Train both kinds at each rate from every seed."""
    torch.set_num_threads(1)
    runs = []
    for rate, tied, seed in product(RATES, (True, False), SEEDS):
        trainer = trained(
            seed, steps=STEPS, rate=rate, warmup=100, n_layers=BLOCKS, tie_weights=tied
        )
        run = {"tied": tied, "rate": rate, "seed": seed, "losses": curve(trainer)}
        runs.append({**run, "parameters": trainer.model.num_params()})
        print(runs[-1], flush=True)
    what = (
        f"{BLOCKS} blocks, GPT-2's first weights, {STEPS} steps of AdamW at a constant rate after"
        " 100 steps of warm-up; losses in nats per byte on 64 held-out windows"
    )
    store("tied", {"what": what, "shape": SHAPE, "runs": runs})


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help trains nothing
    main()
