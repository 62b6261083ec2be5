"""What is special to single panels: the numbers of their scripts against gptlib itself."""

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import traitlets
from browsing import PLACES
from playwright.sync_api import Browser, Page, expect

from gptlib import (
    GPT,
    KVCache,
    accounting,
    byte_pairs,
    corpus,
    generate,
    gpt2_tokenizer,
    ladder,
    panels,
    sampling,
)
from gptlib.config import PRESETS, GPTConfig
from gptlib.panels import attention, depth, gelu, kv_cache, ledger, merges, pairs, replay
from gptlib.panels.base import Text, page_model

pytestmark = pytest.mark.browser

# All but questions, which have a file of their own.
PICTURES = {kind.__name__ for kind in panels.Panel.__subclasses__()} - {"QuestionsPanel"}

NEXT_FRAME = "() => new Promise(requestAnimationFrame)"  # a change is drawn then

Compute = Callable[[type[panels.Panel], list[dict[str, Any]]], list[dict[str, float]]]

IMPORT = """async ([script, states]) => {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { default: panel } = await import(url);
  return states.map(panel.compute);
}"""


@pytest.fixture(scope="module")
def compute(browser: Browser) -> Compute:
    """Return the function that gives what a panel's script shows for each of some states."""
    page = browser.new_page()
    return lambda kind, states: page.evaluate(IMPORT, [kind._esm, states])


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_no_slider_leaves_the_range_of_its_trait(
    name: str, show: Callable[[panels.Panel], Page]
) -> None:
    panel = getattr(panels, name)()
    sliders = show(panel).locator("input[type=range]")
    for slider in sliders.all():
        trait = panel.traits()[slider.get_attribute("name")]
        low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
        step = float(slider.get_attribute("step"))  # what is no multiple of it may be left out
        assert trait.min <= low < trait.min + step, trait.name
        assert high <= trait.max, trait.name
        assert low < high or slider.is_disabled(), trait.name  # no text was written yet


def test_the_ledger_counts_every_preset_and_a_hundred_machines_as_accounting_does(
    compute: Compute,
) -> None:
    rng = random.Random(0)
    machines = [GPTConfig(), *map(GPTConfig.preset, PRESETS)]
    with pytest.raises(ValueError, match="GPT-2's parts"):
        panels.LedgerPanel.of(machines.pop())  # modern-mini
    for _ in range(100):
        sizes = [rng.randint(256, 131_211), rng.randint(128, 8192), rng.randint(64, 4096)]
        switches = {"tie_weights": rng.random() < 0.5, "qkv_bias": rng.random() < 0.5}
        machines.append(GPTConfig(*sizes, n_heads=1, n_layers=rng.randint(1, 96), **switches))
    states = [
        panels.LedgerPanel.of(cfg).state()
        | {"dtype": rng.choice(ledger.DTYPES), "texts": rng.randint(1, 64)}
        for cfg in machines
    ]
    for cfg, state, shown in zip(
        machines, states, compute(panels.LedgerPanel, states), strict=True
    ):
        account = accounting.account(cfg)
        assert shown["total"] == account.total
        assert shown == panels.LedgerPanel(**state).numbers()


def test_a_name_in_the_ledger_sets_all_sizes_and_another_size_is_called_custom(
    show: Callable[[panels.Panel], Page],
) -> None:
    page = show(panels.LedgerPanel())
    choice, readout = page.get_by_label("machine"), page.locator(".gp-readout")
    named = [*map(GPTConfig.preset, list(PRESETS)[:4]), GPTConfig(), GPTConfig.preset("mini")]
    assert choice.locator("option").count() == 1 + len(named)
    for place, cfg in enumerate(named, 1):
        choice.select_option(index=place)
        expect(readout).to_contain_text(f"{accounting.account(cfg).total:,} parameters")
    page.get_by_label("layers").press("ArrowRight")
    assert choice.evaluate("choice => choice.selectedOptions[0].text") == "custom"


@pytest.mark.parametrize("activation", depth.ACTIVATIONS)
@pytest.mark.parametrize("seed", range(0, 10, 3))
def test_in_the_deepest_net_the_gradient_vanishes_only_without_addition_and_norm(
    activation: str, seed: int
) -> None:
    def first_over_last(**devices: bool) -> float:
        panel = panels.DepthPanel(depth=24, activation=activation, seed=seed, **devices)
        return panel.numbers()["first over last"]

    assert first_over_last() < 1e-5
    assert 0.1 < first_over_last(residual=True) < 10
    assert 0.1 < first_over_last(residual=True, norm=True) < 10
    assert first_over_last(norm=True) > 0.1


def test_the_page_finds_the_gradients_of_autograd_down_to_the_smallest(compute: Compute) -> None:
    states = [panels.DepthPanel(depth=24, seed=seed).state() for seed in range(10)]
    for state, shown in zip(states, compute(panels.DepthPanel, states), strict=True):
        assert shown == pytest.approx(panels.DepthPanel(**state).numbers(), rel=1e-9, abs=0)


@pytest.mark.parametrize(("way", "cached"), kv_cache.WAYS.items())
def test_the_cache_panel_counts_the_rows_that_gptlib_projects_and_the_bytes_that_it_keeps(
    way: str, cached: bool
) -> None:
    model, rows = GPT(GPTConfig.preset("mini")), []
    for block in model.blocks:
        block.attn.qkv.register_forward_hook(lambda _, x, out: rows.append(3 * out.shape[1]))
    generate(model, [1, 2, 3], 5, use_cache=cached)
    panel = panels.CachePanel(model="mini", prompt_length=3, new_tokens=5, step=5)
    assert panel.numbers()[f"{way}: rows so far"] == sum(rows)
    cache = KVCache(model.cfg, max_len=7, device="meta")
    assert panel.numbers()[f"{way}: bytes held"] == cached * cache.nbytes


def test_the_step_never_passes_the_last_one(show: Callable[[panels.Panel], Page]) -> None:
    page = show(panels.CachePanel(step=6))
    step, readout = page.get_by_role("slider", name="step"), page.locator(".gp-readout")
    page.get_by_role("button", name="Next step").click()
    expect(readout).to_contain_text("Step 6,")
    page.get_by_label("new tokens").press("ArrowLeft")
    expect(readout).to_contain_text("Step 5,")
    assert step.get_attribute("max") == step.input_value() == "5"
    page.get_by_role("button", name="Previous step").click()
    expect(readout).to_contain_text("Step 4,")


@pytest.mark.parametrize("bias", [-6.0, -4.0, -2.0, -0.66, 0.0, 1.0, 3.0])
def test_relu_hears_the_inputs_above_zero_and_gelu_those_and_some_below(bias: float) -> None:
    numbers = panels.GeluPanel(bias=bias).numbers()
    with_relu, with_gelu = (numbers[f"inputs that learn with {n}"] for n in ("ReLU", "GELU"))
    assert with_relu == sum(z + bias > 0 for z in gelu.INPUTS)
    assert with_gelu >= with_relu
    assert (with_gelu > 0) == (bias > -5)


def test_the_stages_of_the_page_are_those_of_the_model_wherever_heads_divide_the_width(
    compute: Compute,
) -> None:
    rng = random.Random(0)
    states = []
    for _ in range(20):
        heads = rng.randint(1, 25)
        width = heads * rng.randint(-(-64 // heads), 1600 // heads)
        sizes = {"vocab_size": rng.randint(257, 100_257), "emb_dim": width, "n_heads": heads}
        run = {"batch": rng.randint(1, 8), "length": rng.randint(1, 1024)}
        states.append({"stage": rng.randint(1, 17), **sizes, **run})
    made = [panels.MachinePanel(**state) for state in states]
    shown = compute(panels.MachinePanel, [panel.state() for panel in made])
    assert shown == [panel.numbers() for panel in made]


def test_heads_that_do_not_divide_the_width_are_refused_in_gptconfigs_words(
    show: Callable[[panels.Panel], Page],
) -> None:
    panel = panels.MachinePanel(n_heads=7)
    with pytest.raises(ValueError, match="n_heads must divide emb_dim") as refusal:
        panel.config()
    assert str(refusal.value) in panel.fallback()
    page = show(panel)
    expect(page.locator(".gp-readout")).to_contain_text(str(refusal.value))
    page.get_by_label("heads H").press("ArrowRight")
    expect(page.locator(".gp-readout")).to_contain_text("Stage 1 of 17")


@pytest.mark.parametrize("width", PLACES)
def test_the_machines_sliders_offer_only_widths_that_the_heads_divide(
    show: Callable[..., Page], width: int
) -> None:
    page = show(panels.MachinePanel(), width)
    heads, wide = page.get_by_label("heads H"), page.get_by_label("width C")
    panel, note = page.locator(".gptlib-panel"), page.get_by_role("status")
    height, before = panel.evaluate("e => e.offsetHeight"), 768
    for H in [*range(11, 0, -1), *range(2, 26)]:
        heads.fill(str(H))
        page.evaluate(NEXT_FRAME)
        C, low, step = (
            int(wide.evaluate("(e, name) => e[name]", name)) for name in ("value", "min", "step")
        )
        assert (C % H, low % H, step) == (0, 0, H)
        assert abs(C - before) <= H / 2  # the nearest one
        expect(note).to_contain_text(f"{C} = {H} × {C // H}")
        if remainder := before % H:
            said = f"{H} heads do not divide {before} (remainder {remainder}), so the width moved"
            expect(note).to_contain_text(said)
        expect(page.locator(".gp-readout")).to_contain_text("Stage 1 of 17")
        assert panel.evaluate("e => e.offsetHeight") == height
        before = C
    wide.press("ArrowLeft")
    expect(note).to_have_text(f"{before - 25} = 25 × {before // 25 - 1}.")


def test_a_click_on_a_line_of_the_machine_leads_to_its_stage(show: Callable[..., Page]) -> None:
    page = show(panels.MachinePanel())
    lines, stage = page.locator(".gp-hit"), page.get_by_role("slider", name="stage")
    names = page.locator(".gp-text tbody th").all_text_contents()
    assert lines.count() == len(names) == 17
    for place in range(17, 0, -1):
        lines.nth(place - 1).click()
        expect(page.locator(".gp-readout")).to_contain_text(f"Stage {place} of 17")
        assert stage.input_value() == str(place)
        assert stage.get_attribute("aria-valuetext") == f"{place} of 17, {names[place - 1]}"


RUN: dict[str, Any] = {
    "history": {
        "step": [0, 1, 9, 99],
        "tokens": [64, 128, 640, 6400],
        "loss": [5.6, 5.4, 4.0, 2.5],
        "learning_rate": [1e-4, 2e-4, 1e-3, 1e-4],
    },
    "validation": {"step": [0, 50, 100], "loss": [5.55, 3.0, 2.4]},
    "samples": [{"step": 0, "text": "\x00<b>$x$</b>"}, {"step": 10, "text": "the the"}],
}


def test_the_replay_shows_what_was_recorded_last_before_the_present_step(compute: Compute) -> None:
    states = [panels.ReplayPanel(history=RUN, row=row).state() for row in range(6)]
    shown = compute(panels.ReplayPanel, states)
    assert shown == [panels.ReplayPanel(**state).numbers() for state in states]
    steps = "steps", "steps before it", "steps before the sample"
    found = [tuple(numbers[name] for name in steps) for numbers in shown]
    assert found == [(1, 0, 0), (2, 0, 0), (10, 0, 10), *[(100, 100, 10)] * 3]


def test_the_replay_names_both_losses_where_they_are_drawn(show: Callable[..., Page]) -> None:
    for width in PLACES:
        words = show(panels.ReplayPanel(), width).locator("svg").first.locator("text")
        assert {"training batch", "validation"} <= set(words.all_text_contents())


def test_the_replay_opens_beside_a_text_that_the_model_had_just_written() -> None:
    numbers = panels.ReplayPanel().numbers()
    assert 0 <= numbers["steps"] - numbers["steps before the sample"] < 5
    assert 0 <= numbers["steps"] - numbers["steps before it"] < 5


def test_a_validation_stands_beside_the_training_loss_of_its_own_step(
    show: Callable[..., Page],
) -> None:
    curve = panels.ReplayPanel().history["history"]
    for row in range(len(curve["step"])):
        numbers = panels.ReplayPanel(row=row).numbers()
        then = numbers["steps before it"]
        batches = sorted(
            zip(curve["step"], curve["loss"], strict=True), key=lambda b: abs(b[0] - then)
        )
        nearest, many = batches[0], int(numbers["batches in it"])
        place = curve["step"].index(nearest[0])
        aside = min(2, place, len(curve["step"]) - 1 - place)  # as many before as after
        around = curve["loss"][place - aside : place + aside + 1]
        assert many == len(around) == 2 * aside + 1
        assert numbers["training loss then"] == pytest.approx(sum(around) / many)
        assert abs(nearest[0] - then) <= 0.025 * then
    readout = show(panels.ReplayPanel(row=90)).locator(".gp-readout")
    expect(readout).to_contain_text(
        "Validation, last after 300 steps: 2.22; training then: 2.16 (mean of 5 recorded batches)"
    )


@pytest.mark.parametrize("loss", [710.0, 1e6, 1e300, 1.7e308])
@pytest.mark.parametrize("log_steps", [True, False])
def test_a_huge_loss_is_shown_like_any_other(
    show: Callable[..., Page], compute: Compute, loss: float, log_steps: bool
) -> None:
    run = broken(lambda run: run["history"]["loss"].__setitem__(2, loss))
    run["validation"]["loss"][1] = loss
    panel = panels.ReplayPanel(history=run, row=2, log_steps=log_steps)
    assert panel.numbers()["choices"] == float("inf")
    assert compute(panels.ReplayPanel, [panel.state()]) == [panel.numbers()]
    page = show(panel, PLACES[1])
    expect(page.locator(".gp-readout")).to_contain_text("After 10 steps and 640 bytes")
    drawing = page.locator("svg").first.evaluate("e => e.outerHTML")
    assert "NaN" not in drawing
    assert "Infinity" not in drawing
    frame = page.locator("svg").first.bounding_box()
    assert frame is not None
    for word in page.locator("svg").first.locator("text").all():
        box = word.bounding_box()
        assert box is not None
        assert frame["x"] - 1 <= box["x"] <= frame["x"] + frame["width"] + 1 - box["width"]


def test_a_jump_shows_the_text_that_was_written_there_as_it_is(
    show: Callable[[panels.Panel], Page],
) -> None:
    page = show(panels.ReplayPanel(history=RUN))
    text = page.get_by_role("region", name="Text of the model")
    expect(text).to_have_text("the the")
    page.get_by_role("button", name="0", exact=True).click()
    expect(text).to_have_text("·<b>$x$</b>")
    expect(page.locator(".gp-readout")).to_contain_text("After 1 step and 64 bytes")


def broken(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    run = copy.deepcopy(RUN)
    change(run)
    return run


@pytest.mark.parametrize(
    ("run", "what"),
    [
        ([], "lacks a part"),
        (broken(lambda run: run["history"].pop("loss")), "lacks a part.*loss"),
        (broken(lambda run: run["history"]["loss"].pop()), "one length.*'history'"),
        (broken(lambda run: run["validation"].update(step=[], loss=[])), "'validation'"),
        (broken(lambda run: run["samples"].pop(0)), "before the second step in 'samples'"),
        (broken(lambda run: run["samples"].reverse()), "rising steps in 'samples'"),
        (broken(lambda run: run["samples"][0].update(text=3)), "texts"),
        (broken(lambda run: run["history"].update(loss=[1, 2, 3, float("nan")])), "finite"),
        (broken(lambda run: run["history"].update(step=[0, 1, 2, "3"])), "finite"),
        ({**RUN, "history": {name: [1] for name in replay.COLUMNS}}, "2 to 200 rows"),
    ],
)
def test_a_run_that_is_not_whole_is_refused_by_what_it_lacks(run: Any, what: str) -> None:
    with pytest.raises(traitlets.TraitError, match=f"history .*{what}"):
        panels.ReplayPanel(history=run)


def test_next_is_the_token_after_the_text_also_when_the_model_wrote_it(
    show: Callable[[panels.Panel], Page],
) -> None:
    page = show(panels.PlaygroundPanel(prompt="x" * 240, temperature=1, top_p=1, length=20, seed=4))
    readout, text = page.locator(".gp-readout"), "x" * 240
    for ending in ("Write adds", "a second"):
        expect(readout).to_contain_text(ending, timeout=60_000)
        expect(readout).to_contain_text("The next token: entropy")
        text = page.locator(".gp-paper").text_content() or ""
        expected = sampling.trace(page_model().next_logits(list(text.encode())[-256:])).raw
        row = page.locator(".gp-text tbody tr").first.text_content() or ""
        assert row.endswith(f"{expected.max():.3f}" * 3)
        page.get_by_role("button", name="Write").click()
    assert len(text) > 256 - 20


def test_nothing_can_be_written_before_the_model_is_there(
    show: Callable[[panels.Panel], Page],
) -> None:
    page = show(panels.PlaygroundPanel())
    late = """(el) => {
        const answers = [];
        const state = { prompt: "So", temperature: 1, top_k: 0, top_p: 1, seed: 1, length: 10 };
        const values = { ...state, look: 251, initial: state };
        const model = {
            get: (name) => values[name], set: () => 0, save_changes: () => 0, off: () => 0,
            on: (event, handler) => event === "msg:custom" && answers.push(handler),
            send: () => (globalThis.come = () => answers[0]({ weights: gptlibWeights })),
        };
        const text = gptlibPanels.playground;
        const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
        import(url).then(({ default: panel }) => panel.render({ model, el }));
    }"""
    panel = page.locator(".gptlib-panel")
    panel.evaluate(late)
    expect(page.locator(".gp-readout")).to_contain_text("Waiting for the model")
    write = page.get_by_role("button", name="Write")
    expect(write).to_be_disabled()
    page.evaluate("come()")
    expect(write).to_be_enabled()


def test_the_keyboard_stays_in_the_panel_and_the_sliders_end_means_next(
    show: Callable[[panels.Panel], Page],
) -> None:
    prompt = "".join(chr(33 + 37 * i % 90) for i in range(250))  # slow, once past the window
    page = show(panels.PlaygroundPanel(prompt=prompt, length=30))
    readout, slider = page.locator(".gp-readout"), page.get_by_label("show token")
    page.get_by_role("button", name="Write").press("Enter")
    expect(page.get_by_role("button", name="Stop")).to_be_focused()
    expect(readout).to_contain_text("Token")
    expect(readout).to_have_attribute("aria-live", "off")
    page.get_by_role("button", name="Stop").press("Enter")
    expect(page.get_by_role("button", name="Write")).to_be_focused()
    expect(readout).to_contain_text("The next token")
    slider.press("Home")
    expect(readout).to_contain_text("Token 1:")
    slider.press("End")
    expect(readout).to_contain_text("The next token")
    assert slider.get_attribute("aria-valuetext") == "next"
    page.get_by_role("button", name="Write").click()
    expect(readout).to_contain_text("reads the last 256 bytes", timeout=60_000)
    expect(readout).to_contain_text("a second", timeout=60_000)
    expect(readout).to_contain_text("The next token")  # it has stayed there


def test_line_ends_can_be_clicked(show: Callable[[panels.Panel], Page]) -> None:
    page = show(panels.PlaygroundPanel(length=100))
    readout = page.locator(".gp-readout")
    page.get_by_role("button", name="Write").click()
    expect(readout).to_contain_text("a second", timeout=60_000)
    page.locator(".gp-return").first.click()
    expect(readout).to_contain_text("Token")
    assert page.locator(".gp-here").text_content() == "\n"
    heard = page.get_by_label("show token").get_attribute("aria-valuetext") or ""
    assert heard.endswith("of 100, line end")


def test_a_long_prompt_that_is_pasted_and_changed_at_once_ends_with_the_last(
    show: Callable[[panels.Panel], Page],
) -> None:
    page = show(panels.PlaygroundPanel(prompt="So"))
    prompt, readout = page.get_by_label("prompt"), page.locator(".gp-readout")
    first = readout.text_content() or ""
    assert first.startswith("The next token")
    for before in ("y" * 300, "", "z" * 256):
        prompt.fill(before)
        prompt.fill("So")
        page.wait_for_timeout(400)
        expect(readout).to_have_text(first)


def test_what_the_playground_has_read_before_changes_nothing_it_writes(
    show: Callable[[panels.Panel], Page],
) -> None:
    page = show(panels.PlaygroundPanel(prompt="So", length=30, seed=7))
    prompt, readout = page.get_by_label("prompt"), page.locator(".gp-readout")
    long = "x" * 250 + "So"  # its continuation passes the window, so the cache is read anew
    written: dict[str, set[str]] = {}
    for text in ("So", "Sober", "So", "So it", long, long, "So"):
        prompt.fill(text)
        page.get_by_role("button", name="Write").click()
        expect(readout).to_contain_text("a second", timeout=60_000)
        written.setdefault(text, set()).add(page.locator(".gp-paper").text_content() or "")
    assert [len(texts) for texts in written.values()] == [1] * 4
    assert len(set.union(*written.values())) == 4


@pytest.mark.parametrize("width", PLACES)
@pytest.mark.parametrize(
    ("dial", "written"),
    [
        ("temperature", "temperature 0.80"),
        ("top-k", "top-k all"),
        ("top-p", "top-p 0.95"),
        ("seed", "seed 7"),
        ("length", "length 20"),
    ],
)
def test_the_playground_says_that_its_text_is_older_than_its_dials(
    show: Callable[..., Page], dial: str, written: str, width: int
) -> None:
    page = show(panels.PlaygroundPanel(length=20, seed=7), width)
    panel, readout = page.locator(".gptlib-panel"), page.locator(".gp-readout")
    age = page.locator(".gp-age[role=status]")
    height = panel.evaluate("e => e.offsetHeight")
    expect(age).to_have_text("Nothing is written yet.")
    page.get_by_role("button", name="Write").click()
    expect(readout).to_contain_text("a second", timeout=60_000)
    now = "Written with temperature 0.80, top-k all, top-p 0.95, seed 7, length 20."
    expect(age).to_have_text(now)
    page.get_by_label("show token").press("Home")
    expect(readout).to_contain_text("Token 1: entropy")
    control = page.get_by_role("slider", name=dial)
    control.press("ArrowRight")
    old = f"This text is older than the dials: written with {written}. Write makes a new one."
    expect(age).to_have_text(old)
    expect(readout).to_contain_text("Token 1 by the new dials: entropy")
    assert panel.evaluate("e => e.offsetHeight") == height
    control.press("ArrowLeft")
    expect(age).to_have_text(now)
    expect(readout).to_contain_text("Token 1: entropy")
    control.press("ArrowRight")
    page.get_by_role("button", name="Write").click()
    expect(readout).to_contain_text("a second", timeout=60_000)
    expect(age).to_contain_text("Written with")
    assert written not in (age.text_content() or "")


@pytest.mark.parametrize("width", PLACES)
@pytest.mark.parametrize("panel", [panels.PlaygroundPanel(), panels.AttentionPanel()])
def test_a_bar_has_more_room_than_its_name(
    show: Callable[..., Page], panel: panels.Panel, width: int
) -> None:
    page = show(panel, width)
    bar, name = (page.locator(f".gp-bar{part}").first.bounding_box() for part in ("", "-label"))
    assert bar is not None
    assert name is not None
    assert bar["width"] > 1.5 * name["width"]


# Of each letter beside the matrix: its size, and where its signs are drawn.
LETTERS = """picture => [...picture.querySelectorAll(".gp-byte")].map(letter => {
    const { x, y, width, height } = letter.getBoundingClientRect();
    return { size: parseFloat(getComputedStyle(letter).fontSize), x, y, width, height };
})"""


def apart(a: dict[str, float], b: dict[str, float]) -> bool:
    """Say whether two boxes share at most a hair's breadth."""
    beside = (a["x"] + a["width"] <= b["x"] + 0.3, b["x"] + b["width"] <= a["x"] + 0.3)
    above = (a["y"] + a["height"] <= b["y"] + 0.3, b["y"] + b["height"] <= a["y"] + 0.3)
    return any(beside + above)


@pytest.mark.parametrize("width", PLACES)
@pytest.mark.parametrize("text", ["W", *("gW" * n for n in (5, 12, 13, 14)), "W" * 40, "é" * 20])
def test_attentions_letters_can_be_read_and_clicked_at_every_length(
    show: Callable[..., Page], text: str, width: int
) -> None:
    page = show(panels.AttentionPanel(text=text, position=1), width)
    picture, slider = page.locator("svg"), page.get_by_label("from letter")
    letters, T = picture.evaluate(LETTERS), len(text.encode())
    assert len(letters) == 2 * T
    assert all(letter["size"] >= 9 for letter in letters)
    assert all(apart(a, b) for i, a in enumerate(letters) for b in letters[:i])
    frame = picture.locator(".gp-frame").bounding_box()
    assert frame is not None
    for place in {T, (T + 1) // 2, 1}:
        top, left = letters[2 * place - 2], letters[2 * place - 1]
        inside = {"x": frame["x"], "width": frame["width"] / 3, "y": left["y"], "height": 0}
        inside["height"] = left["height"]
        for box in (top, left, inside):
            slider.fill("1" if place > 1 else str(T))
            page.evaluate(NEXT_FRAME)
            page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            expect(slider).to_have_js_property("value", str(place))


def test_attention_reads_as_much_as_its_field_takes_and_says_how_much_that_is(
    show: Callable[..., Page],
) -> None:
    page = show(panels.AttentionPanel())
    field = page.get_by_label("text", exact=True)
    most = attention.AttentionPanel.text.most
    assert attention.AttentionPanel.position.max == most == attention.MOST
    expect(page.get_by_role("status")).to_have_text(f"up to {most} bytes")
    for sign in ("x", "é", "🙂"):
        field.fill(sign * most)
        fit = most // len(sign.encode())
        expect(page.locator(".gp-text tbody tr")).to_have_count(most)
        assert field.input_value() == sign * fit
        assert panels.AttentionPanel(text=sign * fit).numbers()[f"weight on {most}"] >= 0
        with pytest.raises(traitlets.TraitError, match=f"text must .*{most}"):
            panels.AttentionPanel(text=sign * (fit + 1))


def test_a_slider_over_letters_names_the_letter(show: Callable[..., Page]) -> None:
    page = show(panels.AttentionPanel(text="o \té\n", position=1))
    slider = page.get_by_label("from letter")
    heard = []
    for _ in range(6):
        heard.append(slider.get_attribute("aria-valuetext"))
        slider.press("ArrowRight")
        page.evaluate(NEXT_FRAME)
    assert heard == ["1, o", "2, space", "3, byte 9", "4, byte C3", "5, byte A9", "6, line end"]
    page = show(panels.CachePanel(prompt_length=2, new_tokens=3, step=1))
    step = page.get_by_role("slider", name="step")
    heard = []
    for _ in range(3):
        heard.append(step.get_attribute("aria-valuetext"))
        step.press("ArrowRight")
        page.evaluate(NEXT_FRAME)
    assert heard == [
        "1, reads the prompt, writes space",
        "2, reads space, writes b",
        "3, reads b, writes e",
    ]


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_field_says_how_much_of_a_text_it_left_out(name: str, show: Callable[..., Page]) -> None:
    kind = getattr(panels, name)
    texts = {name: trait for name, trait in vars(kind).items() if isinstance(trait, Text)}
    page = show(kind(**dict.fromkeys(texts, "ab")))
    fields = page.locator("input[type=text], textarea")
    assert fields.count() == len(texts)
    for field, trait in zip(fields.all(), texts.values(), strict=True):
        note = page.locator(f"[id='{field.get_attribute('aria-describedby')}'][role=status]")
        expect(note).to_contain_text(f"up to {trait.most}")
        field.press("Home")
        field.press("ArrowRight")
        page.keyboard.insert_text("x" * 2000)
        expect(note).to_contain_text(f"{2002 - trait.most:,} characters left out")
        assert field.input_value() == "a" + "x" * (trait.most - 2) + "b"  # what was there stays
        assert field.evaluate("e => e.selectionStart") == trait.most - 1
        page.keyboard.insert_text("y")
        expect(note).to_contain_text("1 character left out")
        field.press("Backspace")
        expect(note).to_contain_text(f"up to {trait.most}")
        page.keyboard.insert_text("yy")
        expect(note).to_contain_text("1 character left out")
        page.get_by_role("button", name="Reset").click()
        expect(note).to_contain_text(f"up to {trait.most}")
        assert field.input_value() == "ab"


MERGED = [
    *["", " ", "a", panels.MergesPanel().text, "don't  stop\n\n", "mississippi " * 10],
    *["aaaaaaaaaaaaa", "🙂🙂 漢字 é", "\x85\ufeff \u3000x", "1604 + 23 = 1627", "<b>&amp;</b>"],
]


@pytest.mark.parametrize("name", ["gpt2", "shakespeare"])
def test_the_last_merge_of_the_panel_leaves_what_byte_pairs_makes_of_the_same_list(
    name: str, compute: Compute
) -> None:
    merges_, letters = merges.stored(name)
    states = [panels.MergesPanel(text=t, merges=name, step=479).state() for t in MERGED]
    for text, shown in zip(MERGED, compute(panels.MergesPanel, states), strict=True):
        ids = byte_pairs.encode(text, merges_, letters)
        assert [shown[f"token {i}"] for i in range(1, len(ids) + 1)] == ids
        assert (shown["tokens"], shown["bytes"]) == (len(ids), len(text.encode()))


def test_the_panel_holds_the_beginning_of_gpt2s_list_and_what_shakespeare_teaches() -> None:
    of_gpt2, letters = merges.stored("gpt2")
    assert of_gpt2 == list(byte_pairs.gpt2()[0][:20_000])
    assert letters == byte_pairs.gpt2()[1]
    learned, letters = merges.stored("shakespeare")
    text = corpus.shakespeare()
    assert learned == byte_pairs.train(text[: int(0.9 * len(text))], 1000)
    assert letters == byte_pairs.PLAIN


def test_the_first_text_of_the_panel_ends_as_in_gpt2() -> None:
    panel = panels.MergesPanel(step=479)
    ids = gpt2_tokenizer().encode(panel.text)
    assert [panel.numbers()[f"token {i}"] for i in range(1, len(ids) + 1)] == ids
    assert panel.numbers()["tokens"] == len(ids)


def test_merges_are_stepped_played_and_stopped(show: Callable[..., Page]) -> None:
    page = show(panels.MergesPanel(text="she sells", step=1))
    readout, play = page.locator(".gp-readout"), page.get_by_role("button", name="Play")
    expect(readout).to_contain_text("After 1 of 7 merges: 8 tokens for 9 bytes")
    page.get_by_role("button", name="Next").click()
    expect(readout).to_contain_text("After 2 of 7")
    for _ in range(3):
        page.get_by_role("button", name="Back").press("Enter")
    expect(readout).to_contain_text("After 0 of 7")
    play.press("Enter")
    expect(page.get_by_role("button", name="Stop")).to_be_focused()
    expect(readout).to_contain_text("After all 7 merges", timeout=10_000)
    expect(play).to_be_focused()  # its name again
    play.click()
    expect(readout).to_contain_text("After 1 of 7")  # from the beginning
    page.get_by_role("button", name="To the end").click()
    expect(readout).to_contain_text("No other pair is on the list")
    expect(play).to_be_visible()


def test_a_text_in_merges_is_shown_with_its_spaces_and_never_read_as_markup(
    show: Callable[..., Page],
) -> None:
    page = show(panels.MergesPanel(text="<b>$x$</b> é", step=0))
    tokens = page.get_by_role("region", name="The text in tokens")
    expect(tokens).to_have_text("<b>$x$</b>␣c3a9")
    assert tokens.locator("b").count() == 0
    page.get_by_role("button", name="To the end").click()
    expect(tokens).to_contain_text("é2634")


def test_the_chances_of_the_page_are_those_of_the_ladders_tables(compute: Compute) -> None:
    train, _ = ladder.texts()
    frequencies, after = ladder.table(train, 0), ladder.table(train, 1)
    for byte in range(256):
        assert np.array_equal(pairs.chances("pairs", byte), after[byte])
        assert np.array_equal(pairs.chances("frequencies", byte), frequencies)
    text = "Zounds, that's 4 €!\n"
    for table in ("pairs", "frequencies"):
        (shown,) = compute(panels.PairsPanel, [panels.PairsPanel(text=text, table=table).state()])
        pasts = [
            frequencies,
            *(after[b] if table == "pairs" else frequencies for b in text.encode()),
        ]
        paid = [-np.log(p[b]) for p, b in zip(pasts, text.encode(), strict=False)]
        assert [shown[f"surprise {i}"] for i in range(1, len(paid) + 1)] == pytest.approx(paid)
        assert shown["nats in all"] == pytest.approx(sum(paid))
        assert shown["perplexity"] == pytest.approx(np.exp(np.mean(paid)))
        assert shown["chance 1"] == pytest.approx(pasts[-1].max(), rel=1e-12)


def test_the_rolls_of_the_page_hit_a_letter_as_often_as_it_is_likely(compute: Compute) -> None:
    states = [panels.PairsPanel(text="th", roll=roll).state() for roll in range(2000)]
    shown = compute(panels.PairsPanel, states)
    assert shown[::100] == [panels.PairsPanel(**state).numbers() for state in states[::100]]
    hit = np.array([numbers["letter drawn"] for numbers in shown])
    for letter, chance in ((shown[0][f"letter {i}"], shown[0][f"chance {i}"]) for i in (1, 2, 3)):
        assert abs(np.mean(hit == letter) - chance) < 4 * np.sqrt(chance / len(hit))


def test_a_number_past_all_letters_draws_none() -> None:
    p = pairs.chances("pairs", ord("q"))
    ranked = sorted(pairs.stored().letters, key=lambda letter: (-p[letter], letter))
    assert pairs.drawn(p, ranked, 0.0) == ord("u")
    assert pairs.drawn(p, ranked, p[ranked[0]]) == ranked[1]  # a piece ends before its end
    assert pairs.drawn(p, ranked, 1 - 2**-53) == -1


def test_letters_are_rolled_for_and_added_until_the_field_is_full(
    show: Callable[..., Page],
) -> None:
    page = show(panels.PairsPanel(text="q", roll=0))
    field, readout = page.get_by_label("text", exact=True), page.locator(".gp-readout")
    add, ten = (page.get_by_role("button", name=name) for name in ("Add the letter", "Add ten"))
    expect(readout).to_contain_text("0.2664 falls on “u”")
    page.get_by_role("button", name="Roll").press("Enter")
    expect(readout).to_contain_text("The number 0.6271")
    expect(field).to_have_value("q")
    add.click()
    expect(field).to_have_value("qu")
    expect(readout).to_contain_text("The number 0.7343")
    for many in (12, 22):
        ten.press("Enter")
        expect(readout).to_contain_text(f"for each of {many} bytes")
    alone = panels.PairsPanel(text="qu", roll=2)
    for _ in range(20):
        drawn = chr(int(alone.numbers()["letter drawn"]))
        alone.text, alone.roll = alone.text + drawn, alone.roll + 1
    expect(field).to_have_value(alone.text)
    for _ in range(6):
        ten.press("Enter")
    expect(readout).to_contain_text("for each of 80 bytes")
    for button in (add, ten):
        expect(button).to_be_disabled()


def test_the_bill_shows_a_text_with_its_spaces_and_never_reads_it_as_markup(
    show: Callable[..., Page],
) -> None:
    page = show(panels.PairsPanel(text="<b> $x$\n</b>é"))
    bill = page.get_by_role("region", name="The bill")
    signs = bill.locator("> span").evaluate_all("all => all.map(e => e.firstChild.textContent)")
    assert "".join(signs) == "<b>␣$x$⏎</b>c3a9"
    assert bill.locator("b").count() == 0
    page.get_by_label("text", exact=True).fill("")
    expect(page.locator(".gp-readout")).to_contain_text("No text, no bill.")
