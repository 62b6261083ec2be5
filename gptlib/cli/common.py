"""What the commands share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gptlib.text import tokenizers
from gptlib.text.tokenizers import Tokenizer

OWN_CORPUS = "shakespeare"  # the package's; a folder of that name is "./shakespeare"


def say(line: str) -> None:
    """Tell the user something, on standard error."""
    sys.stderr.write(line + "\n")


def say_once(line: str) -> None:
    """Say it in the first process only."""
    if os.environ.get("RANK", "0") == "0":
        say(line)


def refuse_held(folder: Path, held: str, option: str, overwrite: bool) -> None:
    """Raise ValueError where a folder holds a run or a model that would be lost."""
    if held and not overwrite:
        hint = ", --resume it" if held.startswith("a run") and option == "--out" else ""
        raise ValueError(
            f"{folder} already holds {held}; choose another {option}{hint}, or --overwrite it"
        )


def make_tokenizer(kind: str, text: str) -> Tokenizer:
    """Return a tokenizer of the kind "bytes", "chars" (those of `text`) or "gpt2"."""
    if kind == "chars":
        return tokenizers.CharTokenizer.from_text(text)
    return tokenizers.ByteTokenizer() if kind == "bytes" else tokenizers.gpt2_tokenizer()
