"""What `gptlib train` does once its options are read: texts, model, run. Loads torch."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import torch

from gptlib import parallel
from gptlib.cli.common import OWN_CORPUS, make_tokenizer, refuse_held, say_once
from gptlib.config import GPTConfig
from gptlib.model import GPT
from gptlib.recipe import TrainConfig
from gptlib.run import Run
from gptlib.storage import checkpoint, files
from gptlib.text import corpus as corpora
from gptlib.text import shards
from gptlib.text.tokenizers import Tokenizer
from gptlib.trainer import Trainer, window_of


def train(
    out: Path,
    corpus: str,
    tokenizer: str | None,
    otherwise: str,
    start: GPTConfig | str,
    config: TrainConfig,
    *,
    device: str,
    resume: bool,
    overwrite: bool,
) -> None:
    """Start or go on with the run in `out`, under torchrun in every process.

    Args:
        tokenizer: its kind where it was asked for; `otherwise` where not and the corpus says none.
        start: what a fresh model is to be like, or the name of trained weights.
    """
    on, run = parallel.pick_device(device), Run(out)
    with parallel.process_group(on):
        if resume:
            trainer = _resumed(run, corpus, config, on)
        else:
            refuse_held(out, files.held(out), "--out", overwrite)
            if isinstance(start, str):
                trainer = _further(start, corpus, config, on)
            else:
                text = _training_text(corpus, tokenizer, otherwise)
                trainer = _fresh(start, *text, config, on)
            if parallel.rank() == 0:
                run.clear()
            parallel.wait_for_all()
            say_once(
                f"{trainer.model.num_params():,} parameters on {on}, {len(trainer.train_tokens):,}"
                f" training and {len(trainer.val_tokens):,} validation tokens"
            )
        option = f"--corpus {shlex.quote(corpus)} " if corpus != OWN_CORPUS else ""
        train_to_the_end(trainer, run, option)


def _training_text(
    corpus: str, kind: str | None, otherwise: str, tok: Tokenizer | None = None
) -> tuple[Any, Tokenizer]:
    """Return the tokens to train on and their tokenizer: `tok`, or one of the kind asked for."""
    if corpus != OWN_CORPUS and Path(corpus).is_dir():
        tokens, made_with = shards.load(corpus)
        if kind not in (None, made_with.name):
            raise ValueError(f"the tokens in {corpus} are {made_with.name}, not {kind}")
        return tokens, made_with
    text = corpora.shakespeare() if corpus == OWN_CORPUS else corpora.load_text(corpus)
    tok = tok or make_tokenizer(kind or otherwise, text)
    return corpora.encode_corpus(text, tok), tok


def _fresh(
    cfg: GPTConfig, tokens: Any, tok: Tokenizer, config: TrainConfig, device: torch.device
) -> Trainer:
    cfg = dataclasses.replace(cfg, vocab_size=tok.n_vocab)
    texts = corpora.split(tokens, context_length=window_of(config, cfg))
    torch.manual_seed(config.seed)
    return Trainer(GPT(cfg).to(device), *texts, config, tok)


def _further(start: str, corpus: str, config: TrainConfig, device: torch.device) -> Trainer:
    """Go on from trained weights, on a text in their own tokens."""
    model, tok = checkpoint.load(start)
    tokens, made_with = _training_text(corpus, None, "", tok)
    if made_with.to_dict() != tok.to_dict():
        raise ValueError(
            f"the tokens in {corpus} are {made_with.name}, the model in {start} reads {tok.name};"
            " name the text itself"
        )
    texts = corpora.split(tokens, context_length=window_of(config, model.cfg))
    torch.manual_seed(config.seed)
    return Trainer(model.float().to(device), *texts, config, tok)


def _resumed(run: Run, corpus: str, config: TrainConfig, device: torch.device) -> Trainer:
    cfg, tok = run.read_about()
    tokens, _ = _training_text(corpus, None, "", tok)
    texts = corpora.split(tokens, context_length=window_of(config, cfg))
    changes = dataclasses.asdict(config)
    trainer, report = run.resume(*texts, changes=changes, device=device)
    for line in report.splitlines():
        say_once(line)
    return trainer


def train_to_the_end(trainer: Trainer, run: Run, corpus_option: str) -> None:
    """Train to the end, a budget or Ctrl-C, and say how to go on or what to do with the result."""
    again = f"go on with: gptlib train --out {shlex.quote(str(run.folder))} {corpus_option}--resume"
    try:
        trainer.run(save=run.save)
    except KeyboardInterrupt as stopped:
        if run.newest is None:
            raise  # there is nothing to go on from
        say_once(f"gptlib: {str(stopped) or 'stopped'}; {again}")
        raise SystemExit(130) from None
    except RuntimeError as error:  # what a collective operation raises when a partner has gone
        if parallel.world_size() == 1:
            raise
        reason = str(error).splitlines()[0]
        raise RuntimeError(
            f"process {parallel.rank()} of {parallel.world_size()} stopped at step"
            f" {len(trainer.history)}, another one may have died ({reason}); {again}"
        ) from error
    first, last = trainer.evaluations[0], trainer.evaluations[-1]
    say_once(
        f"validation loss {first.loss:.3f} -> {last.loss:.3f} nats per token; saved in {run.folder}"
    )
    if trainer.stopped:
        if trainer.stopped == "max_tokens":  # which the next run would have reached at once
            again += " --max-tokens None"
        say_once(f"stopped by {trainer.stopped} after {len(trainer.history)} steps; {again}")
    say_once(f"read it with: gptlib sample {shlex.quote(str(run.folder))}")
