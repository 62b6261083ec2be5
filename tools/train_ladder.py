"""Train the small models of the ladder of losses and write `gptlib/weights/ladder/`.

    python tools/train_ladder.py                     # all rungs: about an hour of one core
    python tools/train_ladder.py "one head"          # some of them
    python tools/train_ladder.py --only-measure      # trains nothing, writes rungs.json again

The recipe is that of the packaged model, step for step. Every rung is then scored on the same
held-out bytes, the packaged model too. Another machine may differ in the last digits.
"""

import argparse
import json

import safetensors.torch
import torch
from train_weights import SEED, recipe

from gptlib import ByteTokenizer, Trainer, ladder

STEPS = 12_000  # as the packaged model


def main() -> None:
    """Train the rungs that are asked for, then score all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [rung.name for rung in ladder.RUNGS if rung.order is None and rung.name != "packaged"]
    parser.add_argument("rungs", nargs="*", default=names, metavar="RUNG", help=f"{names}")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--only-measure", action="store_true")
    options = parser.parse_args()
    for name in [] if options.only_measure else options.rungs:
        train(ladder.rung(name), options.steps)
    text = json.dumps({rung.name: scored(rung) for rung in ladder.RUNGS}, indent=1) + "\n"
    (ladder.FOLDER / "rungs.json").write_text(text, encoding="utf-8")
    print(text)


def train(rung: ladder.Rung, steps: int) -> None:
    """Train one rung to the end and store it as float16."""
    torch.manual_seed(SEED)
    model = ladder.build(rung)
    trainer = Trainer(model, *ladder.texts(), recipe(steps), ByteTokenizer())
    trainer.run()
    best = min(record.loss for record in trainer.evaluations)
    print(f"{rung.name}: {trainer.evaluations[-1].loss:.4f} nats, at best {best:.4f}", flush=True)
    weights = {name: value.detach().half() for name, value in model.named_parameters()}
    ladder.FOLDER.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(weights, ladder.FOLDER / rung.file)


def scored(rung: ladder.Rung) -> dict[str, float]:
    """Return what a rung pays, and how many numbers it keeps."""
    if rung.order is None:
        parameters = ladder.load(rung.name).num_params()
    else:
        parameters = 256 ** (rung.order + 1) if rung.order >= 0 else 0
    return {"loss": round(ladder.measure(rung.name), 4), "parameters": parameters}


if __name__ == "__main__":
    main()
