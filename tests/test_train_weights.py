"""The packaged model can be made again by the command that its card names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gptlib import checkpoint

TOOL = Path(__file__).resolve().parent.parent / "tools" / "train_weights.py"


@pytest.mark.slow  # prepares the corpus and trains two steps in a process of its own
def test_two_steps_make_a_model_its_history_and_its_card(tmp_path: Path) -> None:
    out, run = tmp_path / "weights", tmp_path / "run"
    command = [sys.executable, TOOL, "--steps", "2", "--out", out, "--run", run]
    subprocess.run(command, check=True, capture_output=True)
    model, _ = checkpoint.load(out)
    assert model.cfg == checkpoint.packaged()[0].cfg
    made = json.loads((out / "history.json").read_text(encoding="utf-8"))
    kept = json.loads((checkpoint.PACKAGED / "history.json").read_text(encoding="utf-8"))
    assert made.keys() == kept.keys()
    assert made["history"]["step"] == [0, 1]
    assert "train_weights.py" in (out / "README.md").read_text(encoding="utf-8")
