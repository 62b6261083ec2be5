"""What the tests in Chromium share: pages opened with every other host refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Response, Route

WIDTHS = (1280, 390)  # a laptop and a phone
PLACES = (736, 358)  # pixels that a panel has on them
HEIGHT = 900

# Styles are read from the page itself: axe would fetch them, which browsers refuse from disk.
_AXE = {"resultTypes": ["violations"], "preload": False}

# Thousands of coloured words take axe half a minute; test_book checks every colour of code at once.
_NOT_CODE = {"exclude": [["pre"], ["dt.sig"]]}

# Words that are left out anyway, each an element that axe would place on the page.
_ONE_ELEMENT = """document.querySelectorAll("pre, dt.sig").forEach(e => {
    e.textContent = e.textContent;
})"""

# Set when fonts and panels are on the screen, at once on a page without any.
_SETTLED = """async () => {
    await document.fonts.ready;
    const waiting = () => document.querySelector(".gptlib-panel:not([data-mounted])");
    while (waiting()) await new Promise((done) => setTimeout(done, 20));
}"""


@dataclass
class Visit:
    """An open page and everything that went wrong in it."""

    page: Page
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a word in the test report."""

    def log_message(self, format: str, *args: Any) -> None:
        """Keep requests out of the test report."""


# Windows that no test looks at, by what they were opened for. The next page read in such a window
# takes half the CPU time that it takes in a new one, whose process begins without any script.
_Purpose = tuple[Browser, str, int, str]
_idle: dict[_Purpose, list[Visit]] = {}


@contextmanager
def visit(
    browser: Browser,
    url: str,
    own: str,
    *,
    width: int = WIDTHS[0],
    first: str = "",
    leads_to: str = "**",
) -> Iterator[Visit]:
    """Open a page whose requests to anything but `own` are refused and noted; wait for it.

    `first` is a script that runs when the page has been read and none of its scripts has run;
    `leads_to` is the address where a page that forwards its reader ends.
    """
    idle = _idle.setdefault((browser, own, width, first), [])
    visited = idle.pop() if idle else _new_window(browser, own, width, first)
    visited.page.goto(url, wait_until="load")
    visited.page.wait_for_url(leads_to)
    visited.page.evaluate(_SETTLED)
    yield visited
    _forget(visited, width)
    idle.append(visited)


def _new_window(browser: Browser, own: str, width: int, first: str) -> Visit:
    """Return a window that refuses what is not `own`, before it has opened a page."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT})
    if first:
        context.add_init_script(f"""document.addEventListener("readystatechange", () => {{
            if (document.readyState === "interactive") {{ {first} }}
        }})""")
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
    return visited


def _forget(visited: Visit, width: int) -> None:
    """Bring a window back to what it was before its first page."""
    page = visited.page
    page.evaluate("localStorage.clear(), sessionStorage.clear()")
    page.context.clear_cookies()
    page.goto("about:blank")
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.emulate_media(media="screen", color_scheme="light", reduced_motion="no-preference")
    page.mouse.move(0, 0)
    visited.refused.clear()
    visited.errors.clear()


def broken_rules(page: Page, scheme: str) -> list[str]:
    """Return what axe finds wrong in the light page, or in the colours of the dark one.

    In a panel that is everything, elsewhere what is serious or critical.
    """
    page.evaluate(_ONE_ELEMENT)
    options = _AXE | ({} if scheme == "light" else {"runOnly": ["color-contrast"]})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_function("s => document.documentElement.dataset.theme === s", arg=scheme)
    return [
        f"{rule['id']}: {node['target'][0]} {node['failureSummary']}"
        for rule in Axe().run(page, context=_NOT_CODE, options=options).response["violations"]
        for node in rule["nodes"]
        if rule["impact"] in {"serious", "critical"}
        or page.locator(node["target"][0]).first.evaluate("e => e.closest('.gptlib-panel')")
    ]
