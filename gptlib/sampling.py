"""From logits to probabilities to a token to a stream of tokens, one rule for every engine.

The rule, in this order: divide by the temperature; keep the `top_k` best; of those keep the
smallest set whose renormalised mass reaches `top_p`. Ties go to the lower id. The arithmetic is
NumPy in float64 whatever the model is made of, so torch and NumPy models draw the same tokens
from the same logits and seed.
"""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from gptlib._helpers.ids import prompt_ids
from gptlib._helpers.logits import Floats, as_array, first_bad
from gptlib._helpers.numbers import FromZero, UpToOne, WholeFromZero, check_fields, integer
from gptlib.config import GPTConfig

F = TypeVar("F", bound=Callable[..., Any])
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


@dataclass(frozen=True)
class Settings:
    """Which tokens may be drawn and how likely each is; checked once, when made, and passed whole.

    A new rule is a field here, a line in `Settings.probabilities`, and a stage in `FilterTrace`.

    Raises:
        TypeError: a boolean, a string, or a `top_k` that is not an integer; names the field.
        ValueError: a number outside the range; names the field.
    """

    temperature: FromZero | None = 1.0  # higher is more varied; 0 takes the most probable token
    top_k: WholeFromZero | None = None  # draw only from the k most probable; None and 0: from all
    top_p: UpToOne | None = None  # draw only from the best that together reach this; 1: all

    def __post_init__(self) -> None:
        check_fields(self)
        if self.temperature is None:
            object.__setattr__(self, "temperature", 1.0)
        object.__setattr__(self, "top_k", self.top_k or None)
        object.__setattr__(self, "top_p", None if self.top_p == 1 else self.top_p)

    def probabilities(self, logits: Floats) -> Floats:
        """Return the (V,) distribution that a token with these (V,) logits is drawn from.

        Raises:
            ValueError: the logits are not finite.
        """
        best = logits.max()
        if not math.isfinite(best):  # a maximum hides neither NaN nor +inf
            raise ValueError(f"logits are not finite: {first_bad(logits)}")
        if self.temperature == 0:
            probs = np.zeros(len(logits))
            probs[logits.argmax()] = 1.0  # argmax returns the lowest of tied ids
            return probs
        with np.errstate(over="ignore"):  # a tiny temperature sends all but the best to -inf
            probs = np.exp((logits - best) / self.temperature)
            if self.top_k is not None or self.top_p is not None:
                ranked = np.sort(logits)[::-1]  # best first
                n = n_kept(np.exp((ranked - best) / self.temperature), self.top_k, self.top_p)
                probs[~_best(logits, ranked[n - 1], n)] = 0.0
        return probs / probs.sum()


def n_kept(ranked: Floats, top_k: int | None, top_p: float | None) -> int:
    """Return how many of the (V,) masses, the largest first, both filters leave; at least 1."""
    n = len(ranked) if top_k is None else min(top_k, len(ranked))
    if top_p is None:
        return n
    mass = np.cumsum(ranked[:n])  # of what top_k has left, so it is renormalised by its own sum
    reached = int(np.searchsorted(mass, (top_p - TOP_P_SLACK) * mass[-1]))
    return min(reached + 1, n)


def _takes_settings(function: F) -> F:
    """Show the fields of `Settings` in the signature of a function that takes them as `**rule`."""
    signature, types = inspect.signature(function), get_type_hints(Settings)
    own = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
    fields = [
        p.replace(kind=p.KEYWORD_ONLY, annotation=types[p.name])
        for p in inspect.signature(Settings).parameters.values()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *fields])  # type: ignore[attr-defined]
    return function


@_takes_settings
def probabilities(logits: Any, *positional: Any, **rule: Any) -> Any:
    """Turn logits into the distribution the next token is drawn from.

    Args:
        logits: (..., V), NumPy or torch; -inf marks an impossible token.
        rule: the fields of `Settings`.

    Returns:
        (..., V) probabilities, float64 in NumPy, the dtype and device of `logits` in torch.

    Raises:
        TypeError, ValueError: bad settings, or logits that are not finite.
    """
    settings = Settings(*positional, **rule)
    array = as_array(logits)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"logits must have shape (..., V) with V at least 1, got {array.shape}")
    rows = array.reshape(-1, array.shape[-1])  # (..., V) -> (N, V)
    probs = np.array([settings.probabilities(row) for row in rows]).reshape(array.shape)
    if isinstance(logits, np.ndarray | list | tuple):
        return probs
    result = logits if logits.is_floating_point() else logits.float()
    return result.new_tensor(probs)


def _best(logits: Floats, last: float, n: int) -> NDArray[np.bool_]:
    """Mark the n best of (V,) logits, the n-th of which is `last`; of its equals the lower ids."""
    keep = logits > last
    tied = np.flatnonzero(logits == last)
    keep[tied[: n - np.count_nonzero(keep)]] = True
    return keep


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


@_takes_settings
def trace(logits: Any, *positional: Any, seed: int | None = None, **rule: Any) -> FilterTrace:
    """Follow one token through the rule, stage by stage, to the id that is drawn.

    Args:
        logits: (V,), NumPy or torch.
        seed: of the draw; the id is the first that `stream` draws with the same seed.
        rule: the fields of `Settings`.

    Raises:
        TypeError, ValueError: bad settings, or logits that are not one finite row.
    """
    *rules, seed = positional if len(positional) > 3 else (*positional, seed)
    settings = Settings(*rules, **rule)
    rng = generator(seed)
    row = as_array(logits)
    if row.ndim != 1:
        raise ValueError(f"logits must be one row of shape (V,), got {row.shape}")
    final = settings.probabilities(row)
    return FilterTrace(
        logits=row,
        raw=Settings().probabilities(row),
        temperature=replace(settings, top_k=None, top_p=None).probabilities(row),
        top_k=replace(settings, top_p=None).probabilities(row),
        top_p=final,
        drawn=draw(final, rng),
    )


def generator(seed: int | None) -> np.random.Generator:
    """Return the private generator of one call.

    Raises:
        TypeError, ValueError: the seed is neither None nor an integer of at least 0.
    """
    if seed is not None and integer("seed", seed) < 0:
        raise ValueError(f"seed must be None or at least 0, got {seed}")
    return np.random.default_rng(seed)


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


@_takes_settings
def stream(
    model: LanguageModel,
    prompt: Sequence[int],
    max_new_tokens: int,
    *,
    seed: int | None = None,
    stop_id: int | None = None,
    n_vocab: int | None = None,
    use_cache: bool = True,
    cache: Any = None,
    **rule: Any,
) -> Iterator[Step]:
    """Generate tokens one at a time after one prompt.

    Past the context window the last `context_length` tokens are read again from position 0; with
    and without the cache the same tokens come out. The random generator is private to the call.

    Args:
        prompt: token ids, at least one; the last `context_length` are used, with a warning.
        max_new_tokens: most tokens to generate, at least 0.
        seed: repeats the draws; None takes a fresh one from the system.
        stop_id: ends the stream when drawn; it is not yielded.
        n_vocab: size of the tokenizer; ids from it on, the padding of a model, are never drawn.
        use_cache: keep keys and values instead of computing them again for each token.
        cache: the caller's, to be gone on with: it holds the first ids of the prompt, as an earlier
            call left them, and ends up holding all but the last of prompt and new ids.
        rule: the fields of `Settings`.

    Raises:
        TypeError, ValueError: wrong input, at the call and before the model runs.
    """
    settings = Settings(**rule)
    integer("max_new_tokens", max_new_tokens, 0)
    rng = generator(seed)
    V, window = model.cfg.vocab_size, model.cfg.context_length
    if stop_id is not None and not 0 <= integer("stop_id", stop_id) < V:
        raise ValueError(f"stop_id must be None or in 0..{V - 1}, got {stop_id}")
    if n_vocab is not None and not 1 <= integer("n_vocab", n_vocab) <= V:
        raise ValueError(f"n_vocab must be in 1..{V}, the model's ids, got {n_vocab}")
    ids = prompt_ids(prompt, V)
    if len(ids) > window and max_new_tokens > 0:
        warnings.warn(
            f"the prompt has {len(ids)} tokens, the model reads the last {window}", stacklevel=2
        )
    needed = min(window, len(ids) + max_new_tokens)
    if cache is None and use_cache:
        cache = model.new_cache(needed)
    elif cache is not None and not (cache.length < len(ids) and needed <= cache.max_len):
        raise ValueError(
            f"the cache holds {cache.length} of at most {cache.max_len} positions; a prompt of"
            f" {len(ids)} tokens, longer than what it holds, and {max_new_tokens} more must fit"
        )
    return steps(model, ids, max_new_tokens, settings, rng, stop_id, n_vocab, cache)


def steps(
    model: LanguageModel,
    ids: list[int],
    max_new_tokens: int,
    settings: Settings,
    rng: np.random.Generator,
    stop_id: int | None,
    n_vocab: int | None,
    cache: Any,
) -> Iterator[Step]:
    """Yield what `stream` yields; everything is checked already, and `cache` may be None."""
    window = model.cfg.context_length
    for _ in range(max_new_tokens):
        start = time.perf_counter()
        new = ids[-window:]
        if cache is not None:
            if len(ids) > window:
                cache.reset()  # every position has shifted: read the window again
            new = new[cache.length :]
        logits = model.next_logits(new, cache)[:n_vocab]
        probs = settings.probabilities(np.asarray(logits, dtype=np.float64))
        token_id = draw(probs, rng)
        if token_id == stop_id:
            return
        ids.append(token_id)
        yield Step(token_id, float(probs[token_id]), entropy(probs), time.perf_counter() - start)


def entropy(probs: Floats) -> float:
    """Return the entropy in nats of (V,) probabilities."""
    positive = probs[probs > 0]
    return float(-(positive * np.log(positive)).sum()) + 0.0  # + 0.0 turns -0.0 into 0.0


@_takes_settings
def generate(
    model: LanguageModel,
    prompt: Sequence[int] | Sequence[Sequence[int]],
    max_new_tokens: int,
    **rule: Any,
) -> Any:
    """Return the prompt followed by the new ids, as one list.

    A list of prompts, of any lengths, gives a list of results, each what that prompt gives alone
    with the same seed. `rule` are the keyword arguments of `stream`, whose errors are raised for
    every prompt before the first one runs.
    """
    if not hasattr(prompt, "__len__"):
        raise TypeError(f"prompt must be a sequence of token ids or of prompts, got {prompt!r:.80}")
    first: Any = next(iter(prompt), 0)
    single = np.ndim(first) == 0
    prompts: Sequence[Any] = [prompt] if single else prompt
    streams = [stream(model, row, max_new_tokens, **rule) for row in prompts]
    results = [
        [*map(int, row), *(step.token_id for step in written)]
        for row, written in zip(prompts, streams, strict=True)
    ]
    return results[0] if single else results
