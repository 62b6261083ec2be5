"""Build a GPT from GPT-2 weights: a folder, a file, a state dictionary or a name on the hub."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import safetensors
import torch
from torch import Tensor

from gptlib._helpers.folders import CONFIG, read_object
from gptlib.config import PRESETS, GPTConfig, check_config, parameter_shapes
from gptlib.model import GPT
from gptlib.storage.files import WEIGHTS
from gptlib.storage.gpt2.names import Layout, is_transposed, renamed, their_name
from gptlib.text import tokenizers
from gptlib.text.tokenizers import Tokenizer

INDEX = "model.safetensors.index.json"  # names the file of each tensor in a sharded model
_DTYPES = tuple(f"torch.{kind}" for kind in ("bfloat16", "float16", "float32", "float64"))
_PICKLES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")


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
        where, source, found = _read(source)
        cfg = cfg or found
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
        cfg = dataclasses.replace(cfg, qkv_bias=True)  # `export` writes zeros where there is none
    state = _ours(theirs, cfg, layout, where)
    if dtype is not None:
        state = {name: value.to(dtype) for name, value in state.items()}
    return GPT.from_state(cfg, state).eval()


def _read(source: str | Path) -> tuple[Path, dict[str, Tensor], GPTConfig | None]:
    """Return where the weights lie, the mapped tensors and the configuration beside them."""
    path = Path(source)
    if path.suffix in _PICKLES and not path.is_dir():
        raise ValueError(
            f"{path} is a pickle, which can run any code when it is opened; GPT-2 is published as"
            f" {WEIGHTS} too"
        )
    if not path.exists() and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(source)):
        path = _download(str(source))
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_file():
        return path, _tensors(path), _read_config(path.parent / CONFIG)
    if (path / WEIGHTS).is_file():
        return path, _tensors(path / WEIGHTS), _read_config(path / CONFIG)
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
    return path, tensors, _read_config(path / CONFIG)


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


def _read_config(path: Path) -> GPTConfig | None:
    if not path.is_file():
        return None
    about = read_object(path)
    try:
        return GPTConfig.from_hf(about)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Return the tokenizer that `export` noted, or GPT-2's own where its vocabulary fits.

    Raises:
        ValueError: another vocabulary, and nothing that says how text becomes its ids.
    """
    about = read_object(Path(folder) / CONFIG)
    noted = about.get("gptlib")
    if isinstance(noted, dict) and noted.get("tokenizer"):
        if not isinstance(noted["tokenizer"], dict):
            raise ValueError(
                f"{Path(folder) / CONFIG}: 'tokenizer' must be an object,"
                f" got {noted['tokenizer']!r:.60}"
            )
        return tokenizers.from_dict(noted["tokenizer"])
    tokenizer = tokenizers.gpt2_tokenizer()
    if about.get("vocab_size", 0) < tokenizer.n_vocab:
        raise ValueError(
            f"{folder} has a vocabulary of {about.get('vocab_size')}, which is not GPT-2's of"
            f" {tokenizer.n_vocab}; how text becomes its ids is not known"
        )
    return tokenizer


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
    if not cfg.qkv_bias:
        # `export` writes zeros where a model has no such bias, because GPT-2 always has one.
        for i in range(cfg.n_layers):
            bias = theirs.get(f"h.{i}.attn.c_attn.bias")
            if bias is not None and not bias.any():
                known.add(f"h.{i}.attn.c_attn.bias")
    wrong += [f"{name} is unknown" for name in theirs if name not in known]
    if cfg.tie_weights and "wte.weight" in theirs and not _is_tied(theirs):
        wrong.append("lm_head.weight differs from wte.weight, but the configuration ties them")
    if wrong:
        more = f"; and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        raise ValueError(f"{where} does not fit the model: {'; '.join(wrong[:6])}{more}")
    return state
