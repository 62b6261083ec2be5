"""Tokenizers read from other models' files encode as the library that made those files does."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from gguf_files import MERGES, TOKENS
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, WordPiece
from tokenizers.trainers import BpeTrainer

from gptlib.storage.gguf import find
from gptlib.storage.gguf.head import read_head
from gptlib.text import corpus, tokenizers
from gptlib.text.byte_pair_files import BytePairTokenizer, from_gguf, read_tokenizer_json
from gptlib.text.merge_order import ranks
from gptlib.text.word_cuts import GGUF_CUTS

TEXTS = [
    "",
    " ",
    "Water boils at 100°C, and 3.14159 is 2 × 1.570795.",
    "1234567890 12 345 6",
    "  7 spaces   8\n\n9\t10 \n 11   ",
    "def f(x):\n    return {'a': x**2}  # it's\n\n\n",
    "I'll you've they're DON'T we'd I'm 's 'S x's",
    "naïve café e\u0301 A\u030a 한국어 日本語 العربية हिन्दी ไทย",
    "👩‍👩‍👧‍👦 🙂🙂 ½ Ⅷ ² ٣٤",
    "a\x04b\x13\x14c !\x16! \U00040000\U000f1234",
    "<|endoftext|> <|hi|>",
    "\r\n\r \u00a0\u2003x\u200b",
]
# Characters that Unicode has had for long: the libraries know different versions of it.
ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cn", "Cs"))) | st.text(
    st.sampled_from("aeht in'sT 019٣½ \n\t\r\u00a0.!_-é\u0301한🙂\x04"), max_size=40
)
LLAMA3, QWEN2 = GGUF_CUTS["llama-bpe"].pattern, GGUF_CUTS["qwen2"].pattern


def byte_level(**options: bool) -> Any:
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, "use_regex": True} | options)


def split(pattern: str) -> Any:
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


CUTTERS = {
    "gpt2": byte_level(),
    "alone": pre_tokenizers.Sequence([byte_level()]),
    "digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level()]),
    "numbers": pre_tokenizers.Sequence([pre_tokenizers.Digits(False), byte_level()]),
    "llama3": pre_tokenizers.Sequence([split(LLAMA3), byte_level(use_regex=False)]),
    "qwen2": pre_tokenizers.Sequence([split(QWEN2), byte_level(use_regex=False)]),
    "gaps": pre_tokenizers.Sequence([split(r"\p{L}+"), byte_level(use_regex=False)]),
}


def trained(cutter: str, *, all_bytes: bool = True) -> Tokenizer:
    """Train 600 tokens on a scene of Shakespeare and the fixed texts."""
    made = Tokenizer(BPE())
    made.pre_tokenizer, made.decoder = CUTTERS[cutter], decoders.ByteLevel()
    if cutter == "qwen2":
        made.normalizer = normalizers.NFC()
    trainer = BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>", "<|hi|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if all_bytes else [],
        show_progress=False,
    )
    made.train_from_iterator([corpus.shakespeare()[:30_000], *TEXTS[2:9]], trainer)
    return made


def written(made: Tokenizer, path: Path, change: Any = None) -> dict[str, Any]:
    data = json.loads(made.to_str())
    if change is not None:
        change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    return data


@pytest.fixture(scope="module", params=[*CUTTERS, "few bytes"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[Any, Any]:
    """Return the library's tokenizer and ours, read from its file."""
    few = request.param == "few bytes"
    made = trained("digits" if few else request.param, all_bytes=not few)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    written(made, path)
    made.encode_special_tokens = True  # a special token in a text is text
    return made, read_tokenizer_json(path)


@pytest.fixture(scope="module")
def smollm2_pair() -> tuple[Any, Any]:
    """Return the library's tokenizer with SmolLM2's vocabulary, and ours, read from its file."""
    about = read_head(find()).about
    merges = [tuple(merge.split(" ")) for merge in about["tokenizer.ggml.merges"]]
    vocab = {token: i for i, token in enumerate(about["tokenizer.ggml.tokens"])}
    made = Tokenizer(BPE(vocab, merges))
    made.pre_tokenizer, made.decoder = CUTTERS["digits"], decoders.ByteLevel()
    return made, from_gguf(about)


def agree(pair: tuple[Any, Any], text: str) -> None:
    theirs, ours = pair
    ids = theirs.encode(text, add_special_tokens=False).ids
    assert ours.encode(text) == ids, text
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
    assert "".join(ours.decode_stream(ids)) == ours.decode(ids)


@pytest.mark.parametrize("text", TEXTS)
def test_fixed_texts_become_the_ids_of_the_library(pair, text: str) -> None:
    agree(pair, text)


@settings(max_examples=60)
@given(text=ANY_TEXT)
def test_any_text_becomes_the_ids_of_the_library(pair, text: str) -> None:
    agree(pair, text)


@pytest.mark.parametrize("text", TEXTS)
def test_smollm2_makes_the_ids_of_the_library_of_fixed_texts(smollm2_pair, text: str) -> None:
    agree(smollm2_pair, text)


@settings(max_examples=60)
@given(text=ANY_TEXT)
def test_smollm2_makes_the_ids_of_the_library_of_any_text(smollm2_pair, text: str) -> None:
    agree(smollm2_pair, text)


def test_smollm2_reads_shakespeare_as_the_library_does(smollm2_pair) -> None:
    agree(smollm2_pair, corpus.shakespeare()[:200_000])


# --- The two spellings, and ids in any order


@pytest.fixture(scope="module")
def made() -> Tokenizer:
    return trained("digits")


def test_merges_may_be_pairs_or_strings(made: Tokenizer, tmp_path: Path) -> None:
    def spell(as_pairs: bool):
        def change(data: dict[str, Any]) -> None:
            pairs = [m.split(" ") if isinstance(m, str) else m for m in data["model"]["merges"]]
            data["model"]["merges"] = pairs if as_pairs else [" ".join(pair) for pair in pairs]

        return change

    written(made, tmp_path / "pairs.json", spell(True))
    written(made, tmp_path / "strings.json", spell(False))
    pairs, strings = (read_tokenizer_json(tmp_path / f"{n}.json") for n in ("pairs", "strings"))
    assert pairs.to_dict() == strings.to_dict()
    assert pairs.encode(" the king") == made.encode(" the king").ids


def test_ids_need_not_follow_the_merges(made: Tokenizer, tmp_path: Path) -> None:
    last = made.get_vocab_size() - 1

    def turn_round(data: dict[str, Any]) -> None:
        vocab = data["model"]["vocab"]
        data["model"]["vocab"] = {piece: last - i for piece, i in vocab.items()}
        for token in data["added_tokens"]:
            token["id"] = last - token["id"]

    written(made, tmp_path / "turned.json", turn_round)
    theirs = Tokenizer.from_file(str(tmp_path / "turned.json"))
    theirs.encode_special_tokens = True
    ours = read_tokenizer_json(tmp_path / "turned.json")
    assert ours.eot_id == last
    for text in TEXTS:
        agree((theirs, ours), text)
    assert ours.encode(" the") == [last - i for i in made.encode(" the").ids]


def test_merges_that_never_happen_are_left_out() -> None:
    # "bc" is joined first, so "ab" + "c" never meet, though tiktoken would make "abc" of "a" "bc".
    pieces = [b"a", b"b", b"c", b"bc", b"ab", b"abc"]
    merges = [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")]
    assert ranks(pieces, merges) == [b"a", b"b", b"c", b"bc", b"ab"]
    assert ranks(pieces, [*merges[1:], merges[0]]) == [b"a", b"b", b"c", b"ab", b"abc", b"bc"]


def odd(ignore_merges: bool) -> Tokenizer:
    """Return a tokenizer whose word "abc" no merge makes from what is left of it."""
    vocab = {char: i for i, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for piece in ("bc", "ab", "abc", "xyz"):
        vocab[piece] = len(vocab)
    merges = [("b", "c"), ("a", "b"), ("ab", "c")]
    made = Tokenizer(BPE(vocab, merges, ignore_merges=ignore_merges))
    made.pre_tokenizer, made.decoder = byte_level(), decoders.ByteLevel()
    return made


def test_pieces_that_no_merge_makes_are_not_made(tmp_path: Path) -> None:
    theirs = odd(ignore_merges=False)
    written(theirs, tmp_path / "t.json")
    ours = read_tokenizer_json(tmp_path / "t.json")
    for text in ("abc", "xyz", "aabc", "abcc", "ab", "cab"):
        agree((theirs, ours), text)
    assert len(ours.encode("abc")) == 2
    assert ours.decode([theirs.token_to_id("xyz")]) == "xyz"


def test_whole_words_are_taken_where_merges_are_to_be_ignored(tmp_path: Path) -> None:
    def without_abc(data: dict[str, Any]) -> None:
        data["model"]["merges"].pop()
        data["model"]["vocab"]["xyz"] = data["model"]["vocab"].pop("abc")

    written(odd(ignore_merges=True), tmp_path / "t.json", without_abc)
    theirs = Tokenizer.from_file(str(tmp_path / "t.json"))
    ours = read_tokenizer_json(tmp_path / "t.json")
    for text in ("xyz", "xyzx", " xyz", "xyz xyz", "abc"):
        agree((theirs, ours), text)
    assert len(ours.encode("xyz")) == 1
    written(odd(ignore_merges=True), tmp_path / "t.json")
    with pytest.raises(ValueError, match="the token b'abc' has no merge, but its parts have"):
        read_tokenizer_json(tmp_path / "t.json")


# --- The interface


def test_special_tokens_arise_only_where_they_are_allowed(made: Tokenizer, tmp_path: Path) -> None:
    written(made, tmp_path / "t.json")
    ours = read_tokenizer_json(tmp_path / "t.json")
    text = "the<|hi|> 12<|endoftext|>"
    assert ours.encode(text, {"<|hi|>", "<|endoftext|>"}) == made.encode(text).ids
    assert ours.encode(text).count(1) == 0
    assert ours.encode(text, {"<|hi|>"}).count(1) == 1
    assert ours.decode(ours.encode(text, {"<|hi|>"})) == text
    assert (ours.eot_id, ours.bos_id) == (0, None)
    with pytest.raises(ValueError, match=re.escape("unknown special token '<|no|>'")):
        ours.encode(text, {"<|no|>"})
    with pytest.raises(TypeError, match="must be a collection"):
        ours.encode(text, "<|hi|>")


def test_the_token_in_front_is_kept_and_never_added(made: Tokenizer, tmp_path: Path) -> None:
    made = Tokenizer.from_str(made.to_str())
    made.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|hi|> $A", special_tokens=[("<|hi|>", 1)]),
        ]
    )
    written(made, tmp_path / "t.json")
    ours = read_tokenizer_json(tmp_path / "t.json")
    assert ours.bos_id == 1
    assert [1, *ours.encode("the")] == made.encode("the").ids


def test_streams_hold_no_half_character(made: Tokenizer, tmp_path: Path) -> None:
    written(made, tmp_path / "t.json")
    ours = read_tokenizer_json(tmp_path / "t.json")
    text = "é 한국어 👩‍👩‍👧‍👦 🙂"
    ids = ours.encode(text)
    assert len(ids) > len(text)
    parts = list(ours.decode_stream(ids))
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts)


def test_lone_surrogates_become_the_replacement_character(made: Tokenizer, tmp_path: Path) -> None:
    written(made, tmp_path / "t.json")
    ours = read_tokenizer_json(tmp_path / "t.json")
    assert ours.encode("a\ud800b") == ours.encode("a\ufffdb")
    assert ours.encode("\ud83d\ude42") == ours.encode("🙂")


def test_a_description_gives_the_same_tokenizer(pair) -> None:
    _, ours = pair
    described = json.loads(json.dumps(ours.to_dict()))
    again = tokenizers.from_dict(described)
    assert isinstance(again, BytePairTokenizer)
    assert again.to_dict() == described
    assert (again.special_tokens, again.eot_id) == (ours.special_tokens, ours.eot_id)
    for text in TEXTS:
        assert again.encode(text, {"<|hi|>"}) == ours.encode(text, {"<|hi|>"})


def test_smollm2s_description_is_a_third_of_a_megabyte_at_most(smollm2_pair) -> None:
    _, ours = smollm2_pair
    assert len(json.dumps(ours.to_dict())) < 350_000


@pytest.mark.parametrize("packed", [None, 3, "", "!!", "c$@(L0ssI2"])
def test_a_damaged_description_is_named(packed: Any) -> None:
    with pytest.raises(ValueError, match="the packed byte-pair tokenizer is damaged"):
        tokenizers.from_dict({"type": "byte-pairs", "packed": packed})


# --- From a GGUF's metadata


@pytest.mark.parametrize("name", GGUF_CUTS)
def test_each_named_cut_of_a_gguf_is_the_one_of_the_library(name: str) -> None:
    about = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [1] * (len(TOKENS) - 2) + [3, 4],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 261,
        "tokenizer.ggml.add_bos_token": True,
    }
    vocab = {token: i for i, token in enumerate(TOKENS[:-2])}
    theirs = Tokenizer(BPE(vocab, [tuple(merge.split(" ")) for merge in MERGES]))
    known = {"gpt-2": "gpt2", "smollm": "digits", "llama-bpe": "llama3", "qwen2": "qwen2"}
    theirs.pre_tokenizer, theirs.decoder = CUTTERS[known[name]], decoders.ByteLevel()
    if name == "qwen2":
        theirs.normalizer = normalizers.NFC()
    ours = from_gguf(about)
    assert (ours.bos_id, ours.eot_id) == (261, None)
    for text in TEXTS:
        agree((theirs, ours), text)


# --- Other kinds


def set_in(*path: str | int, value: Any):
    def change(data: dict[str, Any]) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
REFUSED = {
    "WordPiece": (set_in("model", "type", value="WordPiece"), "type 'WordPiece' is not byte pairs"),
    "Unigram": (set_in("model", "type", value="Unigram"), "type 'Unigram' is not byte pairs"),
    "byte_fallback": (set_in("model", "byte_fallback", value=True), "byte_fallback=True"),
    "suffix": (set_in("model", "end_of_word_suffix", value="</w>"), "end_of_word_suffix='</w>'"),
    "Metaspace": (set_in("pre_tokenizer", value=METASPACE), "pre_tokenizer ['Metaspace']"),
    "no cuts": (set_in("pre_tokenizer", value=None), "pre_tokenizer [] is not byte-level"),
    "NFKC": (set_in("normalizer", value={"type": "NFKC"}), "normalizer ['NFKC']"),
    "strip": (set_in("added_tokens", 0, "lstrip", value=True), "lstrip of the token"),
    "not bytes": (set_in("model", "vocab", "▁the", value=600), "holds '▁': not byte-level"),
    "hole": (set_in("model", "vocab", "zzqq", value=700), "must be 0 to 600, each once"),
    "merge": (set_in("model", "merges", value=[["a", "zzqq"]]), "merge ['a', 'zzqq'] must join"),
    "no model": (lambda data: data.pop("model"), "is damaged: KeyError('model')"),
    "no merges": (lambda data: data["model"].pop("merges"), "is damaged: KeyError('merges')"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_kind_is_refused_by_name(made: Tokenizer, tmp_path: Path, name: str) -> None:
    change, expected = REFUSED[name]

    written(made, tmp_path / "t.json", change)
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "t.json"))) as caught:
        read_tokenizer_json(tmp_path / "t.json")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_space_in_front_is_refused(tmp_path: Path) -> None:
    made = Tokenizer.from_str(trained("gpt2").to_str())
    made.pre_tokenizer = byte_level(add_prefix_space=True)
    written(made, tmp_path / "t.json")
    with pytest.raises(ValueError, match="add_prefix_space puts a space before the text"):
        read_tokenizer_json(tmp_path / "t.json")


def test_a_real_wordpiece_file_is_refused(tmp_path: Path) -> None:
    written(Tokenizer(WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")), tmp_path / "t.json")
    with pytest.raises(ValueError, match="'WordPiece' is not byte pairs"):
        read_tokenizer_json(tmp_path / "t.json")
