"""Build a GPT from GPT-2 weights: a folder, a file, a state dictionary or a name on the hub."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from gptlib.config import PRESETS, GPTConfig, check_config, parameter_shapes
from gptlib.model import GPT
from gptlib.storage.gpt2.names import Layout, is_transposed, renamed, their_name
from gptlib.storage.published import config_of, weights_at

_DTYPES = tuple(f"torch.{kind}" for kind in ("bfloat16", "float16", "float32", "float64"))


def load(
    source: str | Path | Mapping[str, Tensor],
    cfg: GPTConfig | None = None,
    *,
    layout: Layout = "huggingface",
    dtype: torch.dtype | None = None,
) -> GPT:
    """Build a GPT from GPT-2 weights, in evaluation mode.

    Files are mapped into memory: a weight is read when it is first used, and nothing is held twice
    unless `dtype` asks for a conversion.

    Args:
        source: a folder with `config.json` and `model.safetensors` (also in shards), a
            `.safetensors` file, a state dictionary, or a name on the Hugging Face hub such as
            "openai-community/gpt2", which needs a network the first time.
        cfg: the configuration, where neither a `config.json` nor the four released sizes tell it.
        layout: "huggingface", or "nanogpt" for state dictionaries of nanoGPT and minGPT.
        dtype: of the parameters; by default that of the file.

    Raises:
        FileNotFoundError: nothing is there.
        TypeError: a state dictionary that holds something else than tensors, or a `cfg` that is no
            GPTConfig.
        ValueError: a pickle, a damaged file, or tensors that are missing, unknown or misshapen;
            lists them by name.
    """
    if layout not in get_args(Layout):
        raise ValueError(f"layout must be one of {get_args(Layout)}, got {layout!r}")
    if cfg is not None:
        check_config(cfg)
    where: str | Path = "the state dictionary"
    if dtype is not None and str(dtype) not in _DTYPES:
        raise ValueError(f"dtype must be None or one of {', '.join(_DTYPES)}; got {dtype!r}")
    if isinstance(source, Mapping):  # copied, so that training ours leaves theirs alone
        for name, value in source.items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{name} must be a tensor, got {type(value).__name__}")
        source = {str(name): value.detach().clone() for name, value in source.items()}
    else:
        where, source, about = weights_at(source)
        cfg = cfg or (None if about is None else config_of(where, about, is_gpt2=True))
    theirs = renamed(source)
    dtypes = sorted({str(value.dtype) for value in theirs.values()})
    if len(dtypes) != 1 or dtypes[0] not in _DTYPES:
        raise ValueError(
            f"{where} must hold tensors of one dtype out of {', '.join(_DTYPES)}; found"
            f" {', '.join(dtypes) or 'none'}"
        )
    cfg = cfg or _guess_config(theirs, layout)
    if not cfg.qkv_bias and any(
        value.any() for name, value in theirs.items() if name.endswith("attn.c_attn.bias")
    ):
        cfg = replace(cfg, qkv_bias=True)  # `export` writes zeros where there is none
    state = _ours(theirs, cfg, layout, where)
    if dtype is not None:
        state = {name: value.to(dtype) for name, value in state.items()}
    return GPT.from_state(cfg, state).eval()


def _guess_config(theirs: Mapping[str, Tensor], layout: Layout) -> GPTConfig:
    """Read the sizes off the tensors; the number of heads leaves no trace but in released sizes."""
    missing = [name for name in ("wte.weight", "wpe.weight") if name not in theirs]
    if missing:
        raise ValueError(f"these are not GPT-2 weights: {', '.join(missing)} missing")
    wte, wpe = theirs["wte.weight"].shape, theirs["wpe.weight"].shape
    if len(wte) != 2 or len(wpe) != 2:
        raise ValueError(
            f"wte.weight and wpe.weight must be tables, got {tuple(wte)}, {tuple(wpe)}"
        )
    (vocab_size, emb_dim), context_length = wte, wpe[0]
    layers = [int(name.split(".")[1]) for name in theirs if re.match(r"h\.\d+\.", name)]
    n_layers = max(layers, default=-1) + 1
    sizes = {(p["emb_dim"], p["n_layers"]): p for n, p in PRESETS.items() if n.startswith("gpt2")}
    if (emb_dim, n_layers) not in sizes:
        raise ValueError(
            f"{n_layers} layers of width {emb_dim} are none of the released sizes, so the number of"
            " heads is unknown: pass cfg=GPTConfig(...)"
        )
    return GPTConfig(
        **sizes[emb_dim, n_layers]
        | {
            "vocab_size": vocab_size,
            "context_length": context_length,
            "tie_weights": _is_tied(theirs),
            "qkv_bias": "h.0.attn.c_attn.bias" in theirs,
            # nanoGPT's own models are trained with the erf form.
            "activation": "gelu" if layout == "nanogpt" else "gelu_tanh",
        }
    )


def _is_tied(theirs: Mapping[str, Tensor]) -> bool:
    head = theirs.get("lm_head.weight")
    return head is None or bool(torch.equal(head, theirs["wte.weight"]))


def _ours(
    theirs: Mapping[str, Tensor], cfg: GPTConfig, layout: Layout, where: str | Path
) -> dict[str, Tensor]:
    """Return the state under our names and the right way round, or list what does not fit."""
    shapes, state, wrong = parameter_shapes(cfg), {}, []
    known = {"lm_head.weight"} if cfg.tie_weights else set()  # the same tensor under a second name
    for name, shape in shapes.items():
        their = their_name(name)
        known.add(their)
        turned = layout == "huggingface" and is_transposed(name)
        expected = shape[::-1] if turned else shape
        value = theirs.get(their)
        if value is None and layout == "nanogpt" and name.endswith((".bias", ".shift")):
            value = torch.zeros(shape)  # nanoGPT's bias=False leaves them out
        if value is None:
            wrong.append(f"{their} is missing")
        elif tuple(value.shape) != expected:
            hint = ""
            if is_transposed(name) and tuple(value.shape) == expected[::-1]:
                other = "nanogpt" if layout == "huggingface" else "huggingface"
                hint = f", which is how layout={other!r} lies"
            wrong.append(f"{their} has shape {tuple(value.shape)}, expected {expected}{hint}")
        else:
            state[name] = value.T if turned else value
    # `export` writes zeros where a model has no such bias, because GPT-2 always has one.
    for name in parameter_shapes(replace(cfg, bias=True, qkv_bias=True)).keys() - shapes.keys():
        if their_name(name) in theirs and not theirs[their_name(name)].any():
            known.add(their_name(name))
    wrong += [f"{name} is unknown" for name in theirs if name not in known]
    if cfg.tie_weights and "wte.weight" in theirs and not _is_tied(theirs):
        wrong.append("lm_head.weight differs from wte.weight, but the configuration ties them")
    if wrong:
        more = f"; and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        raise ValueError(f"{where} does not fit the model: {'; '.join(wrong[:6])}{more}")
    return state
