"""Every page in Chromium, from disk and over http, with every other host refused."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Site
from playwright.sync_api import Browser, ConsoleMessage, Page, Response, Route, sync_playwright
from test_book import toc_pages

pytestmark = pytest.mark.browser

PAGES = [*toc_pages(), "search", "genindex"]
WIDTHS = (1280, 390)  # a laptop and a phone

# Styles are read from the page itself: axe would fetch them, which browsers refuse from disk.
AXE = {"resultTypes": ["violations"], "preload": False}

# Thousands of coloured words take axe half a minute; test_book checks every colour of code at once.
NOT_CODE = {"exclude": [["pre"]]}

# Set when the page's mathematics is on the screen, at once on a page without any.
MATHS_DONE = "async () => { if (window.MathJax) await MathJax.startup.promise }"


@dataclass
class Visit:
    """An open page and everything that went wrong in it."""

    page: Page
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Keep requests out of the test report."""


@pytest.fixture(scope="module")
def origins(site: Site) -> Iterator[dict[str, str]]:
    """Return where the site begins, on disk and over http."""
    assert (site.html / "index.html").is_file(), site.complaints
    handler = partial(QuietHandler, directory=str(site.html))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"disk": site.html.as_uri(), "http": f"http://127.0.0.1:{server.server_port}"}
        server.shutdown()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def visit(browser: Browser, url: str, own: str) -> Iterator[Visit]:
    """Open a page whose requests to anything but `own` are refused and noted."""
    context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900})
    visited = Visit(context.new_page())
    page, errors = visited.page, visited.errors

    def route(route: Route) -> None:
        if route.request.url.startswith((own, "data:", "blob:")):
            route.continue_()
        else:
            visited.refused.append(route.request.url)
            route.abort()

    def answered(response: Response) -> None:
        if response.status >= 400:
            errors.append(f"{response.status}: {response.url}")

    def said(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            errors.append(message.text)

    context.route("**/*", route)
    page.on("requestfailed", lambda request: errors.append(f"not loaded: {request.url}"))
    page.on("response", answered)
    page.on("console", said)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url, wait_until="load")
    yield visited
    context.close()


@pytest.fixture(scope="module", params=PAGES)
def both(
    request: pytest.FixtureRequest, browser: Browser, origins: dict[str, str]
) -> Iterator[list[Visit]]:
    """Open one page from disk and over http, for all tests that look at it."""
    with ExitStack() as stack:
        visits = []
        for origin in origins.values():
            url = f"{origin}/{request.param}.html"
            visits.append(stack.enter_context(visit(browser, url, origin)))
            visits[-1].page.evaluate(MATHS_DONE)
        yield visits


def test_a_page_needs_no_other_host_and_reports_no_error(both: list[Visit]) -> None:
    for visited in both:
        visited.page.wait_for_load_state("networkidle")
        assert (visited.refused, visited.errors) == ([], []), visited.page.url


def test_all_mathematics_is_set(both: list[Visit]) -> None:
    for visited in both:
        page = visited.page
        assert page.locator(".math mjx-container").count() == page.locator(".math").count()
        assert page.locator("mjx-merror").count() == 0
        text = page.evaluate(
            "() => { const copy = document.querySelector('main').cloneNode(true);"
            " copy.querySelectorAll('pre, code, script').forEach(e => e.remove());"
            " return copy.textContent }"
        )
        assert [mark for mark in (r"\(", r"\[", "$") if mark in text] == []


def test_a_page_fits_its_window(both: list[Visit]) -> None:
    page = both[0].page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".search-button__button:visible").count() == 1
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})


def test_a_page_breaks_no_accessibility_rule(both: list[Visit]) -> None:
    page = both[0].page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.wait_for_function("s => document.documentElement.dataset.theme === s", arg=scheme)
        broken = [
            f"{rule['id']}: {node['target'][0]} {node['failureSummary']}"
            for rule in Axe().run(page, context=NOT_CODE, options=AXE).response["violations"]
            if rule["impact"] in {"serious", "critical"}
            for node in rule["nodes"][:3]
        ]
        assert broken == [], scheme


def test_pictures_have_a_text(both: list[Visit]) -> None:
    page = both[0].page
    assert page.locator("img:not([alt])").count() == 0
    assert page.locator("figure svg:not([aria-label]), figure svg[aria-label='']").count() == 0


@pytest.fixture(params=["disk", "http"])
def welcome(
    request: pytest.FixtureRequest, browser: Browser, origins: dict[str, str]
) -> Iterator[Visit]:
    """Open the site as a reader does, at its index, which leads to the welcome page."""
    origin = origins[request.param]
    with visit(browser, f"{origin}/index.html", origin) as visited:
        visited.page.wait_for_url("**/book/welcome.html")
        yield visited
        assert visited.refused == []


def test_the_colour_mode_can_be_switched_and_stays(welcome: Visit) -> None:
    page = welcome.page

    def background() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    bright = background()
    for _ in range(3):  # the button goes round light, dark and the system's mode
        if page.evaluate("document.documentElement.dataset.mode") != "dark":
            page.locator(".theme-switch-button").click()
    dark = background()
    assert dark != bright
    page.reload()
    assert background() == dark


def test_the_search_finds_a_page(welcome: Visit) -> None:
    page = welcome.page
    page.locator(".search-button__button:visible").click()
    page.locator("dialog input[type=search]").fill("perplexity")
    page.keyboard.press("Enter")
    page.locator("#search-results a", has_text="Glossary").first.wait_for()


def test_the_map_leads_to_the_chapters(welcome: Visit) -> None:
    page = welcome.page
    page.locator("svg.machine a", has_text="Token table").click()
    page.wait_for_url("**/notebooks/01_the_whole_machine.html")


def test_a_folded_answer_opens(welcome: Visit) -> None:
    page = welcome.page
    page.locator("svg.machine a", has_text="Token table").click()
    answer = page.locator("article details").first
    assert not answer.locator("p").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()
