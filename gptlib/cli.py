"""The command line: `gptlib train | prepare | sample | export | account | doctor`.

Each command is a typed function; tyro turns its arguments into options with help, and answers a
misspelt option with the nearest one. All other wrong input ends in one line on standard error. Both
exit with code 2.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import io
import os
import platform
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import gptlib
from gptlib.config import GPTConfig
from gptlib.train_config import TrainConfig

app = tyro.extras.SubcommandApp()


@app.command
def train(
    out: Path,
    corpus: str = "shakespeare",
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
    machines: torchrun --nproc_per_node=N -m gptlib.cli train ... with the same options.

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
    if resume and (overwrite or changes or tokenizer):
        given = "overwrite" if overwrite else next(iter(changes), "tokenizer")
        raise ValueError(f"--resume keeps the run's own model; --{given.replace('_', '-')} cannot")
    given_numbers = _given(config)
    if plain:
        config = TrainConfig.plain(**given_numbers)

    from gptlib import parallel

    on = parallel.pick_device(device)
    with parallel.process_group(on):
        if resume:
            text = _training_text(corpus, None, out)
            trainer = _resumed(out, text[0], given_numbers, on)
        else:
            _refuse_held(out, "--out", overwrite)
            kind = tokenizer or ("bytes" if preset == "mini" else "gpt2")
            trainer = _fresh(cfg, _training_text(corpus, kind), config, on)
            _empty(out)
            _say_once(
                f"{trainer.model.num_params():,} parameters on {on}, {len(trainer.train_tokens):,}"
                f" training and {len(trainer.val_tokens):,} validation tokens"
            )
        _run(trainer, out, f"--corpus {corpus} " if corpus != "shakespeare" else "")


def _given(config: TrainConfig) -> dict[str, Any]:
    """Return the numbers that differ from the defaults: those the command line has changed."""
    fields = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    return {n: getattr(config, n) for n, usual in fields.items() if getattr(config, n) != usual}


def _training_text(corpus: str, kind: str | None, run: Path | None = None) -> tuple[Any, Any]:
    """Return the tokens to train on and their tokenizer; that of `run` where there is one."""
    from gptlib import checkpoint, shards
    from gptlib import corpus as corpora

    if Path(corpus).is_dir():
        return shards.load(corpus)
    text = corpora.shakespeare() if corpus == "shakespeare" else corpora.load_text(corpus)
    tok = checkpoint.load(run)[1] if run else _make_tokenizer(str(kind), text)
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


def _resumed(out: Path, tokens: Any, given: dict[str, Any], device: Any) -> Any:
    from gptlib import checkpoint, corpus
    from gptlib.trainer import Trainer

    cfg = checkpoint.load(out)[0].cfg
    texts = corpus.split(tokens, context_length=cfg.context_length)
    trainer, report = Trainer.resume(out, *texts, changes=given, device=device)
    for line in report.splitlines():
        _say_once(line)
    return trainer


def _run(trainer: Any, out: Path, corpus_option: str) -> None:
    """Train to the end, a budget or Ctrl-C, and say how to go on or what to do with the result."""
    from gptlib import parallel

    again = f"go on with: gptlib train --out {out} {corpus_option}--resume"
    try:
        trainer.run(out=out)
    except KeyboardInterrupt as stopped:
        _say_once(f"gptlib: {stopped or 'stopped'}; {again}")
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
    _say_once(f"validation loss {first.loss:.3f} -> {last.loss:.3f} nats per token; saved in {out}")
    if trainer.stopped:
        _say_once(f"stopped by {trainer.stopped} after {len(trainer.history)} steps; {again}")
    _say_once(f"read it with: gptlib sample {out}")


@app.command
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
    if (out / shards.INDEX).exists():
        if not overwrite:
            raise ValueError(f"{out} already holds tokens; choose another --out, or --overwrite it")
        (out / shards.INDEX).unlink()
    size = sum(path.stat().st_size for path in files)
    passes = 2 if tokenizer == "chars" else 1  # the first one collects the characters
    with tqdm(total=passes * size, unit="B", unit_scale=True) as bar:
        if tokenizer == "chars":
            tok: Any = tokenizers.CharTokenizer(shards.alphabet(files, bar.update))
        else:
            tok = _make_tokenizer(tokenizer, "")
        n = shards.prepare(files, tok, out, progress=bar.update)
    _say(f"{n:,} tokens in {out}; train on them with: gptlib train --corpus {out} --out runs/new")


@app.command
def sample(
    run: Annotated[Path, tyro.conf.Positional],
    prompt: str = "",
    max_new_tokens: int = 400,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> None:
    """Let a saved model continue a text.

    Args:
        run: Folder that `gptlib train` wrote, or a GPT-2 in Hugging Face's layout.
        prompt: Text to continue; empty starts at an end of text, or at a line end.
        max_new_tokens: Most tokens to write.
        temperature: 0 always takes the most probable token, higher is more varied.
        top_k: Draw only from the k most probable tokens.
        top_p: Draw only from the most probable tokens that together reach this probability.
        seed: Repeats the draws; a fresh one each time by default.
        precision: Of the weights; fewer bytes are read faster, and are a little less exact.
    """
    from gptlib import checkpoint, sampling
    from gptlib.decoding import for_decoding

    sampling.check_settings(temperature, top_k, top_p)  # before the slow load
    sampling.check_count(max_new_tokens)
    sampling.check_seed(seed)
    model, tok = checkpoint.load(run)
    ids = tok.encode(prompt)
    if not ids:
        ids = [_first_id(tok)]
        _say(f"empty prompt: starting after {tok.decode(ids)!r}")
    steps = sampling.stream(
        for_decoding(model, precision),
        ids,
        max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        stop_id=tok.eot_id,
        n_vocab=tok.n_vocab,
    )
    sys.stdout.write(prompt)
    for piece in tok.decode_stream(step.token_id for step in steps):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")


@app.command
def export(run: Annotated[Path, tyro.conf.Positional], to: Path, overwrite: bool = False) -> None:
    """Write a saved model as a GPT-2 folder that Hugging Face's transformers loads.

    Args:
        run: Folder that `gptlib train` wrote.
        to: Folder to write; made if need be.
        overwrite: Replace a model that the folder already holds.
    """
    from gptlib import checkpoint, gpt2

    model, tok = checkpoint.load(run)
    _refuse_held(to, "--to", overwrite)
    gpt2.export(model, to, tok)
    _say(f"{model.num_params():,} parameters in {to}; read it with: gptlib sample {to}")


@app.command
def account(
    model: Annotated[str | None, tyro.conf.Positional] = None,
    compare: tuple[str, str] | None = None,
    context: int | None = None,
    dtype: Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"] = "bf16",
    batch: int = 1,
    machine: str = "a100",
    training_tokens: float | None = None,
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Count a model's parameters, bytes, cache and FLOPs from its configuration alone.

    Args:
        model: A preset such as gpt2-small, a config.json, or a folder that holds one.
        compare: Two models, put side by side.
        context: Tokens in the cache and the window; by default what the model promises.
        dtype: Of the weights; the cache is bf16 where they are int8 or int4.
        batch: Texts side by side.
        machine: Whose limits apply: v100, a100, h100, h200, b200, mi300x, tpu-v5e or rtx4090.
        training_tokens: Tokens the model was trained on, for their ratio to its parameters.
        json: Print every figure as JSON instead of a table.
    """
    import json as json_format

    from gptlib import accounting
    from gptlib.accounting import report

    if (model is None) == (compare is None):
        raise ValueError("name one model, or two after --compare")
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    if context is not None and context < 1:
        raise ValueError(f"context must be at least 1, got {context}")
    on = accounting.machine(machine)
    names = compare or (str(model),)
    accounts = [accounting.account(name) for name in names]
    contexts = [context or acc.shape.context_length for acc in accounts]
    if compare is not None and not json:
        pair, lengths = (accounts[0], accounts[1]), (contexts[0], contexts[1])
        print(report.compare(compare, pair, on, lengths, dtype, batch, training_tokens))
        return
    found = [
        accounting.assess(
            acc,
            on,
            context=S,
            dtype=dtype,
            batch_size=batch,
            training_tokens=training_tokens,
        )
        for acc, S in zip(accounts, contexts, strict=True)
    ]
    if json:
        figures = [
            {"name": name, **report.as_dict(acc, on, S, dtype, batch, findings)}
            for name, acc, S, findings in zip(names, accounts, contexts, found, strict=True)
        ]
        print(json_format.dumps(figures if compare else figures[0], indent=2))
    else:
        print(report.table(names[0], accounts[0], on, contexts[0], dtype, batch, found[0]))


@app.command
def doctor() -> None:
    """Say what is installed, which data was found and verified, and how to get what is missing."""
    from gptlib import corpus, tokenizers

    print(f"gptlib {gptlib.__version__}, Python {platform.python_version()}, {platform.platform()}")
    packages = ("numpy", "torch", "tiktoken", "safetensors", "matplotlib", "jupyterlab")
    missing = False
    for name in (*packages, "jupyter-book"):
        try:
            print(f"  ok       {name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"  missing  {name}; run: make book")
            missing = True
    checks: dict[str, Callable[[], object]] = {
        "corpus": lambda: f"Shakespeare, {len(corpus.shakespeare()):,} characters",
        "vocabulary": lambda: ", ".join(map(str, tokenizers.vocabulary_files().values())),
    }
    for what, check in checks.items():
        try:
            print(f"  ok       {what}: {check()}; SHA-256 verified")
        except (OSError, ValueError) as error:
            print(f"  problem  {what}: {error}")
            missing = True
    if missing:
        raise SystemExit(1)
    print("all is in place")


def _refuse_held(folder: Path, option: str, overwrite: bool) -> None:
    from gptlib import checkpoint

    runs = [path.name for path in checkpoint.steps(folder)][-1:]
    held = [name for name in (checkpoint.WEIGHTS, checkpoint.CONFIG) if (folder / name).exists()]
    if (held or runs) and not overwrite:
        what = f"a run ({runs[0]})" if runs else f"a model or its {held[0]}"
        hint = ", --resume it" if runs else ""
        raise ValueError(
            f"{folder} already holds {what}; choose another {option}{hint}, or --overwrite it"
        )


def _empty(folder: Path) -> None:
    """Make the folder, and remove old checkpoints and models that would pass for the new run's."""
    from gptlib import checkpoint, parallel

    if parallel.rank() == 0:
        checkpoint.prepare_folder(folder)
        checkpoint.prune(folder, 0)
        for name in (checkpoint.WEIGHTS, checkpoint.CONFIG):
            (folder / name).unlink(missing_ok=True)
    parallel.wait_for_all()


def _make_tokenizer(kind: str, text: str) -> Any:
    from gptlib import tokenizers

    if kind == "chars":
        return tokenizers.CharTokenizer.from_text(text)
    return tokenizers.ByteTokenizer() if kind == "bytes" else tokenizers.gpt2_tokenizer()


def _first_id(tok: Any) -> int:
    """Return where to start without a prompt: at an end of text, a line end, or the first token."""
    if tok.eot_id is not None:
        return int(tok.eot_id)
    try:
        return int(tok.encode("\n")[0])
    except ValueError:  # a character tokenizer of a text without line ends
        return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _say_once(line: str) -> None:
    """Say it in the first process only."""
    if os.environ.get("RANK", "0") == "0":
        _say(line)


def main(args: list[str] | None = None) -> None:
    """Run one command; the entry point of the `gptlib` script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 still gets its text
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _say(f"gptlib: {message}")
            app.cli(args=args, prog="gptlib", description="Train, sample and export a GPT.")
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        first_line = (str(error) or type(error).__name__).splitlines()[0]
        _say(f"gptlib: {first_line}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        _say("gptlib: stopped; nothing was saved")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
