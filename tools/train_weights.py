"""Train the mini model that comes with the package and write `gptlib/weights/`.

    python tools/train_weights.py                 # the packaged model: an hour of one core
    python tools/train_weights.py --steps 300     # a quick one, to try the format

The first nine tenths of `corpus.shakespeare()` are trained on, the last tenth is only ever
evaluated. The seed fixes everything; another machine may differ in the last digits.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from gptlib import (
    GPT,
    ByteTokenizer,
    GPTConfig,
    Run,
    TrainConfig,
    Trainer,
    checkpoint,
    corpus,
    generate,
)

WEIGHTS = Path(__file__).resolve().parent.parent / "gptlib" / "weights"
SEED = 0
SAMPLE_AT = (0, 10, 30, 100, 300, 1000, 3000, 10_000)
PROMPT, SAMPLE_BYTES, TEMPERATURE = "ROMEO:\n", 200, 0.8
MOST_ROWS = 200  # of the loss curve


def main() -> None:
    """Train, and replace the packaged model by the best checkpoint of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--run", type=Path, help="run folder to keep, and to resume where it is")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as aside:
        run = Run(options.run or Path(aside, "run"))
        trainer, seconds = train(run, options.steps)
        model, tokenizer = checkpoint.load(run.folder)  # the best checkpoint
        checkpoint.save(options.out, model.half(), tokenizer)
        text = json.dumps(history(trainer, run), indent=1) + "\n"
        (options.out / "history.json").write_text(text, encoding="utf-8")
        (options.out / "README.md").write_text(card(trainer, seconds), encoding="utf-8")


def recipe(steps: int) -> TrainConfig:
    """Return how the packaged model is trained, and the rungs of the ladder with it."""
    every = max(steps // 40, 1)
    return TrainConfig(
        steps=steps,
        batch_size=8,
        learning_rate=4e-3,  # lower rates than the default's suit the longer run
        muon_learning_rate=1e-2,
        momentum=0.95,
        decay="cosine",  # ends flat, and so does the validation loss
        eval_every=every,
        save_every=every,
        eval_windows=128,
        seed=SEED,
    )


def train(run: Run, steps: int) -> tuple[Trainer, float]:
    """Train to the end, writing checkpoints and samples into `run`; go on if it holds some."""
    cfg = GPTConfig.preset("mini")
    tokenizer = ByteTokenizer()
    tokens = corpus.encode_corpus(corpus.shakespeare(), tokenizer)
    texts = corpus.split(tokens, context_length=cfg.context_length)
    config = recipe(steps)
    if run.newest:
        trainer, report = run.resume(*texts)
        print(report)
    else:
        torch.manual_seed(SEED)
        trainer = Trainer(GPT(cfg), *texts, config, tokenizer)
    start = time.monotonic()
    for stop in [at for at in SAMPLE_AT if at < steps] + [steps]:
        if stop < len(trainer.history):
            continue
        trainer.run(stop - len(trainer.history), save=run.save)
        run.folder.mkdir(parents=True, exist_ok=True)
        path = run.folder / f"sample-{stop:08d}.txt"
        path.write_text(sample(trainer.model), encoding="utf-8")
    return trainer, time.monotonic() - start


def sample(model: GPT) -> str:
    """Return the prompt and its continuation, always drawn with the same dice."""
    tokenizer = ByteTokenizer()
    settings = {"temperature": TEMPERATURE, "seed": SEED}
    ids = generate(model, tokenizer.encode(PROMPT), SAMPLE_BYTES, **settings)
    return "".join(tokenizer.decode_stream(ids))


def history(trainer: Trainer, run: Run) -> dict[str, object]:
    """Return the loss curve thinned to MOST_ROWS rows, the validation losses and the samples."""
    last = len(trainer.history) - 1
    kept = np.unique(np.geomspace(1, last + 1, MOST_ROWS).astype(int)) - 1  # early steps count
    columns = ("step", "tokens", "loss", "learning_rate")
    rows = [dataclasses.asdict(trainer.history[i]) for i in kept]
    digits = {"loss": 4, "learning_rate": 8}
    return {
        "history": {
            name: [round(row[name], digits.get(name, 0)) for row in rows] for name in columns
        },
        "validation": {
            "step": [e.step for e in trainer.evaluations],
            "loss": [round(e.loss, 4) for e in trainer.evaluations],
        },
        "prompt": PROMPT,
        "temperature": TEMPERATURE,
        "samples": [
            {"step": int(path.stem.split("-")[1]), "text": path.read_text(encoding="utf-8")}
            for path in sorted(run.folder.glob("sample-*.txt"))
        ],
    }


def card(trainer: Trainer, seconds: float) -> str:
    """Return the model card."""
    cfg, config, evaluations = trainer.model.cfg, trainer.config, trainer.evaluations
    best = min(e.loss for e in evaluations)
    late = [e.loss for e in evaluations if e.step >= 0.95 * config.steps]
    n_train, n_val = len(trainer.train_tokens), len(trainer.val_tokens)
    threads = torch.get_num_threads()
    return f"""# The packaged mini model

A GPT of {trainer.model.num_params():,} parameters that continues text in the manner of
Shakespeare, byte by byte: {cfg.n_layers} layers, {cfg.n_heads} heads, {cfg.emb_dim} wide, a
context of {cfg.context_length} bytes, a tied head (`GPTConfig.preset("mini")`). Stored as float16;
`gptlib.checkpoint.packaged()` reads it.

- **Data.** 38 plays of Shakespeare, public domain, as `corpus.shakespeare()` returns them: the
  first {n_train:,} bytes were trained on, the last {n_val:,} only evaluated.
- **Made by** `python tools/train_weights.py --steps {config.steps}`, seed {SEED}, with torch
  {torch.__version__} on {threads} CPU thread{"s" * (threads > 1)}, in {seconds / 60:.0f} minutes.
- **Training.** {len(trainer.history):,} steps of {config.batch_size} windows, \
{trainer.history[-1].tokens:,} bytes in all: Muon for the blocks' matrices (rate
  {config.muon_learning_rate:g}, momentum {config.momentum:g}), AdamW for the rest \
({config.learning_rate:g}), both falling over the last {config.decay_share:.0%} on half a cosine.
- **Loss.** {best:.3f} nats per byte on held-out text (ln 256 is 5.545). Over the last twentieth of
  the steps, the rate near 0, it moved by {max(late) - min(late):.3f}; the whole curve and samples
  along the way are in `history.json`.
- **Limits.** It has learned spelling, layout and rhythm, and means nothing by them. It knows no
  other language, no facts, and no text after 1616.
- **Licence.** MIT, as the package.
"""


if __name__ == "__main__":
    main()
