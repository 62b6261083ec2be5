"""Train small GPTs with ReLU and with GELU and write `notebooks/results/activations.json`.

    python tools/experiment_activations.py             # 48 runs: a few minutes of one core
    python tools/experiment_activations.py --seeds 1   # a quick look, written nowhere

Both curves start from the same weights of a seed and see the same batches in the same order; only
the curve differs. Chapter "GELU and feed-forward" reads the file and runs one short case again.
"""

import argparse
import dataclasses
import json
import math
import statistics
from pathlib import Path
from typing import Any

import torch

from gptlib import GPT, GPTConfig, TrainConfig, Trainer, ladder

RESULTS = Path(__file__).resolve().parent.parent / "notebooks" / "results" / "activations.json"
SIZE: dict[str, Any] = {
    "vocab_size": 256,
    "context_length": 64,
    "emb_dim": 64,
    "n_heads": 4,
    "n_layers": 2,
    "drop_rate": 0.0,
    "tie_weights": True,
}
CURVES = ("relu", "gelu_tanh")
STEPS, BATCH, EVERY, WINDOWS, SEEDS = 500, 16, 100, 256, 8
RECIPES: dict[str, dict[str, Any]] = {  # what the optimizer is told; the fields of TrainConfig
    "AdamW, rate 0.001": {"optimizer": "adamw", "learning_rate": 1e-3},
    "AdamW, rate 0.004": {"optimizer": "adamw", "learning_rate": 4e-3},
    "Muon and AdamW": {"optimizer": "muon"},
}
T_95 = 2.365  # Student's, for the interval of a mean of SEEDS differences


def main() -> None:
    """Run every recipe with every seed and both curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = range(parser.parse_args().seeds)
    losses = {
        name: {curve: [evaluated(curve, seed, name) for seed in seeds] for curve in CURVES}
        for name in RECIPES
    }
    found: dict[str, Any] = {
        "what": "held-out loss in nats per byte after every so many steps, a row for each seed",
        "model": SIZE,
        "training": {"steps": STEPS, "batch_size": BATCH, "eval_windows": WINDOWS},
        "recipes": RECIPES,
        "seeds": list(seeds),
        "steps": list(range(0, STEPS + 1, EVERY)),
        "losses": losses,
    }
    if len(seeds) == SEEDS:
        found["gelu minus relu"] = {name: difference(runs) for name, runs in losses.items()}
        print(json.dumps(found["gelu minus relu"], indent=1))
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def evaluated(curve: str, seed: int, recipe: str) -> list[float]:
    """Return the held-out losses of one run."""
    config = TrainConfig(
        steps=STEPS,
        batch_size=BATCH,
        eval_every=EVERY,
        eval_windows=WINDOWS,
        seed=seed,
        **RECIPES[recipe],
    )
    torch.manual_seed(seed)
    model = GPT(dataclasses.replace(GPTConfig(**SIZE), activation=curve))
    trainer = Trainer(model, *ladder.texts(), config)
    trainer.run()
    print(f"{recipe}, {curve}, seed {seed}: {trainer.evaluations[-1].loss:.4f}", flush=True)
    return [round(record.loss, 4) for record in trainer.evaluations]


def difference(runs: dict[str, list[list[float]]]) -> dict[str, float]:
    """Return GELU's last loss minus ReLU's: the mean over seeds and its 95 % interval."""
    relu, gelu = ([run[-1] for run in runs[curve]] for curve in CURVES)
    apart = [round(b - a, 4) for a, b in zip(relu, gelu, strict=True)]
    mean = statistics.fmean(apart)
    half = T_95 * statistics.stdev(apart) / math.sqrt(len(apart))
    return {"mean": round(mean, 4), "low": round(mean - half, 4), "high": round(mean + half, 4)}


if __name__ == "__main__":
    main()
