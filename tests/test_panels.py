"""Every panel: its values are checked, its twin is whole, its script agrees with Python."""

import html
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import traitlets
from playwright.sync_api import Browser, Page

from gptlib.panels import AttentionPanel, base
from gptlib.panels.base import Number, Numbers, Panel, Text, Whole
from gptlib.panels.questions import QuestionsPanel

PANELS = Panel.__subclasses__()

# What must appear on the screen as it was typed, and never as markup.
WILD = [
    '"</script><script>x()</script>"',
    "$x$",
    'it\'s "so"',
    "🙂 é 漢",
    " ",
    "\n",
    "&amp;<b>",
    "",
]


def random_value(trait: Any, rng: np.random.Generator) -> Any:
    """Draw a value that a trait accepts, now and then the first or the last."""
    if isinstance(trait, Number | Whole) and rng.random() < 0.2:
        return [trait.min, trait.max][rng.integers(2)]
    if isinstance(trait, Numbers):
        return [round(float(v), 3) for v in rng.uniform(trait.min, trait.max, trait.size)]
    if isinstance(trait, Number):
        return round(float(rng.uniform(trait.min, trait.max)), 3)
    if isinstance(trait, Whole):
        return int(rng.integers(trait.min, trait.max, endpoint=True))
    if isinstance(trait, traitlets.Bool):
        return bool(rng.integers(2))
    if isinstance(trait, traitlets.Enum):
        return trait.values[rng.integers(len(trait.values))]
    if isinstance(trait, Text):
        return WILD[rng.integers(len(WILD))]
    raise TypeError(f"no random value for {trait!r}")


def random_states(kind: type[Panel], n: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    own = {name: vars(kind)[name] for name in kind.state_names()}
    recorded = {name for name, trait in own.items() if isinstance(trait, traitlets.Dict)}
    fixed = {name: getattr(kind(), name) for name in recorded}  # a run cannot be drawn
    if kind is QuestionsPanel:
        return [{"items": kind().items, "given": answers(rng)} for _ in range(n)]
    return [
        {name: fixed.get(name) or random_value(trait, rng) for name, trait in own.items()}
        for _ in range(n)
    ]


def answers(rng: np.random.Generator) -> list[str]:
    """Draw answers to the sample's two questions: a number, and one of two options."""
    numbers = ["12", " 12.0 ", "1,2", "12 %", "24/2", "−12", "1200%", *WILD]
    return [numbers[rng.integers(len(numbers))], ["", "0", "1"][rng.integers(3)]]


@pytest.fixture(params=PANELS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[Panel]:
    return request.param


@pytest.fixture
def blank(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def test_a_value_outside_its_range_is_refused_by_name(kind: type[Panel]) -> None:
    checked = 0
    for name in kind.state_names():
        trait = vars(kind)[name]
        if isinstance(trait, Number | Whole):
            wrong: list[Any] = [trait.min - 1, trait.max + 1, math.nan, True, "1", None]
        elif isinstance(trait, Numbers):
            wrong = [[], [math.nan] * trait.size, [trait.max + 1] * trait.size, "12345"]
        elif isinstance(trait, traitlets.Enum):
            wrong = ["no such choice", None]
        elif isinstance(trait, Text):
            wrong = ["x" * (trait.most + 1), 3, None]
        else:
            wrong = [3]
        for value in wrong:
            checked += 1
            with pytest.raises(traitlets.TraitError, match=name):
                kind(**{name: value})
    assert checked
    with pytest.raises(TypeError, match=f"{kind.__name__} has no size"):
        kind(size=3)


def test_the_twin_holds_the_state_and_a_fallback(kind: type[Panel]) -> None:
    panel = kind()
    bundle, _ = panel._repr_mimebundle_()
    twin = bundle["text/html"]
    state = re.search(r'data-state="([^"]*)"', twin)
    assert state is not None
    assert json.loads(html.unescape(state[1])) == panel.state()
    assert re.sub(r"<[^>]+>", " ", panel.fallback()).split()
    assert "0x" not in bundle["text/plain"]
    assert len(twin) < 40_000


def test_half_a_character_is_replaced() -> None:
    panel = AttentionPanel(text="a\ud83d b")
    assert panel.text == "a\ufffd b"
    assert panel.numbers()
    assert panel.twin().encode()


def test_wild_text_cannot_leave_the_twin(kind: type[Panel]) -> None:
    for state in random_states(kind, 20):
        twin = kind(**state).twin()
        assert "<script" not in twin
        assert 'class="gptlib-panel mathjax_ignore"' in twin


def test_a_script_asks_for_nothing_and_sets_no_markup(kind: type[Panel]) -> None:
    source = kind._esm.replace("http://www.w3.org/2000/svg", "")
    for word in ("http", "fetch(", "XMLHttpRequest", "innerHTML", "insertAdjacentHTML", "eval("):
        assert word not in source, word


@pytest.mark.browser
def test_the_page_computes_the_numbers_that_python_computes(kind: type[Panel], blank: Page) -> None:
    states = random_states(kind, 50)
    found = blank.evaluate(
        """async ([source, states, weights]) => {
            const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            const { default: panel } = await import(url);
            return states.map((state) => panel.compute(state, weights));
        }""",
        [kind._esm, states, base.packaged_weights() if kind.needs_weights else None],
    )
    # A model computes in float32, in another order here than there.
    close = {"rtol": 1e-3, "atol": 1e-4} if kind.needs_weights else {"rtol": 1e-6, "atol": 1e-9}
    for state, numbers in zip(states, found, strict=True):
        expected = kind(**state).numbers()
        assert list(numbers) == list(expected), state
        np.testing.assert_allclose(
            list(numbers.values()),
            list(expected.values()),
            **close,
            err_msg=str(state),
        )
