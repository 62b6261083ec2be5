"""The command line: `gptlib train | prepare | sample | export | account | doctor`.

Each command is a typed function; tyro turns its arguments into options with help, and answers a
misspelt option with the nearest one. All other wrong input ends in one line on standard error. Both
exit with code 2.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import os
import platform
import re
import shlex
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import gptlib
from gptlib import cli_train
from gptlib._cli_common import refuse_held, say
from gptlib._numbers import integer

app = tyro.extras.SubcommandApp()


app.command(cli_train.train)
app.command(cli_train.prepare)


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
        say(f"empty prompt: starting after {tok.decode(ids)!r}")
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
    refuse_held(to, "--to", overwrite)
    gpt2.export(model, to, tok)
    read = f"read it with: gptlib sample {shlex.quote(str(to))}"
    say(f"{model.num_params():,} parameters in {to}; {read}")


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
    integer("batch", batch, 1)
    if context is not None:
        integer("context", context, 1)
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
            print(f'  missing  {name}; run: pip install "{_requirement(name)}"')
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


def _requirement(name: str) -> str:
    """Return a package with the versions that gptlib asks for, as pip reads it."""
    try:
        asked = importlib.metadata.requires("gptlib") or []
    except importlib.metadata.PackageNotFoundError:  # on the path, but not installed
        asked = []
    plain = [one.partition(";")[0].strip() for one in asked]
    return next((one for one in plain if re.split("[<>=!~]", one)[0] == name), name)


def _first_id(tok: Any) -> int:
    """Return where to start without a prompt: at an end of text, a line end, or the first token."""
    if tok.eot_id is not None:
        return int(tok.eot_id)
    try:
        return int(tok.encode("\n")[0])
    except ValueError:  # a character tokenizer of a text without line ends
        return 0


def main(args: list[str] | None = None) -> None:
    """Run one command; the entry point of the `gptlib` script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 still gets its text
    try:
        args = cli_train.with_base(sys.argv[1:] if args is None else args)
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: say(f"gptlib: {message}")
            app.cli(args=args, prog="gptlib", description="Train, sample and export a GPT.")
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        first_line = (str(error) or type(error).__name__).splitlines()[0]
        say(f"gptlib: {first_line}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        say("gptlib: stopped; nothing was saved")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
