"""The commands that use a model: `gptlib sample`, `gptlib chat` and `gptlib export`."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from gptlib._helpers.numbers import integer
from gptlib.cli.common import refuse_held, say
from gptlib.sampling import Settings, generator, stream

Precision = Literal["float32", "bfloat16", "int8"]
SampleSettings = Annotated[Settings, tyro.conf.arg(name="")]

# What SmolLM2 was told first in its training on turns (the chat template in its file).
SYSTEM = {"smollm2": "You are a helpful AI assistant named SmolLM, trained by Hugging Face"}


def sample(
    model: Annotated[str, tyro.conf.Positional],
    prompt: str = "",
    chat: str | None = None,
    max_new_tokens: int = 400,
    seed: int | None = None,
    precision: Precision = "float32",
    settings: SampleSettings = Settings(temperature=0.8),  # noqa: B008 (frozen)
) -> None:
    """Let a saved model continue a text, or answer once.

    Args:
        model: "packaged", "smollm2", a folder that `gptlib train` wrote, a folder in Hugging Face's
            layout, or a .gguf file.
        prompt: Text to continue; empty starts at an end of text, or at a line end.
        chat: Text to answer instead, by a model that has learned to take turns.
        max_new_tokens: Most tokens to write.
        seed: Repeats the draws; a fresh one each time by default.
        precision: Of the weights; fewer bytes are read faster, and are a little less exact.
        settings: Which tokens may be drawn.
    """
    integer("max_new_tokens", max_new_tokens, 0)  # before the slow load
    generator(seed)
    if chat is not None:
        if prompt:
            raise ValueError("give a --prompt to continue or a --chat to answer, not both")
        answer = _conversation(model, precision, None).say(
            chat, max_new_tokens, seed=seed, **dataclasses.asdict(settings)
        )
        _write(answer)
        return
    engine, tok = _engine(model, precision)
    ids = tok.encode(prompt)
    if not ids:
        ids = [_first_id(tok)]
        say(f"empty prompt: starting after {tok.decode(ids)!r}")
    steps = stream(
        engine,
        ids,
        max_new_tokens,
        seed=seed,
        stop_id=tok.eot_id,
        n_vocab=tok.n_vocab,
        **dataclasses.asdict(settings),
    )
    sys.stdout.write(prompt)
    _write(tok.decode_stream(step.token_id for step in steps))


def chat(
    model: Annotated[str, tyro.conf.Positional],
    system: str | None = None,
    max_new_tokens: int | None = None,
    seed: int | None = None,
    precision: Precision = "float32",
    settings: SampleSettings = Settings(temperature=0.2, top_p=0.9),  # noqa: B008 (frozen)
) -> None:
    """Talk with a model that has learned to take turns, such as smollm2.

    Ctrl-C stops an answer, /new forgets the conversation, Ctrl-D ends it.

    Args:
        model: "smollm2", a folder in Hugging Face's layout, or a .gguf file.
        system: What the model is told first; by default its maker's line, "" for nothing.
        max_new_tokens: Longest answer; by default as long as the context has room.
        seed: Repeats the draws of every answer; fresh ones each time by default.
        precision: Of the weights; fewer bytes are read faster, and are a little less exact.
        settings: Which tokens may be drawn. The defaults are what SmolLM2's makers advise.
    """
    if max_new_tokens is not None:
        integer("max_new_tokens", max_new_tokens, 1)
    generator(seed)
    talk = _conversation(model, precision, system)
    say("Ctrl-C stops an answer, /new forgets the conversation, Ctrl-D ends it.")
    while True:
        try:
            text = input("> ")
        except KeyboardInterrupt:
            say("\nCtrl-D ends the conversation")
            continue
        except EOFError:
            sys.stdout.write("\n")
            return
        if text.strip() == "/new":
            talk.reset()
            continue
        try:
            answer = talk.say(text, max_new_tokens, seed=seed, **dataclasses.asdict(settings))
        except ValueError as error:  # an empty turn, or no room for it
            say(f"gptlib: {error}")
            continue
        with contextlib.closing(answer), contextlib.suppress(KeyboardInterrupt):
            _write(answer)
            continue
        sys.stdout.write("\n")


def export(run: Annotated[Path, tyro.conf.Positional], to: Path, overwrite: bool = False) -> None:
    """Write a saved model as a folder that Hugging Face's transformers loads.

    As GPT-2, or as Llama, Qwen 2, Qwen 3 or SmolLM3, whichever has the model's switches.

    Args:
        run: Folder that `gptlib train` wrote.
        to: Folder to write; made if need be.
        overwrite: Replace a model that the folder already holds.
    """
    from gptlib.storage import checkpoint, files, gpt2, llama  # noqa: PLC0415 (loads torch)

    model, tok = checkpoint.load(run)
    refuse_held(to, files.held(to), "--to", overwrite)
    kind = gpt2 if model.cfg.to_hf()["model_type"] == "gpt2" else llama
    kind.export(model, to, tok)
    read = f"read it with: gptlib sample {shlex.quote(str(to))}"
    say(f"{model.num_params():,} parameters in {to}; {read}")


def _engine(model: str, precision: Precision) -> tuple[Any, Any]:
    """Return a model laid out for decoding, and its tokenizer."""
    # Here, because torch takes a second that help and errors need not wait for.
    from gptlib.numpy_gpt.packed import for_decoding  # noqa: PLC0415 (loads torch)
    from gptlib.storage import checkpoint  # noqa: PLC0415 (loads torch)

    gpt, tok = checkpoint.load(model)
    return for_decoding(gpt, precision), tok


def _conversation(model: str, precision: Precision, system: str | None) -> Any:
    from gptlib.chat import Chat  # noqa: PLC0415 (what `gptlib sample` can do without)

    engine, tok = _engine(model, precision)
    return Chat(engine, tok, SYSTEM.get(model, "") if system is None else system)


def _write(pieces: Iterable[str]) -> None:
    """Write text as it comes, and a line end."""
    for piece in pieces:
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")


def _first_id(tok: Any) -> int:
    """Return where to start without a prompt: at an end of text, a line end, or the first token."""
    if tok.eot_id is not None:
        return int(tok.eot_id)
    try:
        return int(tok.encode("\n")[0])
    except ValueError:  # a character tokenizer of a text without line ends
        return 0
