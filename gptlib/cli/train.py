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


@dataclasses.dataclass(frozen=True)
class Model(GPTConfig):
    """The model's numbers; how many tokens it knows follows from its tokenizer."""

    vocab_size: tyro.conf.Suppress[int] = 50257


def train(
    out: Path,
    corpus: str = OWN_CORPUS,
    preset: str = "mini",
    from_: Annotated[str | None, tyro.conf.arg(name="from")] = None,
    tokenizer: Literal["bytes", "chars", "gpt2"] | None = None,
    device: str = "auto",
    plain: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    overwrite: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    model: Annotated[Model, tyro.conf.arg(name="")] = Model(),
    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = TrainConfig(),  # noqa: B008 (frozen)
    given: tyro.conf.Suppress[tuple[str, ...]] = (),
) -> None:
    """Train a model on a text, with checkpoints on the way.

    Ctrl-C saves and stops; --resume goes on, bit for bit on the CPU. To use several GPUs or
    machines: torchrun --nproc_per_node=N -m gptlib train ... with the same options.

    Args:
        out: Folder of the run; made if need be.
        corpus: "shakespeare", the path of a UTF-8 text file, or a folder of `gptlib prepare`.
        preset: The model where its numbers are not given: mini, modern-mini, gpt2-small,
            gpt2-medium, gpt2-large or gpt2-xl.
        from_: Go on from trained weights, with their own tokenizer, in small steps: "packaged",
            "smollm2", a folder or a .gguf file, as for `gptlib sample`.
        tokenizer: How text becomes ids; by default bytes for small models, gpt2 for its presets.
        device: auto, cuda, mps or cpu.
        plain: The usual recipe, AdamW with one cosine, for every number that is not given.
        resume: Go on with the run in the folder. Its own numbers hold, but for those given.
        overwrite: Start anew and remove the run that the folder holds.
        model: The model's numbers, instead of the preset's.
        config: The run's numbers.
        given: Which of the options that describe the model stand on the command line.
    """
    keeps = {"--resume": resume, "--from": from_ is not None}
    refused = {"tokenizer", *MODEL_OPTIONS} | ({"overwrite", "plain", "from"} if resume else set())
    for option in (name for name, is_on in keeps.items() if is_on):
        for name in (name for name in given if name in refused):
            own = "the run's own model and recipe" if resume else "the model and tokenizer it names"
            raise ValueError(f"{option} keeps {own}; --{name.replace('_', '-')} cannot")

    from gptlib.cli import training  # noqa: PLC0415 (loads torch)

    training.train(
        out,
        corpus,
        tokenizer,
        "gpt2" if preset.startswith("gpt2") else "bytes",
        from_ or GPTConfig(**dataclasses.asdict(model)),
        config,
        device=device,
        resume=resume,
        overwrite=overwrite,
    )


MODEL_OPTIONS = ("preset", *(field.name for field in dataclasses.fields(Model)))


@dataclasses.dataclass
class _Base:
    """The options that decide where the numbers start."""

    out: Path | None = None
    preset: str = "mini"
    from_: Annotated[str | None, tyro.conf.arg(name="from")] = None
    plain: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False


def defaults(args: list[str]) -> dict[str, Any]:
    """Return what `train` has where its options give nothing, and which options are given.

    Those are the preset's and the recipe's: the plain one with --plain, the one that goes on with
    --from, and the run's own with --resume.
    """
    options, is_train = _Base(), args[:1] == ["train"]
    if is_train and not {"-h", "--help"} & set(args):
        with contextlib.suppress(SystemExit):  # said better when all options are read
            options, _ = tyro.cli(
                _Base,
                args=args[1:],
                return_unknown_args=True,
                add_help=False,
                console_outputs=False,
            )
    model = Model(**GPTConfig.preset(options.preset).to_dict())
    names = [arg[2:].partition("=")[0].replace("-", "_") for arg in args if arg.startswith("--")]
    return {
        "model": model,
        "config": _recipe(options),
        "given": tuple(name.removeprefix("no_") for name in names) if is_train else (),
    }


def _recipe(options: _Base) -> TrainConfig:
    if options.resume and options.out:
        from gptlib.run import Run  # noqa: PLC0415 (loads torch)

        return Run(options.out).config()
    if options.from_ is not None:
        return TrainConfig.further()
    return TrainConfig.plain() if options.plain else TrainConfig()


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
