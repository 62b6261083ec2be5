"""What every test may use: one tiny configuration, fixed seeds, and the installed Chromium."""

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from browsing import PLACES, QuietHandler
from comparing import Comparisons
from playwright.sync_api import Browser, Page, sync_playwright

from gptlib import cli
from gptlib.config import GPTConfig
from gptlib.model import GPT
from gptlib.storage import gguf
from gptlib.text.byte_pair_files import BytePairTokenizer

# The same examples on every host, and no time limit per example: CI machines are shared.
hypothesis.settings.register_profile("gptlib", deadline=None, derandomize=True)
hypothesis.settings.load_profile("gptlib")

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Site:
    """The book, built once for all tests, and what the build said."""

    html: Path
    exit_code: int
    complaints: str


def build_book(source: Path, output: Path) -> Site:
    """Build the book in `source` into an empty `output` as `make book` does."""
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    run = subprocess.run(
        [*program, "build", "-W", "-n", "--keep-going", "--path-output", output, source],
        cwd=source,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    log = re.sub(r"\x1b\[[0-9;]*m", "", run.stdout + run.stderr)  # without colours
    complaints = [line for line in log.splitlines() if re.search("WARNING|ERROR|error:", line)]
    return Site(output / "_build" / "html", run.returncode, "\n".join(complaints))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return the site built from this tree."""
    return build_book(ROOT, tmp_path_factory.mktemp("site"))


def run_cli(*args: object) -> int | str | None:
    """Run the command line in this process and return its exit code."""
    try:
        cli.main([str(arg) for arg in args])
    except SystemExit as stopped:
        return stopped.code
    return 0


def one_line_error(capsys: pytest.CaptureFixture[str], *parts: str) -> bool:
    """Assert that standard error is one line of ours that holds all `parts`."""
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    assert error.startswith("gptlib: ")
    assert all(part in error for part in parts), error
    return True


# A shell starts what it runs in the background deaf to Ctrl-C; the tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(1)  # the tests' tensors are tiny: a second thread would only be waited for


@pytest.fixture
def tiny() -> GPTConfig:
    """Return the one tiny configuration: 2 layers, 4 heads, 16 wide, 8 positions, 50 tokens."""
    return GPTConfig(
        vocab_size=50, context_length=8, emb_dim=16, n_heads=4, n_layers=2, drop_rate=0.0
    )


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Give every test the same random numbers, whichever tests ran before it."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def smollm2() -> tuple[GPT, BytePairTokenizer]:
    """Return the real model of 135 million parameters, read once for all tests; never change it."""
    return gguf.smollm2()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of an installed Chromium or Chrome; skip without one, but fail in CI."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    for name in names:
        if path := shutil.which(name):
            return path
    reason = f"no browser found: looked for {', '.join(names)}; install Chromium to run this test"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """Return one Chromium for all tests; two playwrights at a time do not work."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def origins(site: Site) -> Iterator[dict[str, str]]:
    """Return where the site begins, on disk and over http."""
    assert (site.html / "index.html").is_file(), site.complaints
    handler = partial(QuietHandler, directory=str(site.html))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"disk": site.html.as_uri(), "http": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()


@pytest.hookimpl(tryfirst=True)  # before -m selects by the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the built site or a browser, and put the chapters' comparisons last.

    They run beside all other tests from the start.
    """
    for item in items:
        needs = set(getattr(item, "fixturenames", ()))
        if "site" in needs or _is_comparison(item):
            item.add_marker("slow")
        if "chromium" in needs:
            item.add_marker("browser")
    items.sort(key=_is_comparison)


def _is_comparison(item: pytest.Item) -> bool:
    return {"path", "host"} <= set(getattr(getattr(item, "callspec", None), "params", ()))


@pytest.fixture(scope="session", autouse=True)
def comparisons(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Comparisons]:
    """Start the comparisons among the selected tests, in their order."""
    params = [item.callspec.params for item in filter(_is_comparison, request.session.items)]
    cases = [(each["path"], each["host"]) for each in params]
    started = Comparisons(cases, tmp_path_factory.mktemp("comparisons"))
    yield started
    started.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Return the function that opens a panel as the book does, in a place of some width."""
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    book = runpy.run_path(str(ROOT / "book" / "_ext" / "panels.py"))

    def show(panel: Any, width: int = PLACES[0]) -> Page:
        page.goto("about:blank")
        page.set_content(f'<div style="width:{width}px">{panel.twin()}</div>')
        page.add_style_tag(content=panel._css)
        if panel.needs_weights:
            page.add_script_tag(content=book["weights_script"]())
        name = panel.script.rpartition("/")[2].removesuffix(".js")
        page.add_script_tag(content=book["source_script"](name))
        page.add_script_tag(path=ROOT / "book" / "_ext" / "panels_runtime.js")
        page.wait_for_selector("[data-mounted=true]")
        return page

    yield show
    page.close()
    assert errors == []
