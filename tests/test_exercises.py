from gptlib.exercises import check


def test_an_open_answer_is_not_judged():
    assert check(..., 42, "hint").startswith("Not answered yet")


def test_a_right_answer_within_tolerance():
    assert check(42.0001, 42.0, "hint") == "Right."
    assert check(0, 0, "hint") == "Right."


def test_a_wrong_answer_gets_the_hint_and_not_the_answer():
    reply = check(40, 42, "Count the biases.")
    assert reply == "Not yet: 40 is below the answer. Count the biases."
    assert "42" not in reply
    assert "above" in check(50, 42, "")


def test_a_count_is_right_or_wrong():
    assert check(124_439_808, 124_439_808, "hint") == "Right."
    assert check(124_438_272, 124_439_808, "hint").startswith("Not yet: 124,438,272 is below")
    assert check(124_438_272.0, 124_439_808, "hint").startswith("Not yet: 124,438,272.0 is below")
    assert check(100.0, 100, "hint") == "Right."
    assert check(99, 100, "hint", rel_tol=0.1) == "Right."


def test_not_a_number_is_neither_above_nor_below():
    assert check(float("nan"), 1.0, "Divide.") == "Not yet: nan is not the answer. Divide."
