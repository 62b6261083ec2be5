import itertools
import math

import pytest

from gptlib import TrainConfig, learning_rate


def rates(warmup, end, steps):
    return [learning_rate(s, peak=1.0, floor=0.1, warmup=warmup, end=end) for s in range(steps)]


def test_the_published_corners_of_the_schedule():
    expected = [0.2, 0.4, 0.6, 0.8, 1.0, 0.939711, 0.775, 0.55, 0.325, 0.160289, 0.1, 0.1]
    assert rates(4, 10, 12) == pytest.approx(expected, abs=1e-6)


def test_a_warm_up_as_long_as_the_run_reaches_its_peak_once():
    assert rates(4, 4, 7) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 0.1, 0.1])


def test_no_warm_up_starts_at_the_peak():
    assert rates(0, 10, 1) == [1.0]


@pytest.mark.parametrize(("warmup", "end"), [(0, 1), (0, 50), (7, 50), (50, 50), (1, 2)])
def test_properties_of_every_schedule(warmup, end):
    values = rates(warmup, end, end + 5)
    assert values[0] > 0
    assert values.count(1.0) == 1
    assert values[-1] == 0.1
    assert all(a < b for a, b in itertools.pairwise(values[: warmup + 1]))
    assert all(a >= b for a, b in itertools.pairwise(values[warmup:]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("batch_size", -1),
        ("eval_every", 0),
        ("eval_windows", 0),
        ("warmup_steps", -1),
        ("warmup_steps", 10**6),
        ("min_learning_rate", 1.0),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("grad_clip", 0.0),
        ("beta1", 1.0),
        ("beta2", -0.1),
        ("weight_decay", -1.0),
        ("weight_decay", math.inf),
        ("seed", -1),
    ],
)
def test_numbers_out_of_range_are_named(field, value):
    with pytest.raises(ValueError, match=f"{field} must be .* got {value}"):
        TrainConfig(**{field: value})


@pytest.mark.parametrize("field", ["steps", "batch_size", "warmup_steps", "eval_every", "seed"])
def test_counts_are_integers(field):
    with pytest.raises(TypeError, match=f"{field} must be an integer, got 1.5"):
        TrainConfig(**{field: 1.5})
