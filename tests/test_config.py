import dataclasses
import json

import numpy as np
import pytest

from gptlib import GPT, GPTConfig, KVCache, NumpyGPT
from gptlib.config import PRESETS, parameter_shapes

GPT2_HF = {
    "model_type": "gpt2",
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.1,
}


def test_the_defaults_are_the_seven_numbers_of_chapter_1():
    cfg = GPTConfig()
    seven = (cfg.vocab_size, cfg.context_length, cfg.emb_dim, cfg.n_heads, cfg.n_layers)
    assert seven == (50257, 1024, 768, 12, 12)
    assert (cfg.drop_rate, cfg.qkv_bias, cfg.tie_weights) == (0.1, False, False)
    assert cfg.head_dim == 64


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json(name):
    cfg = GPTConfig.preset(name)
    assert GPTConfig.from_dict(json.loads(json.dumps(cfg.to_dict()))) == cfg


def test_a_preset_can_be_changed():
    assert GPTConfig.preset("mini", n_layers=2).n_layers == 2


def test_hugging_face_gpt2_config_equals_the_preset():
    assert GPTConfig.from_hf(GPT2_HF) == GPTConfig.preset("gpt2-small")


def test_gpt2s_middle_and_epsilon_are_read_where_a_file_has_others():
    cfg = GPTConfig.from_hf({**GPT2_HF, "n_inner": 1000, "layer_norm_epsilon": 1e-6})
    assert (cfg.ff_dim, cfg.norm_eps) == (1000, 1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "opt"}, "model_type must be one of gpt2, .*mistral; got 'opt'"),
        ({"activation_function": "swish2"}, "activation_function must be one of"),
        ({"n_inner": 0}, "ff_size must be at least 1, got 0"),
        ({"layer_norm_epsilon": "1e-5"}, "layer_norm_epsilon must be a number, got '1e-5'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "must be False, got True: another function"),
    ],
)
def test_foreign_hugging_face_configs_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        GPTConfig.from_hf({**GPT2_HF, **change})


def test_missing_hugging_face_fields_are_named():
    with pytest.raises(ValueError, match="lacks n_embd, n_head"):
        GPTConfig.from_hf({k: v for k, v in GPT2_HF.items() if k not in ("n_embd", "n_head")})


@pytest.mark.parametrize(
    ("fields", "numbers"),
    [
        ({"emb_dim": 770, "n_heads": 12}, ("770", "12")),
        ({"emb_dim": 4096, "n_heads": 7}, ("4096", "7")),
        ({"n_heads": 0}, ("n_heads", "0")),
        ({"emb_dim": 0}, ("emb_dim", "0")),
        ({"n_layers": -1}, ("n_layers", "-1")),
        ({"vocab_size": 0}, ("vocab_size", "0")),
        ({"context_length": -1024}, ("context_length", "-1024")),
        ({"drop_rate": 1.0}, ("drop_rate", "[0, 1)", "1.0")),
        ({"drop_rate": float("nan")}, ("drop_rate", "nan")),
        ({"activation": "swish"}, ("activation", "gelu_tanh, gelu, relu, silu", "swish")),
        ({"init": "zeros"}, ("init", "gpt2, torch", "zeros")),
        ({"norm": "batch"}, ("norm", "layer, rms", "batch")),
        ({"norm_eps": 0.0}, ("norm_eps", "(0, 1)", "0.0")),
        ({"positions": "alibi"}, ("positions", "learned, rotary", "alibi")),
        ({"rotary_base": 1}, ("rotary_base", "above 1", "1")),
        ({"n_kv_heads": 5}, ("n_kv_heads=5", "n_heads=12", "remainder 2")),
        ({"n_kv_heads": 24}, ("n_kv_heads=24", "n_heads=12")),
        ({"ff_size": 0}, ("ff_size", "at least 1", "0")),
    ],
)
def test_values_out_of_range_are_named_with_what_is_allowed(fields, numbers):
    with pytest.raises(ValueError, match="must") as error:
        GPTConfig(**fields)
    assert all(number in str(error.value) for number in numbers)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"gated": True, "activation": "relu"}, ("gated", "silu", "relu")),
        ({"positions": "rotary", "head_size": 5}, ("rotary", "pairs", "5")),
        ({"positions": "rotary", "emb_dim": 36}, ("rotary", "pairs", "3")),
    ],
)
def test_switches_that_contradict_each_other_are_refused_in_one_line(fields, parts):
    with pytest.raises(ValueError, match=parts[0]) as error:
        GPTConfig(**fields)
    assert all(part in str(error.value) for part in parts)
    assert "\n" not in str(error.value)


def test_a_configuration_of_before_the_switches_is_gpt2s():
    old = {"vocab_size": 50, "context_length": 8, "emb_dim": 16, "n_heads": 4, "n_layers": 2}
    old |= {"drop_rate": 0.0, "qkv_bias": True, "tie_weights": True, "activation": "gelu_tanh"}
    cfg = GPTConfig.from_dict(old | {"norm_first": True, "init": "gpt2"})
    shapes = parameter_shapes(cfg)
    assert (cfg.head_dim, cfg.kv_heads, cfg.ff_dim) == (4, 4, 64)
    assert shapes["pos_emb.weight"] == (8, 16)
    assert shapes["blocks.0.norm1.shift"] == shapes["blocks.1.ff.down.bias"] == (16,)


@pytest.mark.parametrize(
    "fields",
    [{"n_layers": 2.0}, {"n_heads": True}, {"emb_dim": "768"}, {"qkv_bias": 1}, {"drop_rate": "0"}],
)
def test_wrong_types_are_refused(fields):
    with pytest.raises(TypeError, match=next(iter(fields))):
        GPTConfig(**fields)


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(ValueError, match="unknown preset 'gpt5'; known presets: gpt2-small"):
        GPTConfig.preset("gpt5")


def test_unknown_fields_are_named():
    with pytest.raises(ValueError, match="unknown config fields n_embd"):
        GPTConfig.from_dict({"n_embd": 768})


def test_a_config_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        GPTConfig().n_layers = 3


def test_numpys_integers_are_integers():
    cfg = GPTConfig(vocab_size=np.arange(50).max() + 1, emb_dim=np.int32(16), n_heads=4)
    assert (cfg.vocab_size, cfg.emb_dim) == (50, 16)
    assert json.loads(json.dumps(cfg.to_dict()))["vocab_size"] == 50


def test_a_dictionary_is_no_config():
    for make in (GPT, NumpyGPT, KVCache):
        with pytest.raises(TypeError, match="cfg must be a GPTConfig, got dict"):
            make({"vocab_size": 50})
