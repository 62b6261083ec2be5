"""Short training runs that the experiments share, and how their results are stored."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from gptlib import GPT, GPTConfig, TrainConfig, Trainer, corpus, ladder

RESULTS = Path(__file__).resolve().parent.parent / "notebooks" / "results"
SHAPE: dict[str, Any] = {
    "vocab_size": 256,
    "context_length": 32,
    "emb_dim": 64,
    "n_heads": 4,
    "drop_rate": 0.0,
}


def trained(
    seed: int,
    *,
    steps: int,
    rate: float,
    warmup: int = 0,
    build: Callable[[GPTConfig], GPT] = GPT,
    looks: Mapping[int, Callable[[Trainer], object]] | None = None,
    **changes: Any,
) -> Trainer:
    """Train one small GPT on Shakespeare's bytes at a constant rate after the warm-up.

    Args:
        seed: of the first weights and of the batches.
        build: makes the model, from torch's global generator.
        looks: what is called with the trainer after so many steps, and changes nothing of it.
        changes: what differs from SHAPE, as fields of GPTConfig.
    """
    torch.manual_seed(seed)
    model = build(GPTConfig(**{**SHAPE, **changes}))
    plan = TrainConfig.plain(
        steps=steps,
        batch_size=8,
        learning_rate=rate,
        min_learning_rate=rate,
        warmup_steps=warmup,
        eval_every=50,
        eval_windows=64,
        seed=seed,
    )
    trainer = Trainer(model, *ladder.texts(), plan)
    for stop, look in sorted((looks or {}).items()):
        trainer.run(stop - len(trainer.history), progress=False)
        look(trainer)
    trainer.run(progress=False)
    return trainer


def curve(trainer: Trainer) -> list[list[float]]:
    """Return the validation loss after some numbers of steps, in nats per byte."""
    every = trainer.config.eval_every  # there may have been looks in between
    records = [record for record in trainer.evaluations if record.step % every == 0]
    return [[record.step, round(record.loss, 4)] for record in records]


def frequencies(context_length: int) -> float:
    """Return what the bytes' frequencies in the training text pay on the same windows, in nats."""
    train, held = ladder.texts()
    _, y = corpus.fixed_windows(held, 64, context_length)
    return float(-torch.from_numpy(ladder.table(train, 0)).log()[torch.from_numpy(y)].mean())


@torch.no_grad()
def alike(trainer: Trainer) -> float:
    """Return the mean cosine of the vectors of two positions of a window, after the last block."""
    trace: dict[str, torch.Tensor] = {}
    trainer.model(torch.from_numpy(trainer.val_windows[0]), trace=trace)
    last = trace[f"blocks.{trainer.model.cfg.n_layers - 1}"]
    x = torch.nn.functional.normalize(last, dim=-1)  # (B, T, C)
    B, T, _ = x.shape
    return float(((x @ x.mT).sum() - B * T) / (B * T * (T - 1)))


def gradient_ratio(trainer: Trainer) -> float:
    """Return the gradient norm of the last block over the first one's, on the validation windows.

    The gradients of the trainer's next step are its own again.
    """
    model = trainer.model
    model.zero_grad(set_to_none=True)
    model.loss(*map(torch.from_numpy, trainer.val_windows)).backward()
    first, last = (
        math.sqrt(sum(float(p.grad.square().sum()) for p in block.parameters()))
        for block in (model.blocks[0], model.blocks[-1])
    )
    model.zero_grad(set_to_none=True)
    return last / max(first, 1e-38)  # the smallest that float32 holds in full


@torch.no_grad()
def alike_across(trainer: Trainer) -> float:
    """Return the mean cosine of the last vectors of two windows, after the last block."""
    trace: dict[str, torch.Tensor] = {}
    trainer.model(torch.from_numpy(trainer.val_windows[0]), trace=trace)
    last = trace[f"blocks.{trainer.model.cfg.n_layers - 1}"][:, -1]  # (B, C)
    x = torch.nn.functional.normalize(last, dim=-1)
    B = len(x)
    return float(((x @ x.mT).sum() - B) / (B * (B - 1)))


def store(topic: str, results: Mapping[str, Any]) -> None:
    """Write what was run, and what came out, to `notebooks/results/`; refuse what is not finite."""
    losses = [loss for run in results["runs"] for _, loss in run["losses"]]
    if not all(map(math.isfinite, losses)):
        raise ValueError(f"{topic}: a loss is not finite")
    RESULTS.mkdir(exist_ok=True)
    head = {key: value for key, value in results.items() if key != "runs"}
    runs = ",\n  ".join(json.dumps(run) for run in results["runs"])
    text = json.dumps(head, indent=1).removesuffix("\n}") + f',\n "runs": [\n  {runs}\n ]\n}}\n'
    (RESULTS / f"{topic}.json").write_text(text, encoding="utf-8")
