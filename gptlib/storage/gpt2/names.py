"""The names and the orientation of GPT-2's tensors, in OpenAI's files and in their descendants.

Hugging Face's files keep OpenAI's names and OpenAI's orientation: the four matrices of a block lie
as (inputs, outputs), because the original multiplied from the right. nanoGPT and minGPT kept the
names and turned the matrices. Which way a matrix lies is told by its layout, never by its shape: a
square one fits both ways and means something else (chapter "Real weights").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

Layout = Literal["huggingface", "nanogpt"]

# Our modules and theirs; "weight" and "bias" follow, for norms "scale" and "shift" on our side.
_TOP = {"tok_emb": "wte", "pos_emb": "wpe", "final_norm": "ln_f"}
_BLOCK = {
    "norm1": "ln_1",
    "attn.qkv": "attn.c_attn",
    "attn.out_proj": "attn.c_proj",
    "norm2": "ln_2",
    "ff.up": "mlp.c_fc",
    "ff.down": "mlp.c_proj",
}
_MATRICES = ("attn.qkv", "attn.out_proj", "ff.up", "ff.down")  # the ones that lie transposed
# The causal mask and its fill value, which old files store among the weights.
_BUFFER = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)$")
# minGPT's first version, with a Q, a K and a V of its own: "blocks.3.attn.query.weight".
_MINGPT = {"ln1": "ln_1", "ln2": "ln_2", "attn.proj": "attn.c_proj", "mlp.0": "mlp.c_fc"}
_MINGPT |= {"mlp.2": "mlp.c_proj"}


def their_name(ours: str) -> str:
    """Return OpenAI's name of one of our parameters, as in "blocks.0.ff.up.weight"."""
    module, kind = ours.rsplit(".", 1)
    kind = {"scale": "weight", "shift": "bias"}.get(kind, kind)
    if module == "head":
        return f"lm_head.{kind}"
    if module in _TOP:
        return f"{_TOP[module]}.{kind}"
    _, layer, part = module.split(".", 2)
    return f"h.{layer}.{_BLOCK[part]}.{kind}"


def is_transposed(ours: str) -> bool:
    """Say whether OpenAI's files hold this parameter of ours as (inputs, outputs)."""
    return ours.endswith(tuple(f"{part}.weight" for part in _MATRICES))


def renamed(source: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Bring every dialect to OpenAI's names, without prefixes and without the stored masks."""
    theirs = {}
    for name, value in source.items():
        short = name.removeprefix("_orig_mod.").removeprefix("transformer.")
        if short in theirs:
            raise ValueError(f"{short} occurs twice, with and without a prefix")
        if not _BUFFER.match(short):
            theirs[short] = value
    return _from_mingpt(theirs) if "tok_emb.weight" in theirs else theirs


def _from_mingpt(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename minGPT's first version, joining its Q, K and V into one."""
    theirs: dict[str, Tensor] = {}
    for name, value in state.items():
        if name == "pos_emb":
            theirs["wpe.weight"] = value[0]  # (1, T, C) -> (T, C)
        elif not name.startswith("blocks."):
            module, kind = name.rsplit(".", 1)
            module = {"tok_emb": "wte", "head": "lm_head"}.get(module, module)
            theirs[f"{module}.{kind}"] = value
        elif ".attn.query." in name:
            qkv = [state.get(name.replace("query", part)) for part in ("query", "key", "value")]
            found = [part for part in qkv if part is not None]
            if len(found) < 3:
                raise ValueError(f"the state dictionary has {name} without its key or value")
            _, layer, *_, kind = name.split(".")
            theirs[f"h.{layer}.attn.c_attn.{kind}"] = torch.cat(found)  # 3 x (C, C) -> (3C, C)
        elif not name.endswith(".attn.mask") and not re.search(r"attn\.(key|value)\.", name):
            _, layer, part = name.split(".", 2)
            module, kind = part.rsplit(".", 1)
            theirs[f"h.{layer}.{_MINGPT.get(module, module)}.{kind}"] = value
    return theirs
