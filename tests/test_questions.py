"""The panel of exercises and quizzes: by mouse and by keyboard, judged as Python judges."""

from collections.abc import Callable, Iterator

import pytest
import traitlets
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect

from gptlib.exercises import Choice, Number, Sketch, judge
from gptlib.panels import QuestionsPanel, ask

pytestmark = pytest.mark.browser

RISING, FALLING = Sketch("rises", (((0, 0), (1, 1)),)), Sketch("falls", (((0, 1), (1, 0)),))
NUMBER = Number(
    question="How many of `ids`?",
    answer=1024,
    hint="Count the rows.",
    mistakes={1000: "A thousand is a round number."},
    unit="tokens",
    why="One a row.",
)
NEAR = Number(question="Which share?", answer=2 / 3, within=0.005, hint="Divide.")
CHOICE = Choice(
    question="Which <b>way</b>?",
    right=("up & <i>on</i>", "It rises."),
    wrong=[("down", "It does not fall."), ("`x` alone", "Not alone.")],
    because=True,
)
PICTURES = Choice(
    question="Which picture?",
    right=(RISING, "It rises."),
    wrong=[(FALLING, "That one falls.")],
    because=True,
)
QUIZ = (NUMBER, NEAR, CHOICE, PICTURES)

JUDGE = """async ([script, item, texts]) => {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { default: panel } = await import(url);
  return texts.map((text) => panel.judge(item, text));
}"""

ROUNDED = """async ([source, item]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    return (await import(url)).default.rounded(item);
}"""


@pytest.fixture(scope="module")
def blank(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


@settings(max_examples=10, deadline=None)
@given(
    texts=st.lists(
        st.text("0123456789,.-−–+/% eE_nats\u00a0x", max_size=9)
        | st.sampled_from(
            ["1024", "1,024", "2/3", "66.7 %", "0,667", "1000 tokens", "1e3", "1.024e3"]
        ),
        min_size=100,
        max_size=200,
    )
)
def test_the_page_judges_every_text_as_python_does(blank: Page, texts: list[str]) -> None:
    for question in (NUMBER, NEAR):
        item = question.sent()
        found = blank.evaluate(JUDGE, [QuestionsPanel._esm, item, texts])
        assert found == [vars(judge(item, text)) for text in texts]


def test_a_number_is_judged_with_enter_and_with_the_button(show: Callable) -> None:
    page = show(ask(NUMBER))
    field, says = (
        page.get_by_role("textbox", name="How many of ids?"),
        page.get_by_role("status").first,
    )
    expect(page.locator(".gp-asked")).to_have_text("tokens, exactly")
    field.press_sequentially("1000")
    field.press("Enter")
    expect(says).to_have_text("Not yet. A thousand is a round number.")
    field.fill("5")
    page.get_by_role("button", name="Check").click()
    expect(says).to_have_text("Not yet. Your number is below the answer. Count the rows.")
    field.fill("1" * 61)
    field.press("Enter")
    expect(says).to_have_text("A number has at most 60 characters.")
    assert field.input_value() == "1" * 61
    field.fill("1,024 tokens")
    field.press("Enter")
    expect(says).to_have_text("Right. One a row.")


def test_a_count_is_judged_to_its_last_digit(show: Callable) -> None:
    page = show(ask(Number(question="Bytes?", answer=205_852_672.0, hint="", mistakes={1e9: "?"})))
    field, says = page.get_by_role("textbox"), page.get_by_role("status").first
    for text, head in (("205852671", "Not yet."), ("205,852,672", "Right.")):
        field.fill(text)
        field.press("Enter")
        expect(says).to_contain_text(head)


def test_a_draft_survives_another_answer_and_a_verdict_goes_with_its_text(show: Callable) -> None:
    page = show(ask(NUMBER, NEAR))
    first, second = page.get_by_role("textbox").all()
    says = page.get_by_role("status").first
    first.fill("1,024")
    second.fill("7")
    second.press("Enter")
    expect(first).to_have_value("1,024")  # not checked yet, and still there
    first.press("Enter")
    expect(says).to_contain_text("Right.")
    first.fill("99")
    expect(says).to_have_text("")
    first.fill("1,024")
    first.press("Enter")
    expect(says).to_contain_text("Right.")


def test_questions_of_two_panels_have_names_of_their_own(show: Callable) -> None:
    page = show(ask(NUMBER))
    names = []
    for _ in range(2):  # a panel's script runs anew for every panel
        page = show(ask(NEAR))
        names.append(page.locator(".gp-questions p[id]").first.get_attribute("id"))
    assert names[0] != names[1]


def test_a_comma_before_three_digits_may_be_a_decimal_one() -> None:
    item = Number(question="?", answer=7.346, within=0.001, hint="", mistakes={1024: "No."}).sent()
    assert judge(item, "7,346").state == "right"
    assert judge(item, "1,024").says == "No."
    assert judge(NUMBER.sent(), "1,024").state == "right"


def test_the_answer_on_paper_is_one_that_is_right(blank: Page) -> None:
    for answer, within in ((161_051, 0.5), (0.123456789, 1e-7), (2.5, 0.1), (-1.483, 0.001)):
        item = Number(question="?", answer=answer, within=within, hint="").sent()
        written = blank.evaluate(ROUNDED, [QuestionsPanel._esm, item])
        assert judge(item, written).state == "right", written
        assert len(written) < 13


def test_the_tolerance_is_shown(show: Callable) -> None:
    assert show(ask(NEAR)).locator(".gp-asked").text_content() == "± 0.005"


def test_an_option_is_chosen_by_keyboard_and_says_what_is_wrong_with_it(show: Callable) -> None:
    page = show(ask(CHOICE))
    page.keyboard.press("Tab")
    for _ in range(3):
        chosen = page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")
        right = chosen == "up & <i>on</i>"
        expected = dict([CHOICE.right, *CHOICE.wrong])[chosen.replace("x", "`x`")]
        head = "Right." if right else "Not yet."
        expect(page.get_by_role("status").first).to_have_text(f"{head} {expected}")
        assert page.locator("[aria-pressed=true]").all_text_contents() == [chosen]
        page.keyboard.press("Tab")


def test_pictures_can_be_chosen_and_have_a_name(show: Callable) -> None:
    page = show(ask(PICTURES))
    page.get_by_role("button").filter(has=page.get_by_role("img", name="rises")).click()
    expect(page.get_by_role("status").first).to_have_text("Right. It rises.")


def test_words_are_never_markup_and_code_is_code(show: Callable) -> None:
    page = show(ask(*QUIZ))
    questions = page.locator(".gp-questions > li > p:first-child")
    assert questions.all_text_contents()[2] == "Which <b>way</b>?"
    assert questions.locator("code").all_text_contents() == ["ids"]
    assert page.locator("b, i").count() == 0


def test_a_quiz_counts_and_starts_again(show: Callable) -> None:
    page = show(ask(*QUIZ))
    score = page.locator(".gp-score")
    expect(score).to_have_text("0 of 4 right, 4 open")
    page.get_by_role("button", name="down").click()
    page.get_by_role("textbox").first.fill("1024")
    page.get_by_role("button", name="Check").first.click()
    expect(score).to_have_text("1 of 4 right, 2 open")
    page.get_by_role("button", name="Start again").click()
    expect(score).to_have_text("0 of 4 right, 4 open")
    assert page.locator("[aria-pressed=true]").count() == 0
    assert page.get_by_role("textbox").first.input_value() == ""


def test_python_reads_and_checks_what_was_given() -> None:
    panel = ask(*QUIZ)
    panel.given = ["1024", "0.5", str(CHOICE.sent()["right"]), ""]
    assert panel.numbers() == {"questions": 4, "answered": 3, "right": 2}
    for wrong in (["1"], ["", "", "3", ""], ["", "", "x", ""], ["x" * 61, "", "", ""]):
        with pytest.raises(traitlets.TraitError, match="given"):
            panel.given = wrong


def test_no_answer_stands_in_the_fallback() -> None:
    fallback = ask(*QUIZ).fallback()
    assert "How many of" in fallback
    assert not any(words in fallback for words in ("1024", "1,024", "It rises"))


def test_on_paper_a_quiz_has_its_options_and_its_answers(show: Callable) -> None:
    page = show(ask(NUMBER, CHOICE))
    seen = page.locator(".gp").inner_text()
    page.emulate_media(media="print")
    printed = page.locator(".gp").inner_text()
    page.emulate_media(media="screen")
    for words in ("Answer: 1,024 tokens", "Answer: up & <i>on</i>. It rises."):
        assert words in printed
        assert words not in seen
    assert "down" in printed
    assert "Check" not in printed
