"""Resolve the pinned environment for every Python that is promised, and note that it was done.

`make check-pins` runs this after constraints.txt or a dependency in pyproject.toml has changed; it
needs a package registry. What was checked is noted in `tools/checked_pins.json`, which a test
compares with the files.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTE = ROOT / "tools" / "checked_pins.json"
PYTHONS = ("3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0")  # from the oldest, and Debian 12's


def dependencies() -> list[str]:
    """Return what the package and all of its extras ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(one for extra in extras for one in extra)]


def present() -> dict[str, object]:
    """Return what the note must say of the files as they are."""
    constraints = (ROOT / "constraints.txt").read_bytes()
    asked = hashlib.sha256("\n".join(sorted(dependencies())).encode() + constraints).hexdigest()
    return {"pythons": list(PYTHONS), "sha256 of constraints and dependencies": asked}


def main() -> int:
    """Resolve for each Python with a recent pip, in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip"]
        subprocess.run([*pip, "install", "-q", "--upgrade", "pip"], check=True)
        for python in PYTHONS:
            command = [*pip, "install", "-q", "--dry-run", "--ignore-installed"]
            command += ["--only-binary=:all:", f"--python-version={python}", f"--target={folder}"]
            command += ["-c", str(ROOT / "constraints.txt"), *dependencies()]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            print(f"Python {python}: {'every pin holds' if done.returncode == 0 else 'FAILED'}")
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                return 1
    NOTE.write_text(json.dumps(present(), indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
