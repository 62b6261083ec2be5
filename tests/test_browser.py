"""Every page in Chromium, from disk and over http, with every other host refused."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from browsing import WIDTHS, Visit, broken_rules, visit
from playwright.sync_api import Browser, Page
from test_book import toc_pages

pytestmark = pytest.mark.browser

PAGES = [*toc_pages(), "search"]


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
            " copy.querySelectorAll('pre, code, script, annotation, td').forEach(e => e.remove());"
            " return copy.textContent }"
        )
        assert [mark for mark in ("\\", "$") if mark in text] == []


def test_a_page_fits_its_window(both: list[Visit]) -> None:
    page = both[0].page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
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


# Every width a reader may have, down to 200 % on a laptop and to the narrowest phone.
WINDOWS = ((1920, 1080), (1440, 900), (1280, 900), (640, 400), (390, 844), (320, 568))

SETTLED = """() => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))"""


def resize(page: Page, width: int, height: int = 900) -> None:
    """Give the window a size and wait until the page has answered."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(SETTLED)


# What is not where it belongs: beyond the text's column and in no box that scrolls, or set off
# from the left edge of the text.
MISPLACED = """() => {
    const article = document.querySelector('.bd-article');
    if (!article) return [];  // the search page
    const style = getComputedStyle(article);
    const left = article.getBoundingClientRect().left + parseFloat(style.paddingLeft);
    const right = article.getBoundingClientRect().right - parseFloat(style.paddingRight);
    const contents = document.querySelector('.bd-sidebar-secondary');
    const beside = contents?.checkVisibility() && innerWidth >= 1200;
    const edge = beside ? contents.getBoundingClientRect().left : innerWidth;
    const bleed = innerWidth > 600 ? 0 : 16;  // figures reach to both edges of a phone
    const name = (e) => `${e.tagName} ${e.textContent.trim().slice(0, 40)}`;
    const shown = (list) => [...document.querySelectorAll(list)].filter((e) => e.clientWidth);
    const blocks = shown('.bd-article :is(p, pre, table, figure, figure > svg, .gp)');
    const own = shown(`section > :is(p, h2, h3, .gptlib-panel),
        section > .cell > .cell_input, section > .cell > .cell_output > .output > *`);
    const scrolled = (e) => e.parentElement.closest('.gpt-scrolls, .gp');
    return [
        ...blocks.filter((e) => !scrolled(e) && e.getBoundingClientRect().right >
            Math.min(right + (e.closest('figure') ? bleed : 0), edge) + 2),
        ...own.filter((e) => Math.abs(e.getBoundingClientRect().left - left) >
            (e.matches('figure') ? bleed : 0) + 2),
    ].map(name);
}"""


# The height of the letters of drawings, as they are on the screen.
LETTERS = """(drawings) => [...document.querySelectorAll(drawings)].flatMap((svg) =>
    [...svg.querySelectorAll('text, tspan')].filter((e) => e.textContent.trim()).map((e) => {
        const { c, d } = e.getScreenCTM();
        return [parseFloat(getComputedStyle(e).fontSize) * Math.hypot(c, d), e.textContent];
    }))"""


def test_at_every_width_blocks_stay_in_their_place_and_letters_above_nine_pixels(
    both: list[Visit],
) -> None:
    page = both[0].page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for width, height in WINDOWS:
        resize(page, width, height)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (width, page.evaluate(MISPLACED)) == (width, [])
        small = [
            letters
            for letters in page.evaluate(LETTERS, "figure svg, svg.machine")
            if letters[0] < 8.99
        ]
        assert (width, small) == (width, [])


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


# What learners type, and the two places of the book that must be among the first results.
SEARCHES = {
    "BPE": ("glossary.html#term-byte-pair-encoding", "03_text_becomes_tokens.html"),
    "byte-pair encoding": ("glossary.html#term-byte-pair-encoding", "03_text_becomes_tokens.html"),
    "perplexity": ("glossary.html#term-perplexity", "02_guess_the_next_letter.html"),
    "causal mask": ("glossary.html#term-causal-mask", "04_attention.html"),
    "learning rate": ("glossary.html#term-learning-rate", "12_training.html"),
    "dropout": ("glossary.html#term-dropout", "01_the_whole_machine.html"),
    "weight tying": ("glossary.html#term-weight-tying", "09_accounting.html"),
    "nats": ("glossary.html#term-nat", "02_guess_the_next_letter.html"),
    "fine-tuning": ("glossary.html#term-fine-tuning", "15_real_weights.html"),
    "KV cache": ("glossary.html#term-KV-cache", "14_kv_cache.html"),
    "top-p": ("glossary.html#term-top-p", "13_sampling.html"),
    "temperature": ("glossary.html#term-temperature", "13_sampling.html"),
    "softmax": ("glossary.html#term-softmax", "01_the_whole_machine.html"),
}


def test_the_search_finds_what_learners_type(browser: Browser, origins: dict[str, str]) -> None:
    for word, places in SEARCHES.items():
        found = _search(browser, origins["http"], word)
        assert [p for p in places if not any(p in link for link in found[:6])] == [], (word, found)


@pytest.mark.parametrize("word", ["constructor", "__proto__", "hasOwnProperty", "toString"])
def test_a_word_that_javascript_also_knows_does_not_break_the_search(
    browser: Browser, origins: dict[str, str], word: str
) -> None:
    assert not any("undefined" in link for link in _search(browser, origins["http"], word))


def _search(browser: Browser, origin: str, word: str) -> list[str]:
    url = f"{origin}/search.html?q={quote(word)}"
    with visit(browser, url, origin) as visited:
        page = visited.page
        page.locator(".search-summary").filter(
            has_text=re.compile("found|did not match")
        ).wait_for()
        assert visited.errors == []
        return page.eval_on_selector_all("#search-results li a", "all => all.map((a) => a.href)")


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


@pytest.fixture(scope="module")
def chapter(browser: Browser, origins: dict[str, str]) -> Iterator[Visit]:
    """Open a chapter whose figures, tables and panel are wide, for all tests of its layout."""
    origin = origins["disk"]
    with visit(browser, f"{origin}/notebooks/04_attention.html", origin) as visited:
        yield visited


@pytest.fixture
def attention(chapter: Visit) -> Iterator[Page]:
    """Lend the chapter to a test that may change its window."""
    yield chapter.page
    chapter.page.emulate_media(media="screen", color_scheme="light")
    assert (chapter.refused, chapter.errors) == ([], [])


# How many characters stand in a line of the paragraphs that fill at least four.
CHARACTERS = """() => [...document.querySelectorAll('section > p')].flatMap((p) => {
    const lines = p.clientHeight / parseFloat(getComputedStyle(p).lineHeight);
    return lines < 3.5 ? [] : [p.innerText.length / (Math.round(lines) - 0.5)];
})"""


@pytest.mark.parametrize("width", [1280, 1440, 1920, 2560])
def test_prose_keeps_its_measure_and_blocks_take_the_room_beside_it(
    attention: Page, width: int
) -> None:
    resize(attention, width)
    assert attention.evaluate(MISPLACED) == []
    characters = attention.evaluate(CHARACTERS)
    assert 58 <= sum(characters) / len(characters) <= 78
    prose, code, panel = (
        attention.locator(each).first.evaluate("e => e.getBoundingClientRect().width")
        for each in ("section > p", "section > .cell > .cell_input", ".gptlib-panel")
    )
    assert code == panel
    assert code >= {1280: 1.1, 1440: 1.3}.get(width, 1.6) * prose


def test_the_page_fills_a_large_screen(attention: Page) -> None:
    resize(attention, 1920)
    column, outline = (
        attention.locator(each).bounding_box() for each in (".bd-article", ".bd-sidebar-secondary")
    )
    assert column is not None
    assert outline is not None
    assert column["width"] >= 0.55 * 1920
    assert column["x"] + column["width"] <= outline["x"]
    attention.locator(".primary-toggle").click()  # without its list of chapters
    attention.wait_for_function(
        "document.querySelector('.bd-main').getBoundingClientRect().x < 200"
    )
    attention.wait_for_timeout(300)  # the list has moved away
    assert attention.evaluate(MISPLACED) == []
    assert attention.evaluate("document.querySelector('.bd-main').getBoundingClientRect().x") >= 0
    attention.locator(".primary-toggle").click()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("by", ["Enter", "click"])
def test_a_figure_is_enlarged_and_put_back(attention: Page, width: int, by: str) -> None:
    resize(attention, width)
    attention.emulate_media(color_scheme="dark")
    button = attention.get_by_role("button", name="Enlarge the figure").nth(3)
    drawing = attention.locator("figure.gpt-figure > svg").nth(3)
    before = attention.evaluate(LETTERS, "figure.gpt-figure > svg")
    button.press("Enter") if by == "Enter" else drawing.click(position={"x": 60, "y": 60})
    dialog = attention.get_by_role("dialog", name="Figure, enlarged")
    dialog.wait_for()
    ground = attention.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dialog.evaluate("e => getComputedStyle(e).backgroundColor") == ground
    assert dialog.evaluate("e => e.getBoundingClientRect().right <= innerWidth")
    assert min(size for size, _ in attention.evaluate(LETTERS, "dialog svg")) >= 9
    room = dialog.get_by_role("group")
    if width == 390:
        assert room.evaluate("e => (e.scrollLeft = 100, e.scrollLeft)") == 100
    else:
        assert dialog.locator("svg").evaluate("e => e.clientWidth") > drawing.evaluate(
            "e => e.clientWidth"
        )
    assert dialog.locator("[id]").count() == 0  # names are in the page already
    attention.keyboard.press("Escape")
    assert dialog.count() == 0
    assert button.evaluate("e => e === document.activeElement")
    assert attention.evaluate(LETTERS, "figure.gpt-figure > svg") == before


def test_a_wide_table_scrolls_inside_itself_with_its_first_column_in_sight(
    browser: Browser, origins: dict[str, str]
) -> None:
    origin = origins["disk"]
    url = f"{origin}/notebooks/15_real_weights.html"
    with visit(browser, url, origin, width=390) as visited:
        page = visited.page
        page.emulate_media(color_scheme="dark")
        page.evaluate(SETTLED)
        boxes = page.get_by_role("region", name="Table, scrolls sideways").all()
        assert boxes
        for box in boxes:
            first = box.locator("tbody tr > :first-child").first
            at = first.evaluate("e => e.getBoundingClientRect().x")
            box.focus()
            assert box.evaluate("e => (e.scrollLeft = 9999, e.scrollLeft)") > 1
            assert first.evaluate("e => e.getBoundingClientRect().x") == pytest.approx(at, abs=1)
            assert first.evaluate(
                "e => getComputedStyle(e).backgroundColor"
                " === getComputedStyle(document.body).backgroundColor"
            )
            assert first.evaluate("e => e.getBoundingClientRect().width") <= 0.45 * 390
            hint = box.evaluate("e => getComputedStyle(e, '::before').content")
            assert "Scrolls sideways" in hint


def test_only_what_is_wider_than_its_box_says_that_it_scrolls(attention: Page) -> None:
    for width in (1440, 390, 1440):
        resize(attention, width)
        wrong = attention.evaluate(
            "[...document.querySelectorAll('figure.gpt-figure, .output.text_html')].filter((e) =>"
            " (e.scrollWidth > e.clientWidth + 1) !== e.matches('.gpt-scrolls[tabindex]')).length"
        )
        assert wrong == 0


PRINTED = """() => {
    const whole = document.querySelectorAll('figure.gpt-figure, .gptlib-panel');
    const inks = document.querySelectorAll('figure.gpt-figure path, .gp-bars *, .gp rect');
    const column = document.querySelector('.bd-article').getBoundingClientRect();
    return {
        split: [...whole].filter((e) => getComputedStyle(e).breakInside !== 'avoid').length,
        long: [...whole].map((e) => e.clientHeight).filter((height) => height > 1000),
        cut: [...document.querySelectorAll('figure > svg')].filter(
            (e) => e.getBoundingClientRect().right > column.right + 1).length,
        pale: [...inks].filter((e) => getComputedStyle(e).printColorAdjust !== 'exact').length,
        folded: document.querySelectorAll('details:not([open], .hide, .gp-text)').length,
        buttons: [...document.querySelectorAll('.gpt-enlarge')].filter((e) => e.clientWidth).length,
    };
}"""


def test_paper_has_whole_figures_their_colours_and_open_answers(attention: Page) -> None:
    attention.emulate_media(media="print")
    resize(attention, 718, 1046)  # A4 without its margins
    attention.evaluate(
        f"addEventListener('beforeprint', () => {{ window.printed = ({PRINTED})() }})"
    )
    answers = attention.locator("article details:not(.hide, .gp-text)")
    assert answers.count() > 0
    pages = attention.pdf(format="A4").count(b"/Type /Page\n")
    assert 10 <= pages <= 26
    assert attention.evaluate("window.printed") == {
        "split": 0, "long": [], "cut": 0, "pale": 0, "folded": 0, "buttons": 0,
    }  # fmt: skip
    assert answers.evaluate_all("all => all.filter((e) => e.open).length") == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_every_button_around_the_text_shows_its_focus(attention: Page, width: int) -> None:
    resize(attention, width)
    attention.keyboard.press("Tab")  # from here on the browser shows what has the focus
    buttons = attention.locator(
        ".bd-header-article :is(button, a), .bd-sidebar-primary button, .gpt-enlarge"
    )
    seen = 0
    for button in buttons.all():
        if button.is_visible():
            button.focus()
            outline = button.evaluate("e => getComputedStyle(e).outline")
            assert "solid 3px" in outline, button
            seen += 1
    assert seen >= 6
