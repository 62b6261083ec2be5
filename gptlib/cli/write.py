"""The commands that use a model: `gptlib sample` and `gptlib export`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from gptlib._helpers.numbers import integer
from gptlib.cli.common import refuse_held, say
from gptlib.sampling import Settings, generator, stream


def sample(
    run: Annotated[Path, tyro.conf.Positional],
    prompt: str = "",
    max_new_tokens: int = 400,
    seed: int | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
    settings: Annotated[Settings, tyro.conf.arg(name="")] = Settings(  # noqa: B008 (frozen)
        temperature=0.8
    ),
) -> None:
    """Let a saved model continue a text.

    Args:
        run: Folder that `gptlib train` wrote, or a GPT-2 in Hugging Face's layout.
        prompt: Text to continue; empty starts at an end of text, or at a line end.
        max_new_tokens: Most tokens to write.
        seed: Repeats the draws; a fresh one each time by default.
        precision: Of the weights; fewer bytes are read faster, and are a little less exact.
        settings: Which tokens may be drawn.
    """
    integer("max_new_tokens", max_new_tokens, 0)  # before the slow load
    generator(seed)
    # Here, because torch takes a second that help and errors need not wait for.
    from gptlib.numpy_gpt.packed import for_decoding  # noqa: PLC0415 (loads torch)
    from gptlib.storage import checkpoint  # noqa: PLC0415 (loads torch)

    model, tok = checkpoint.load(run)
    ids = tok.encode(prompt)
    if not ids:
        ids = [_first_id(tok)]
        say(f"empty prompt: starting after {tok.decode(ids)!r}")
    steps = stream(
        for_decoding(model, precision),
        ids,
        max_new_tokens,
        seed=seed,
        stop_id=tok.eot_id,
        n_vocab=tok.n_vocab,
        **dataclasses.asdict(settings),
    )
    sys.stdout.write(prompt)
    for piece in tok.decode_stream(step.token_id for step in steps):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")


def export(run: Annotated[Path, tyro.conf.Positional], to: Path, overwrite: bool = False) -> None:
    """Write a saved model as a GPT-2 folder that Hugging Face's transformers loads.

    Args:
        run: Folder that `gptlib train` wrote.
        to: Folder to write; made if need be.
        overwrite: Replace a model that the folder already holds.
    """
    from gptlib.storage import checkpoint, files, gpt2  # noqa: PLC0415 (loads torch)

    model, tok = checkpoint.load(run)
    refuse_held(to, files.held(to), "--to", overwrite)
    gpt2.export(model, to, tok)
    read = f"read it with: gptlib sample {shlex.quote(str(to))}"
    say(f"{model.num_params():,} parameters in {to}; {read}")


def _first_id(tok: Any) -> int:
    """Return where to start without a prompt: at an end of text, a line end, or the first token."""
    if tok.eot_id is not None:
        return int(tok.eot_id)
    try:
        return int(tok.encode("\n")[0])
    except ValueError:  # a character tokenizer of a text without line ends
        return 0
