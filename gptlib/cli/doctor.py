"""The command that looks after an installation: `gptlib doctor`."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Callable

import gptlib
from gptlib.text import corpus, data_packages, tokenizers


def doctor() -> None:
    """Say what is installed, which data was found and verified, and how to get what is missing."""
    print(f"gptlib {gptlib.__version__}, Python {platform.python_version()}, {platform.platform()}")
    packages = ("numpy", "torch", "tiktoken", "safetensors", "gguf", "matplotlib", "jupyterlab")
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
    try:  # only those who want to hear a real model need it
        print(f"  ok       SmolLM2: {data_packages.smollm2_file()}; SHA-256 verified")
    except (OSError, ValueError) as error:
        print(f"  without  SmolLM2: {error}")
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
