"""The command that counts: `gptlib account`."""

from __future__ import annotations

import json as json_format
from typing import Annotated

import tyro

from gptlib import accounting
from gptlib._helpers.numbers import integer
from gptlib.accounting import report
from gptlib.config import GPTConfig


def account(
    model: Annotated[str | None, tyro.conf.Positional] = None,
    compare: tuple[str, str] | None = None,
    context: int | None = None,
    dtype: accounting.Dtype = "bf16",
    batch: int = 1,
    machine: str = "a100",
    training_tokens: float | None = None,
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Count a model's parameters, bytes, cache and FLOPs from its configuration alone.

    Args:
        model: A preset such as gpt2-small, a config.json, a folder that holds one, a .gguf file, or
            "smollm2".
        compare: Two models, put side by side.
        context: Tokens in the cache and the window; by default what the model promises.
        dtype: Of the weights; the cache is bf16 where they are int8 or int4.
        batch: Texts side by side.
        machine: Whose limits apply: v100, a100, h100, h200, b200, mi300x, tpu-v5e or rtx4090.
        training_tokens: Tokens the model was trained on, for their ratio to its parameters.
        json: Print every figure as JSON instead of a table.
    """
    if (model is None) == (compare is None):
        raise ValueError("name one model, or two after --compare")
    integer("batch", batch, 1)
    if context is not None:
        integer("context", context, 1)
    on = accounting.accelerator(machine)
    names = compare or (str(model),)
    accounts = [accounting.account(_described(name)) for name in names]
    contexts = [context or acc.shape.context_length for acc in accounts]
    if compare is not None and not json:
        pair, lengths = (accounts[0], accounts[1]), (contexts[0], contexts[1])
        print(report.compare(compare, pair, on, lengths, dtype, batch, training_tokens))
        return
    found = [
        accounting.assess(
            acc,
            on,
            context=S,
            dtype=dtype,
            batch_size=batch,
            training_tokens=training_tokens,
        )
        for acc, S in zip(accounts, contexts, strict=True)
    ]
    if json:
        figures = [
            {"name": name, **report.as_dict(acc, on, S, dtype, batch, findings)}
            for name, acc, S, findings in zip(names, accounts, contexts, found, strict=True)
        ]
        print(json_format.dumps(figures if compare else figures[0], indent=2))
    else:
        print(report.table(names[0], accounts[0], on, contexts[0], dtype, batch, found[0]))


def _described(name: str) -> str | GPTConfig:
    """Return the configuration that a GGUF file holds, and any other name as it is."""
    if name != "smollm2" and not name.endswith(".gguf"):
        return name
    from gptlib.storage import gguf  # noqa: PLC0415 (loads torch)

    return gguf.read_config(gguf.find() if name == "smollm2" else name)
