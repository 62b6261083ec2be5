"""Every page in Chromium, from disk and over http, with every other host refused."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from browsing import WIDTHS, Visit, broken_rules, visit
from playwright.sync_api import Browser
from test_book import toc_pages

pytestmark = pytest.mark.browser

PAGES = [*toc_pages(), "search", "genindex"]


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
        yield visits


def test_a_page_needs_no_other_host_and_reports_no_error(both: list[Visit]) -> None:
    for visited in both:
        visited.page.wait_for_load_state("networkidle")
        assert (visited.refused, visited.errors) == ([], []), visited.page.url


def test_every_panel_of_a_page_is_alive(both: list[Visit]) -> None:
    for visited in both:
        panels = visited.page.locator(".gptlib-panel").all()
        assert {panel.get_attribute("data-mounted") for panel in panels} <= {"true"}


# Formulas without MathML, and those wider than their line, which a reader would have to scroll.
UNSET = """() => [...document.querySelectorAll('.math')].filter((e) => {
    const formula = e.querySelector('math');
    const { width, height } = formula?.getBoundingClientRect() ?? { width: 0, height: 0 };
    return !(width && height) || e.scrollWidth > e.clientWidth + 1 && e.tagName === 'DIV';
}).map((e) => e.textContent)"""


FONTS = """[...document.fonts].filter((f) => f.status === 'loaded')
    .map((f) => f.family.replaceAll('"', ''))"""


def test_all_mathematics_is_set(both: list[Visit]) -> None:
    for visited in both:
        page = visited.page
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(UNSET) == []
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        has_formula = page.locator("math").count() > 0
        assert (page.evaluate(FONTS).count("STIX Two Math") == 1) == has_formula
        text = page.evaluate(
            "() => { const copy = document.querySelector('main').cloneNode(true);"
            " copy.querySelectorAll('pre, code, script, annotation').forEach(e => e.remove());"
            " return copy.textContent }"
        )
        assert [mark for mark in ("\\", "$") if mark in text] == []


def test_a_page_fits_its_window(both: list[Visit]) -> None:
    page = both[0].page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".search-button__button:visible").count() == 1
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})


# Code boxes that are wider than their frame, and tables wider than something that cuts them off.
CUT = """() => {
    const wide = (e) => e.scrollWidth > e.clientWidth + 1;
    const cuts = (e) => getComputedStyle(e).overflowX !== 'visible' && wide(e);
    const cut = (e) => !e.matches('.bd-article') && (cuts(e) || cut(e.parentElement));
    const boxes = [...document.querySelectorAll('.bd-article pre, .bd-article table')];
    return boxes.filter((e) => wide(e) || cut(e)).map((e) => e.textContent.trim().slice(0, 60));
}"""


def test_no_code_and_no_table_is_cut_at_1280_pixels(both: list[Visit]) -> None:
    page = both[0].page
    page.set_viewport_size({"width": 1280, "height": 900})
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(CUT) == []


def test_a_page_breaks_no_accessibility_rule(both: list[Visit]) -> None:
    page = both[0].page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for scheme in ("light", "dark"):
        assert broken_rules(page, scheme) == [], scheme


def test_pictures_have_a_text(both: list[Visit]) -> None:
    page = both[0].page
    assert page.locator("img:not([alt])").count() == 0
    assert page.locator("figure svg:not([aria-label]), figure svg[aria-label='']").count() == 0


def test_a_window_that_was_used_before_is_as_strict_and_as_empty_as_a_new_one(
    browser: Browser, tmp_path: Path
) -> None:
    bad = "<script>localStorage.x = 1; throw Error()</script><img src=https://example.org/x.png>"
    (tmp_path / "bad.html").write_text(bad)
    (tmp_path / "good.html").write_text("<p>Nothing is wrong here.")
    contexts = len(browser.contexts)
    for _ in range(2):
        with visit(browser, f"{tmp_path.as_uri()}/bad.html", tmp_path.as_uri()) as visited:
            assert visited.refused == ["https://example.org/x.png"]
            assert len(visited.errors) >= 2
            visited.page.set_viewport_size({"width": 100, "height": 100})
            visited.page.emulate_media(color_scheme="dark")
        with visit(browser, f"{tmp_path.as_uri()}/good.html", tmp_path.as_uri()) as visited:
            assert (visited.refused, visited.errors) == ([], [])
            assert visited.page.evaluate("localStorage.length") == 0
            assert visited.page.evaluate("innerWidth") == WIDTHS[0]
            assert not visited.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert len(browser.contexts) == contexts + 1


@pytest.fixture(params=["disk", "http"])
def welcome(
    request: pytest.FixtureRequest, browser: Browser, origins: dict[str, str]
) -> Iterator[Visit]:
    """Open the site as a reader does, at its index, which leads to the welcome page."""
    origin = origins[request.param]
    goal = "**/book/welcome.html"
    with visit(browser, f"{origin}/index.html", origin, leads_to=goal) as visited:
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


def test_folded_answers_and_code_open(welcome: Visit) -> None:
    page = welcome.page
    page.locator("svg.machine a", has_text="Token table").click()
    page.wait_for_url("**/notebooks/01_the_whole_machine.html")
    for folded, inside in (("details:not(.hide)", "p"), ("details.hide", ".highlight")):
        details = page.locator(f"article {folded}").first
        text = details.locator(inside).first
        assert not text.is_visible(), folded
        details.locator("summary").click()
        assert text.is_visible(), folded
