"""Llama and its relatives: the same function as transformers, in and out, or refused by name."""

import dataclasses
import json
import re
from dataclasses import replace

import pytest
import safetensors.torch
import tokenizers
import torch
from switches import LLAMA, RELATIVES, TINY
from transformers import AutoConfig, AutoModelForCausalLM

from gptlib import GPT, ByteTokenizer, GPTConfig, account, checkpoint, generate, gpt2, llama, load
from gptlib.config import parameter_shapes

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
TIED = {"tie_word_embeddings": True}
THEIRS = [
    ("llama", {}),
    ("llama", {"num_key_value_heads": 4, "head_dim": 6, **TIED}),
    ("llama", {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True}),
    ("llama", {"hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-3}),
    ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    ("qwen2", TIED),
    ("qwen2", {"num_key_value_heads": 1, "use_sliding_window": False, "sliding_window": 8}),
    ("qwen3", {"head_dim": 6}),
    ("qwen3", {"head_dim": 4, "num_key_value_heads": 1, **TIED}),
    ("smollm3", {"no_rope_layer_interval": 2}),
    ("smollm3", {"no_rope_layers": [1, 1, 0], "attention_bias": True, "mlp_bias": True}),
    ("mistral", {"sliding_window": None, "head_dim": 6}),
    ("mistral", {"sliding_window": 64, "num_key_value_heads": 1}),
]
theirs = pytest.mark.parametrize(
    ("kind", "fields"), THEIRS, ids=[f"{kind}-{i}" for i, (kind, _) in enumerate(THEIRS)]
)


def build(kind, fields):
    """Return a model of transformers with random weights, no parameter of it at 0 or 1."""
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES | fields)).eval()
    with torch.no_grad():
        for param in model.parameters():
            param += 0.1 * torch.randn_like(param)
    return model


def joined(named, cfg):
    """Return their tensors (weights or gradients) under our names."""
    state = {
        name: torch.cat([named[t] for t in llama.their_names(name)])
        for name in parameter_shapes(cfg)
    }
    return state


@theirs
def test_the_same_function_as_transformers(kind, fields, tmp_path):
    reference = build(kind, fields)
    reference.save_pretrained(tmp_path)
    model = llama.load(tmp_path)
    idx = torch.randint(50, (2, 40))
    theirs = reference(idx, labels=idx)
    torch.testing.assert_close(model(idx), theirs.logits, atol=1e-4, rtol=1e-4)
    loss = model.loss(idx[:, :-1].contiguous(), idx[:, 1:].contiguous())
    assert loss.item() == pytest.approx(theirs.loss.item(), rel=1e-5)
    loss.backward()
    theirs.loss.backward()
    grads = joined({name: p.grad for name, p in reference.named_parameters()}, model.cfg)
    for name, param in model.named_parameters():
        gap = (param.grad - grads[name]).norm() / max(grads[name].norm(), 1e-3)
        assert gap < 1e-4, name
    with torch.no_grad():
        more = reference.generate(idx[:1, :5], max_new_tokens=50, do_sample=False)[0].tolist()
    assert generate(model, idx[0, :5].tolist(), 50, temperature=0) == more


@pytest.mark.parametrize("kind", RELATIVES)
def test_an_exported_model_is_the_same_function_there_and_the_same_weights_here(kind, tmp_path):
    cfg = replace(TINY, **RELATIVES[kind], vocab_size=256)
    model = GPT(cfg).eval()
    llama.export(model, tmp_path, ByteTokenizer())
    there = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert there.config.model_type == kind
    idx = torch.randint(256, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(there(idx).logits, model(idx), atol=1e-5, rtol=1e-5)
    back, tokenizer = load(tmp_path)
    assert back.cfg == cfg
    assert tokenizer.name == "bytes"
    state = back.weights()
    assert all(torch.equal(value, state[name]) for name, value in model.weights().items())


def test_heads_that_do_not_divide_the_width_are_exported_too(tmp_path):
    cfg = replace(TINY, **LLAMA | {"head_size": 6}, emb_dim=15)
    model = GPT(cfg).eval()
    llama.export(model, tmp_path)
    there = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    idx = torch.randint(17, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(there(idx).logits, model(idx), atol=1e-5, rtol=1e-5)
    assert llama.load(tmp_path).cfg == cfg


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "mistral", "smollm3"])
def test_a_number_of_shared_heads_is_not_guessed(kind):
    fields = {k: v for k, v in SIZES.items() if k != "num_key_value_heads"}
    with pytest.raises(ValueError, match="lacks num_key_value_heads"):
        GPTConfig.from_hf({"model_type": kind, "sliding_window": None, **fields})
    assert GPTConfig.from_hf({"model_type": "llama", **fields}).kv_heads == 4


def test_weights_in_shards_are_read_as_one(tmp_path):
    reference = build("llama", {})
    reference.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    idx = torch.randint(50, (1, 9))
    with torch.no_grad():
        torch.testing.assert_close(llama.load(tmp_path)(idx), reference(idx).logits)


def test_the_dtype_of_a_file_stays_unless_another_is_asked_for(tmp_path):
    build("llama", {}).bfloat16().save_pretrained(tmp_path)
    assert llama.load(tmp_path).tok_emb.weight.dtype == torch.bfloat16
    assert llama.load(tmp_path, dtype=torch.float32).tok_emb.weight.dtype == torch.float32


@theirs
def test_the_accounts_of_file_and_model_agree(kind, fields):
    about = AutoConfig.for_model(kind, **SIZES | fields).to_dict()
    ours, there = account(GPTConfig.from_hf(about)), account(about)
    assert ours.total == there.total
    assert ours.kv_cache_bytes(30) == there.kv_cache_bytes(30)


@pytest.mark.parametrize("old", [True, False], ids=["before transformers 5", "since"])
def test_the_rotary_base_is_read_in_both_spellings(old):
    about = {"model_type": "llama", **SIZES}
    about |= {"rope_theta": 77.0} if old else {"rope_parameters": {"rope_theta": 77.0}}
    assert GPTConfig.from_hf(about).rotary_base == 77.0


@pytest.mark.parametrize(
    ("kind", "fields", "parts"),
    [
        ("gpt_neox", {}, ("model_type must be one of gpt2, llama", "gpt_neox")),
        ("llama", {"hidden_size": None}, ("hidden_size", "None")),
        ("llama", {"intermediate_size": "24"}, ("intermediate_size", "'24'")),
        ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, ("llama3", "default")),
        ("llama", {"rope_parameters": {"rope_type": "yarn"}}, ("yarn",)),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, ("linear",)),
        ("llama", {"rope_scaling": 2}, ("rope_scaling must be one object", "2")),
        (
            "llama",
            {"rope_parameters": {"rope_type": "default"}, "rope_scaling": {"rope_type": "yarn"}},
            ("yarn",),
        ),
        ("llama", {"rope_parameters": {"full_attention": {}}}, ("one object for all blocks",)),
        ("llama", {"rope_theta": 10**400}, ("rope_theta must be finite",)),
        ("smollm3", {"no_rope_layer_interval": 0}, ("no_rope_layer_interval", "at least 1")),
        ("llama", {"partial_rotary_factor": 0.5}, ("partial_rotary_factor", "0.5")),
        ("llama", {"attention_bias": True}, ("attention_bias is true",)),
        ("llama", {"hidden_act": "swish2"}, ("hidden_act", "swish2")),
        ("llama", {"num_key_value_heads": 3}, ("n_kv_heads=3",)),
        ("llama", {"head_dim": 5}, ("rotary", "5")),
        ("llama", {"tie_word_embeddings": "yes"}, ("tie_word_embeddings", "'yes'")),
        ("mistral", {"sliding_window": 8}, ("sliding_window 8", "context of 64")),
        ("mistral", {}, ("lacks sliding_window",)),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 8}, ("sliding_window 8",)),
        ("qwen3", {"attention_bias": True}, ("attention_bias is true",)),
        ("smollm3", {"no_rope_layers": [1, 0, 0]}, ("no_rope_layers", "every so many-th")),
        ("smollm3", {"no_rope_layers": 3}, ("no_rope_layers must be a list", "3")),
    ],
)
def test_what_is_not_computed_is_refused_by_name_in_one_line(kind, fields, parts):
    with pytest.raises(ValueError, match=re.escape(parts[0])) as error:
        GPTConfig.from_hf({"model_type": kind, **SIZES, **fields})
    assert all(part in str(error.value) for part in parts), error.value
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"norm": "layer"}, ("norm='rms'", "'layer'")),
        ({"gated": False}, ("gated=True", "False")),
        ({"norm_first": False}, ("norm_first=True",)),
        ({"positions": "learned"}, ("GPT-2 has norm='layer'", "'rms'")),
        ({"bias": True}, ("bias=True", "do not come together")),
        ({"qk_norm": True, "rotary_skip": 2}, ("rotary_skip=2", "do not come together")),
    ],
)
def test_a_model_that_no_architecture_there_computes_is_not_exported(change, parts, tmp_path):
    model = GPT(replace(TINY, **LLAMA | change))
    for exporter in (llama, gpt2):
        with pytest.raises(ValueError, match=re.escape(parts[0])) as error:
            exporter.export(model, tmp_path / "out")
        assert all(part in str(error.value) for part in parts)
    assert not (tmp_path / "out").exists()


def test_each_reader_and_each_export_names_the_other(tmp_path):
    gpt2.export(GPT(TINY), tmp_path / "gpt2")
    llama.export(GPT(replace(TINY, **LLAMA)), tmp_path / "llama")
    with pytest.raises(ValueError, match=r"model_type is 'gpt2', which `gptlib\.load` reads"):
        llama.load(tmp_path / "gpt2")
    with pytest.raises(ValueError, match=r"model_type is 'llama', which `gptlib\.load` reads"):
        gpt2.load(tmp_path / "llama")
    with pytest.raises(ValueError, match=r"`gpt2\.export` writes it"):
        llama.export(GPT(TINY), tmp_path / "out")
    with pytest.raises(ValueError, match=r"`llama\.export` writes it"):
        gpt2.export(GPT(replace(TINY, **LLAMA)), tmp_path / "out")


def test_files_that_do_not_fit_are_named(tmp_path):
    reference = build("llama", {})
    reference.save_pretrained(tmp_path)
    state = safetensors.torch.load_file(tmp_path / "model.safetensors")
    moved = dict(state)
    moved["model.norm.strange"] = moved.pop("model.norm.weight")
    moved["model.layers.0.self_attn.k_proj.weight"] = torch.zeros(16, 16)
    safetensors.torch.save_file(moved, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="does not fit the model") as error:
        load(tmp_path)
    for part in (
        "model.norm.weight is missing",
        "strange is unknown",
        "(16, 16), expected (8, 16)",
    ):
        assert part in str(error.value)
    safetensors.torch.save_file(
        state | {"model.norm.weight": torch.ones(16, dtype=torch.int8)},
        tmp_path / "model.safetensors",
    )
    with pytest.raises(ValueError, match="one floating dtype"):
        load(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        llama.load(tmp_path)


def test_the_tokenizer_of_a_folder_is_read_from_its_file_with_the_end_its_config_names(tmp_path):
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=290, special_tokens=["<|over|>", "<|more|>"], initial_alphabet=alphabet
    )
    library.train_from_iterator(["the theme of these thirty-three"] * 9, trainer)
    build("llama", {"vocab_size": 300, "eos_token_id": [1, 0]}).save_pretrained(tmp_path)
    library.save(str(tmp_path / "tokenizer.json"))
    model, tokenizer = load(tmp_path)
    text = "these thirty thieves, “théy” 🙂"
    assert tokenizer.encode(text) == library.encode(text).ids
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert (tokenizer.eot_id, tokenizer.n_vocab <= model.cfg.vocab_size) == (1, True)
    checkpoint.save(tmp_path / "ours", model, tokenizer)
    assert load(tmp_path / "ours")[1].encode(text) == tokenizer.encode(text)


def test_a_folder_without_a_known_tokenizer_says_so(tmp_path):
    build("llama", {}).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="how text becomes its ids is not known"):
        load(tmp_path)


def test_an_exported_config_whose_halves_differ_is_refused(tmp_path):
    llama.export(GPT(replace(TINY, **LLAMA)), tmp_path)
    path = tmp_path / "config.json"
    about = json.loads(path.read_text())
    about["num_key_value_heads"] = 4
    path.write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"kv_heads is 2 under 'gptlib' and 4 beside it"):
        llama.load(tmp_path)


def test_gpt2_without_biases_comes_back_without_them(tmp_path):
    model = GPT(dataclasses.replace(TINY, bias=False, ff_size=20, norm_eps=1e-3)).eval()
    gpt2.export(model, tmp_path)
    there = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    idx = torch.randint(17, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(there(idx).logits, model(idx), atol=1e-5, rtol=1e-5)
    back = gpt2.load(tmp_path)
    assert back.cfg == model.cfg
    assert all(
        torch.equal(a, b) for a, b in zip(back.parameters(), model.parameters(), strict=True)
    )


def test_the_packaged_model_has_a_name():
    model, tokenizer = load("packaged")
    assert (model.num_params(), tokenizer.name) == (checkpoint.packaged()[0].num_params(), "bytes")
