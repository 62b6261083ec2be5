"""The command that looks after an installation: `gptlib doctor`."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable

import gptlib
from gptlib.text import corpus, tokenizers


def doctor() -> None:
    """Say what is installed, which data was found and verified, and how to get what is missing."""
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
