"""What chapter "Training" reads is what its experiment's script runs."""

import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest
import torch

TOOL = Path(__file__).resolve().parent.parent / "tools" / "experiment_training.py"


@pytest.fixture(scope="module")
def experiment() -> ModuleType:
    spec = importlib.util.spec_from_file_location(TOOL.stem, TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[TOOL.stem] = module  # where dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def test_every_case_is_stored_with_every_seed_and_all_its_looks(experiment: ModuleType) -> None:
    stored = json.loads(experiment.OUT.read_text(encoding="utf-8"))
    cases = [{k: v for k, v in run.items() if k != "seeds"} for run in stored["runs"]]
    assert cases == [asdict(case) for case in experiment.CASES]
    assert stored["about"]["steps"] == experiment.STEPS
    for run in stored["runs"]:
        assert [seed["seed"] for seed in run["seeds"]] == list(experiment.SEEDS)
        steps, every = (
            (experiment.SMALL_STEPS, experiment.SMALL_EVERY)
            if run["small_text"]
            else (experiment.STEPS, experiment.EVERY)
        )
        assert {len(seed["validation"]) for seed in run["seeds"]} == {steps // every + 1}


def test_the_experiments_momentum_is_a_mean_that_starts_at_zero(experiment: ModuleType) -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    start = model.weight.item()
    optimizer = experiment.by_hand(model, experiment.Case("momentum", 2.0))
    for gradient in (1.0, 3.0):
        model.weight.grad = torch.tensor([[gradient]])
        optimizer.step()
    first, second = 0.1, 0.9 * 0.1 + 0.1 * 3.0
    assert model.weight.item() == pytest.approx(start - 2.0 * (first + second))
