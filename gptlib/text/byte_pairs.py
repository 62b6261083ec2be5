"""Byte-pair encoding to read: learn merges from a text, apply them to another, undo them.

A token is a byte, or two tokens joined. So a list of merges is a whole tokenizer: ids 0 to 255 are
the bytes, and merge number i, counted from 0, makes the token 256 + i. GPT-2's tokenizer is the
same rule with a longer list; `tokenizers.GPT2Tokenizer` leaves the work to tiktoken, which is
faster.

Sources: Sennrich and others, 2016, section 3.2; Radford and others, 2019, section 2.2.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import regex  # knows \p{L}; comes with tiktoken

from gptlib.text import tokenizers

Pair = tuple[int, int]  # two ids that become one

PLAIN = range(256)  # bytes stand for themselves
_WORD = regex.compile(tokenizers.GPT2_PATTERN)


def cut(text: str) -> list[str]:
    """Cut a text into words, each with the space in front of it; no token reaches across a cut."""
    return _WORD.findall(tokenizers.clean(text))


def merge(ids: Sequence[int], pair: Pair, new: int) -> list[int]:
    """Replace each `pair` of neighbours in `ids` by `new`, from the left."""
    out: list[int] = []
    for token in ids:
        if out and (out[-1], token) == pair:
            out[-1] = new
        else:
            out.append(token)
    return out


def train(text: str, n_merges: int) -> list[Pair]:
    """Return the merges that `text` teaches, the most frequent pair first.

    Of pairs that occur equally often the one with the lower ids comes first. Fewer merges
    are returned where no pair occurs twice any more. Each different word is counted once and
    weighed by how often it occurs, so that 4 MB of text cost seconds.
    """
    counts = Counter(cut(text))
    words, times = [list(word.encode()) for word in counts], list(counts.values())
    pairs: Counter[Pair] = Counter()
    where: dict[Pair, set[int]] = defaultdict(set)  # the words that have, or had, a pair

    def note(at: int, sign: int) -> set[Pair]:
        for pair in (found := list(pairwise(words[at]))):
            pairs[pair] += sign * times[at]
            where[pair].add(at)
        return set(found)

    for at in range(len(words)):
        note(at, +1)
    merges: list[Pair] = []
    queue = [(-n, pair) for pair, n in pairs.items()]  # the most frequent first
    heapq.heapify(queue)
    while queue and len(merges) < n_merges:
        n, best = heapq.heappop(queue)
        if -n != pairs[best]:
            continue  # it has been counted anew since
        if n > -2:
            break
        changed: set[Pair] = set()
        for at in where.pop(best):
            changed |= note(at, -1)
            words[at] = merge(words[at], best, 256 + len(merges))
            changed |= note(at, +1)
        for pair in changed:
            heapq.heappush(queue, (-pairs[pair], pair))
        merges.append(best)
    return merges


def encode(text: str, merges: Sequence[Pair], letters: Sequence[int] = PLAIN) -> list[int]:
    """Return the ids of a text: in each word, always the earliest merge of the list that fits.

    Args:
        text: any text.
        merges: as `train` returns them, or the beginning of such a list.
        letters: the byte of each of the first 256 ids.

    Cost: a word of n bytes takes up to n passes over it; words that come again take none.
    """
    made = {pair: 256 + rank for rank, pair in enumerate(merges)}
    first = {byte: i for i, byte in enumerate(letters)}
    known: dict[str, list[int]] = {}
    out: list[int] = []
    for word in cut(text):
        if word not in known:
            known[word] = merge_word([first[byte] for byte in word.encode()], made)
        out += known[word]
    return out


def merge_word(word: list[int], made: Mapping[Pair, int]) -> list[int]:
    """Merge the ids of one word while a pair of neighbours is in `made`, the lowest first."""
    while len(word) > 1:
        best = min(pairwise(word), key=lambda pair: made.get(pair, math.inf))
        if best not in made:
            break
        word = merge(word, best, made[best])
    return word


def pieces(merges: Iterable[Pair], letters: Sequence[int] = PLAIN) -> list[bytes]:
    """Return the bytes that each id stands for; a merge joins those of its two parts."""
    out = [bytes([byte]) for byte in letters]
    for left, right in merges:
        out.append(out[left] + out[right])
    return out


def decode(ids: Iterable[int], merges: Sequence[Pair], letters: Sequence[int] = PLAIN) -> str:
    """Return the text of `ids`; bytes that are not UTF-8 become U+FFFD."""
    known = pieces(merges, letters)
    return b"".join(known[i] for i in ids).decode("utf-8", errors="replace")


@functools.cache
def gpt2() -> tuple[tuple[Pair, ...], bytes]:
    """Return GPT-2's 50,000 merges and the order of its first 256 ids, for `encode` and `decode`.

    Errors as in `tokenizers.vocabulary_files`.
    """
    byte_of = tokenizers.byte_of_printed_char()  # in the order of the ids
    ids = {char: i for i, char in enumerate(byte_of)}
    lines = tokenizers.vocabulary_files()["vocab.bpe"].read_text("utf-8").splitlines()[1:]
    merges: list[Pair] = []
    for left, right in map(str.split, lines):
        ids[left + right] = len(ids)
        merges.append((ids[left], ids[right]))
    return tuple(merges), bytes(byte_of.values())
