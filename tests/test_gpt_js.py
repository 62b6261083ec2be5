"""The engine in the page, run by Chromium on an empty page: equal to torch and to gptlib's rule."""

import json
import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Error, Page
from switches import configurations

from gptlib import GPT, ByteTokenizer, GPTConfig, NumpyGPT, checkpoint, corpus, generate, sampling
from gptlib.page_gpt import packing, scripts

pytestmark = pytest.mark.browser

LOAD = """async ([source, models]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    globalThis.engine = await import(url);
    globalThis.models = models;
    globalThis.plain = (_, value) => (ArrayBuffer.isView(value) ? [...value] : value);
}"""


def ask(page: Page, script: str, *args: Any) -> Any:
    """Return what a function returns in the page; as one string, which takes far less time."""
    call = f"async (args) => JSON.stringify(await ({script})(...args), plain)"
    return json.loads(page.evaluate(call, args))


def spread(cfg: GPTConfig, seed: int) -> GPT:
    """Return a model none of whose parameters is 0 or 1, so that no part can be left out."""
    torch.manual_seed(seed)
    model = GPT(cfg).eval()
    with torch.no_grad():
        for param in model.parameters():
            param.add_(0.1 * torch.randn_like(param))
    return model


# The switches that the script knows, sizes that fill no block of eight or four, and the real shape.
MODELS = {
    "mini": spread(GPTConfig.preset("mini"), 1),
    "odd": spread(GPTConfig(51, 24, 30, 3, 2, 0.1, qkv_bias=True), 2),
    "small": spread(GPTConfig.preset("mini", context_length=40, emb_dim=32, n_layers=2), 3),
}


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """Open a page that holds the engine and the models, and may ask for nothing."""
    page = browser.new_page()
    requests: list[str] = []
    page.route("**/*", lambda route: (requests.append(route.request.url), route.abort()))
    packed = {name: packing.pack(model, "float32") for name, model in MODELS.items()}
    packed["packaged"] = packing.pack(checkpoint.packaged()[0])
    page.evaluate(LOAD, [scripts.engine(), packed])
    yield page
    page.close()
    assert not requests


FORWARD = "(name, ids, options) => engine.loadModel(models[name]).forward(ids, options)"

STREAM = """async (name, prompt, n, settings) => {
    const steps = [];
    const model = engine.loadModel(models[name]);
    for await (const step of engine.streamTokens(model, prompt, n, settings)) steps.push(step);
    return steps;
}"""


def forward(page: Page, name: str, ids: list[int], **options: Any) -> torch.Tensor:
    """Return the (T, V) logits of the page's engine."""
    return torch.tensor(ask(page, FORWARD, name, ids, options)).view(len(ids), -1)


def stream(page: Page, name: str, prompt: list[int], n: int, **settings: Any) -> list[Any]:
    """Return the steps that the page's engine yields."""
    steps: list[Any] = ask(page, STREAM, name, prompt, n, settings)
    return steps


def some_ids(name: str, n: int) -> list[int]:
    ids: list[int] = torch.randint(MODELS[name].cfg.vocab_size, (n,)).tolist()
    return ids


# The model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_logits_equal_torchs_at_every_position(page: Page, name: str) -> None:
    ids = some_ids(name, MODELS[name].cfg.context_length)
    with torch.no_grad():
        expected = MODELS[name](torch.tensor([ids]))[0]
    assert expected.std() > 0.5
    torch.testing.assert_close(forward(page, name, ids), expected, atol=2e-5, rtol=1e-5)


ONE = """(packed, ids, cuts) => {
    const model = engine.loadModel(packed);
    const cache = model.newCache();
    const whole = model.forward(ids);
    const parts = cuts.flatMap((n) => [...model.forward(ids.splice(0, n), { cache })]);
    return [whole, parts, cache.layers[0].keys.length];
}"""


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(configurations(), st.integers(0, 9))
def test_any_switches_together_give_torchs_logits_cached_or_not(
    page: Page, cfg: GPTConfig, seed: int
) -> None:
    model = spread(cfg, seed)
    ids = torch.randint(cfg.vocab_size, (cfg.context_length,)).tolist()
    with torch.no_grad():
        expected = model(torch.tensor([ids]))[0]
    whole, parts, n_keys = ask(page, ONE, packing.pack(model, "float32"), ids, [3, 1, 1, 4])
    size = float(expected.abs().max().clamp(min=1))
    gap = (torch.tensor(whole).view_as(expected) - expected).abs().max()
    assert float(gap) < 2e-5 * size
    assert whole == parts
    assert n_keys == cfg.context_length * cfg.kv_heads * cfg.head_dim


def test_a_model_packed_before_the_switches_is_gpt2s(page: Page) -> None:
    packed = packing.pack(MODELS["odd"], "float32")
    first = [field.name for field in fields(GPTConfig)][:11]
    ids = some_ids("odd", 9)
    old = packed | {"config": {name: packed["config"][name] for name in first}}
    assert ask(page, ONE, old, ids, [9])[0] == ask(page, ONE, packed, ids, [9])[0]


CUT = """(name, ids, cuts) => {
    const model = engine.loadModel(models[name]);
    const cache = model.newCache();
    return cuts.flatMap((n) => [...model.forward(ids.splice(0, n), { cache })]);
}"""


@pytest.mark.parametrize("cuts", [[1] * 24, [23, 1], [4, 8, 5, 7], [1, 2, 3, 4, 14]], ids=str)
def test_cached_logits_equal_uncached_to_the_last_bit(page: Page, cuts: list[int]) -> None:
    ids = some_ids("odd", 24)
    cached = torch.tensor(ask(page, CUT, "odd", ids, cuts)).view(24, -1)
    assert torch.equal(cached, forward(page, "odd", ids))


def test_two_caches_in_turn_do_not_disturb_each_other(page: Page) -> None:
    ids = some_ids("odd", 12)
    in_turn = """(name, a, b) => {
        const model = engine.loadModel(models[name]);
        const [first, second] = [model.newCache(), model.newCache()];
        const rows = [];
        a.forEach((id, t) => {
            rows.push(model.forward([id], { cache: first }));
            model.forward([b[t]], { cache: second });
        });
        return rows;
    }"""
    rows = torch.tensor(ask(page, in_turn, "odd", ids, ids[::-1]))
    assert torch.equal(rows, forward(page, "odd", ids))


ATTENTION = """(name, ids, options) => {
    const trace = {};
    engine.loadModel(models[name]).forward(ids, { ...options, trace });
    return trace;
}"""


def test_attention_weights_equal_torchs_in_every_layer_and_head(page: Page) -> None:
    ids = some_ids("odd", 20)
    expected: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        MODELS["odd"](torch.tensor([ids]), trace=expected)
    found = ask(page, ATTENTION, "odd", ids, {})
    assert sorted(found) == ["blocks.0.attn.weights", "blocks.1.attn.weights"]
    for name, weights in found.items():
        torch.testing.assert_close(
            torch.tensor(weights).view(3, 20, 20), expected[name][0], atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_scale_and_mask_can_be_taken_away(page: Page, scale: bool, mask: bool) -> None:
    ids = some_ids("odd", 20)
    stages: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        MODELS["odd"](torch.tensor([ids]), trace=stages)
    q, k = stages["blocks.0.attn.q"][0], stages["blocks.0.attn.k"][0]
    scores = q @ k.transpose(-2, -1) / (math.sqrt(q.shape[-1]) if scale else 1)
    if mask:
        scores = scores.masked_fill(~torch.ones(20, 20, dtype=torch.bool).tril(), -math.inf)
    found = ask(page, ATTENTION, "odd", ids, {"scale": scale, "mask": mask})
    weights = torch.tensor(found["blocks.0.attn.weights"]).view(3, 20, 20)
    torch.testing.assert_close(weights, scores.softmax(-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        ([], "ids is empty"),
        ([3, 51], "token id 51 at position 1 is outside the vocabulary 0..50"),
        ([-1], "token id -1 at position 0"),
        ([1.5], "token id 1.5 at position 0"),
        ([0] * 25, "25 positions exceed the context length 24"),
    ],
)
def test_wrong_ids_are_refused(page: Page, ids: list[Any], complaint: str) -> None:
    with pytest.raises(Error, match=complaint):
        forward(page, "odd", ids)


# The packed weights -------------------------------------------------------------------------------


EXACT = {"tok_emb.weight", "head.weight"}

BEST = """(name, rows) => rows.map((ids) => {
    const model = engine.loadModel(models[name]);
    const V = model.config.vocab_size;
    const logits = model.forward(ids);
    const rowOf = (t) => logits.subarray(t * V, (t + 1) * V);
    return ids.map((_, t) => rowOf(t).indexOf(Math.max(...rowOf(t))));
})"""


def test_the_packaged_model_keeps_its_best_token_on_99_percent_of_held_out_text(page: Page) -> None:
    model, tokenizer = checkpoint.packaged()
    length = model.cfg.context_length
    tokens = corpus.encode_corpus(corpus.shakespeare(), tokenizer)
    _, held_out = corpus.split(tokens, context_length=length)
    windows, _ = corpus.fixed_windows(held_out, 8, length)
    with torch.no_grad():
        expected = model(torch.tensor(windows)).argmax(-1).numpy()  # (8, T)
    found = np.array(ask(page, BEST, "packaged", windows.tolist()))
    share = (found == expected).mean()
    print(f"{share:.2%} of {found.size} positions")
    assert share >= 0.99


def test_int8_weights_are_off_by_half_a_step_at_most(page: Page) -> None:
    net = NumpyGPT.from_torch(MODELS["odd"])
    packed = packing.pack(net)
    decoded, unpacked = ask(page, "engine.decodeWeights", packed), packing.unpack(packed).params
    assert list(decoded) == list(net.params)
    assert {n for n, p in net.params.items() if p.ndim == 2} - {*packed["rounded"]} == EXACT
    for name, param in net.params.items():
        found = np.array(decoded[name], np.float32).reshape(param.shape)
        rounded = name in packed["rounded"]
        step = np.abs(param).max(axis=1, keepdims=True) / 127 if rounded else 0
        assert (np.abs(found - param) <= 0.501 * step).all(), name
        assert np.array_equal(found, unpacked[name]), name


def test_float32_weights_come_back_exactly(page: Page) -> None:
    net = NumpyGPT.from_torch(MODELS["odd"])
    decoded = ask(page, "engine.decodeWeights", packing.pack(MODELS["odd"], "float32"))
    for name, param in net.params.items():
        assert np.array_equal(np.array(decoded[name]).reshape(param.shape), param), name


def test_older_browsers_decode_the_same_weights(page: Page) -> None:
    without = """(packed) => {
        const { fromBase64 } = Uint8Array;
        delete Uint8Array.fromBase64;
        const params = engine.decodeWeights(packed);
        if (fromBase64) Uint8Array.fromBase64 = fromBase64;
        return params;
    }"""
    packed = packing.pack(MODELS["odd"])
    assert ask(page, without, packed) == ask(page, "engine.decodeWeights", packed)


def test_models_of_one_page_share_their_weights(page: Page) -> None:
    shared = """(name) => engine.loadModel(models[name]).tokens
        === engine.loadModel(models[name]).tokens"""
    assert ask(page, shared, "odd")


def test_the_mini_model_takes_a_megabyte_and_a_half_at_most() -> None:
    assert len(json.dumps(packing.pack(MODELS["mini"]))) <= 1.5e6


def test_a_row_of_zeros_survives_packing() -> None:
    net = NumpyGPT(GPTConfig(5, 4, 4, 1, 1, 0.0))
    net.params["pos_emb.weight"][2] = 0.0
    table = packing.unpack(packing.pack(net)).params["pos_emb.weight"]
    assert table[2].tolist() == [0, 0, 0, 0]
    assert np.isfinite(table).all()
    assert table[3].any()


@pytest.mark.parametrize(
    ("model", "precision", "error", "complaint"),
    [
        ("a model", "int8", TypeError, "got str"),
        (MODELS["odd"], "int4", ValueError, "got 'int4'"),
    ],
)
def test_what_the_script_cannot_compute_is_not_packed(
    model: Any, precision: Any, error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        packing.pack(model, precision)


def test_weights_that_are_not_finite_are_not_packed() -> None:
    net = NumpyGPT(GPTConfig(5, 4, 4, 1, 1))
    net.params["final_norm.scale"][1] = np.nan
    with pytest.raises(ValueError, match=r"final_norm\.scale is not finite"):
        packing.pack(net)


# The rule of sampling -----------------------------------------------------------------------------

STAGES = sampling.FilterTrace.STAGES

FILTERS = """(cases) => cases.map(([logits, settings]) => {
    const trace = engine.traceFilters(Float64Array.from(logits), settings);
    return { ...trace, entropy: engine.entropy(trace.top_p) };
})"""


def random_case(number: int) -> tuple[list[float], dict[str, Any]]:
    """Return logits and settings; every fifth row has few different values, so many ties."""
    rng = np.random.default_rng(number)
    size = int(rng.integers(1, 80))
    logits = rng.normal(scale=rng.choice([0.3, 2.0, 10.0]), size=size)
    if number % 5 == 0:
        logits = np.round(logits)
    settings = {
        "temperature": [None, 0, 0.05, 0.7, 1.0, 2, 30.0][rng.integers(7)],
        "top_k": [None, 0, 1, 2, int(rng.integers(1, 90))][rng.integers(5)],
        "top_p": [None, 0, 1, 0.5, 0.9, 0.25, rng.random()][rng.integers(7)],
    }
    return logits.tolist(), settings


def test_every_stage_equals_pythons_for_500_random_rows(page: Page) -> None:
    cases = [random_case(number) for number in range(500)]
    for case, found in zip(cases, ask(page, FILTERS, cases), strict=True):
        logits, settings = case
        expected = sampling.trace(logits, **settings)
        for stage in STAGES:
            probs = np.array(found[stage])
            assert np.array_equal(probs > 0, getattr(expected, stage) > 0), (stage, case)
            np.testing.assert_allclose(
                probs, getattr(expected, stage), atol=1e-6, err_msg=f"{stage} of {case}"
            )
        assert found["ranked"] == np.argsort(-expected.logits, kind="stable").tolist()
        assert found["entropy"] == pytest.approx(sampling.entropy(expected.top_p), abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, [0, 1, 2, 3]),
        ({"temperature": 0}, [1]),  # the lower of two equals
        ({"top_k": 2}, [1, 2]),
        ({"top_k": 3}, [0, 1, 2]),
        ({"top_k": 10**9}, [0, 1, 2, 3]),
        ({"top_p": 0}, [1]),
        ({"top_p": 0.4}, [1]),  # an exact sum counts as reached
        ({"top_p": 0.8}, [1, 2]),
        ({"top_p": 0.85}, [0, 1, 2]),
        ({"top_k": 3, "top_p": 0.85}, [1, 2]),  # of the rest that top_k leaves they have 0.8 / 0.9
    ],
    ids=str,
)
def test_ties_and_exact_sums_are_settled_as_the_rule_says(
    page: Page, settings: dict[str, Any], kept: list[int]
) -> None:
    logits = np.log([0.1, 0.4, 0.4, 0.1]).tolist()
    found = ask(page, FILTERS, [[logits, settings]])[0]
    assert np.flatnonzero(found["top_p"]).tolist() == sorted(kept)
    if settings.get("temperature") != 0:
        assert sorted(found["ranked"][: found["kept"]["top_p"]]) == sorted(kept)


def test_a_sum_that_misses_top_p_by_rounding_counts_as_reached(page: Page) -> None:
    logits = np.log([0.15, 0.35, 0.3, 0.2]).tolist()  # 0.35 + 0.3 comes out below 0.65
    found = ask(page, FILTERS, [[logits, {"top_p": 0.65}]])[0]
    assert np.flatnonzero(found["top_p"]).tolist() == [1, 2]


def test_what_each_filter_removed_can_be_read_off_the_ranking(page: Page) -> None:
    for number in range(50):
        logits, settings = random_case(number)
        settings["temperature"] = 1.0
        found = ask(page, FILTERS, [[logits, settings]])[0]
        for stage in ("top_k", "top_p"):
            left = set(found["ranked"][: found["kept"][stage]])
            assert left == set(np.flatnonzero(found[stage]).tolist()), (stage, logits, settings)


BAD_SETTINGS = [
    {"temperature": -1},
    {"temperature": "0.8"},
    {"temperature": True},
    {"top_k": -1},
    {"top_k": True},
    {"top_k": "5"},
    {"top_p": -0.1},
    {"top_p": 1.5},
    {"top_p": "0.5"},
]


@pytest.mark.parametrize("settings", BAD_SETTINGS, ids=str)
def test_settings_that_python_refuses_are_refused(page: Page, settings: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        sampling.Settings(**settings)
    with pytest.raises(Error, match=f"(TypeError|RangeError): {next(iter(settings))} must be"):
        ask(page, FILTERS, [[[1.0, 2.0], settings]])


@pytest.mark.parametrize(
    ("logits", "complaint"),
    [
        ("[1, NaN, 3]", "NaN at id 1"),
        ("[1, 2, Infinity]", "Infinity at id 2"),
        ("[-Infinity, -Infinity]", "no token is possible"),
    ],
)
def test_logits_that_are_not_finite_are_refused(page: Page, logits: str, complaint: str) -> None:
    with pytest.raises(Error, match=f"logits are not finite.*{complaint}"):
        ask(page, f"() => engine.traceFilters(Float32Array.of(...{logits}))")


def test_an_impossible_token_gets_probability_0(page: Page) -> None:
    probs = ask(page, "() => engine.traceFilters(Float32Array.of(1, -Infinity, 1)).top_p")
    assert probs == [0.5, 0, 0.5]


DRAWS = """(probs, n, seed) => {
    const random = engine.seededRandom(seed);
    return Array.from({ length: n }, () => engine.drawToken(Float64Array.from(probs), random));
}"""


def test_draws_follow_the_probabilities_and_repeat_for_a_seed(page: Page) -> None:
    probs = [0.0, 0.5, 0.2, 0.0, 0.3, 0.0]
    drawn = ask(page, DRAWS, probs, 20_000, 7)
    counts = np.bincount(drawn, minlength=6)
    assert counts[[0, 3, 5]].tolist() == [0, 0, 0]
    np.testing.assert_allclose(counts / 20_000, probs, atol=0.015)  # four standard errors
    assert ask(page, DRAWS, probs, 20_000, 7) == drawn
    assert ask(page, DRAWS, probs, 20_000, 8) != drawn


@pytest.mark.parametrize("at", ["0", "1 - 2 ** -53"])
def test_the_ends_of_the_random_range_draw_possible_tokens(page: Page, at: str) -> None:
    draw = f"(probs) => engine.drawToken(Float64Array.from(probs), () => {at})"
    probs = [0.0, *[0.1] * 10, 0.0]  # ten tenths do not add up to 1 in floating point
    assert ask(page, draw, probs) == (1 if at == "0" else 10)


# Text and streams ---------------------------------------------------------------------------------


def test_300_greedy_ids_equal_gptlibs_far_past_the_window(page: Page) -> None:
    prompt = ByteTokenizer().encode("To be")
    steps = stream(page, "small", prompt, 300, temperature=0)
    expected = generate(MODELS["small"], prompt, 300, temperature=0)
    assert len(set(expected)) > 10  # not one token over and over
    assert prompt + [step["id"] for step in steps] == expected


def test_streamed_logits_equal_uncached_ones_past_the_window(page: Page) -> None:
    steps = stream(page, "odd", [1, 2, 3], 40, seed=1, temperature=2)
    ids = [1, 2, 3, *(step["id"] for step in steps)]
    for n, step in enumerate(steps, start=3):
        window = ids[:n][-24:]
        assert step["logits"] == forward(page, "odd", window)[-1].tolist()
        probs = sampling.probabilities(np.array(step["logits"]), temperature=2)
        assert step["prob"] == pytest.approx(probs[step["id"]], abs=1e-6)
        assert step["entropy"] == pytest.approx(sampling.entropy(probs), abs=1e-6)


def test_a_prompt_longer_than_the_window_gives_what_its_end_gives(page: Page) -> None:
    ids = some_ids("odd", 60)
    assert stream(page, "odd", ids, 8, seed=5) == stream(page, "odd", ids[-24:], 8, seed=5)


def test_a_seed_repeats_a_stream_and_another_does_not(page: Page) -> None:
    first, again, other = (stream(page, "odd", [4], 20, seed=seed) for seed in (3, 3, 4))
    assert first == again != other


SHARED = """async (name, prompt, known) => {
    const model = engine.loadModel(models[name]);
    const cache = model.newCache();
    model.forward(prompt.slice(0, known), { cache });
    const steps = [];
    for await (const step of engine.streamTokens(model, prompt, 30, { seed: 1, cache }))
        steps.push(step);
    return steps;
}"""


def test_a_cache_that_holds_the_prompts_beginning_changes_nothing(page: Page) -> None:
    prompt = some_ids("odd", 12)
    expected = stream(page, "odd", prompt, 30, seed=1)
    for known in (1, 5, 11):
        assert ask(page, SHARED, "odd", prompt, known) == expected


ABORTED = """async (name) => {
    const stop = new AbortController();
    const model = engine.loadModel(models[name]);
    let made = 0;
    for await (const step of engine.streamTokens(model, [1], 1000, { signal: stop.signal })) {
        if (++made === 5) stop.abort();
    }
    return made;
}"""


def test_a_signal_stops_a_stream_at_once(page: Page) -> None:
    assert ask(page, ABORTED, "odd") == 5


TURNS = """async (name, read) => {
    const model = engine.loadModel(models[name]);
    const prompt = new Array(model.config.context_length).fill(1);
    let turns = 0;
    const timer = setInterval(() => turns++);
    if (read) await engine.readTokens(model, prompt);
    else await engine.streamTokens(model, prompt, 1).next();
    clearInterval(timer);
    return turns;
}"""


@pytest.mark.parametrize("read", [True, False])
def test_the_page_gets_its_turn_while_a_long_prompt_is_read(page: Page, read: bool) -> None:
    assert ask(page, TURNS, "mini", read) >= 2


READS = """async (name, texts) => {
    const model = engine.loadModel(models[name]);
    const cache = model.newCache();
    const rows = [];
    for (const ids of texts) rows.push(await engine.readTokens(model, ids, { cache }));
    return rows;
}"""


def test_what_a_cache_holds_of_other_texts_changes_no_logits(page: Page) -> None:
    ids = some_ids("odd", 40)  # the window has 24
    cuts = [ids[:1], ids[:9], ids[:9], ids[:4], ids[:24], ids[:25], ids, [3, *ids[1:9]], ids[:24]]
    for cut, row in zip(cuts, ask(page, READS, "odd", cuts), strict=True):
        assert row == forward(page, "odd", cut[-24:])[-1].tolist()


def test_nothing_to_read_is_refused(page: Page) -> None:
    with pytest.raises(Error, match="ids is empty"):
        ask(page, READS, "odd", [[]])


LEFT = """async (name, first, second) => {
    const model = engine.loadModel(models[name]);
    const cache = model.newCache();
    const stop = new AbortController();
    const left = engine.readTokens(model, first, { cache, signal: stop.signal, turn: () => 0 });
    stop.abort();
    const rows = await Promise.all([left, engine.readTokens(model, second, { cache })]);
    return [...rows, await engine.readTokens(model, first, { cache, signal: stop.signal })];
}"""


def test_a_text_left_for_another_is_read_no_further(page: Page) -> None:
    ids = some_ids("odd", 24)
    left, row, later = ask(page, LEFT, "odd", ids, ids[::-1])
    assert left is later is None
    assert row == forward(page, "odd", ids[::-1])[-1].tolist()


PIECES = """(cases) => cases.map((ids) => {
    const text = engine.textStream();
    return [...ids.map(text.push), text.end()].filter((piece) => piece);
})"""

WHOLE = "(cases) => cases.map(engine.decodeText)"


def test_streamed_text_comes_in_whole_characters(page: Page) -> None:
    text = "\ufeffnaïve 你好 👩‍🚀 </script>$x$\n"
    ids = ByteTokenizer().encode(text)
    assert ask(page, "engine.encodeText", text) == ids
    assert ask(page, PIECES, [ids]) == [list(text)]
    assert ask(page, WHOLE, [ids]) == [text]


def test_bytes_that_are_no_text_are_replaced_as_in_python(page: Page) -> None:
    rng = np.random.default_rng(0)
    edges = [0x41, 0x80, 0xC3, 0xE0, 0xED, 0xF0, 0xF4, 0xFF, 0xA0, 0x9F, 0x90]  # of UTF-8's ranges
    cases = [rng.choice(edges, size=rng.integers(1, 9)).tolist() for _ in range(500)]
    tok = ByteTokenizer()
    expected = [tok.decode(ids) for ids in cases]
    assert ask(page, WHOLE, cases) == expected
    assert ["".join(pieces) for pieces in ask(page, PIECES, cases)] == expected
