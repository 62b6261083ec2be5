"""What the commands share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def say(line: str) -> None:
    """Tell the user something, on standard error."""
    sys.stderr.write(line + "\n")


def say_once(line: str) -> None:
    """Say it in the first process only."""
    if os.environ.get("RANK", "0") == "0":
        say(line)


def refuse_held(folder: Path, option: str, overwrite: bool) -> None:
    from gptlib import checkpoint

    runs = [path.name for path in checkpoint.steps(folder)][-1:]
    held = [name for name in (checkpoint.WEIGHTS, checkpoint.CONFIG) if (folder / name).exists()]
    if (held or runs) and not overwrite:
        what = f"a run ({runs[0]})" if runs else f"a model or its {held[0]}"
        hint = ", --resume it" if runs and option == "--out" else ""
        raise ValueError(
            f"{folder} already holds {what}; choose another {option}{hint}, or --overwrite it"
        )


def make_tokenizer(kind: str, text: str) -> Any:
    from gptlib import tokenizers

    if kind == "chars":
        return tokenizers.CharTokenizer.from_text(text)
    return tokenizers.ByteTokenizer() if kind == "bytes" else tokenizers.gpt2_tokenizer()
