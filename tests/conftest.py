"""What every test may use: one tiny configuration, fixed seeds, and the installed Chromium."""

import os
import shutil

import pytest
import torch

from gptlib.config import GPTConfig


@pytest.fixture
def tiny() -> GPTConfig:
    """Return the one tiny configuration: 2 layers, 4 heads, 16 wide, 8 positions, 50 tokens."""
    return GPTConfig(
        vocab_size=50, context_length=8, emb_dim=16, n_heads=4, n_layers=2, drop_rate=0.0
    )


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Give every test the same random numbers, whichever tests ran before it."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of an installed Chromium or Chrome; skip without one, but fail in CI."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    for name in names:
        if path := shutil.which(name):
            return path
    reason = f"no browser found: looked for {', '.join(names)}; install Chromium to run this test"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
