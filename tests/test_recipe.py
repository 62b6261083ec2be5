import itertools
import math

import numpy as np
import pytest

from gptlib import TrainConfig, learning_rate

RATES = [
    *("learning_rate", "muon_learning_rate", "min_learning_rate", "decay_share"),
    *("momentum", "beta1", "beta2", "weight_decay", "grad_clip"),
]


def rates(warmup, end, steps, **how):
    numbers = {"peak": 1.0, "floor": 0.1, "warmup": warmup, "end": end, **how}
    return [learning_rate(step, **numbers) for step in range(steps)]


def test_the_published_corners_of_the_schedule():
    expected = [0.2, 0.4, 0.6, 0.8, 1.0, 0.939711, 0.775, 0.55, 0.325, 0.160289, 0.1, 0.1]
    assert rates(4, 10, 12) == pytest.approx(expected, abs=1e-6)


def test_a_warm_up_as_long_as_the_run_reaches_its_peak_once():
    assert rates(4, 4, 7) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 0.1, 0.1])


def test_the_peak_holds_until_the_last_share_of_the_steps_leads_down():
    values = rates(0, 10, 11, decay="linear", decay_share=0.6)
    expected = [1.0] * 5 + [0.1 + 0.9 * left / 6 for left in (5, 4, 3, 2, 1, 0)]
    assert values == pytest.approx(expected)


def test_the_plain_recipe_is_nanogpts():
    config = TrainConfig.plain(steps=2000)
    assert (config.optimizer, config.batch_size, config.beta2) == ("adamw", 12, 0.99)
    shape = {"peak": 1e-3, "floor": 1e-4, "warmup": 100, "end": 2000}
    for step in (0, 50, 100, 1000, 2000):
        assert config.rate(step) == learning_rate(step, **shape)
    assert TrainConfig.plain(batch_size=3).batch_size == 3


def test_no_warm_up_starts_at_the_peak():
    assert rates(0, 10, 1) == [1.0]


@pytest.mark.parametrize(("warmup", "end"), [(0, 1), (0, 50), (7, 50), (50, 50), (1, 2)])
@pytest.mark.parametrize("decay", ["linear", "cosine"])
@pytest.mark.parametrize("decay_share", [1.0, 0.6, 0.01])
def test_properties_of_every_schedule(warmup, end, decay, decay_share):
    how = {"decay": decay, "decay_share": decay_share}
    values = rates(warmup, end, end + 5, **how)
    assert values[0] > 0
    assert values[warmup] == 1.0
    assert values.count(1.0) == 1 or decay_share < 1
    assert values[-1] == values[end] == 0.1 or warmup == end
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
        ("min_learning_rate", 1.0),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("grad_clip", 0.0),
        ("beta1", 1.0),
        ("beta2", -0.1),
        ("weight_decay", -1.0),
        ("weight_decay", math.inf),
        ("muon_learning_rate", 0.0),
        ("momentum", 1.0),
        ("decay_share", 0.0),
        ("decay_share", 1.5),
        ("save_every", 0),
        ("keep_checkpoints", 0),
        ("micro_batch_size", 0),
        ("max_tokens", 0),
        ("max_seconds", -1.0),
        ("optimizer", "sgd"),
        ("decay", "step"),
        ("precision", "float16"),
        ("seed", -1),
        ("muon_every", 0),
        ("muon_every", 9),
    ],
)
def test_numbers_out_of_range_are_named(field, value):
    with pytest.raises(ValueError, match=f"{field} must be .* got {value!r}"):
        TrainConfig(**{field: value})


@pytest.mark.parametrize(
    "field",
    ["steps", "batch_size", "warmup_steps", "eval_every", "seed", "max_tokens", "ignore_token"],
)
def test_counts_are_integers(field):
    with pytest.raises(TypeError, match=f"{field} must be an integer, got 1.5"):
        TrainConfig(**{field: 1.5})


def test_numpys_integers_are_integers():
    config = TrainConfig(steps=np.int64(300), seed=np.uint8(7))
    assert (config.steps, config.seed) == (300, 7)
    assert type(config.steps) is type(config.seed) is int


def test_a_run_shorter_than_its_warm_up_is_all_rise():
    for config in (TrainConfig(steps=10), TrainConfig.plain(steps=10)):
        values = [config.rate(step) / config.learning_rate for step in range(10)]
        assert values == pytest.approx([(step + 1) / 11 for step in range(10)])


@pytest.mark.parametrize("value", [None, "0.1", True])
@pytest.mark.parametrize("field", RATES)
def test_rates_are_numbers(field, value):
    with pytest.raises(TypeError, match=f"{field} must be a number, got {value!r}"):
        TrainConfig(**{field: value})


@pytest.mark.parametrize("field", ["compile", "recompute", "fsdp"])
def test_switches_are_true_or_false(field):
    with pytest.raises(TypeError, match=f"{field} must be True or False, got 'no'"):
        TrainConfig(**{field: "no"})


def test_a_schedule_of_another_shape_or_length_is_refused():
    with pytest.raises(ValueError, match=r"warmup must be in 0\.\.end=5, got 10"):
        rates(10, 5, 1)
    with pytest.raises(ValueError, match="decay must be one of linear, cosine; got 'cosin'"):
        rates(1, 5, 1, decay="cosin")
