"""Every number on the errata page is recomputed here, or is a quotation of a source."""

import math
import re
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
import torch
from conftest import ROOT, Site
from torch import nn
from torch.nn import functional as F

from gptlib import GPT, GPTConfig
from gptlib.sampling import probabilities

PAGE = (ROOT / "book" / "errata.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))

# What is not a number of its own: quotations, code, links, citations and names.
NOT_COUNTED = (
    r"“[^”]*”",
    r"`[^`]*`",
    r"<a [^>]*>.*?</a>",
    r"GPT-2|Llama 3(?:\.2| 405B)?|float32|[AH]100|16-bit|Exercise \d|[dN]²",
)

GPT2 = GPTConfig.preset("gpt2-small")
C, LAYERS, T = GPT2.emb_dim, GPT2.n_layers, GPT2.context_length


def numbers(section: str) -> set[str]:
    """Return the numbers that a section states in its own voice."""
    for pattern in NOT_COUNTED:
        section = re.sub(pattern, " ", section, flags=re.DOTALL)
    return set(re.findall(r"−?\d+(?:,\d{3})*(?:\.\d+)?", section.replace("²", "")))


def count(cfg: GPTConfig) -> int:
    """Count the parameters of a model without allocating them."""
    with torch.device("meta"):
        return GPT(cfg).num_params()


def text(*integers: int) -> set[str]:
    return {f"{integer:,}" for integer in integers}


def layer_norm_example() -> set[str]:
    torch.manual_seed(123)
    batch = torch.randn(2, 5)
    rows = torch.relu(nn.Linear(5, 6)(batch))
    both = [rows.var(dim=-1, correction=correction) for correction in (1, 0)]
    return {f"{value:.4f}" for value in torch.cat(both).tolist()} | {"1"}


def bytes_of_124m() -> set[str]:
    untied, tied = count(GPTConfig()), count(GPTConfig(tie_weights=True))
    return text(untied, tied, 4 * untied, 4 * tied, 4) | {
        f"{4 * tied / 1e6:.2f}",
        f"{4 * tied / 2**20:.2f}",
        f"{4 * untied / 2**20:.2f}",
    }


def size_of_gpt2() -> set[str]:
    biases = LAYERS * 3 * C
    assert count(GPT2) == count(GPTConfig(tie_weights=True)) + biases
    return text(count(GPT2), biases, LAYERS, 3, C)


def deep_net_gradients(seed: int, shortcut: bool) -> list[float]:
    """Return the mean absolute weight gradient of source A's five layers, first layer first."""
    torch.manual_seed(seed)
    sizes = [3, 3, 3, 3, 3, 1]
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    x = torch.tensor([[1.0, 0.0, -1.0]])
    for layer in layers:
        y = F.gelu(layer(x), approximate="tanh")
        x = x + y if shortcut and x.shape == y.shape else y
    F.mse_loss(x, torch.zeros(1, 1)).backward()
    return [layer.weight.grad.abs().mean().item() for layer in layers]


def gradients_of_early_layers() -> set[str]:
    seeds = 400
    first, second, *_, last = deep_net_gradients(123, shortcut=False)
    plain, added = (
        median(g[-1] / g[0] for g in (deep_net_gradients(seed, cut) for seed in range(seeds)))
        for cut in (False, True)
    )
    assert first > second
    return {f"{first:.6f}", f"{second:.6f}", f"{last / first:.2f}", str(seeds)} | {
        f"{plain:.0f}",
        f"{added:.2f}",
    }


def softmax_near_a_tie() -> set[str]:
    logits = torch.tensor([0.1, 0.10000001])
    assert logits[0] < logits[1]
    assert logits[1] == torch.nextafter(logits[0], torch.tensor(1.0))
    probs = torch.softmax(logits, dim=-1)
    assert probs[0] == probs[1]
    assert logits.argmax() != probs.argmax()
    return {"0.1", "0.10000001"}


def gelu_slopes() -> set[str]:
    x = torch.linspace(-1, 0, 1_000_001, dtype=torch.float64)
    lowest, where = F.gelu(x, approximate="tanh").min(dim=0)
    far = torch.tensor(-5.0, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(F.gelu(far, approximate="tanh"), far)
    assert 0 < abs(slope) < 0.0001
    return {f"{x[where]:.4f}", f"{lowest:.5f}", "-5", "0.0001", "0"}


def random_at_the_start() -> set[str]:
    with torch.device("meta"):
        model = GPT(GPTConfig())
    norms = [part for part in model.modules() if type(part).__name__ == "LayerNorm"]
    fixed = sum(param.numel() for norm in norms for param in norm.parameters())
    return text(model.num_params(), fixed, len(norms), C)


def gelu_forms() -> set[str]:
    x = torch.linspace(-6, 6, 1_200_001, dtype=torch.float64)
    gap, where = (F.gelu(x) - F.gelu(x, approximate="tanh")).abs().max(dim=0)
    return {f"{gap:.6f}", f"{abs(x[where]):.2f}"}


def parameters_of_the_lesson() -> set[str]:
    total, norm, biases = count(GPT2), 2 * C, LAYERS * 4 * C
    assert total - norm == 124_438_272  # what the lesson states
    return text(total, norm, 2, C, LAYERS, 4, biases, total - biases)


def gradients_of_the_lesson() -> set[str]:
    def never_updated(width: int, layers: int, positions: int) -> int:
        return layers * (4 * width**2 + 2 * width) + positions * width

    def all_of_it(width: int, layers: int, positions: int, vocab: int) -> int:
        block = 4 * width**2 + 8 * width**2 + 5 * width + 2 * 2 * width  # ffn biases, two norms
        return (vocab + positions) * width + layers * block + 2 * width

    result = set()
    for width, layers, positions, vocab in [(C, LAYERS, T, GPT2.vocab_size), (128, 4, 64, 256)]:
        skipped = never_updated(width, layers, positions)
        total = all_of_it(width, layers, positions, vocab)
        result |= text(skipped, total) | {f"{100 * skipped / total:.2f}"}
    return result


def swapped_axes() -> set[str]:
    keys = np.zeros((2, 3, 4, 5))
    with pytest.raises(TypeError):
        keys.transpose(..., -2, -1)
    assert keys.swapaxes(-2, -1).shape == (2, 3, 5, 4)
    return set()


def temperature_zero() -> set[str]:
    logits = np.array([1.0, 3.0, 2.0])
    with np.errstate(all="ignore"):
        scaled = logits / 0
        assert np.isnan(np.exp(scaled - scaled.max())).all()
    assert probabilities(logits, temperature=0).tolist() == [0, 1, 0]
    return set()


def first_loss() -> set[str]:
    spread = 0.02**2 * 128 / 2
    return {f"{math.log(256):.3f}", f"{spread:.3f}", f"{math.log(256) + spread:.3f}"} | {
        "256",
        "0.02",
        "128",
        "2",
    }


def parameters_in_a_step() -> set[str]:
    unread = T - 1
    return text(unread, C, count(GPT2) - unread * C, count(GPT2))


def cache_of_llama() -> set[str]:
    layers, heads, kv_heads, head_dim, tokens = 126, 128, 8, 128, 131_072
    per_token = 2 * layers * kv_heads * head_dim * 2
    return text(layers, heads, kv_heads, 2, per_token, tokens, heads // kv_heads) | {
        f"{per_token * tokens / 1e9:.2f}"
    }


def h100() -> set[str]:
    return {"2.039", "3.35", f"{3.35 / 2.039:.2f}", "312", "989.4", f"{989.4 / 312:.2f}"}


def prompt_on_an_a100() -> set[str]:
    def parameters(seconds: float) -> str:
        return f"{seconds * 0.5 * 312e12 / (2 * 1000) / 1e9:.2f}"

    return {parameters(0.020), parameters(0.050), "312"}


def hours_on_one_card() -> set[str]:
    products = LAYERS * 12 * C**2 + GPT2.vocab_size * C  # blocks and head, multiply-adds
    attention = LAYERS * 2 * T * C  # scores and values
    forward = 2 * (products + attention)
    hours = {
        tokens: 3 * forward * tokens / (0.4 * 312e12) / 3600 for tokens in (1e9, 2e9, 1e10, 3e11)
    }
    assert 1.5 < hours[1e9] < hours[2e9] < 4  # "a few hours"
    return text(T, forward) | {"40", "312", f"{hours[1e10]:.1f}", "300", f"{hours[3e11]:.1f}"}


def exercises() -> set[str]:
    assert not hasattr(np, "erf")
    return set()


RECOMPUTED: dict[str, Callable[[], set[str]]] = {
    "The variance of the layer-norm example": layer_norm_example,
    "The bytes of “124M” parameters": bytes_of_124m,
    "The size of GPT-2": size_of_gpt2,
    "The gradients of early layers": gradients_of_early_layers,
    "Softmax and the greedy choice": softmax_near_a_tie,
    "Why GELU": gelu_slopes,
    "Which numbers are random at the start": random_at_the_start,
    "Loading OpenAI's weights into nanoGPT": gelu_forms,
    "The number of parameters": parameters_of_the_lesson,
    "“Your code computes every gradient”": gradients_of_the_lesson,
    "Swapping two axes in NumPy": swapped_axes,
    "Temperature zero": temperature_zero,
    "Where the loss starts": first_loss,
    "Parameters that join a step": parameters_in_a_step,
    "Llama 3 405B": cache_of_llama,
    "What the H100 brought": h100,
    "Reading a prompt on an A100": prompt_on_an_a100,
    "“A few hours on one card”": hours_on_one_card,
    "Two exercises": exercises,
}


@pytest.mark.parametrize("title", RECOMPUTED)
def test_the_numbers_of_an_erratum_come_out_again(title: str) -> None:
    expected = {number.replace("-", "−") for number in RECOMPUTED[title]()}
    assert numbers(SECTIONS[title]) == expected


def test_no_other_erratum_states_a_number() -> None:
    assert {title for title in SECTIONS if numbers(SECTIONS[title])} <= RECOMPUTED.keys()


# Where boxes of the chapters may link to: an entry may be added, and none may lose its name. These
# are the ids of the built page; a Markdown link drops an apostrophe: `#loading-openais-weights-…`.
ANCHORS = [
    "the-variance-of-the-layer-norm-example",
    "the-bytes-of-124m-parameters",
    "the-size-of-gpt-2",
    "the-gradients-of-early-layers",
    "softmax-and-the-greedy-choice",
    "why-gelu",
    "which-numbers-are-random-at-the-start",
    "where-dropout-acts",
    "loading-openai-s-weights-into-nanogpt",
    "tying",
    "the-number-of-parameters",
    "your-code-computes-every-gradient",
    "swapping-two-axes-in-numpy",
    "temperature-zero",
    "where-the-loss-starts",
    "parameters-that-join-a-step",
    "the-kv-cache",
    "llama-3-405b",
    "what-the-h100-brought",
    "reading-a-prompt-on-an-a100",
    "a-few-hours-on-one-card",
    "vanishing-gradients-without-residuals",
    "two-exercises",
    "where-this-book-treats-what-they-say",
]


def test_a_link_to_an_erratum_stays(site: Site) -> None:
    page = (site.html / "book" / "errata.html").read_text(encoding="utf-8")
    assert set(ANCHORS) <= set(re.findall(r' id="([^"]+)"', page))


def test_every_section_of_the_sources_leads_somewhere() -> None:
    _, _, tables = PAGE.partition("## Where this book treats what they say")
    rows = re.findall(r"^\| (?!source|---)(.+?) \| (.+?) \|$", tables, re.MULTILINE)
    assert len(rows) > 30
    assert [section for section, where in rows if "](" not in where] == ["6. What to take along"]
