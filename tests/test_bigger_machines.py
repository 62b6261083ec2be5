"""The estimates on `book/bigger_machines.md`, computed again."""

import re

import pytest

from gptlib import TrainConfig, account, accounting
from gptlib.config import GPTConfig
from gptlib.muon import POLYNOMIALS

cfg = GPTConfig.preset("gpt2-small")
acc = account(cfg)
P, L, C, V = acc.total, cfg.n_layers, cfg.emb_dim, cfg.vocab_size
M = L * 12 * C * C  # Q, K, V and the output projection: 4; up and down: 8
B, T = 8, 1024
FLOAT32 = 19.5e12  # operations per second, NVIDIA's A100 data sheet; no tensor cores


@pytest.fixture(scope="module")
def page(request):
    path = request.config.rootpath / "book" / "bigger_machines.md"
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", path.read_text(encoding="utf-8"))  # as it reads


def test_the_memory_of_a_step(page):
    rows = {
        "weights and gradients": 8 * P,
        "Muon's one number": 4 * M + 8 * (P - M),
        "activations of the blocks": 44 * B * T * L * C,
        "scores, in bfloat16": 10 * B * T * V,
    }
    for start, expected in rows.items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {start}")]
        assert line.endswith(f"| {expected / 1e9:.2f} GB |")
    assert f"**{sum(rows.values()) / 1e9:.1f} GB**" in page


def test_the_time_of_a_step(page):
    per_token = acc.flops_per_token(T, training=True)
    assert f"{per_token / 1e9:.2f} GFLOP" in page
    flops = 480 * T * per_token
    a100 = accounting.accelerator("a100")
    assert f"{480 * T:,} tokens and {flops / 1e12:.0f} TFLOP" in page
    assert f"{flops / (0.4 * a100.flops):.1f} seconds on an A100" in page
    assert f"({a100.flops / 1e12:.0f} TFLOP/s" in page


def test_the_cost_of_muon(page):
    cube = 2 * C**3
    squares = 3 + 4 * (len(POLYNOMIALS) - 2) + 2  # products of (C, C) matrices per Gram matrix
    touching_x = 2 * (4 + 2 * 4)  # X^T X and X Q: four square matrices and two four times as long
    flops = L * (6 * squares + touching_x) * cube / TrainConfig().muon_every
    assert f"Muon adds {flops / 1e12:.2f} TFLOP" in page
    seconds = flops / (0.4 * FLOAT32)
    assert f"an A100 reaches {FLOAT32 / 1e12:g} TFLOP/s" in page
    assert f"too, that is {seconds:.2f} seconds" in page
    a100 = accounting.accelerator("a100")
    few = B * T * acc.flops_per_token(T, training=True) / (0.4 * a100.flops)
    assert f"Eight windows take {few:.2f} seconds" in page
    assert 0.9 < seconds / few < 1  # "nearly doubles the step"
    assert TrainConfig().muon_every == 2  # "half of the matrices have their turn"
