"""Build a GPT from a folder of Llama, Qwen 2, Qwen 3, SmolLM3 or Mistral."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from gptlib.config import GPTConfig, parameter_shapes
from gptlib.model import GPT
from gptlib.storage.llama.names import their_names
from gptlib.storage.published import config_of, weights_at

_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def load(source: str | Path, *, dtype: torch.dtype | None = None) -> GPT:
    """Build a GPT from published weights, in evaluation mode.

    Files are mapped into memory; queries, keys and values are copied into one matrix each.

    Args:
        source: a folder with `config.json` and `model.safetensors` (also in shards), or a name on
            the Hugging Face hub, which needs a network the first time.
        dtype: of the parameters; by default that of the file.

    Raises:
        FileNotFoundError: nothing is there, or no `config.json`.
        ValueError: a pickle, a damaged file, a function that we do not compute, or tensors that are
            missing, unknown or misshapen; lists them by name.
    """
    where, theirs, about = weights_at(source)
    if about is None:
        raise FileNotFoundError(f"{where} has no config.json beside it, which says what it is")
    cfg = config_of(where, about, is_gpt2=False)
    theirs = {
        name: value for name, value in theirs.items() if not name.endswith("rotary_emb.inv_freq")
    }
    found = {value.dtype for value in theirs.values()}
    if len(found) != 1 or not found <= set(_DTYPES):
        kinds = ", ".join(sorted(map(str, found))) or "none"
        raise ValueError(
            f"{where} must hold tensors of one floating dtype, found {kinds}; quantised weights are"
            " read from GGUF files"
        )
    state = joined(theirs, cfg, where)
    if dtype is not None:
        state = {name: value.to(dtype) for name, value in state.items()}
    return GPT.from_state(cfg, state).eval()


def joined(theirs: Mapping[str, Tensor], cfg: GPTConfig, where: str | Path) -> dict[str, Tensor]:
    """Return their tensors under our names, Q, K and V joined; or list what does not fit."""
    heads = [(width, cfg.emb_dim) for width in cfg.qkv_dims]
    wrong, names = [], {}
    for ours, shape in parameter_shapes(cfg).items():
        names[ours] = their_names(ours)
        shapes = [rows[: len(shape)] for rows in heads] if "attn.qkv" in ours else [shape]
        for their, expected in zip(names[ours], shapes, strict=True):
            if their not in theirs:
                wrong.append(f"{their} is missing")
            elif tuple(theirs[their].shape) != expected:
                found = tuple(theirs[their].shape)
                wrong.append(f"{their} has shape {found}, expected {expected}")
    known = {their for several in names.values() for their in several}
    if cfg.tie_weights and "lm_head.weight" in theirs:
        known.add("lm_head.weight")
        table = theirs.get("model.embed_tokens.weight")
        if table is not None and not torch.equal(theirs["lm_head.weight"], table):
            wrong.append("lm_head.weight differs from the table, but the configuration ties them")
    wrong += [f"{name} is unknown" for name in theirs if name not in known]
    if wrong:
        more = f"; and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        raise ValueError(f"{where} does not fit the model: {'; '.join(wrong[:6])}{more}")
    return {
        ours: theirs[several[0]]
        if len(several) == 1
        else torch.cat([theirs[their] for their in several])
        for ours, several in names.items()
    }
