"""Questions and their judge."""

import math

import numpy as np
import pytest

from gptlib.exercises import Choice, Number, Sketch, judge, read_number

COUNT = Number(question="?", answer=1024, hint="Count.", mistakes={1000: "That is a thousand."})
SHARE = Number(question="?", answer=np.float32(2 / 3), within=0.01, hint="Divide.", unit="nats")
CHOICE = Choice(
    question="Which?",
    right=("this", "Because."),
    wrong=[("that", "No: that."), ("the other", "No: the other.")],
    because="this line",
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1024", 1024),
        ("1,024", 1024),
        (" 1 024 ", 1024),
        ("1,234,567.5", 1234567.5),
        ("0,5", 0.5),
        (".5", 0.5),
        ("0,693", 0.693),
        ("−3", -3),
        ("+2.5E-3", 0.0025),
        ("40 %", 0.4),
        ("1/3", 1 / 3),
        ("-1/4", -0.25),
    ],
)
def test_a_number_is_read_as_people_write_it(text: str, value: float) -> None:
    assert read_number(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "ten", "1/0", "1,02,4", "0x10", "nan", "inf", "1e999", "1/2/3"]
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert read_number(text) is None


def test_a_unit_is_passed_over_and_per_cent_stays_per_cent() -> None:
    assert read_number("2.3 nats per byte", "nats per byte") == 2.3
    assert read_number("40 %", "%") == 40


def test_an_open_question_is_not_judged() -> None:
    for item in (COUNT, CHOICE):
        assert judge(item.sent(), " ").state == "open"


def test_a_count_is_right_to_the_last_unit() -> None:
    assert judge(COUNT.sent(), "1,024").state == "right"
    assert judge(COUNT.sent(), "1025").state == judge(COUNT.sent(), "1023.5").state == "wrong"


def test_a_measured_number_is_right_within_what_is_said() -> None:
    states = [judge(SHARE.sent(), text).state for text in ("0.67", "2/3", "0.66", "0.7", "0.65")]
    assert states == ["right", "right", "right", "wrong", "wrong"]


def test_a_known_mistake_is_explained_and_another_gets_the_hint_without_the_answer() -> None:
    assert judge(COUNT.sent(), "1000").says == "That is a thousand."
    says = judge(COUNT.sent(), "7").says
    assert says == "Your number is below the answer. Count."
    assert judge(COUNT.sent(), "7,000").says.startswith("Your number is above")
    assert judge(COUNT.sent(), "seven").state == "unread"


def test_each_option_says_what_is_right_or_wrong_with_it() -> None:
    sent = CHOICE.sent()
    found = {
        option["text"]: (judge(sent, str(place)).state, judge(sent, str(place)).says)
        for place, option in enumerate(sent["options"])
    }
    assert found == {
        "this": ("right", "Because."),
        "that": ("wrong", "No: that."),
        "the other": ("wrong", "No: the other."),
    }


def test_the_right_option_has_no_place_of_its_own_and_keeps_the_one_it_has() -> None:
    def place(question: str) -> int:
        return Choice(question=question, **kept).sent()["right"]

    kept = {"right": CHOICE.right, "wrong": CHOICE.wrong, "because": CHOICE.because}
    places = [place(f"question {i}") for i in range(60)]
    assert {places.count(each) > 10 for each in range(3)} == {True}
    assert places == [place(f"question {i}") for i in range(60)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"answer": math.nan}, "finite"),
        ({"answer": 0.5}, "within"),
        ({"within": -1}, "within"),
        ({"mistakes": {1024: "?"}}, "1024 is within"),
        ({"within": 30, "mistakes": {1000: "?"}}, "1000 is within"),
    ],
)
def test_a_number_that_cannot_be_judged_is_refused(wrong: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Number(**{"question": "?", "answer": 1024, "hint": "Count.", **wrong})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"because": False}, "nothing bears out"),
        ({"because": ""}, "nothing bears out"),
        ({"wrong": []}, "two to six"),
        ({"wrong": [("this", "twice")]}, "different"),
    ],
)
def test_a_choice_that_nothing_bears_out_or_that_is_none_is_refused(
    wrong: dict, words: str
) -> None:
    kept = {"question": "?", "right": CHOICE.right, "wrong": CHOICE.wrong, "because": True}
    with pytest.raises(ValueError, match=words):
        Choice(**{**kept, **wrong})


def test_a_sketch_fills_the_unit_square_and_keeps_the_curves_in_proportion() -> None:
    sketch = Sketch("two lines", (((0, 0), (10, 5)), ((0, 5), (10, -5))))
    assert sketch.sent() == {
        "alt": "two lines",
        "curves": [[[0, 0.5], [1, 1]], [[0, 1], [1, 0]]],
    }
    flat = Sketch("a flat line", (((0, 3), (1, 3)),))
    assert flat.sent()["curves"] == [[[0, 0], [1, 0]]]
