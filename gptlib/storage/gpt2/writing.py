"""Write a GPT as a GPT-2 folder that `transformers` loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from gptlib.model import GPT, unwrapped
from gptlib.storage.files import model_folder, write_pair
from gptlib.storage.gpt2.names import is_transposed, their_name
from gptlib.text.tokenizers import GPT2Tokenizer, Tokenizer, check_fits

END_OF_TEXT_ID = GPT2Tokenizer.eot_id


def export(model: GPT, folder: str | Path, tokenizer: Tokenizer | None = None) -> Path:
    """Write a folder that `transformers` loads as GPT-2, with the same logits.

    `config.json` also keeps our own configuration and tokenizer, so that they come back too.

    Raises:
        TypeError: not a GPT.
        ValueError: GPT-2 has no Post-LayerNorm; the tokenizer has more tokens than the model; the
            model is not as its configuration says; the folder holds a training run.
        OSError: the folder cannot be written.
    """
    model = unwrapped(model)
    cfg = model.cfg
    if not cfg.norm_first:
        raise ValueError("GPT-2 normalises before each part; a Post-LN model cannot be exported")
    eot_id = END_OF_TEXT_ID if cfg.vocab_size == END_OF_TEXT_ID + 1 else None
    if tokenizer is not None:
        check_fits(tokenizer, cfg.vocab_size)
        eot_id = tokenizer.eot_id
    about = {
        **cfg.to_hf(),
        "architectures": ["GPT2LMHeadModel"],
        **{f"{where}_pdrop": cfg.drop_rate for where in ("attn", "embd", "resid")},
        "bos_token_id": eot_id,
        "eos_token_id": eot_id,
        "gptlib": {
            "model": cfg.to_dict(),
            "tokenizer": None if tokenizer is None else tokenizer.to_dict(),
        },
    }
    weights = dict(_exported(model))
    folder = model_folder(folder)
    write_pair(folder, weights, about)
    return folder


def _exported(model: GPT) -> Iterator[tuple[str, Tensor]]:
    for name, param in model.weights().items():
        their = their_name(name)
        value = param.cpu()
        value = (value.T if is_transposed(name) else value).contiguous()
        yield (their if their.startswith("lm_head") else f"transformer.{their}"), value
        if name.endswith("attn.qkv.weight") and not model.cfg.qkv_bias:
            yield f"transformer.{their.removesuffix('weight')}bias", value.new_zeros(value.shape[1])
