"""From logits to probabilities to a token to a stream of tokens, one rule for every engine.

The rule, in this order: divide by the temperature; keep the `top_k` best; of those keep the
smallest set whose renormalised mass reaches `top_p`. Ties go to the lower id. The arithmetic is
NumPy in float64 whatever the model is made of, so torch and NumPy models draw the same tokens
from the same logits and seed.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from gptlib._numbers import integer, number
from gptlib.config import GPTConfig

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]

TOP_P_SLACK = 1e-6  # a mass that equals top_p but for rounding counts as reached


class LanguageModel(Protocol):
    """What `stream` needs of a model; `GPT` and `NumpyGPT` both have it."""

    cfg: GPTConfig

    def new_cache(self, max_len: int | None = None) -> Any:
        """Return an empty cache for `max_len` positions, with `.length` and `.reset()`."""

    def next_logits(self, ids: Sequence[int], cache: Any = None) -> NDArray[np.floating[Any]]:
        """Return the (V,) scores of the token after `ids`, leaving the model as it was."""


@dataclass(frozen=True)
class Step:
    """One generated token."""

    token_id: int
    prob: float  # of this token, in the distribution it was drawn from
    entropy: float  # of that distribution, in nats
    seconds: float  # wall-clock time of the model and the draw


def check_settings(
    temperature: float | None, top_k: int | None, top_p: float | None
) -> tuple[float, int | None, float | None]:
    """Return the settings with "off" spelled None, or say what is wrong with them.

    Args:
        temperature: finite and at least 0; 0 is greedy; None is 1.
        top_k: at least 0; None and 0 keep everything.
        top_p: in [0, 1]; None and 1 keep everything; 0 keeps the most probable token.

    Raises:
        TypeError: a boolean, a string, or a `top_k` that is not an integer.
        ValueError: a number outside the range.
    """
    temperature = 1.0 if temperature is None else temperature
    for name, value in (("temperature", temperature), ("top_k", top_k), ("top_p", top_p)):
        if value is not None:
            number(name, value)
    if not 0 <= temperature <= sys.float_info.max:
        raise ValueError(f"temperature must be finite and at least 0, got {temperature!s:.60}")
    if top_k is not None and integer("top_k", top_k) < 0:
        raise ValueError(f"top_k must be at least 0 (0 keeps all tokens), got {top_k}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be in [0, 1], got {top_p}")
    return float(temperature), top_k or None, None if top_p in (None, 1) else float(top_p)


def check_count(max_new_tokens: int) -> None:
    """Raise TypeError or ValueError unless it is an integer and at least 0."""
    integer("max_new_tokens", max_new_tokens, 0)


def check_seed(seed: int | None) -> None:
    """Raise TypeError or ValueError unless it is None or an integer and at least 0."""
    if seed is not None and integer("seed", seed) < 0:
        raise ValueError(f"seed must be None or at least 0, got {seed}")


@overload
def probabilities(
    logits: torch.Tensor,
    temperature: float = ...,
    top_k: int | None = ...,
    top_p: float | None = ...,
) -> torch.Tensor: ...
@overload
def probabilities(
    logits: NDArray[Any],
    temperature: float = ...,
    top_k: int | None = ...,
    top_p: float | None = ...,
) -> Floats: ...
def probabilities(
    logits: Any, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Any:
    """Turn logits into the distribution the next token is drawn from.

    Args:
        logits: (..., V), NumPy or torch; -inf marks an impossible token.
        temperature, top_k, top_p: see `check_settings`.

    Returns:
        (..., V) probabilities, float64 in NumPy, the dtype and device of `logits` in torch.

    Raises:
        TypeError, ValueError: bad settings, or logits that are not finite.
    """
    settings = check_settings(temperature, top_k, top_p)
    array = _as_array(logits)
    if isinstance(logits, np.ndarray | list | tuple):
        return _probabilities(array, *settings)
    probs = _probabilities(array, *settings)
    result = logits if logits.is_floating_point() else logits.float()
    return result.new_tensor(probs)


def _as_array(logits: Any) -> Floats:
    if isinstance(logits, list | tuple):
        logits = np.asarray(logits)
    if not isinstance(logits, np.ndarray):
        if not hasattr(logits, "detach"):
            raise TypeError(f"logits must be an array or a tensor, got {type(logits).__name__}")
        logits = logits.detach().cpu()
        logits = (logits.double() if logits.is_floating_point() else logits).numpy()
    if logits.dtype.kind not in "fiu":
        raise TypeError(f"logits must be real numbers, got dtype {logits.dtype}")
    return np.asarray(logits, dtype=np.float64)


def _probabilities(
    logits: Floats, temperature: float, top_k: int | None, top_p: float | None
) -> Floats:
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"logits must have shape (..., V) with V at least 1, got {logits.shape}")
    rows = logits.reshape(-1, logits.shape[-1])  # (..., V) -> (N, V)
    probs = [_row_probabilities(row, temperature, top_k, top_p) for row in rows]
    return np.array(probs).reshape(logits.shape)


def _row_probabilities(
    logits: Floats, temperature: float, top_k: int | None, top_p: float | None
) -> Floats:
    """The rule itself, for one row of (V,) logits."""
    best = logits.max()
    if not math.isfinite(best):  # a maximum hides neither NaN nor +inf
        raise ValueError(f"logits are not finite: {_first_bad(logits)}")
    if temperature == 0:
        probs = np.zeros(len(logits))
        probs[logits.argmax()] = 1.0  # argmax returns the lowest of tied ids
        return probs
    with np.errstate(over="ignore"):  # a tiny temperature sends all but the best to -inf, rightly
        probs = np.exp((logits - best) / temperature)
        if top_k is not None or top_p is not None:
            ranked = np.sort(logits)[::-1]  # best first
            n = _n_kept(np.exp((ranked - best) / temperature), top_k, top_p)
            probs[~_best(logits, ranked[n - 1], n)] = 0.0
    return probs / probs.sum()


def _n_kept(ranked: Floats, top_k: int | None, top_p: float | None) -> int:
    """Return how many of the ranked masses both filters leave, at least 1."""
    n = len(ranked) if top_k is None else min(top_k, len(ranked))
    if top_p is None:
        return n
    mass = np.cumsum(ranked[:n])  # of what top_k has left, so it is renormalised by its own sum
    reached = int(np.searchsorted(mass, (top_p - TOP_P_SLACK) * mass[-1]))
    return min(reached + 1, n)


def _best(logits: Floats, last: float, n: int) -> NDArray[np.bool_]:
    """Mark the n best of (V,) logits, the n-th of which is `last`; of its equals the lower ids."""
    keep = logits > last
    tied = np.flatnonzero(logits == last)
    keep[tied[: n - np.count_nonzero(keep)]] = True
    return keep


def _first_bad(logits: Floats) -> str:
    bad = np.flatnonzero(np.isnan(logits) | (logits == np.inf))
    if bad.size:
        return f"{logits[bad[0]]} at id {bad[0]}"
    return "-inf at every id, so no token is possible"


@dataclass(frozen=True)
class FilterTrace:
    """How one token was chosen: its distribution after each stage of the rule.

    Printed, it is a table of the most probable tokens.
    """

    logits: Floats  # (V,)
    raw: Floats  # (V,) softmax of the logits
    temperature: Floats  # (V,) after dividing the logits by the temperature
    top_k: Floats  # (V,) after keeping the k best, renormalised
    top_p: Floats  # (V,) after keeping the smallest sufficient mass: what is drawn from
    drawn: int  # the id that came out

    STAGES: ClassVar = ("raw", "temperature", "top_k", "top_p")

    def best(self, n: int = 10) -> list[int]:
        """Return the n ids with the highest logits, best first; the drawn one is always among them.

        Of equal logits the lower id comes first.
        """
        ids = np.argsort(-self.logits, kind="stable")[:n].tolist()
        return ids if self.drawn in ids else [*ids[:-1], self.drawn]

    def rows(self, n: int = 10) -> list[tuple[float, ...]]:
        """Return (id, raw, temperature, top_k, top_p) for each id of `best(n)`."""
        stages = [getattr(self, stage) for stage in self.STAGES]
        return [(i, *(float(stage[i]) for stage in stages)) for i in self.best(n)]

    def __str__(self) -> str:
        lines = [f"{'id':>7}" + "".join(f"{stage:>13}" for stage in self.STAGES)]
        for token_id, *probs in self.rows():
            cells = "".join(f"{prob:13.4f}" if prob else f"{'·':>13}" for prob in probs)
            lines.append(f"{token_id:7}{cells}{'  <- drawn' * (token_id == self.drawn)}")
        kept = "".join(f"{np.count_nonzero(getattr(self, stage)):13,}" for stage in self.STAGES)
        return "\n".join([*lines, f"{'kept':>7}{kept}"])

    __repr__ = __str__


def trace(
    logits: Any,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
) -> FilterTrace:
    """Follow one token through the rule, stage by stage, to the id that is drawn.

    Args:
        logits: (V,), NumPy or torch.
        temperature, top_k, top_p: see `check_settings`.
        seed: of the draw; the id is the first that `stream` draws with the same seed.

    Raises:
        TypeError, ValueError: bad settings, or logits that are not one finite row.
    """
    temperature, top_k, top_p = check_settings(temperature, top_k, top_p)
    check_seed(seed)
    row = _as_array(logits)
    if row.ndim != 1:
        raise ValueError(f"logits must be one row of shape (V,), got {row.shape}")
    final = _probabilities(row, temperature, top_k, top_p)
    return FilterTrace(
        logits=row,
        raw=_probabilities(row, 1.0, None, None),
        temperature=_probabilities(row, temperature, None, None),
        top_k=_probabilities(row, temperature, top_k, None),
        top_p=final,
        drawn=draw(final, np.random.default_rng(seed)),
    )


def draw(probs: Floats, rng: np.random.Generator) -> int:
    """Draw one id from (V,) probabilities by inverting their cumulative sum.

    Drawn on the CPU in float64, so an id of probability 0 cannot come out on any device.
    """
    mass = np.cumsum(probs)
    token_id = int(np.searchsorted(mass, rng.random() * mass[-1], side="right"))
    token_id = min(token_id, int(np.flatnonzero(probs)[-1]))  # when the product rounds up
    if probs[token_id] <= 0:
        raise RuntimeError(f"drew id {token_id}, whose probability is {probs[token_id]}")
    return token_id


def stream(
    model: LanguageModel,
    prompt: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop_id: int | None = None,
    n_vocab: int | None = None,
    use_cache: bool = True,
) -> Iterator[Step]:
    """Generate tokens one at a time after one prompt.

    Past the context window the last `context_length` tokens are read again from position 0; with
    and without the cache the same tokens come out. The random generator is private to the call.

    Args:
        prompt: token ids, at least one; the last `context_length` are used, with a warning.
        max_new_tokens: most tokens to generate, at least 0.
        temperature, top_k, top_p: see `check_settings`.
        seed: repeats the draws; None takes a fresh one from the system.
        stop_id: ends the stream when drawn; it is not yielded.
        n_vocab: size of the tokenizer; ids from it on, the padding of a model, are never drawn.
        use_cache: keep keys and values instead of computing them again for each token.

    Raises:
        TypeError, ValueError: wrong input, at the call and before the model runs.
    """
    settings = check_settings(temperature, top_k, top_p)
    check_count(max_new_tokens)
    check_seed(seed)
    if stop_id is not None and not 0 <= integer("stop_id", stop_id) < model.cfg.vocab_size:
        raise ValueError(f"stop_id must be None or in 0..{model.cfg.vocab_size - 1}, got {stop_id}")
    n_vocab = _n_vocab(n_vocab, model.cfg.vocab_size)
    ids = _prompt_ids(prompt, model.cfg.vocab_size)
    window = model.cfg.context_length
    if len(ids) > window and max_new_tokens > 0:
        warnings.warn(
            f"the prompt has {len(ids)} tokens, the model reads the last {window}", stacklevel=2
        )
    rng = np.random.default_rng(seed)
    return _steps(model, ids, max_new_tokens, settings, rng, stop_id, n_vocab, use_cache)


def _n_vocab(n_vocab: int | None, vocab_size: int) -> int:
    if n_vocab is None:
        return vocab_size
    if not 1 <= integer("n_vocab", n_vocab) <= vocab_size:
        raise ValueError(f"n_vocab must be in 1..{vocab_size}, the model's ids, got {n_vocab}")
    return int(n_vocab)


def _prompt_ids(prompt: Sequence[int], vocab_size: int) -> list[int]:
    try:
        ids = np.asarray(prompt)
    except ValueError:  # rows of different lengths
        ids = np.empty((0, 0))
    if ids.ndim == 1 and ids.size == 0:
        raise ValueError("prompt is empty; give at least one token id")
    huge = ids.dtype == object and all(type(i) is int for i in ids.flat)  # beyond 64 bits
    if ids.ndim != 1 or not (ids.dtype.kind in "iu" or huge):
        got = " ".join(repr(prompt).split())
        raise TypeError(f"prompt must be a flat sequence of token ids, got {got:.80}")
    outside = np.flatnonzero((ids < 0) | (ids >= vocab_size))
    if outside.size:
        raise ValueError(
            f"token id {ids[outside[0]]} at position {outside[0]} is outside the vocabulary"
            f" 0..{vocab_size - 1}"
        )
    return ids.tolist()


def _steps(
    model: LanguageModel,
    ids: list[int],
    max_new_tokens: int,
    settings: tuple[float, int | None, float | None],
    rng: np.random.Generator,
    stop_id: int | None,
    n_vocab: int,
    use_cache: bool,
) -> Iterator[Step]:
    window = model.cfg.context_length
    cache = model.new_cache(min(window, len(ids) + max_new_tokens)) if use_cache else None
    for _ in range(max_new_tokens):
        start = time.perf_counter()
        new = ids[-window:]
        if cache is not None:
            if len(ids) > window:
                cache.reset()  # every position has shifted: read the window again
            new = new[cache.length :]
        logits = model.next_logits(new, cache)[:n_vocab]
        probs = _probabilities(np.asarray(logits, dtype=np.float64), *settings)
        token_id = draw(probs, rng)
        if token_id == stop_id:
            return
        ids.append(token_id)
        yield Step(token_id, float(probs[token_id]), entropy(probs), time.perf_counter() - start)


def entropy(probs: Floats) -> float:
    """Return the entropy in nats of (V,) probabilities."""
    positive = probs[probs > 0]
    return float(-(positive * np.log(positive)).sum()) + 0.0  # + 0.0 turns -0.0 into 0.0


def generate(
    model: LanguageModel,
    prompt: Sequence[int] | Sequence[Sequence[int]],
    max_new_tokens: int,
    **settings: Any,
) -> Any:
    """Return the prompt followed by the new ids, as one list.

    A list of prompts, of any lengths, gives a list of results, each what that prompt gives alone
    with the same seed. `settings` are the keyword arguments of `stream`, whose errors are raised
    for every prompt before the first one runs.
    """
    if not hasattr(prompt, "__len__"):
        raise TypeError(f"prompt must be a sequence of token ids or of prompts, got {prompt!r:.80}")
    first: Any = next(iter(prompt), 0)
    single = np.ndim(first) == 0
    prompts: Sequence[Any] = [prompt] if single else prompt
    streams = [stream(model, row, max_new_tokens, **settings) for row in prompts]
    results = [
        [*map(int, row), *(step.token_id for step in steps)]
        for row, steps in zip(prompts, streams, strict=True)
    ]
    return results[0] if single else results
