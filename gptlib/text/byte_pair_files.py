"""Byte-pair tokenizers of other models: read from `tokenizer.json` or from a GGUF, run by tiktoken.

Both files hold the same things: pieces with their ids, a list of merges, tokens that no merge
makes, and the rule by which text is cut into words before anything is merged (`word_cuts.py`).
tiktoken knows no list of merges: it joins whatever two neighbours make the piece of lowest rank.
`merge_order.ranks` builds such an order that both ways agree, whatever order the ids have.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import re
import unicodedata
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gptlib._helpers.folders import read_object
from gptlib._helpers.messages import shown
from gptlib.text.merge_order import ranks
from gptlib.text.tokenizers import (
    END_OF_TEXT,
    PieceTokenizer,
    byte_of_printed_char,
    clean,
    naming_white_space,
)
from gptlib.text.word_cuts import GGUF_CUTS, Cuts, is_nfc, pattern_of

_SPECIAL, _NOT_OURS = (2, 3, 4), 6  # token types of a GGUF: unknown, control, added; a byte
_ALIKE = ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "dropout")


@dataclass(frozen=True)
class BytePairs:
    """All that a byte-pair tokenizer is made of.

    Attributes:
        ranked: pieces that merging can make or start from, in tiktoken's order.
        ids: the id of each.
        others: id to text of what no encoding makes but a model may write.
        special: text to id of the tokens that merging never makes.
        pattern: the regular expression whose matches are merged, each by itself.
        nfc: bring text to Unicode's normal form C first.
    """

    ranked: list[bytes]
    ids: list[int]
    others: dict[int, bytes]
    special: dict[str, int]
    pattern: str
    nfc: bool = False
    eot_id: int | None = None
    bos_id: int | None = None

    def pieces(self) -> list[bytes]:
        """Return the bytes of every id; ValueError where an id has two tokens or none."""
        pairs = [
            *zip(self.ids, self.ranked, strict=True),
            *self.others.items(),
            *((token_id, text.encode()) for text, token_id in self.special.items()),
        ]
        pieces = dict(pairs)
        if len(pieces) != len(pairs) or sorted(pieces) != list(range(len(pieces))):
            raise ValueError(
                f"the ids of {len(pairs)} tokens must be 0 to {len(pairs) - 1}, each once"
            )
        return [pieces[token_id] for token_id in range(len(pieces))]


class BytePairTokenizer(PieceTokenizer):
    """Byte-level byte pairs with another model's vocabulary.

    `eot_id` ends a text or an answer; `bos_id` is the token that the model expects in front of a
    text, None where it expects none: `encode` never adds it. `special_tokens` maps texts to ids.
    """

    name = "byte-pairs"

    def __init__(self, parts: BytePairs) -> None:
        """Build from `parts`; ValueError where they do not fit together."""
        import tiktoken  # noqa: PLC0415 (slow to load)

        super().__init__(parts.pieces())
        for what, token_id in (("eot_id", parts.eot_id), ("bos_id", parts.bos_id)):
            if token_id is not None and not 0 <= token_id < self.n_vocab:
                raise ValueError(f"{what} must be 0 to {self.n_vocab - 1}, got {token_id}")
        self.eot_id, self.bos_id = parts.eot_id, parts.bos_id
        self.special_tokens = MappingProxyType(parts.special)
        self._parts = parts
        known = set(parts.ranked)
        # tiktoken needs all 256 bytes; those without a token are never shown to it (`_ordinary`).
        self._missing = bytes(value for value in range(256) if bytes([value]) not in known)
        ranked = [*parts.ranked, *(bytes([value]) for value in self._missing)]
        try:
            self._encoding = tiktoken.Encoding(
                self.name,
                pat_str=parts.pattern,
                mergeable_ranks={piece: rank for rank, piece in enumerate(ranked)},
                special_tokens={},
            )
        except ValueError as error:  # the pattern is not one of its regular expressions
            raise ValueError(f"tiktoken cannot read the pattern {parts.pattern!r:.200}") from error

    def encode(self, text: str, allowed_special: Collection[str] = ()) -> list[int]:
        """Return the ids of `text`; special tokens arise only where `allowed_special` names them.

        A byte that the vocabulary has no token for is left out, as in the libraries that made it.
        """
        self._check_special(allowed_special)
        text = clean(text)
        if not allowed_special:
            return self._ordinary(text)
        longest_first = sorted(allowed_special, key=len, reverse=True)
        ids: list[int] = []
        for place, part in enumerate(
            re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
        ):
            ids += [self.special_tokens[part]] if place % 2 else self._ordinary(part)
        return ids

    def _ordinary(self, text: str) -> list[int]:
        if self._parts.nfc:
            text = unicodedata.normalize("NFC", text)
        data = text.encode()
        with naming_white_space(text):
            if len(data) == len(data.translate(None, self._missing)):
                ranks = self._encoding.encode_ordinary(text)
            else:
                ranks = self._without_missing(text)
        return list(map(self._parts.ids.__getitem__, ranks))

    def _without_missing(self, text: str) -> list[int]:
        """Cut first, then leave bytes out: what stood around them may merge."""
        import regex  # noqa: PLC0415 (tiktoken's own need; for odd texts only)

        words = (found.group().encode() for found in regex.finditer(self._parts.pattern, text))
        kept = (word.translate(None, self._missing) for word in words)
        merge = self._encoding._core_bpe.encode_single_piece
        return [rank for word in kept if word for rank in merge(word)]

    def to_dict(self) -> dict[str, str]:
        """Return what `from_dict` needs; the vocabulary is packed into one line."""
        table = printed_char_of_byte()
        fields = dataclasses.asdict(self._parts)
        fields["ranked"] = "\n".join(
            piece.decode("latin-1").translate(table) for piece in self._parts.ranked
        )
        fields["ids"] = [b - a for a, b in itertools.pairwise([0, *self._parts.ids])]  # packs well
        fields["others"] = {i: piece.decode("latin-1") for i, piece in self._parts.others.items()}
        packed = zlib.compress(json.dumps(fields).encode(), 9)
        return {"type": self.name, "packed": base64.b85encode(packed).decode()}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> BytePairTokenizer:
        """Rebuild the tokenizer that `to_dict` described; ValueError where it is damaged."""
        byte_of = byte_of_printed_char()
        try:
            fields = json.loads(zlib.decompress(base64.b85decode(d["packed"])))
            fields["ranked"] = [_bytes(piece, byte_of) for piece in fields["ranked"].split("\n")]
            fields["ids"] = list(itertools.accumulate(fields["ids"]))
            fields["others"] = {int(i): s.encode("latin-1") for i, s in fields["others"].items()}
            parts = BytePairs(**fields)
        except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
            raise ValueError(
                f"the packed byte-pair tokenizer is damaged ({error!r:.80})"
            ) from error
        return cls(parts)


def read_tokenizer_json(path: str | Path, eot: str | int = END_OF_TEXT) -> BytePairTokenizer:
    """Build a tokenizer from a Hugging Face `tokenizer.json` of byte-level byte pairs.

    Args:
        path: the file.
        eot: text or id of the token that ends a text; where the file has none such, `eot_id` is
            None.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged, or cuts or merges in a way that we do not; names the file.
    """
    path = Path(path)
    data = read_object(path)
    try:
        return _from_json(data, eot)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{shown(path)} is damaged: {error!r:.100}") from error
    except ValueError as error:
        raise ValueError(f"{shown(path)}: {error}") from error


def _from_json(data: Mapping[str, Any], eot: str | int) -> BytePairTokenizer:
    model = data["model"]
    kind = model.get("type", "BPE")
    if kind != "BPE":
        raise ValueError(f"a vocabulary of type {kind!r} is not byte pairs, which is all we read")
    for name in _ALIKE:
        if model.get(name):
            raise ValueError(f"{name}={model[name]!r} is not byte-level byte pairs")
    pattern, nfc = pattern_of(data.get("pre_tokenizer")), is_nfc(data.get("normalizer"))
    special: dict[str, int] = {}
    for token in data.get("added_tokens") or ():
        if taken := [n for n in ("lstrip", "rstrip", "single_word") if token.get(n)]:
            raise ValueError(f"{taken[0]} of the token {token['content']!r} is not supported")
        special[token["content"]] = token["id"]
    vocab = {text: i for text, i in model["vocab"].items() if text not in special}
    merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    whole = bool(model.get("ignore_merges"))
    parts = _parts(vocab, merges, special, Cuts(pattern, nfc, whole))
    if model.get("unk_token") and not all(bytes([value]) in parts.ranked for value in range(256)):
        raise ValueError(f"unk_token {model['unk_token']!r} stands for bytes without a token")
    bos = _front(data.get("post_processor"))
    bos_id = None if bos is None else special[bos]
    eot_id = next((i for text, i in special.items() if eot in (text, i)), None)
    return BytePairTokenizer(dataclasses.replace(parts, eot_id=eot_id, bos_id=bos_id))


def _front(processor: dict[str, Any] | None) -> str | None:
    """Return the token that a `post_processor` puts before a text."""
    steps = [] if processor is None else processor.get("processors", [processor])
    for step in steps:
        if step["type"] == "TemplateProcessing" and "SpecialToken" in step["single"][0]:
            return str(step["single"][0]["SpecialToken"]["id"])
        if "cls" in step:  # Bert's and Roberta's
            return str(step["cls"][0])
    return None


def from_gguf(about: Mapping[str, Any]) -> BytePairTokenizer:
    """Build a tokenizer from a GGUF's metadata, the keys that begin with "tokenizer.ggml.".

    Raises:
        ValueError: a key is missing or damaged, or another kind of tokenizer.
    """

    def get(name: str, kind: type) -> Any:
        value = about.get(f"tokenizer.ggml.{name}")
        if not isinstance(value, kind):
            what = "is missing" if value is None else f"must not be {value!r:.60}"
            raise ValueError(f"tokenizer.ggml.{name} {what}")
        return value

    if (model := get("model", str)) != "gpt2":
        raise ValueError(f"tokenizer.ggml.model {model!r:.60} is not byte pairs ('gpt2')")
    if (pre := get("pre", str)) not in GGUF_CUTS:
        raise ValueError(
            f"tokenizer.ggml.pre {pre!r:.60}: how it cuts text is known for {', '.join(GGUF_CUTS)}"
        )
    tokens, types, merges = (get(name, list) for name in ("tokens", "token_type", "merges"))
    optional = {
        name: get(name, int) if f"tokenizer.ggml.{name}" in about else None
        for name in ("eos_token_id", "bos_token_id", "add_bos_token")
    }
    if len(types) != len(tokens) or _NOT_OURS in types:
        raise ValueError("tokenizer.ggml.token_type must say of each token what it is, none a byte")
    texts = [str(token) for token in tokens]
    special = {t: i for i, (t, k) in enumerate(zip(texts, types, strict=True)) if k in _SPECIAL}
    unused = {i: t.encode() for i, (t, k) in enumerate(zip(texts, types, strict=True)) if k == 5}
    vocab = {t: i for i, t in enumerate(texts) if t not in special and i not in unused}
    parts = _parts(vocab, [str(merge).split(" ") for merge in merges], special, GGUF_CUTS[pre])
    return BytePairTokenizer(
        dataclasses.replace(
            parts,
            others=parts.others | unused,
            eot_id=optional["eos_token_id"],
            bos_id=optional["bos_token_id"] if optional["add_bos_token"] else None,
        )
    )


def _parts(
    vocab: Mapping[str, int], merges: Iterable[Sequence[str]], special: dict[str, int], cuts: Cuts
) -> BytePairs:
    byte_of = byte_of_printed_char()
    ids = {_bytes(text, byte_of): token_id for text, token_id in vocab.items()}
    pairs = []
    for merge in merges:
        if len(merge) != 2 or any(part not in vocab for part in (*merge, "".join(merge))):
            raise ValueError(f"merge {list(merge)!r:.100} must join two tokens into a third")
        pairs.append((_bytes(merge[0], byte_of), _bytes(merge[1], byte_of)))
    ranked = ranks(ids, pairs, whole_words=cuts.whole_words)
    made = set(ranked)
    others = {token_id: piece for piece, token_id in ids.items() if piece not in made}
    ranked_ids = [ids[piece] for piece in ranked]
    return BytePairs(ranked, ranked_ids, others, special, cuts.pattern, cuts.nfc)


def _bytes(text: str, byte_of: Mapping[str, int]) -> bytes:
    try:
        return bytes(byte_of[char] for char in text)
    except KeyError as error:
        raise ValueError(f"the token {text!r:.60} holds {error}: not byte-level") from None


def printed_char_of_byte() -> dict[int, str]:
    """Return how a vocabulary prints each byte, as a table for `str.translate` of Latin-1."""
    return {value: char for char, value in byte_of_printed_char().items()}
