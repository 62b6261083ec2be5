"""Token data of any size on disk: written in bounded memory, read through memory maps.

A folder of shards holds plain files of token ids, in the smallest unsigned type that the vocabulary
needs, and `tokens.json`, which says which, how many, and by which tokenizer.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gptlib._helpers.folders import ASIDE, new_folder, read_object
from gptlib._helpers.messages import shown
from gptlib._helpers.numbers import integer
from gptlib.text import tokenizers
from gptlib.text.encoding import not_utf8
from gptlib.text.tokenizers import Tokenizer

INDEX = "tokens.json"
SHARD_TOKENS = 100_000_000  # per file: 200 MB with GPT-2's vocabulary
CHUNK = 1 << 20  # characters encoded at once
LONGEST = 1 << 22  # characters without white space, after which a chunk is cut anywhere


class Shards:
    """The tokens of several files as one (N,) array that stays on disk.

    Takes an array of places, as the training windows do, or a slice with step 1, which is again
    such an array and reads nothing.

    Args:
        parts: one memory-mapped array per shard.
        n_vocab: size of the vocabulary; all ids are below it.
    """

    def __init__(self, parts: Sequence[NDArray[Any]], n_vocab: int) -> None:
        self.parts, self.n_vocab = list(parts), n_vocab
        self.starts = np.cumsum([0, *(len(part) for part in parts)])  # where each shard begins

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, at: slice | NDArray[np.integer[Any]]) -> Any:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step != 1:
                raise ValueError(f"shards can be sliced with step 1 only, got {step}")
            ends = zip(self.parts, self.starts[:-1], strict=True)
            cut = [part[max(start - s, 0) : max(stop - s, 0)] for part, s in ends]
            return Shards([part for part in cut if len(part)], self.n_vocab)
        shard = np.searchsorted(self.starts, at, side="right") - 1
        found = np.empty(np.shape(at), dtype=np.int64)
        for number in np.unique(shard):
            here = shard == number
            found[here] = self.parts[number][at[here] - self.starts[number]]
        return found


def load(folder: str | Path) -> tuple[Shards, Tokenizer]:
    """Open what `prepare` wrote, without reading it.

    Raises:
        FileNotFoundError: the folder holds no prepared tokens, or a shard is missing.
        ValueError: the index is damaged, or a shard has another size than it says.
    """
    folder = Path(folder)
    if not (folder / INDEX).is_file():
        raise FileNotFoundError(
            f"{shown(folder)} holds no prepared tokens: {INDEX} is missing; `gptlib prepare` makes"
            " them"
        )
    index = read_object(folder / INDEX)
    try:
        dtype, tokenizer = np.dtype(index["dtype"]), tokenizers.from_dict(index["tokenizer"])
        sizes = {str(name): int(count) for name, count in index["shards"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{shown(folder / INDEX)} is damaged: {error!r:.80}") from error
    parts = []
    for name, count in sizes.items():
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(f"shard {shown(path)} is missing")
        if path.stat().st_size != count * dtype.itemsize:
            raise ValueError(
                f"shard {shown(path)} has {path.stat().st_size} bytes, expected"
                f" {count * dtype.itemsize}; prepare it again"
            )
        parts.append(np.memmap(path, dtype=dtype, mode="r"))
    return Shards(parts, tokenizer.n_vocab), tokenizer


def prepare(
    files: Sequence[str | Path],
    tokenizer: Tokenizer,
    out: str | Path,
    *,
    shard_tokens: int = SHARD_TOKENS,
    progress: Callable[[int], object] = lambda n: None,
) -> int:
    """Encode text files into a folder of shards, whatever their size, in bounded memory.

    The ids are those of encoding each file at once: chunks are cut before white space, where every
    tokenizer cuts too. (Only more than four million characters without any are cut elsewhere.) An
    end-of-text token follows each text where the tokenizer has one. All is written aside first, so
    tokens that the folder already holds stay until the new ones are complete.

    Args:
        files: UTF-8 texts; line ends become `\\n`.
        shard_tokens: most tokens per file.
        progress: called with the number of characters read, again and again.

    Returns:
        The number of tokens.

    Raises:
        OSError: a file cannot be read or the folder not written.
        TypeError: `shard_tokens` is not an integer.
        ValueError: `shard_tokens` is below 1, a file is not UTF-8, or none holds any text.
    """
    shard_tokens = integer("shard_tokens", shard_tokens, 1)
    dtype = tokenizers.id_dtype(tokenizer)
    with (
        new_folder(out) as folder,
        tempfile.TemporaryDirectory(prefix=ASIDE, dir=folder) as fresh,
    ):
        aside = Path(fresh)
        counts = _write(files, tokenizer, aside, dtype, shard_tokens, progress)
        index = {
            "dtype": dtype.name,
            "tokenizer": tokenizer.to_dict(),
            "shards": {_name(i): count for i, count in enumerate(counts)},
        }
        (aside / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
        if (folder / INDEX).exists():
            (folder / INDEX).unlink()  # half replaced, it must not look complete
            for old in folder.glob("shard-" + 5 * "[0-9]" + ".bin"):
                old.unlink()
        for name in [*index["shards"], INDEX]:
            os.replace(aside / name, folder / name)
    return sum(counts)


def _write(
    files: Sequence[str | Path],
    tokenizer: Tokenizer,
    folder: Path,
    dtype: np.dtype[Any],
    shard_tokens: int,
    progress: Callable[[int], object],
) -> list[int]:
    """Write the shards and return how many tokens each has."""
    counts: list[int] = []
    shard = None
    try:
        for ids in _encoded(files, tokenizer, progress):
            tokens = np.array(ids, dtype=dtype)
            while len(tokens):
                if shard is None or counts[-1] == shard_tokens:
                    if shard is not None:
                        shard.close()
                    shard = (folder / _name(len(counts))).open("wb")
                    counts.append(0)
                part = tokens[: shard_tokens - counts[-1]]
                shard.write(part.tobytes())
                counts[-1] += len(part)
                tokens = tokens[len(part) :]
    finally:
        if shard is not None:
            shard.close()
    if not counts:
        raise ValueError(f"no text in {', '.join(shown(path) for path in files)}")
    return counts


def alphabet(
    files: Sequence[str | Path], progress: Callable[[int], object] = lambda n: None
) -> str:
    """Return every character that occurs in the files, sorted, in bounded memory."""
    found: set[str] = set()
    for path in files:
        for text in _chunks(path):
            found.update(tokenizers.clean(text))
            progress(len(text))
    return "".join(sorted(found))


def _name(number: int) -> str:
    return f"shard-{number:05d}.bin"


def _encoded(
    files: Sequence[str | Path], tokenizer: Tokenizer, progress: Callable[[int], object]
) -> Iterator[list[int]]:
    for path in files:
        text = ""
        for text in _chunks(path):
            yield tokenizer.encode(text)
            progress(len(text))
        if text and tokenizer.eot_id is not None:
            yield [tokenizer.eot_id]


def _chunks(path: str | Path) -> Iterator[str]:
    """Yield the text of a UTF-8 file in pieces that can be encoded one by one."""
    try:
        with open(path, "rb") as data:
            file = io.TextIOWrapper(data, encoding="utf-8-sig")  # makes every line end `\n`
            held = ""
            while piece := _read(path, file, data):
                held += piece
                cut = last_cut(held)
                if cut == 0 and len(held) > LONGEST:
                    cut = len(held)
                if cut:
                    yield held[:cut]
                    held = held[cut:]
            if held:
                yield held
    except OSError as error:
        raise type(error)(f"text file {shown(path)} cannot be read: {error.strerror}") from error


def _read(path: str | Path, file: io.TextIOWrapper, data: BinaryIO) -> str:
    try:
        return file.read(CHUNK)
    except UnicodeDecodeError as error:  # whose place is that in a piece of the file
        raise not_utf8(path, data) from error


def last_cut(text: str) -> int:
    """Return the last place before white space that follows something else, 0 if there is none.

    GPT-2's pattern never has a piece across such a place, and what it finds on one side does not
    depend on the other.
    """
    end = len(text)
    while (cut := max(text.rfind(" ", 0, end), text.rfind("\n", 0, end))) > 0:
        if not text[cut - 1].isspace():
            return cut
        end = cut
    return 0
