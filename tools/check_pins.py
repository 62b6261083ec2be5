"""Resolve the pins for every Python that pyproject.toml promises, and note that they held.

Run by `make check-pins`, whenever a pin, a dependency or a promised Python changes. It needs a
package registry and installs nothing: pip is asked for the first release of each minor version, so
that a pin that wants a later one is found, and for wheels, since nobody should need a compiler.

pip takes files and versions for the Python it is asked for, but judges conditions in requirements
(`; python_version < "3.12"`) by the Python it runs on. The pins have none.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from subprocess import PIPE, STDOUT

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ROOT / "tools" / "pins_checked.txt"  # the fingerprint of what the last check passed


def pythons() -> list[str]:
    """Return the first release of each Python in the classifiers: `3.11.0` and so on."""
    minors = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier)
        for classifier in _pyproject()["project"]["classifiers"]
    )
    return [f"{match[1]}.0" for match in minors if match]


def requirements() -> list[str]:
    """Return every direct dependency, with those of all extras."""
    project = _pyproject()["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(one for extra in extras for one in extra)]


def alone() -> list[str]:
    """Return what pip installs apart from the pins: the data packages and the build backend."""
    return [*_lines("requirements-data.txt"), *_pyproject()["build-system"]["requires"]]


def fingerprint() -> str:
    """Return the SHA-256 of all that the outcome depends on; comments are left out."""
    asked = [pythons(), requirements(), alone(), _lines("constraints.txt")]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def resolve(pip: list[str], folder: str, python: str) -> None:
    """Let pip resolve everything for one Python; raise CalledProcessError with its message."""
    dry = [*pip, "install", "--dry-run", "--target", folder]
    dry += ["--python-version", python, "--only-binary=:all:"]
    pinned = ["--constraint", str(ROOT / "constraints.txt"), *requirements()]
    for arguments in (pinned, ["--no-deps", *alone()]):
        subprocess.run([*dry, *arguments], check=True, stdout=PIPE, stderr=STDOUT, encoding="utf-8")


def main() -> None:
    """Resolve for each Python, and write the fingerprint where all of them pass."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        # Of its own, and upgraded: the pip that came with a Python may be years old.
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", "--upgrade", "pip"], check=True)
        for version in pythons():
            try:
                resolve(pip, f"{folder}/target", version)
                print(f"Python {version}: every pin resolves", flush=True)
            except subprocess.CalledProcessError as error:
                said = error.output[max(error.output.find("ERROR:"), 0) :]
                print(f"Python {version}: the pins do not resolve\n{said}", flush=True)
                failed = True
    if failed:
        sys.exit(1)
    CHECKED.write_text(f"{fingerprint()}\n", encoding="utf-8")


def _pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _lines(name: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    main()
