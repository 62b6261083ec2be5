"""What every room relies on: ranges beside their fields, ids at the door, a run's folder."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest

from gptlib._helpers import run_folder
from gptlib._helpers.ids import check_few, check_ids
from gptlib._helpers.numbers import Range, check_fields
from gptlib.config import GPTConfig


@dataclass(frozen=True)
class Fields:
    count: Annotated[int, Range(least=1, most=10_000)] = 1
    share: Annotated[float, Range(least=0, below=1)] = 0.0
    rate: Annotated[float, Range(above=0)] | None = None
    kind: Literal["a", "b"] = "a"
    on: bool = False

    def __post_init__(self):
        check_fields(self)


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("count", 0, ValueError, "count must be at least 1, got 0"),
        ("count", 10_001, ValueError, "count must be at most 10,000, got 10001"),
        ("count", 1.0, TypeError, "count must be an integer, got 1.0"),
        ("count", True, TypeError, "count must be an integer, got True"),
        ("count", None, TypeError, "count must be an integer, got None"),
        ("share", 1, ValueError, r"share must be in \[0, 1\), got 1.0"),
        ("share", np.nan, ValueError, r"share must be in \[0, 1\), got nan"),
        ("rate", 0, ValueError, "rate must be finite and above 0, got 0.0"),
        ("rate", np.float32("inf"), ValueError, "rate must be finite and above 0, got inf"),
        ("rate", 10**400, ValueError, "rate must be finite"),
        ("kind", "c", ValueError, "kind must be one of a, b; got 'c'"),
        ("on", 1, TypeError, "on must be True or False, got 1"),
    ],
)
def test_a_value_outside_the_range_beside_its_field_is_named(field, value, error, message):
    with pytest.raises(error, match=message):
        Fields(**{field: value})


def test_numpys_numbers_become_pythons():
    made = Fields(count=np.int64(3), share=np.float32(0.5), rate=np.float64(2))
    assert (made.count, made.share, made.rate) == (3, 0.5, 2.0)
    assert [type(made.count), type(made.share), type(made.rate)] == [int, float, float]
    assert Fields(rate=None).rate is None


@pytest.mark.parametrize("ids", [[], [-1], [50], [0] * 9, [3, 4]])
@pytest.mark.parametrize("start", [0, 7])
def test_few_ids_are_judged_as_many_are(tiny: GPTConfig, ids, start):
    said = []
    for check, given in ((check_few, ids), (check_ids, np.array([ids], dtype=int))):
        try:
            check(given, start, tiny)
            said.append("")
        except ValueError as error:
            said.append(str(error))
    assert said[0] == said[1]


def test_the_newest_checkpoint_is_the_one_with_the_most_steps(tmp_path):
    for name in ("step-9", "step-12", "step-00000010", "step-x", "step-13"):
        (tmp_path / name).mkdir()
        if name != "step-13":  # a folder without a model is no checkpoint
            (tmp_path / name / "config.json").write_text("{}")
    assert [path.name for path in run_folder.checkpoints(tmp_path)] == [
        "step-9",
        "step-00000010",
        "step-12",
    ]
    assert run_folder.newest(tmp_path).name == "step-12"
