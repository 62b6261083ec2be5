"""The commands that make a model: `gptlib train` and `gptlib prepare`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from gptlib._cli_common import make_tokenizer, refuse_held, say, say_once
from gptlib.config import GPTConfig
from gptlib.train_config import TrainConfig

OWN_CORPUS = "shakespeare"  # the package's; a folder of that name is "./shakespeare"


def train(
    out: Path,
    corpus: str = OWN_CORPUS,
    preset: str = "mini",
    tokenizer: Literal["bytes", "chars", "gpt2"] | None = None,
    context_length: int | None = None,
    emb_dim: int | None = None,
    n_heads: int | None = None,
    n_layers: int | None = None,
    drop_rate: float | None = None,
    device: str = "auto",
    plain: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    overwrite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = TrainConfig(),  # noqa: B008 (frozen)
) -> None:
    """Train a model on a text, with checkpoints on the way.

    Ctrl-C saves and stops; --resume goes on, bit for bit on the CPU. To use several GPUs or
    machines: torchrun --nproc_per_node=N -m gptlib train ... with the same options.

    Args:
        out: Folder of the run; made if need be.
        corpus: "shakespeare", the path of a UTF-8 text file, or a folder of `gptlib prepare`.
        preset: Size of the model: mini, gpt2-small, gpt2-medium, gpt2-large or gpt2-xl.
        tokenizer: How text becomes ids; by default bytes for mini and gpt2 for the others.
        context_length: Most positions read at once, instead of the preset's.
        emb_dim: Width of the residual stream, instead of the preset's.
        n_heads: Attention heads per block, instead of the preset's.
        n_layers: Blocks, instead of the preset's.
        drop_rate: Dropout probability, instead of the preset's.
        device: auto, cuda, mps or cpu.
        plain: The usual recipe, AdamW with one cosine, for every number that is not given.
        resume: Go on with the run in the folder. Its own numbers hold, but for those given.
        overwrite: Start anew and remove the run that the folder holds.
        config: The run's numbers.
    """
    changes: dict[str, Any] = {
        "context_length": context_length,
        "emb_dim": emb_dim,
        "n_heads": n_heads,
        "n_layers": n_layers,
        "drop_rate": drop_rate,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    cfg = GPTConfig.preset(preset, **changes)  # before anything slow
    flags: dict[str, Any] = {"overwrite": overwrite, "plain": plain, "tokenizer": tokenizer}
    flags["preset"] = preset != "mini"
    if resume and (changes or any(flags.values())):
        given = next((name for name, value in flags.items() if value), next(iter(changes), ""))
        raise ValueError(
            f"--resume keeps the run's own model and recipe; --{given.replace('_', '-')} cannot"
        )

    from gptlib import parallel

    on = parallel.pick_device(device)
    with parallel.process_group(on):
        if resume:
            trainer = _resumed(out, corpus, config, on)
        else:
            refuse_held(out, "--out", overwrite)
            trainer = _fresh(cfg, _training_text(corpus, tokenizer, preset), config, on)
            _empty(out)
            say_once(
                f"{trainer.model.num_params():,} parameters on {on}, {len(trainer.train_tokens):,}"
                f" training and {len(trainer.val_tokens):,} validation tokens"
            )
        option = f"--corpus {shlex.quote(corpus)} " if corpus != OWN_CORPUS else ""
        _run(trainer, out, option)


def with_base(args: list[str]) -> list[str]:
    """Put in front what `train --plain` or `train --resume` takes where nothing else is given.

    Those are the plain recipe's numbers or the run's own, as options; a later one overrides them.
    """
    if args[:1] != ["train"]:
        return args
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--out", type=Path)
    for name in ("--plain", "--resume"):
        parser.add_argument(name, action="store_true")
    base = TrainConfig()
    with contextlib.suppress(argparse.ArgumentError):  # said better when the options are read
        options, _ = parser.parse_known_args(args[1:])
        if options.plain:
            base = TrainConfig.plain()
        elif options.resume and options.out:
            from gptlib import run_state

            base = run_state.saved_config(options.out)
    front = []
    for field in dataclasses.fields(TrainConfig):
        value = getattr(base, field.name)
        option = field.name.replace("_", "-")
        if value == field.default:
            continue
        if isinstance(value, bool):
            front.append(f"--{option}" if value else f"--no-{option}")
        else:
            front += [f"--{option}", str(value)]
    return [args[0], *front, *args[1:]]


def _training_text(corpus: str, kind: str | None, preset: str, tok: Any = None) -> tuple[Any, Any]:
    """Return the tokens to train on and their tokenizer: `tok`, or one of the kind asked for."""
    from gptlib import corpus as corpora
    from gptlib import shards

    if corpus != OWN_CORPUS and Path(corpus).is_dir():
        tokens, made_with = shards.load(corpus)
        if kind not in (None, made_with.name):
            raise ValueError(f"the tokens in {corpus} are {made_with.name}, not {kind}")
        return tokens, made_with
    text = corpora.shakespeare() if corpus == OWN_CORPUS else corpora.load_text(corpus)
    if tok is None:
        tok = make_tokenizer(kind or ("bytes" if preset == "mini" else "gpt2"), text)
    return corpora.encode_corpus(text, tok), tok


def _fresh(cfg: GPTConfig, text: tuple[Any, Any], config: TrainConfig, device: Any) -> Any:
    import torch

    from gptlib import corpus
    from gptlib.model import GPT
    from gptlib.trainer import Trainer

    tokens, tok = text
    cfg = GPTConfig.from_dict({**cfg.to_dict(), "vocab_size": tok.n_vocab})
    texts = corpus.split(tokens, context_length=cfg.context_length)
    torch.manual_seed(config.seed)
    return Trainer(GPT(cfg).to(device), *texts, config, tok)


def _resumed(out: Path, corpus: str, config: TrainConfig, device: Any) -> Any:
    from gptlib import checkpoint
    from gptlib import corpus as corpora
    from gptlib.trainer import Trainer

    cfg, tok = checkpoint.described(checkpoint.newest(out) or out)
    tokens, _ = _training_text(corpus, None, "", tok)
    texts = corpora.split(tokens, context_length=cfg.context_length)
    changes = dataclasses.asdict(config)
    trainer, report = Trainer.resume(out, *texts, changes=changes, device=device)
    for line in report.splitlines():
        say_once(line)
    return trainer


def _run(trainer: Any, out: Path, corpus_option: str) -> None:
    """Train to the end, a budget or Ctrl-C, and say how to go on or what to do with the result."""
    from gptlib import checkpoint, parallel

    again = f"go on with: gptlib train --out {shlex.quote(str(out))} {corpus_option}--resume"
    try:
        trainer.run(out=out)
    except KeyboardInterrupt as stopped:
        if checkpoint.newest(out) is None:
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
    say_once(f"validation loss {first.loss:.3f} -> {last.loss:.3f} nats per token; saved in {out}")
    if trainer.stopped:
        if trainer.stopped == "max_tokens":  # which the next run would have reached at once
            again += " --max-tokens None"
        say_once(f"stopped by {trainer.stopped} after {len(trainer.history)} steps; {again}")
    say_once(f"read it with: gptlib sample {shlex.quote(str(out))}")


def prepare(
    files: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Path,
    tokenizer: Literal["bytes", "chars", "gpt2"] = "gpt2",
    overwrite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Encode text files of any size into shards of tokens that training maps into memory.

    Args:
        files: UTF-8 text files.
        out: Folder for the shards; made if need be.
        tokenizer: How text becomes ids.
        overwrite: Replace the tokens that the folder already holds.
    """
    from tqdm import tqdm

    from gptlib import shards, tokenizers

    for path in files:
        if not path.is_file():
            raise FileNotFoundError(f"text file {path} does not exist")
    if not files:
        raise ValueError("name at least one text file")
    if (out / shards.INDEX).exists() and not overwrite:
        raise ValueError(f"{out} already holds tokens; choose another --out, or --overwrite it")
    size = sum(path.stat().st_size for path in files)
    passes = 2 if tokenizer == "chars" else 1  # the first one collects the characters
    with tqdm(total=passes * size, unit="B", unit_scale=True, delay=1) as bar:
        if tokenizer == "chars":
            tok: Any = tokenizers.CharTokenizer(shards.alphabet(files, bar.update))
        else:
            tok = make_tokenizer(tokenizer, "")
        n = shards.prepare(files, tok, out, progress=bar.update)
    there = shlex.quote(f"./{out}" if str(out) == OWN_CORPUS else str(out))
    say(f"{n:,} tokens in {out}; train on them with: gptlib train --corpus {there} --out runs/new")


def _empty(folder: Path) -> None:
    """Make the folder, and remove old checkpoints and models that would pass for the new run's."""
    from gptlib import checkpoint, parallel

    if parallel.rank() == 0:
        checkpoint.prepare_folder(folder)
        checkpoint.prune(folder, 0)
        for name in (checkpoint.WEIGHTS, checkpoint.CONFIG):
            (folder / name).unlink(missing_ok=True)
    parallel.wait_for_all()
