"""Train the ladder's one block in three other ways and write `notebooks/results/feed_forward.json`.

    python tools/experiment_feed_forward.py             # about a quarter of an hour of one core
    python tools/experiment_feed_forward.py --steps 30  # a quick look, written nowhere

Recipe, seed and text are those of the rung "one block"; only the feed-forward part differs. So the
file says which share of the step from "four heads" to "one block" that part has, and which share
the norms and the tied head have, which arrive with it.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import torch
from torch import Tensor, nn
from train_weights import SEED, recipe

from gptlib import GPT, Trainer, ladder

RESULTS = Path(__file__).resolve().parent.parent / "notebooks" / "results" / "feed_forward.json"
STEPS = 12_000  # as the rungs of the ladder


class Nothing(nn.Module):
    """A part that adds nothing to the stream."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, C) to zeros."""
        return torch.zeros_like(x)


class Straight(nn.Module):
    """A feed-forward part without its curve."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.up, self.down = part.up, part.down

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, C) to (B, T, C)."""
        out: Tensor = self.down(self.up(x))
        return out


def main() -> None:
    """Train the variants and score them on the ladder's held-out text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    steps = parser.parse_args().steps
    found = {}
    for name in ("no feed-forward", "no curve", "ReLU"):
        model = variant(name)
        config = dataclasses.replace(recipe(steps), eval_every=steps, eval_windows=8)
        Trainer(model, *ladder.texts(), config).run()
        loss = ladder.model_loss(model, *ladder.held_out())
        found[name] = {"loss": round(loss, 4), "parameters": model.num_params()}
        print(name, found[name], flush=True)
        if steps == STEPS:
            what = {"what": "nats per byte of the ladder's held-out text", "seed": SEED}
            text = json.dumps({**what, "steps": steps, "models": found}, indent=1)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(text + "\n", encoding="utf-8")


def variant(name: str) -> GPT:
    """Return the one-block GPT with another feed-forward part, or none."""
    torch.manual_seed(SEED)  # the other weights are the rung's
    model = ladder.build(ladder.rung("one block"))
    block = model.blocks[0]
    if name == "no feed-forward":
        block.ff, block.norm2 = Nothing(), nn.Identity()
    elif name == "no curve":
        block.ff = Straight(block.ff)
    else:
        block.ff.activation = "relu"
    return model


if __name__ == "__main__":
    main()
