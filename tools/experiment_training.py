"""Train a small model in many ways, each with several seeds, for chapter "Training".

    python tools/experiment_training.py     # about eight minutes of one core, on two cores half

Writes `notebooks/results/training.json`. The chapter reads it and runs one case again.
"""

import argparse
import json
import math
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gptlib import GPT, ByteTokenizer, GPTConfig, TrainConfig, Trainer, corpus

OUT = Path(__file__).resolve().parent.parent / "notebooks" / "results" / "training.json"
STEPS, BATCH, EVERY, WINDOWS = 600, 8, 50, 64
SEEDS = (0, 1, 2, 3, 4)
MODEL = {"n_layers": 2, "emb_dim": 64, "context_length": 64}  # changes to the mini preset
SMALL_TEXT = 3_000  # bytes
SMALL_STEPS, SMALL_EVERY = 300, 20
NEVER = 1e9  # no gradient is as long: clipping is off


@dataclass(frozen=True)
class Case:
    """One way to train."""

    method: str  # descent, momentum, adam or muon
    rate: float
    warmup: int = 0
    clip: float = NEVER
    falls: bool = False  # the rate, to a tenth of its peak, on half a cosine
    weight_decay: float = 0.0
    small_text: bool = False


PLAIN = [Case("descent", rate) for rate in (0.05, 0.1, 0.2, 0.4)]
PLAIN += [Case("momentum", rate) for rate in (0.3, 1.0, 3.0)]
PLAIN += [Case("descent", 0.4, clip=1.0), Case("momentum", 3.0, clip=1.0)]
ADAM = [Case("adam", rate) for rate in (1e-3, 3e-3)]
ADAM += [Case("adam", 3e-3, warmup=50), Case("adam", 3e-3, clip=1.0)]
ADAM += [Case("adam", 3e-3, warmup=50, clip=1.0)]
ADAM += [Case("adam", 3e-3, warmup=50, clip=1.0, falls=True)]
FULL = [
    Case("adam", rate, warmup=50, clip=1.0, falls=True, weight_decay=decay)
    for rate, decay in ((3e-3, 0.1), (3e-3, 1.0), (1.5e-3, 0.1), (6e-3, 0.1))
]
MUON = [Case("muon", 6e-3, warmup=20, clip=1.0, falls=True, weight_decay=0.1)]
CRAMMED = [
    Case("adam", 3e-3, warmup=50, clip=1.0, weight_decay=decay, small_text=True)
    for decay in (0.0, 0.1, 1.0)
]
CASES = PLAIN + ADAM + FULL + MUON + CRAMMED


def main() -> None:
    """Run every case with every seed, and write what came out."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    jobs = [(case, seed) for case in CASES for seed in SEEDS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(run, *zip(*jobs, strict=True)))
    runs = [
        {**asdict(case), "seeds": found[i * len(SEEDS) : (i + 1) * len(SEEDS)]}
        for i, case in enumerate(CASES)
    ]
    about = {
        "model": {"preset": "mini", **MODEL},
        "steps": STEPS,
        "batch_size": BATCH,
        "validation_windows": WINDOWS,
        "small_text": SMALL_TEXT,
        "seeds": SEEDS,
        "torch": torch.__version__,
    }
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"about": about, "runs": runs}, indent=1) + "\n", encoding="utf-8")


def run(case: Case, seed: int) -> dict[str, Any]:
    """Train once, and return the validation losses and what went wrong on the way."""
    torch.set_num_threads(1)
    cfg = GPTConfig.preset("mini", **MODEL)
    tokens = corpus.encode_corpus(corpus.shakespeare(), ByteTokenizer())
    train, val = corpus.split(tokens, context_length=cfg.context_length)
    train = train[:SMALL_TEXT] if case.small_text else train
    torch.manual_seed(seed)
    trainer = Trainer(GPT(cfg), train, val, config(case, seed))
    if case.method in ("descent", "momentum"):
        trainer.optimizers = [by_hand(trainer.model, case)]
    try:
        trainer.run()
    except FloatingPointError:
        return {"seed": seed, "ended_at": len(trainer.history)}
    losses = np.array([record.loss for record in trainer.history])
    before = np.convolve(losses, np.ones(10) / 10, "valid")[:-1]  # mean of the ten steps before
    matrices = [p.detach().square().mean() for p in trainer.model.parameters() if p.dim() > 1]
    return {
        "seed": seed,
        "validation": [round(e.loss, 4) for e in trainer.evaluations],
        "training": [round(float(part.mean()), 4) for part in np.split(losses, len(losses) // 20)],
        "first_60": round(float(losses[50:60].mean()), 4),
        "leap": round(float((losses[10:] - before).max()), 3),
        "longest_gradient": round(max(record.grad_norm for record in trainer.history), 2),
        "weights": round(math.sqrt(sum(matrices) / len(matrices)), 4),
    }


def config(case: Case, seed: int) -> TrainConfig:
    """Return the trainer's numbers for a case."""
    common = {
        "steps": SMALL_STEPS if case.small_text else STEPS,
        "batch_size": BATCH,
        "eval_every": SMALL_EVERY if case.small_text else EVERY,
        "eval_windows": WINDOWS,
        "seed": seed,
    }
    if case.method == "muon":
        return TrainConfig(**common)  # the package's own recipe
    return TrainConfig.plain(
        **common,
        learning_rate=case.rate,
        min_learning_rate=case.rate / 10 if case.falls else case.rate,
        warmup_steps=case.warmup,
        grad_clip=case.clip,
        weight_decay=case.weight_decay,
    )


def by_hand(model: GPT, case: Case) -> torch.optim.Optimizer:
    """Return descent, or momentum as a running mean with a memory of 0.9."""
    memory = 0.9 if case.method == "momentum" else 0.0
    groups = [{"params": list(model.parameters()), "ratio": 1.0}]
    optimizer = torch.optim.SGD(groups, lr=case.rate, momentum=memory, dampening=memory)
    for param in model.parameters():  # the mean starts at 0; torch would start at a whole gradient
        optimizer.state[param]["momentum_buffer"] = torch.zeros_like(param)
    return optimizer


if __name__ == "__main__":
    main()
