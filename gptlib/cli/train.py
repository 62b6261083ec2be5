"""The commands that make a model: `gptlib train` and `gptlib prepare`."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tqdm import tqdm

from gptlib.cli.common import OWN_CORPUS, make_tokenizer, say
from gptlib.config import GPTConfig
from gptlib.recipe import TrainConfig
from gptlib.text import shards, tokenizers


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

    from gptlib.cli import training  # noqa: PLC0415 (loads torch)

    training.train(
        out,
        corpus,
        tokenizer,
        "bytes" if preset == "mini" else "gpt2",
        cfg,
        config,
        device=device,
        resume=resume,
        overwrite=overwrite,
    )


@dataclasses.dataclass
class _Base:
    """The options that decide where the numbers start."""

    out: Path | None = None
    plain: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False


def base_config(args: list[str]) -> TrainConfig:
    """Return the numbers that `train` has where its options give none.

    Those are the plain recipe's with --plain, and the run's own with --resume.
    """
    options = _Base()
    if args[:1] == ["train"] and not {"-h", "--help"} & set(args):
        with contextlib.suppress(SystemExit):  # said better when all options are read
            options, _ = tyro.cli(
                _Base,
                args=args[1:],
                return_unknown_args=True,
                add_help=False,
                console_outputs=False,
            )
    if options.plain:
        return TrainConfig.plain()
    if options.resume and options.out:
        from gptlib.run import Run  # noqa: PLC0415 (loads torch)

        return Run(options.out).config()
    return TrainConfig()


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
