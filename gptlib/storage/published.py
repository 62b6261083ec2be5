"""Published weights: safetensors in a folder, in shards, in a file, or on the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import safetensors
from torch import Tensor

from gptlib._helpers.folders import CONFIG, read_object
from gptlib._helpers.messages import shown
from gptlib.config import GPTConfig
from gptlib.storage.files import WEIGHTS
from gptlib.text import tokenizers
from gptlib.text.byte_pair_files import read_tokenizer_json
from gptlib.text.tokenizers import END_OF_TEXT, Tokenizer

INDEX = "model.safetensors.index.json"  # names the file of each tensor in a sharded model
TOKENIZER = "tokenizer.json"
_PICKLES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")


def weights_at(source: str | Path) -> tuple[Path, dict[str, Tensor], dict[str, Any] | None]:
    """Return where published weights lie, the mapped tensors and the `config.json` beside them.

    Args:
        source: a folder, a `.safetensors` file, or a name on the Hugging Face hub.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: a pickle or a damaged file; names it.
    """
    path = Path(source)
    if path.suffix in _PICKLES and not path.is_dir():
        raise ValueError(
            f"{path} is a pickle, which can run any code when it is opened; models are published as"
            f" {WEIGHTS} too"
        )
    if not path.exists() and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(source)):
        path = _download(str(source))
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_file():
        return path, _tensors(path), _about(path.parent / CONFIG)
    if (path / WEIGHTS).is_file():
        return path, _tensors(path / WEIGHTS), _about(path / CONFIG)
    if not (path / INDEX).is_file():
        pickles = [p.name for p in sorted(path.iterdir()) if p.suffix in _PICKLES]
        reason = f"; {pickles[0]} is a pickle, which can run any code" if pickles else ""
        raise FileNotFoundError(f"{path} holds neither {WEIGHTS} nor {INDEX}{reason}")
    files = read_object(path / INDEX).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(f, str) for f in files.values()):
        raise ValueError(f"{path / INDEX} names no files: it needs a 'weight_map'")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(files.values())):
        if not (path / Path(name).name).is_file():
            raise FileNotFoundError(f"{path / INDEX} names {name}, which is missing")
        tensors |= _tensors(path / Path(name).name)
    return path, tensors, _about(path / CONFIG)


def _download(name: str) -> Path:
    wanted = f"{name!r} is not a folder or file here"
    try:
        import huggingface_hub  # noqa: PLC0415 (only names on the hub need it)
    except ImportError:
        raise FileNotFoundError(
            f"{wanted}, and reading it from the Hugging Face hub needs: pip install huggingface_hub"
        ) from None
    try:
        return Path(
            huggingface_hub.snapshot_download(name, allow_patterns=["*.safetensors*", CONFIG])
        )
    except Exception as error:  # its many errors: no network, no such name, not allowed, proxies
        reason = (str(error) or type(error).__name__).splitlines()[0]
        message = f"{wanted}, and the Hugging Face hub gave nothing: {reason}"
        raise FileNotFoundError(message) from None


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError) as error:
        with path.open("rb") as file:
            start = file.read(64).lstrip()[:1]
        what = "is a web page or text, not weights" if start in (b"<", b"v") else "is damaged"
        raise ValueError(
            f"{path} of {path.stat().st_size:,} bytes {what} ({error}); fetch it again"
        ) from error


def _about(path: Path) -> dict[str, Any] | None:
    return read_object(path) if path.is_file() else None


def config_of(where: Path, about: dict[str, Any], *, is_gpt2: bool) -> GPTConfig:
    """Return what the `config.json` of a folder says, of GPT-2 or of a relative of Llama.

    Raises:
        ValueError: it says something else; names the file.
    """
    path = shown((where if where.is_dir() else where.parent) / CONFIG)
    try:
        cfg = GPTConfig.from_hf(about)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    if ((kind := about["model_type"]) != "gpt2" and is_gpt2) or (kind == "gpt2" and not is_gpt2):
        raise ValueError(f"{path}: model_type is {kind!r}, which `gptlib.load` reads")
    return cfg


def tokenizer_of(folder: Path) -> Tokenizer:
    """Return the tokenizer that an export noted, that of `tokenizer.json`, or GPT-2's own.

    Raises:
        ValueError: another kind of tokenizer, or nothing that says how text becomes its ids.
    """
    about = read_object(folder / CONFIG)
    noted = about.get("gptlib")
    if isinstance(noted, dict) and noted.get("tokenizer"):
        if not isinstance(noted["tokenizer"], dict):
            raise ValueError(
                f"{folder / CONFIG}: 'tokenizer' must be an object, got {noted['tokenizer']!r:.60}"
            )
        return tokenizers.from_dict(noted["tokenizer"])
    if (folder / TOKENIZER).is_file():
        end: Any = about.get("eos_token_id")  # an id, several, or none
        end = end[0] if isinstance(end, list) and end else end
        tokenizer = read_tokenizer_json(folder / TOKENIZER, END_OF_TEXT if end is None else end)
        tokenizers.check_fits(tokenizer, about["vocab_size"])
        return tokenizer
    gpt2 = tokenizers.gpt2_tokenizer()
    if about["model_type"] == "gpt2" and about["vocab_size"] >= gpt2.n_vocab:
        return gpt2
    raise ValueError(
        f"{shown(folder)} has a vocabulary of {about['vocab_size']}, which is not GPT-2's of"
        f" {gpt2.n_vocab}, and no {TOKENIZER} beside it: how text becomes its ids is not known"
    )
