"""The ladder of losses: machines of growing size on one text, and what each of them pays per byte.

Every rung trains on the first nine tenths of `corpus.shakespeare()` and is scored on the same bytes
of the last tenth. The first four count; the others are GPTs or parts of one, trained as the
packaged model was, for as many steps: only the machine differs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gptlib.attention import Trace
from gptlib.config import GPTConfig
from gptlib.figures import Picture, drawings
from gptlib.kv_cache import KVCache
from gptlib.model import GPT, evaluating
from gptlib.storage import checkpoint
from gptlib.text import corpus
from gptlib.text.tokenizers import ByteTokenizer

FOLDER = checkpoint.PACKAGED / "ladder"  # weights of the small models, and rungs.json
WINDOWS = 256  # of held-out text, all of the mini model's length


@dataclass(frozen=True)
class Rung:
    """A machine on the ladder."""

    name: str
    sees: str  # what its guess depends on
    chapter: str  # the notebook that builds it
    order: int | None = None  # a table over so many bytes before the next one
    heads: int = 0  # of a model that only attends; 0 is the mean of the past
    blocks: int = 0  # of a whole GPT

    @property
    def loss(self) -> float:
        """Return what it pays, in nats per byte of held-out text."""
        return float(_measured()[self.name]["loss"])

    @property
    def parameters(self) -> int:
        """Return how many numbers it keeps."""
        return int(_measured()[self.name]["parameters"])

    @property
    def file(self) -> str:
        """Return the name of its weights."""
        return f"{self.name.replace(' ', '_')}.safetensors"


RUNGS = (
    Rung("nothing known", "nothing", "02_guess_the_next_letter", order=-1),
    Rung("frequencies", "how often each byte occurs", "02_guess_the_next_letter", order=0),
    Rung("pairs", "one byte", "02_guess_the_next_letter", order=1),
    Rung("triples", "two bytes", "02_guess_the_next_letter", order=2),
    Rung("mean of the past", "all bytes, each alike", "04_attention"),
    Rung("one head", "all bytes, weighted by content", "04_attention", heads=1),
    Rung("four heads", "the same, in four ways", "04_attention", heads=4),
    Rung("one block", "and works on what it read", "06_gelu_feed_forward", blocks=1),
    Rung("two blocks", "reads what it worked out", "08_assembly", blocks=2),
    Rung("packaged", "four blocks of the same kind", "12_training", blocks=4),
)
BY_NAME = {rung.name: rung for rung in RUNGS}


def rung(name: str) -> Rung:
    """Return the rung of that name; ValueError where there is none."""
    if name not in BY_NAME:
        raise ValueError(f"no rung {name!r}; there are: {', '.join(BY_NAME)}")
    return BY_NAME[name]


def picture(here: str | Collection[str], *, note: str = "") -> Picture:
    """Draw the ladder, with the rungs `here` in colour and the later ones pale.

    Args:
        here: names of the rungs that the chapter builds.
        note: a sentence for the end of the caption.
    """
    marked = [rung(name).name for name in ([here] if isinstance(here, str) else here)]
    return drawings.ladder(RUNGS, marked, note)


# Tables that count


def table(tokens: NDArray[np.integer], order: int) -> NDArray[np.float64]:
    """Return chances of the next byte after every `order` bytes, from how often each was seen.

    A context seen n times trusts its own counts n parts and the next shorter context one part, so
    that nothing is impossible: (counts + shorter) / (n + 1). Below frequencies stands 1/256.

    Args:
        tokens: (N,) bytes.
        order: 0 frequencies, 1 pairs, 2 triples; -1 knows nothing.

    Returns:
        chances: (256,) * (order + 1); the last axis sums to 1.
    """
    if order < 0:
        return np.full(256, 1 / 256)
    key = np.zeros(len(tokens) - order, dtype=np.int64)
    for i in range(order + 1):  # a context and its next byte as one number
        key = key * 256 + tokens[i : len(tokens) - order + i]
    shape = (256,) * (order + 1)
    counts = np.bincount(key, minlength=256 ** (order + 1)).reshape(shape)
    shorter = table(tokens, order - 1)
    return (counts + shorter) / (counts.sum(axis=-1, keepdims=True) + 1)


def table_loss(chances: NDArray[np.float64], x: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the mean surprise -log p of a table in nats, over all but each window's first byte.

    Args:
        chances: as `table` returns them, up to order 2.
        x, y: (B, T) bytes, and the bytes that follow them.
    """
    context = {1: (), 2: (x[:, 1:],), 3: (x[:, :-1], x[:, 1:])}[chances.ndim]
    return float(-np.log(chances[(*context, y[:, 1:])]).mean())


# Models that attend, or less


class MeanOfThePast(nn.Module):
    """Attention without weights: each position receives the mean of itself and those before."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, C) to (B, T, C)."""
        counts = torch.arange(1, x.shape[1] + 1, device=x.device)  # (T,)
        return x.cumsum(dim=1) / counts[:, None]


class Added(nn.Module):
    """A block that only reads: what it read is added to what the position knew, without norms."""

    def __init__(self, read: nn.Module) -> None:
        super().__init__()
        self.read = read

    def forward(
        self, x: Tensor, layer: int = 0, cache: KVCache | None = None, trace: Trace | None = None
    ) -> Tensor:
        """Map (B, T, C) to (B, T, C).

        Raises:
            ValueError: a cache; a mean of the past would need all of it.
        """
        if cache is not None:
            raise ValueError("a rung of the ladder takes no cache")
        out: Tensor = x + self.read(x)
        return out


def build(rung: Rung) -> GPT:
    """Return the model of a rung with fresh weights, from torch's global generator.

    Raises:
        ValueError: the rung is a table.
    """
    if rung.order is not None:
        raise ValueError(f"{rung.name} is a table, not a model")
    mini = GPTConfig.preset("mini")
    if rung.blocks:
        return GPT(replace(mini, n_layers=rung.blocks))
    cfg = replace(mini, n_layers=1, n_heads=max(rung.heads, 1), tie_weights=False)
    model = GPT(cfg)
    attention: Any = model.blocks[0].attn
    model.blocks[0] = Added(attention if rung.heads else MeanOfThePast())
    model.final_norm = nn.Identity()  # type: ignore[assignment]
    return model


def load(name: str) -> GPT:
    """Return a rung's trained model, in evaluation mode.

    Raises:
        ValueError: no such rung, or one that is a table.
    """
    if name == "packaged":
        return checkpoint.packaged()[0]
    model = build(rung(name))
    state = safetensors.torch.load_file(FOLDER / rung(name).file)
    tied = {"head.weight": state["tok_emb.weight"]} if model.cfg.tie_weights else {}
    model.load_state_dict({**state, **tied})
    return model.eval()


# What each pays


@functools.cache
def texts() -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the bytes that were trained on, and those that were not."""
    tokens = corpus.encode_corpus(corpus.shakespeare(), ByteTokenizer())
    return corpus.split(tokens, context_length=GPTConfig.preset("mini").context_length)


def held_out(windows: int = WINDOWS) -> corpus.Windows:
    """Return the windows (B, T) on which all rungs are scored, and the bytes that follow."""
    return corpus.fixed_windows(texts()[1], windows, GPTConfig.preset("mini").context_length)


def measure(name: str, windows: int = WINDOWS) -> float:
    """Return what a rung pays on held-out text, computed now, in nats per byte."""
    x, y = held_out(windows)
    order = rung(name).order
    if order is not None:
        return table_loss(table(texts()[0], order), x, y)
    return model_loss(load(name), x, y)


@torch.no_grad()
def model_loss(model: GPT, x: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the mean surprise of a model in nats, over all but each window's first byte."""
    total = 0.0
    with evaluating(model):
        for i in range(0, len(x), 8):  # eight windows at a time bound the memory
            logits = model(torch.from_numpy(x[i : i + 8]))[:, 1:]  # (B, T - 1, V)
            targets = torch.from_numpy(y[i : i + 8, 1:])
            total += nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), reduction="sum"
            ).item()
    return total / y[:, 1:].size


@functools.cache
def _measured() -> dict[str, dict[str, float]]:
    text = (FOLDER / "rungs.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = json.loads(text)
    return found
