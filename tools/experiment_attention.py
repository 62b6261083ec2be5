"""Train one head with parts of attention taken away and write `notebooks/results/attention.json`.

    python tools/experiment_attention.py             # 24 runs: about three minutes of one core
    python tools/experiment_attention.py --seeds 1   # a quick look, written nowhere

The kinds start from the same weights of a seed and see the same batches in the same order; only the
heart of attention differs. Chapter "Attention" reads the file and runs the short case again.
"""

import argparse
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gptlib import GPT, GPTConfig, TrainConfig, Trainer, corpus, ladder

RESULTS = Path(__file__).resolve().parent.parent / "notebooks" / "results" / "attention.json"
TINY: dict[str, Any] = {"emb_dim": 64, "n_layers": 1, "n_heads": 1, "context_length": 16}
STEPS, BATCH, RATE, WINDOWS, SEEDS = (150, 1500), 16, 1e-2, 256, 3

Heart = Callable[[Tensor, Tensor, Tensor], Tensor]
hidden = functools.partial(F.scaled_dot_product_attention, is_causal=True)
KINDS: dict[str, Heart] = {
    "as it should be": hidden,
    "no mask": F.scaled_dot_product_attention,
    "no scale": functools.partial(hidden, scale=1.0),
    "keys are queries": lambda q, _, v: hidden(q, q, v),
}


def main() -> None:
    """Train every kind from every seed, for both numbers of steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = range(parser.parse_args().seeds)
    torch.set_num_threads(1)
    losses = {
        kind: {str(steps): [by_place(kind, seed, steps) for seed in seeds] for steps in STEPS}
        for kind in KINDS
    }
    found = {
        "what": "held-out loss in nats per byte at each place of the window, a row for each seed",
        "model": {**GPTConfig.preset("mini", init="torch", tie_weights=False, **TINY).to_dict()},
        "training": {"batch_size": BATCH, "learning_rate": RATE, "eval_windows": WINDOWS},
        "seeds": list(seeds),
        "losses": losses,
    }
    if len(seeds) == SEEDS:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found) + "\n", encoding="utf-8")


def by_place(kind: str, seed: int, steps: int) -> list[float]:
    """Return the held-out loss at each place of the window after training."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig.preset("mini", init="torch", tie_weights=False, **TINY))
    model.blocks[0].attn.attend = KINDS[kind]  # type: ignore[union-attr, assignment]
    settings = TrainConfig.plain(
        steps=steps,
        batch_size=BATCH,
        learning_rate=RATE,
        min_learning_rate=RATE / 10,
        warmup_steps=20,
        eval_every=steps,
        eval_windows=64,
        seed=seed,
    )
    train_bytes, val_bytes = ladder.texts()
    Trainer(model, train_bytes, val_bytes, settings).run()
    x, y = map(torch.from_numpy, corpus.fixed_windows(val_bytes, WINDOWS, 16))
    with torch.no_grad():
        logits = model.eval()(x).transpose(1, 2)  # (B, V, T)
    places = F.cross_entropy(logits, y, reduction="none").mean(dim=0)
    print(f"{kind}, seed {seed}, {steps} steps: {places.mean():.3f}, last {places[-1]:.3f}")
    return [round(each, 4) for each in places.tolist()]


if __name__ == "__main__":
    main()
