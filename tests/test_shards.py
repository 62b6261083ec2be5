import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptlib import (
    GPT,
    ByteTokenizer,
    CharTokenizer,
    TrainConfig,
    Trainer,
    corpus,
    gpt2_tokenizer,
    shards,
)

TEXT = "To be,  or not to be:\n\n\nthat is the question -- 'tis 1603!\r\n\té \u3000 日本 " * 40


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode("utf-8"))
    return path


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("kind", ["bytes", "chars", "gpt2"])
def test_the_ids_are_those_of_encoding_the_whole_file_at_once(
    tmp_path, file, monkeypatch, chunk, kind
):
    monkeypatch.setattr(shards, "CHUNK", chunk)
    tokenizer = {
        "bytes": ByteTokenizer,
        "chars": lambda: CharTokenizer.from_text(corpus.load_text(file)),
        "gpt2": gpt2_tokenizer,
    }[kind]()
    n = shards.prepare([file], tokenizer, tmp_path / "out", shard_tokens=500)
    tokens, again = shards.load(tmp_path / "out")
    expected = tokenizer.encode(corpus.load_text(file)) + [tokenizer.eot_id] * (kind == "gpt2")
    assert tokens[np.arange(n)].tolist() == expected
    assert again.to_dict() == tokenizer.to_dict()
    assert len(tokens.parts) == -(-n // 500)
    assert tokens.parts[0].dtype == (np.uint16 if kind == "gpt2" else np.uint8)


@given(st.text(alphabet=" \n\t\x1c\u00a0\u3000ab1'.é", max_size=60), st.integers(1, 9))
def test_cutting_before_white_space_never_changes_gpt2s_ids(text, size):
    tokenizer, held, ids = gpt2_tokenizer(), "", []
    for i in range(0, len(text), size):
        held += text[i : i + size]
        cut = shards.last_cut(held)
        ids += tokenizer.encode(held[:cut])
        held = held[cut:]
    assert ids + tokenizer.encode(held) == tokenizer.encode(text)


def test_a_text_without_white_space_is_cut_somewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "CHUNK", 10)
    monkeypatch.setattr(shards, "LONGEST", 25)
    path = tmp_path / "long.txt"
    path.write_text("x" * 1000)
    shards.prepare([path], ByteTokenizer(), tmp_path / "out")
    tokens, tokenizer = shards.load(tmp_path / "out")
    assert tokenizer.decode(tokens[np.arange(1000)].tolist()) == "x" * 1000


@pytest.mark.parametrize("start", [0, 3, 99, 100, 101, 250])
@pytest.mark.parametrize("stop", [0, 50, 100, 230, 999])
def test_a_slice_is_what_the_whole_array_gives(start, stop):
    whole = np.arange(300)
    sharded = shards.Shards([whole[:100], whole[100:101], whole[101:]], 300)
    part = sharded[start:stop]
    assert len(part) == len(whole[start:stop])
    places = np.arange(len(part))
    assert part[places].tolist() == whole[start:stop].tolist()
    grid = places[: len(places) // 2 * 2].reshape(2, -1)
    assert part[grid].tolist() == whole[start:stop][grid].tolist()


def test_training_from_shards_equals_training_from_an_array(tmp_path, tiny):
    tokens = (np.arange(900, dtype=np.uint8) ** 2 // 7) % 50
    sharded = shards.Shards([tokens[:100], tokens[100:650], tokens[650:]], 50)
    config = TrainConfig(steps=5, batch_size=4, warmup_steps=1, eval_windows=3)

    def losses(source):
        import torch

        torch.manual_seed(0)
        train, val = corpus.split(source, context_length=8)
        trainer = Trainer(GPT(tiny), train, val, config)
        trainer.run(progress=False)
        return [r.loss for r in trainer.history], [e.loss for e in trainer.evaluations]

    assert losses(sharded) == losses(tokens)
    assert corpus.fingerprint(sharded) == corpus.fingerprint(tokens)


def test_a_vocabulary_too_large_for_the_model_is_named_without_reading(tiny):
    sharded = shards.Shards([np.zeros(100, dtype=np.uint8)], 51)
    with pytest.raises(ValueError, match=r"holds ids 0\.\.50"):
        Trainer(GPT(tiny), sharded, sharded, TrainConfig(steps=30))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "tokens.json").unlink(), "tokens.json is missing"),
        (lambda d: (d / "tokens.json").write_text("{}"), "tokens.json is damaged"),
        (lambda d: (d / "shard-00000.bin").unlink(), "shard-00000.bin is missing"),
        (lambda d: (d / "shard-00000.bin").write_bytes(b"12"), "has 2 bytes, expected"),
    ],
)
def test_damage_is_named(tmp_path, file, spoil, message):
    shards.prepare([file], ByteTokenizer(), tmp_path / "out")
    spoil(tmp_path / "out")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        shards.load(tmp_path / "out")


def test_what_cannot_be_prepared_is_named(tmp_path):
    bad, empty = tmp_path / "bad.txt", tmp_path / "empty.txt"
    bad.write_bytes(b"caf\xe9 au lait")
    empty.write_bytes(b"")
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=r"bad\.txt is not UTF-8: byte 0xe9"):
        shards.prepare([bad], ByteTokenizer(), out)
    with pytest.raises(ValueError, match="no text in"):
        shards.prepare([empty], ByteTokenizer(), out)
    with pytest.raises(OSError, match="cannot be read"):
        shards.prepare([tmp_path / "nowhere.txt"], ByteTokenizer(), out)
    assert not (out / "tokens.json").exists()  # nothing looks complete


@pytest.mark.slow  # two processes prepare a large text: 2 s
def test_memory_stays_bounded_while_preparing(tmp_path):
    code = (
        "import sys; from gptlib import gpt2_tokenizer, shards\n"
        "shards.prepare([sys.argv[1]], gpt2_tokenizer(), sys.argv[2])\n"
        "status = open('/proc/self/status').read()\n"  # getrusage would count the parent's memory
        "print(status.split('VmHWM:')[1].split()[0])\n"
    )
    used = []
    for size in (4, 24):  # MB
        path = tmp_path / f"{size}.txt"
        path.write_text("to be or not to be, " * (size * 50_000))
        command = [sys.executable, "-c", code, str(path), str(tmp_path / f"out{size}")]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        used.append(int(out) / 1000)
    assert used[1] < used[0] + 15  # MB
    assert used[1] < 500


@pytest.mark.parametrize(
    ("size", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError)]
)
def test_a_shard_has_at_least_one_token(tmp_path, size, error):
    with pytest.raises(error, match="shard_tokens must be"):
        shards.prepare([__file__], ByteTokenizer(), tmp_path / "out", shard_tokens=size)
    assert not (tmp_path / "out").exists()
