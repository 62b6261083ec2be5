import dataclasses
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gptlib import GPT, generate, stream
from gptlib.sampling import draw, entropy, probabilities, trace

LOGITS = np.array([1.0, 3.0, 2.0, 3.0, -1.0])


@pytest.fixture
def model(tiny):
    return GPT(tiny).eval()


class Untouchable:
    """A model that fails the test when it runs."""

    def __init__(self, cfg):
        self.cfg = cfg

    def new_cache(self, max_len=None):
        return None

    def next_logits(self, ids, cache=None):
        raise AssertionError("the model ran before its input was checked")


# The distribution ---------------------------------------------------------------------------


@pytest.mark.parametrize("filters", [{}, {"top_k": 3}, {"top_p": 0.9}, {"top_k": 2, "top_p": 0.1}])
@pytest.mark.parametrize("temperature", [0, 0.0])
def test_temperature_zero_is_greedy_with_ties_to_the_lower_id(temperature, filters):
    probs = probabilities(LOGITS, temperature=temperature, **filters)
    assert probs.tolist() == [0, 1, 0, 0, 0]


def test_an_integer_temperature_is_welcome():
    np.testing.assert_array_equal(probabilities(LOGITS, 2), probabilities(LOGITS, 2.0))


def test_none_is_the_default_temperature():
    np.testing.assert_array_equal(probabilities(LOGITS, None), probabilities(LOGITS, 1.0))


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-320])
def test_a_tiny_temperature_stays_finite(temperature):
    probs = probabilities(np.array([1e4, 0.0, -1e4]), temperature)
    assert probs.tolist() == [1, 0, 0]


def test_temperature_sharpens_and_flattens():
    top = [probabilities(np.array([2.0, 1.0, 0.0]), t).max() for t in (0.5, 1.0, 1.5)]
    np.testing.assert_allclose(top, [0.8668, 0.6652, 0.5627], atol=5e-5)


@pytest.mark.parametrize("k", range(1, 13))
def test_exactly_k_tokens_are_kept(k):
    logits = np.random.default_rng(0).permutation(12).astype(float)
    probs = probabilities(logits, top_k=k)
    assert set(np.flatnonzero(probs)) == set(np.argsort(-logits)[:k])


def test_removed_tokens_have_probability_exactly_zero():
    assert probabilities(np.array([-5.0, -6.0, -7.0]), top_k=1).tolist() == [1, 0, 0]


def test_tied_logits_keep_the_lower_ids():
    assert np.flatnonzero(probabilities(np.zeros(6), top_k=4)).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(probabilities(np.zeros(8), top_p=0.5)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("top_k", [None, 0, 5, 6, 10**9])
def test_top_k_off_or_beyond_the_vocabulary_changes_nothing(top_k):
    np.testing.assert_array_equal(probabilities(LOGITS, top_k=top_k), probabilities(LOGITS))


def test_top_p_zero_keeps_the_most_probable_token():
    assert probabilities(LOGITS, top_p=0.0).tolist() == [0, 1, 0, 0, 0]


def test_top_p_one_keeps_the_whole_tail():
    logits = np.array([0.0, -40.0, -80.0])
    assert (probabilities(logits, top_p=1.0) > 0).all()
    assert (probabilities(logits, top_p=1) == probabilities(logits)).all()


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.25, 1), (0.5, 1), (0.500002, 2), (0.75, 2), (0.76, 3), (0.875, 3)]
)
def test_an_exact_sum_counts_as_reached(top_p, kept):
    logits = np.log([0.5, 0.25, 0.125, 0.125])
    assert np.count_nonzero(probabilities(logits, top_p=top_p)) == kept


def test_top_p_works_on_what_top_k_left_renormalised():
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    # After top_k=2 the masses are 4/7 and 3/7, so 0.5 is reached by the first alone.
    assert np.count_nonzero(probabilities(logits, top_k=2, top_p=0.5)) == 1
    assert np.count_nonzero(probabilities(logits, top_p=0.5)) == 2


def test_temperature_comes_before_top_p():
    logits = np.log([0.6, 0.3, 0.1])
    assert np.count_nonzero(probabilities(logits, 1.0, top_p=0.85)) == 2
    assert np.count_nonzero(probabilities(logits, 3.0, top_p=0.85)) == 3


@given(
    hnp.arrays(
        np.float64,
        st.integers(1, 30),
        elements=st.one_of(st.integers(-3, 3).map(float), st.floats(-50, 50)),
    ),
    st.sampled_from([0, 0.3, 1.0, 2.5]),
    st.sampled_from([None, 0, 1, 3, 40]),
    st.sampled_from([None, 0.0, 0.2, 0.9, 1.0]),
)
def test_the_result_is_a_distribution_on_the_best_tokens(logits, temperature, top_k, top_p):
    probs = probabilities(logits, temperature, top_k, top_p)
    assert probs.sum() == pytest.approx(1)
    assert (probs >= 0).all()
    assert probs[np.argmax(logits)] > 0
    removed = probs == 0
    if removed.any():
        assert logits[~removed].min() >= logits[removed].max() - 1e-9
    if top_k:
        assert np.count_nonzero(probs) <= top_k


def test_rows_of_a_batch_are_filtered_one_by_one():
    logits = np.random.default_rng(1).normal(size=(3, 2, 9))
    batch = probabilities(logits, 0.7, 4, 0.8)
    for index in np.ndindex(3, 2):
        np.testing.assert_array_equal(batch[index], probabilities(logits[index], 0.7, 4, 0.8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch_in_torch_out(dtype):
    logits = torch.randn(2, 9, dtype=dtype)
    probs = probabilities(logits, 0.7, 4, 0.8)
    assert probs.dtype == dtype
    expected = probabilities(logits.double().numpy(), 0.7, 4, 0.8)
    np.testing.assert_allclose(probs.double().numpy(), expected, atol=0.01)
    assert ((probs > 0).numpy() == (expected > 0)).all()


def test_minus_infinity_marks_an_impossible_token():
    probs = probabilities(np.array([0.0, -np.inf, 0.0]))
    assert probs.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([-np.inf, -np.inf], "not finite: -inf at every id"),
        ([0.0, np.nan, 1.0], "not finite: nan at id 1"),
        ([0.0, 1.0, np.inf], "not finite: inf at id 2"),
    ],
)
def test_logits_that_are_not_finite_are_named(logits, message):
    with pytest.raises(ValueError, match=message):
        probabilities(np.array(logits))


def test_the_input_is_left_alone():
    logits = LOGITS.copy()
    probabilities(logits, 0.5, 2, 0.5)
    np.testing.assert_array_equal(logits, LOGITS)


# Settings -----------------------------------------------------------------------------------

BAD_SETTINGS = [
    *(({"temperature": t}, ValueError) for t in (-1, math.nan, math.inf, -math.inf)),
    *(({"temperature": t}, TypeError) for t in (True, "0.8")),
    ({"top_k": -1}, ValueError),
    *(({"top_k": k}, TypeError) for k in (2.5, True, "5")),
    *(({"top_p": p}, ValueError) for p in (-0.1, 1.5, math.nan)),
    *(({"top_p": p}, TypeError) for p in (True, "0.9")),
]


@pytest.mark.parametrize(("settings", "error"), BAD_SETTINGS)
def test_bad_settings_are_named_before_the_model_runs(tiny, settings, error):
    name, value = next(iter(settings.items()))
    for call in (stream, generate):
        with pytest.raises(error, match=name) as caught:
            call(Untouchable(tiny), [1], 3, **settings)
        assert str(value) in str(caught.value)
    with pytest.raises(error, match=name):
        probabilities(LOGITS, **settings)


@pytest.mark.parametrize(
    ("prompt", "error", "message"),
    [
        ([], ValueError, "prompt is empty"),
        (torch.zeros(1, 0, dtype=torch.long), ValueError, "prompt is empty"),
        ([3, 50], ValueError, "token id 50 at position 1 is outside the vocabulary 0..49"),
        ([2**64], ValueError, f"token id {2**64} at position 0 is outside the vocabulary 0..49"),
        ([1, -(2**70)], ValueError, f"token id -{2**70} at position 1 is outside"),
        ({1: 2}, TypeError, "prompt must be a flat sequence of token ids"),
        ([1, None], TypeError, "prompt must be a flat sequence of token ids"),
        ([-1], ValueError, "token id -1 at position 0"),
        ([10**9], ValueError, "token id 1000000000"),
        ([1.5], TypeError, "flat sequence of token ids"),
        ("abc", TypeError, "flat sequence of token ids"),
    ],
)
def test_bad_prompts_are_named_before_the_model_runs(tiny, prompt, error, message):
    with pytest.raises(error, match=message):
        generate(Untouchable(tiny), prompt, 3)


def test_one_bad_prompt_stops_the_whole_batch_before_it_runs(tiny):
    with pytest.raises(ValueError, match="token id 77"):
        generate(Untouchable(tiny), [[1], [77]], 3)


@pytest.mark.parametrize(
    ("count", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_token_counts_are_refused(tiny, count, error):
    with pytest.raises(error, match="max_new_tokens"):
        generate(Untouchable(tiny), [1], count)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"seed": -1}, ValueError),
        ({"seed": 1.5}, TypeError),
        ({"seed": True}, TypeError),
        ({"stop_id": 50}, ValueError),
        ({"stop_id": -1}, ValueError),
        ({"stop_id": "a"}, TypeError),
        ({"stop_id": [1, 2]}, TypeError),
    ],
)
def test_bad_seeds_and_stop_ids_are_named(tiny, settings, error):
    with pytest.raises(error, match=next(iter(settings))):
        generate(Untouchable(tiny), [1], 3, **settings)


def test_integer_logits_give_fractions():
    torch.testing.assert_close(probabilities(torch.tensor([3, 3])), torch.tensor([0.5, 0.5]))


@pytest.mark.parametrize("logits", [None, 5.0, ["1", "2"], np.array([1j, 2j]), [True, False]])
def test_what_is_no_row_of_numbers_is_refused(logits):
    for call in (probabilities, trace):
        with pytest.raises(TypeError, match="logits must be"):
            call(logits)


@pytest.mark.parametrize("prompt", [5, np.ones((3, 3, 3), int), [1, [2, 3]]])
def test_odd_prompts_give_one_line(tiny, prompt):
    with pytest.raises(TypeError, match="prompt must be") as caught:
        generate(Untouchable(tiny), prompt, 1)
    assert "\n" not in str(caught.value)


def test_an_enormous_temperature_is_refused():
    with pytest.raises(ValueError, match="temperature must be finite"):
        probabilities(LOGITS, 10**400)


def test_a_misspelled_setting_is_refused(model):
    with pytest.raises(TypeError, match="topk"):
        generate(model, [1], 1, topk=3)


# Generation ---------------------------------------------------------------------------------


def test_zero_new_tokens_return_the_prompt(tiny):
    assert generate(Untouchable(tiny), [4, 5], 0) == [4, 5]


def test_the_prompt_may_be_a_list_an_array_or_a_tensor(model):
    outs = [
        generate(model, prompt, 3, seed=1)
        for prompt in ([1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2]))
    ]
    assert all(out == outs[0] for out in outs)
    assert all(type(i) is int for i in outs[0])


def test_a_seed_repeats_and_another_differs(model):
    a, b, c = (generate(model, [1], 30, seed=s) for s in (7, 7, 8))
    assert a == b != c


@pytest.mark.parametrize("prompt_length", [1, 5, 8])
@pytest.mark.parametrize("settings", [{"temperature": 0}, {"seed": 3}, {"seed": 3, "top_p": 0.8}])
def test_cache_and_no_cache_give_the_same_tokens_also_past_the_window(
    model, prompt_length, settings
):
    prompt = list(range(prompt_length))
    with_cache = generate(model, prompt, 20, use_cache=True, **settings)
    assert with_cache == generate(model, prompt, 20, use_cache=False, **settings)
    assert len(with_cache) == prompt_length + 20


@pytest.mark.parametrize("length", [9, 30])
def test_a_long_prompt_is_cropped_with_one_warning(model, length):
    prompt = [i % 50 for i in range(length)]
    with pytest.warns(UserWarning, match=f"{length} tokens, the model reads the last 8") as caught:
        out = generate(model, prompt, 4, seed=0)
    assert len(caught) == 1
    assert out[:length] == prompt
    assert out[length:] == generate(model, prompt[-8:], 4, seed=0)[8:]


def test_a_prompt_of_exactly_the_window_is_not_cropped(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generate(model, list(range(8)), 2)


def test_prompts_of_different_lengths_give_what_each_gives_alone(model):
    prompts = [[1], [2, 3, 4], [5] * 8]
    assert generate(model, prompts, 6, seed=2) == [generate(model, p, 6, seed=2) for p in prompts]


def test_the_stop_id_ends_a_row_and_is_left_out(model):
    free = generate(model, [[1], [2]], 8, seed=0)
    stop = free[0][3]
    stopped = generate(model, [[1], [2]], 8, seed=0, stop_id=stop)
    for row, whole in zip(stopped, free, strict=True):
        new = whole[1:]
        expected = new[: new.index(stop)] if stop in new else new
        assert row == [whole[0], *expected]


def test_steps_carry_probability_and_entropy_of_the_distribution_drawn_from(model):
    for step in stream(model, [1, 2], 3, temperature=0.7, top_k=5, seed=0):
        assert 0 < step.prob <= 1
        assert 0 <= step.entropy <= math.log(5) + 1e-9
        assert step.seconds > 0
        assert dataclasses.is_dataclass(step)


def test_greedy_steps_are_certain(model):
    step = next(stream(model, [1], 1, temperature=0))
    assert (step.prob, step.entropy) == (1.0, 0.0)


def test_random_state_and_modes_are_untouched(model):
    model.train()
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002 (the global one)
    steps = stream(model, [1], 5, seed=0)
    next(steps)
    assert model.training  # between two steps
    steps.close()  # abandoned
    model.head.weight.data.fill_(math.nan)
    with pytest.raises(ValueError, match="not finite"):
        generate(model, [1], 2)
    assert model.training
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002


def test_draws_follow_the_probabilities():
    rng = np.random.default_rng(0)
    probs = np.array([0.5, 0.0, 0.3, 0.2])
    counts = np.bincount([draw(probs, rng) for _ in range(20_000)], minlength=4)
    assert counts[1] == 0
    # Five standard deviations: a false alarm once in about two million runs.
    np.testing.assert_allclose(counts / 20_000, probs, atol=5 * math.sqrt(0.25 / 20_000))


def test_the_largest_random_number_never_draws_an_impossible_token():
    class AlmostOne:
        def random(self):
            return 1 - 2**-53

    assert draw(np.array([0.1, 0.2, 0.7, 0.0, 0.0]), AlmostOne()) == 2


def test_entropy_in_nats():
    assert entropy(np.full(8, 1 / 8)) == pytest.approx(math.log(8))
    assert entropy(np.array([1.0, 0.0])) == 0.0


# Ids that the tokenizer does not have -------------------------------------------------------


def test_ids_beyond_the_tokenizer_are_never_drawn(model):
    with torch.no_grad():
        model.head.weight[40:] *= 100  # the padding would win
    assert max(generate(model, [1], 30, temperature=0)) >= 40
    for settings in ({"temperature": 0}, {"seed": 1, "temperature": 5.0}):
        assert max(generate(model, [1], 30, n_vocab=40, **settings)) < 40


@pytest.mark.parametrize(
    ("n_vocab", "error"), [(0, ValueError), (51, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_an_impossible_size_of_the_tokenizer_is_named(tiny, n_vocab, error):
    with pytest.raises(error, match="n_vocab"):
        generate(Untouchable(tiny), [1], 3, n_vocab=n_vocab)


# The trace of the filters -------------------------------------------------------------------


@given(st.integers(0, 2**32), st.sampled_from([0, 0.5, 1, 2.0]), st.sampled_from([None, 1, 4]))
def test_a_trace_holds_the_distribution_after_each_stage(seed, temperature, top_k):
    logits = np.random.default_rng(seed).integers(-3, 4, size=12).astype(float)
    steps = trace(logits, temperature, top_k, 0.8, seed=seed)
    np.testing.assert_array_equal(steps.raw, probabilities(logits))
    np.testing.assert_array_equal(steps.temperature, probabilities(logits, temperature))
    np.testing.assert_array_equal(steps.top_k, probabilities(logits, temperature, top_k))
    np.testing.assert_array_equal(steps.top_p, probabilities(logits, temperature, top_k, 0.8))
    assert steps.top_p[steps.drawn] > 0


def test_a_trace_draws_what_the_stream_draws_first(model):
    logits = model.next_logits([1, 2])
    for seed in range(5):
        step = next(stream(model, [1, 2], 1, temperature=2.0, top_k=30, top_p=0.9, seed=seed))
        steps = trace(torch.from_numpy(logits), 2.0, 30, 0.9, seed=seed)
        assert steps.drawn == step.token_id
        assert steps.top_p[steps.drawn] == step.prob


def test_a_trace_prints_the_best_tokens_and_the_drawn_one():
    logits = np.linspace(3, 0, 40)
    steps = next(s for s in (trace(logits, 3.0, seed=n) for n in range(99)) if s.drawn > 20)
    text = str(steps)
    assert steps.best()[:9] == list(range(9))
    assert [line.split()[0] for line in text.splitlines()[1:11]] == [*"012345678", str(steps.drawn)]
    assert text.count("<- drawn") == 1
    assert text.splitlines()[-1].split() == ["kept", "40", "40", "40", "40"]
    assert repr(steps) == text


def test_a_trace_marks_removed_tokens_and_counts_the_kept():
    text = str(trace(np.log([0.4, 0.3, 0.2, 0.1]), top_k=2, top_p=0.5, seed=0))
    assert text.splitlines()[1].split() == [
        "0",
        "0.4000",
        "0.4000",
        "0.5714",
        "1.0000",
        "<-",
        "drawn",
    ]
    assert text.splitlines()[2].split() == ["1", "0.3000", "0.3000", "0.4286", "·"]
    assert text.splitlines()[-1].split() == ["kept", "4", "4", "2", "1"]


def test_a_trace_takes_one_row_and_good_settings():
    with pytest.raises(ValueError, match="one row"):
        trace(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="top_p"):
        trace(LOGITS, top_p=2)
    with pytest.raises(TypeError, match="seed"):
        trace(LOGITS, seed=0.5)
