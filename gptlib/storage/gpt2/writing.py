"""Write a GPT as a GPT-2 folder that `transformers` loads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from gptlib.config import parameter_shapes
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
        ValueError: GPT-2 has no such switches; the tokenizer has more tokens than the model; the
            model is not as its configuration says; the folder holds a training run.
        OSError: the folder cannot be written.
    """
    model = unwrapped(model)
    cfg = model.cfg
    about = cfg.to_hf()
    if about["model_type"] != "gpt2":
        raise ValueError("this model has the parts of today: `llama.export` writes it")
    eot_id = END_OF_TEXT_ID if cfg.vocab_size == END_OF_TEXT_ID + 1 else None
    if tokenizer is not None:
        check_fits(tokenizer, cfg.vocab_size)
        eot_id = tokenizer.eot_id
    about |= {
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
    """Yield their tensors; what GPT-2 has and this model has not is zeros."""
    weights = model.weights()
    like = weights["tok_emb.weight"].cpu()
    for name, shape in parameter_shapes(replace(model.cfg, bias=True, qkv_bias=True)).items():
        their = their_name(name)
        value = weights[name].cpu() if name in weights else like.new_zeros(shape)
        value = (value.T if is_transposed(name) else value).contiguous()
        yield (their if their.startswith("lm_head") else f"transformer.{their}"), value
