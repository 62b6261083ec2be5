"""Write a GPT with the parts of today as a folder that `transformers` loads."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from gptlib.model import GPT, unwrapped
from gptlib.storage.files import model_folder, write_pair
from gptlib.storage.llama.names import their_names
from gptlib.text.tokenizers import Tokenizer, check_fits


def export(model: GPT, folder: str | Path, tokenizer: Tokenizer | None = None) -> Path:
    """Write a folder that `transformers` loads as Llama, Qwen 2, Qwen 3 or SmolLM3.

    Whichever the switches fit; the logits are the same. `config.json` also keeps our own
    configuration and tokenizer, so that they come back too.

    Raises:
        TypeError: not a GPT.
        ValueError: no such architecture has these switches; the tokenizer has more tokens than the
            model; the model is not as its configuration says; the folder holds a training run.
        OSError: the folder cannot be written.
    """
    model = unwrapped(model)
    about = model.cfg.to_hf()
    if about["model_type"] == "gpt2":
        raise ValueError("this model has GPT-2's parts: `gpt2.export` writes it")
    eot_id = None
    if tokenizer is not None:
        check_fits(tokenizer, model.cfg.vocab_size)
        eot_id = tokenizer.eot_id
    about |= {
        "bos_token_id": eot_id,
        "eos_token_id": eot_id,
        "pad_token_id": None,
        "gptlib": {
            "model": model.cfg.to_dict(),
            "tokenizer": None if tokenizer is None else tokenizer.to_dict(),
        },
    }
    weights: dict[str, Tensor] = {}
    for ours, value in model.weights().items():
        theirs = their_names(ours)
        parts = value.cpu().split(model.cfg.qkv_dims) if len(theirs) > 1 else (value.cpu(),)
        weights |= {name: part.clone() for name, part in zip(theirs, parts, strict=True)}
    folder = model_folder(folder)
    write_pair(folder, weights, about)
    return folder
