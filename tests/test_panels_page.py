"""Panels in the built pages, by mouse and by keyboard, with no kernel (see test_browser too)."""

from collections.abc import Iterator

import pytest
from browsing import WIDTHS, Visit, visit
from conftest import Site
from playwright.sync_api import Browser, Locator, Page
from test_book import toc_pages

pytestmark = pytest.mark.browser

# The interactive figures of each page, by the name of their script.
DECLARED = {
    "book/welcome": ["playground"],
    "notebooks/01_the_whole_machine": ["machine"],
    "notebooks/02_guess_the_next_letter": ["pairs"],
    "notebooks/03_text_becomes_tokens": ["merges"],
    "notebooks/05_layer_norm": ["layer_norm"],
    "notebooks/06_gelu_feed_forward": ["gelu"],
    "notebooks/07_residual": ["depth"],
    "notebooks/04_attention": ["attention"],
    "notebooks/09_accounting": ["ledger"],
    "notebooks/13_sampling": ["playground"],
    "notebooks/12_training": ["replay"],
    "notebooks/14_kv_cache": ["kv_cache"],
}

# All that a reader can read of a panel: the sentence, the numbers as a table, lists and pictures.
EQUIVALENT = """panel => [...panel.querySelectorAll(
    '.gp-readout, .gp-text table, .gp-bars, .gp-spoken')].map(e => e.textContent).join('\\n')"""


@pytest.fixture(scope="module", params=DECLARED)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def opened(name: str, browser: Browser, origins: dict[str, str]) -> Iterator[Visit]:
    with visit(browser, f"{origins['disk']}/{name}.html", origins["disk"]) as visited:
        yield visited


@pytest.fixture
def page(opened: Visit) -> Iterator[Page]:
    """Return the page from disk, its panels in their first state."""
    for panel in panels_of(opened.page):
        reset(panel)
    yield opened.page
    assert (opened.refused, opened.errors) == ([], [])


def panels_of(page: Page) -> list[Locator]:
    """Return the interactive figures; questions have tests of their own."""
    return page.locator('.gptlib-panel:not([data-panel="questions"])').all()


def controls_of(panel: Locator) -> list[Locator]:
    """Return what a reader can operate, without Reset and what is folded away."""
    found = panel.locator("input, select, textarea, button:not(.gp-head button)").all()
    return [control for control in found if control.is_visible() and control.is_enabled()]


def said(panel: Locator) -> str:
    """Return the panel's text equivalent after what is under way has been drawn."""
    panel.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 30)))")
    return panel.evaluate(EQUIVALENT)


def press(control: Locator) -> None:
    """Operate a control by keyboard, away from the end it may stand at."""
    kind = control.evaluate("e => e.type ?? e.tagName")
    control.focus()
    if kind == "range":
        at_end = control.evaluate("e => Number(e.value) >= Number(e.max)")
        control.press("PageDown" if at_end else "PageUp")
    elif kind == "select-one":
        last = control.evaluate("e => e.selectedIndex === e.options.length - 1")
        control.press("ArrowUp" if last else "ArrowDown")
    elif kind == "checkbox":
        control.press("Space")
    elif kind in {"text", "textarea"}:
        control.press("End")
        control.press_sequentially(" so")
    elif kind == "number":
        control.press("ArrowUp")
    else:
        control.press("Enter")


def click(control: Locator) -> None:
    """Operate a control by mouse: a slider at the far side of its thumb."""
    kind = control.evaluate("e => e.type ?? e.tagName")
    if kind == "range":
        share = control.evaluate("e => (e.value - e.min) / (e.max - e.min)")
        box = control.bounding_box()
        assert box is not None
        at = {"x": box["width"] * (0.2 if share > 0.5 else 0.8), "y": box["height"] / 2}
        control.click(position=at)
    elif kind == "select-one":
        other = control.evaluate("e => e.options.length - 1 - e.selectedIndex")
        control.select_option(index=other)
    else:
        control.click()


def reset(panel: Locator) -> None:
    panel.locator(".gp-head button", has_text="Reset").click()


def test_every_panel_of_the_book_is_declared_and_no_other(site: Site) -> None:
    found = {}
    for page in toc_pages():
        text = (site.html / f"{page}.html").read_text(encoding="utf-8")
        names = [part.split('"')[0] for part in text.split('data-panel="')[1:]]
        if figures := [name for name in names if name != "questions"]:
            found[page] = figures
        assert ("questions" in names) == page.startswith("notebooks/"), page
    assert found == DECLARED


@pytest.mark.parametrize("operate", [press, click], ids=["keyboard", "mouse"])
def test_each_control_changes_what_the_panel_says(page: Page, operate) -> None:
    for panel in panels_of(page):
        for at in range(len(controls_of(panel))):
            reset(panel)
            before = said(panel)
            control = controls_of(panel)[at]
            what = control.evaluate("e => (e.closest('label') ?? e).textContent")
            operate(control)
            if operate is click and control.evaluate("e => e.type") in {"text", "textarea"}:
                continue  # the mouse only puts the cursor there
            if said(panel) == before:  # it may lead to where the panel opens: come from elsewhere
                operate(controls_of(panel)[at - 1])
                before = said(panel)
                operate(control)
            assert said(panel) != before, what


def test_reset_brings_the_first_state_back(page: Page) -> None:
    for panel in panels_of(page):
        first = said(panel)
        for control in controls_of(panel):
            if control.is_visible() and control.is_enabled():
                press(control)
        assert said(panel) != first
        reset(panel)
        assert said(panel) == first


def test_every_control_has_a_name_and_a_visible_focus(page: Page) -> None:
    for panel in panels_of(page):
        for control in controls_of(panel):
            assert control.evaluate("e => e.labels?.[0]?.textContent || e.textContent").strip()
            control.focus()
            page.keyboard.press("Shift")  # a key makes the browser show where it is
            assert control.evaluate("e => getComputedStyle(e).outlineStyle") != "none"


# The words that do not lie within their picture.
OUTSIDE = """panel => [...panel.querySelectorAll("svg text")].filter(text => {
    const [word, frame] = [text, text.ownerSVGElement].map(e => e.getBoundingClientRect());
    return word.left < frame.left - 1 || word.right > frame.right + 1
        || word.top < frame.top - 1 || word.bottom > frame.bottom + 1;
}).map(text => text.textContent)"""

# Every slider at its lowest or highest.
ALL_AT = """(panel, end) => panel.querySelectorAll("input[type=range]").forEach(slider => {
    slider.value = slider[end];
    slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_jumps_or_leaves_its_place_when_a_control_moves(
    name: str, browser: Browser, origins: dict[str, str], width: int
) -> None:
    url, heights = f"{origins['disk']}/{name}.html", "map(e => e.offsetHeight)"
    ours = ".gptlib-panel:not([data-panel=questions])"
    first = f"window.before = [...document.querySelectorAll('{ours}')].{heights}"
    with visit(browser, url, origins["disk"], width=width, first=first) as visited:
        page = visited.page
        for panel, before in zip(panels_of(page), page.evaluate("before"), strict=True):
            height = panel.evaluate("e => e.offsetHeight")
            assert abs(height - before) <= 24, (before, height)
            for control in controls_of(panel):
                if not (control.is_visible() and control.is_enabled()):
                    continue
                press(control)
                said(panel)
                assert panel.evaluate("e => e.offsetHeight") == height
                assert panel.evaluate(OUTSIDE) == []
                if control.evaluate("e => ['text', 'textarea'].includes(e.type)"):
                    control.fill("W" * 100_000)  # of which most is left out, and that is said
                    said(panel)
                    assert panel.evaluate("e => e.offsetHeight") == height
                    assert panel.evaluate(OUTSIDE) == []
            for end in ("min", "max"):
                panel.evaluate(ALL_AT, end)
                said(panel)
                assert panel.evaluate("e => e.offsetHeight") == height
                assert panel.evaluate(OUTSIDE) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


# Milliseconds from a change of a control to the picture, ten times; texts are new to their ends.
DRAWN = """async (control) => {
    const times = [];
    for (let i = 0; i < 10; i++) {
        const start = performance.now();
        if (control.type === "range") control.stepUp(i % 2 ? -1 : 1);
        else control.value = String(i) + "x".repeat(control.dataset.most - 1);
        control.dispatchEvent(new Event("input", { bubbles: true }));
        await new Promise(requestAnimationFrame);  // drawn in the same frame
        times.push(performance.now() - start);
    }
    return times;
}"""


def test_a_key_press_is_drawn_within_a_twentieth_of_a_second(page: Page) -> None:
    for panel in panels_of(page):
        for control in controls_of(panel):
            if control.evaluate("e => ['range', 'text', 'textarea'].includes(e.type)"):
                assert min(control.evaluate(DRAWN)) < 50


BROKEN_STATE = "document.querySelector('.gptlib-panel').dataset.state = '{broken'"
NO_MODEL = "Object.defineProperty(window, 'gptlibWeights', { value: undefined })"


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("notebooks/05_layer_norm", BROKEN_STATE),
        ("notebooks/04_attention", NO_MODEL),
        ("notebooks/13_sampling", NO_MODEL),
    ],
)
def test_a_panel_that_cannot_start_says_so_and_shows_its_numbers(
    browser: Browser, origins: dict[str, str], name: str, first: str
) -> None:
    url = f"{origins['disk']}/{name}.html"
    with visit(browser, url, origins["disk"], first=first) as visited:
        (panel,) = panels_of(visited.page)
        assert panel.get_attribute("data-mounted") == "error"
        assert "could not start" in panel.locator("[role=alert]").text_content()
        assert panel.locator("table").count() == 1
        assert len(visited.errors) == 1
