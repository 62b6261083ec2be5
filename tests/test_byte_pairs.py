"""Byte-pair encoding to read: its merges, and that it is GPT-2's with GPT-2's list."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptlib import byte_pairs, corpus, gpt2_tokenizer, tokenizers

any_text = st.text(st.characters(exclude_categories=()))
like_english = st.text(st.sampled_from("etaoinshrdl 's.\n12é😀世"))


def train_slowly(text: str, n_merges: int) -> list[byte_pairs.Pair]:
    """Count all pairs of all words anew for each merge."""
    words = [list(word.encode()) for word in byte_pairs.cut(text)]
    merges: list[byte_pairs.Pair] = []
    while len(merges) < n_merges:
        pairs = Counter(pair for word in words for pair in itertools.pairwise(word))
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        words = [byte_pairs.merge(word, best, 256 + len(merges)) for word in words]
        merges.append(best)
    return merges


def names(merges: list[byte_pairs.Pair]) -> list[bytes]:
    return byte_pairs.pieces(merges)[256:]


def test_a_line_by_hand() -> None:
    merges = byte_pairs.train("she sells sea shells", 4)
    assert merges == [(ord(" "), ord("s")), (ord("e"), ord("l")), (ord("l"), ord("s")), (257, 258)]
    assert names(merges) == [b" s", b"el", b"ls", b"ells"]
    assert byte_pairs.encode("she sells", merges) == [*b"she", 256, 259]
    assert byte_pairs.encode("else", merges) == [257, *b"se"]  # "el" comes before "ls"


@given(st.text(st.sampled_from("ab ab c'é\n")), st.integers(0, 12))
def test_counting_only_what_changed_gives_what_counting_all_gives(text: str, n: int) -> None:
    assert byte_pairs.train(text, n) == train_slowly(text, n)


def test_it_counts_on_real_text_as_well() -> None:
    text = corpus.shakespeare()[:20_000]
    assert byte_pairs.train(text, 60) == train_slowly(text, 60)


def test_overlapping_pairs_are_merged_from_the_left() -> None:
    assert byte_pairs.merge([1, 1, 1, 2, 1, 1], (1, 1), 9) == [9, 1, 2, 9]
    assert names(byte_pairs.train("aaaaaaaa", 9)) == [b"aa", b"aaaa"]


def test_no_merge_crosses_a_cut_and_none_is_made_of_a_pair_that_stands_once() -> None:
    assert byte_pairs.cut("I'll sea  shells, 1604.\n") == [
        "I", "'ll", " sea", " ", " shells", ",", " 1604", ".", "\n",
    ]  # fmt: skip
    assert byte_pairs.train("ab cd", 5) == []
    assert names(byte_pairs.train("ab ab", 5)) == [b"ab"]


@given(any_text | like_english)
def test_with_gpt2s_list_it_gives_the_ids_of_tiktoken(text: str) -> None:
    assert byte_pairs.encode(text, *byte_pairs.gpt2()) == gpt2_tokenizer().encode(text)


@pytest.mark.parametrize(
    "text",
    [
        corpus.shakespeare()[:50_000],
        "🙂👩‍👩‍👧‍👦 emoji, 漢字 and ǆ\u0301",
        "def f(x):\n\treturn  x ** 2   # \r\n\n\n",
        "我们不知道下一个词是什么。",
        " " * 300 + "a",
        tokenizers.END_OF_TEXT,
        "\x1c\x85\ufeff\u200b\u3000x",
        "a" * 5000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_with_gpt2s_list_it_gives_tiktokens_ids_on_text_of_every_kind(text: str) -> None:
    merges, letters = byte_pairs.gpt2()
    ids = gpt2_tokenizer().encode(text)
    assert byte_pairs.encode(text, merges, letters) == ids
    assert byte_pairs.decode(ids, merges, letters) == text


def test_the_pieces_of_gpt2s_list_are_those_of_its_ids() -> None:
    gpt2 = gpt2_tokenizer()
    known = byte_pairs.pieces(*byte_pairs.gpt2())
    assert known == [gpt2.token_bytes(i) for i in range(gpt2.n_vocab - 1)]


@given(any_text, st.integers(0, 300))
def test_any_text_survives_any_list_and_more_merges_make_it_no_longer(text: str, n: int) -> None:
    merges, letters = byte_pairs.gpt2()
    ids = byte_pairs.encode(text, merges[:n], letters)
    assert byte_pairs.decode(ids, merges[:n], letters) == tokenizers.clean(text)
    assert len(byte_pairs.encode(text, merges, letters)) <= len(ids)
    assert max(ids, default=0) < 256 + n


def test_without_merges_ids_are_bytes() -> None:
    assert byte_pairs.encode("é!", []) == [0xC3, 0xA9, 0x21]
    assert byte_pairs.decode([0xC3], []) == "\ufffd"
