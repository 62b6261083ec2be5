"""What is special to single panels: the numbers of their scripts against gptlib itself."""

import copy
import random
import runpy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import traitlets
from conftest import ROOT
from playwright.sync_api import Browser, Page, expect

from gptlib import GPT, KVCache, accounting, generate, panels, sampling
from gptlib.config import PRESETS, GPTConfig
from gptlib.panels import depth, gelu, kv_cache, ledger, replay
from gptlib.panels.base import page_model

pytestmark = pytest.mark.browser

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


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[[panels.Panel], Page]]:
    """Return the function that opens a panel as the book does."""
    page = browser.new_page()
    book = runpy.run_path(str(ROOT / "book" / "_ext" / "panels.py"))

    def show(panel: panels.Panel) -> Page:
        page.set_content(panel.twin())
        if panel.needs_weights:
            page.add_script_tag(content=book["weights_script"]())
        name = panel.script.rpartition("/")[2].removesuffix(".js")
        page.add_script_tag(content=book["source_script"](name))
        page.add_script_tag(path=ROOT / "book" / "_ext" / "panels_runtime.js")
        page.wait_for_selector("[data-mounted=true]")
        return page

    yield show
    page.close()


@pytest.mark.parametrize("name", [kind.__name__ for kind in panels.Panel.__subclasses__()])
def test_no_slider_leaves_the_range_of_its_trait(
    name: str, show: Callable[[panels.Panel], Page]
) -> None:
    panel = getattr(panels, name)()
    sliders = show(panel).locator("input[type=range]")
    for slider in sliders.all():
        trait = panel.traits()[slider.get_attribute("name")]
        low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
        assert trait.min == low <= high <= trait.max, trait.name
        assert low < high or slider.is_disabled(), trait.name  # no text was written yet


def test_the_ledger_counts_every_preset_and_a_hundred_machines_as_accounting_does(
    compute: Compute,
) -> None:
    rng = random.Random(0)
    machines = [GPTConfig(), *map(GPTConfig.preset, PRESETS)]
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
