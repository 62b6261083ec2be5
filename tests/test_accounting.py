import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import one_line_error
from conftest import run_cli as run
from hypothesis import given, settings
from hypothesis import strategies as st
from switches import configurations
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, StaticCache
from transformers.initialization import no_init_weights

from gptlib import GPT, ByteTokenizer, GPTConfig, KVCache, accounting, checkpoint, gpt2
from gptlib.accounting import account

MODELS = json.loads((Path(__file__).parent / "accounting_models.json").read_text(encoding="utf-8"))

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 6}
MULTI_QUERY = {**SIZES, "num_key_value_heads": 1, "head_dim": 4}
MOE = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
GPT2 = {"vocab_size": 50, "n_positions": 32, "n_embd": 16, "n_layer": 3, "n_head": 4}
NEO = {k: v for k, v in SIZES.items() if "num" not in k}
NEO |= {"num_layers": 4, "num_heads": 4, "window_size": 6}
NEO |= {"attention_types": [[["global", "local"], 2]]}
OPT = {**SIZES, "ffn_dim": 24, "do_layer_norm_before": True}
LATENT = {
    **SIZES,
    "num_key_value_heads": 4,
    "kv_lora_rank": 10,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 6,
    "v_head_dim": 5,
    "moe_intermediate_size": 12,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
}
GROUPS = {"n_group": 2, "topk_group": 1}
LAYER_TYPES = ["sliding_attention", "full_attention", "full_attention"]
TIED, UNTIED = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
WINDOW = {"sliding_window": 6}
SWITCHED = {"use_sliding_window": True, "max_window_layers": 1, **WINDOW}

TINY = [
    ("gpt2", GPT2),
    ("gpt2", {**GPT2, "n_inner": 20, **UNTIED}),
    ("gpt_neo", {**NEO, "intermediate_size": None}),
    ("gpt_neo", {**NEO, **UNTIED, "window_size": 3}),
    ("gpt_neox", SIZES),
    ("gpt_neox", {**SIZES, "attention_bias": False, **TIED}),
    ("opt", OPT),
    ("opt", {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 10}),
    ("opt", {**OPT, "enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("opt", {**OPT, "_remove_final_layer_norm": True, **UNTIED}),
    ("llama", SIZES),
    ("llama", {**GROUPED, "attention_bias": True, "mlp_bias": True, **TIED}),
    ("llama", MULTI_QUERY),
    ("mistral", {**GROUPED, "sliding_window": None}),
    ("mistral", {**MULTI_QUERY, **WINDOW}),
    ("mistral", {**GROUPED, **WINDOW, "layer_types": LAYER_TYPES}),
    ("mixtral", {**GROUPED, "num_local_experts": 5, "num_experts_per_tok": 2}),
    ("mixtral", {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, **WINDOW}),
    ("qwen2", {**SIZES, "num_key_value_heads": 2}),
    ("qwen2", {**MULTI_QUERY, **TIED, **SWITCHED}),
    ("qwen3", {**GROUPED, "attention_bias": True}),
    ("qwen3", {**MULTI_QUERY, **SWITCHED, "layer_types": LAYER_TYPES, **TIED}),
    ("smollm3", {**GROUPED, "mlp_bias": True}),
    ("smollm3", {**MULTI_QUERY, **SWITCHED, "no_rope_layer_interval": 2, **UNTIED}),
    ("smollm3", {**MULTI_QUERY, **SWITCHED, "no_rope_layers": [0, 1, 0]}),
    ("qwen3_moe", {**GROUPED, **MOE}),
    ("qwen3_moe", {**GROUPED, **MOE, "decoder_sparse_step": 2, "mlp_only_layers": [1]}),
    ("qwen3_moe", {**MULTI_QUERY, **MOE, "mlp_only_layers": [0], **SWITCHED}),
    ("gemma", MULTI_QUERY),
    ("gemma", {**GROUPED, "attention_bias": True, **UNTIED}),
    ("gemma2", {**GROUPED, **WINDOW}),
    ("gemma2", {**GROUPED, **WINDOW, "layer_types": LAYER_TYPES, "attention_bias": True}),
    ("gemma3_text", {**GROUPED, **WINDOW, "num_hidden_layers": 7}),
    ("gemma3_text", {**MULTI_QUERY, **WINDOW, "sliding_window_pattern": 2}),
    ("phi3", SIZES),
    ("phi3", {**SIZES, "num_key_value_heads": 2, **WINDOW, **TIED}),
    ("deepseek_v2", LATENT),
    ("deepseek_v2", {**LATENT, "q_lora_rank": None, "mlp_bias": True, "attention_bias": True}),
    ("deepseek_v3", {**LATENT, **GROUPS}),
    ("deepseek_v3", {**LATENT, **GROUPS, "attention_bias": True, "first_k_dense_replace": 3}),
    ("deepseek_v3", {**LATENT, **GROUPS, "q_lora_rank": None, "first_k_dense_replace": 0}),
    ("olmo2", SIZES),
    ("olmo2", {**SIZES, "num_key_value_heads": 2, "attention_bias": True, **TIED}),
]
tiny = pytest.mark.parametrize(
    ("kind", "fields"), TINY, ids=[f"{kind}-{i}" for i, (kind, _) in enumerate(TINY)]
)


def build(kind, fields, **more):
    """Build the model of `transformers` from the same fields; explicit attention, no padding id."""
    given = {"pad_token_id": 0, **fields, **more}
    config = AutoConfig.for_model(kind, **given)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def meta_count(kind, fields):
    with torch.device("meta"), no_init_weights():
        model = build(kind, fields)
        model.tie_weights()
    return sum(p.numel() for p in model.parameters())


# Parameters ---------------------------------------------------------------------------------------


@tiny
def test_the_ledger_equals_transformers_to_the_last_parameter(kind, fields):
    assert account({"model_type": kind, **fields}).total == meta_count(kind, fields)


@pytest.mark.parametrize("name", MODELS)
def test_real_models_equal_transformers_and_the_published_total(name):
    config = MODELS[name]["config"]
    acc = account(config)
    fields = {**config.get("text_config", config)}
    assert acc.total == meta_count(fields.pop("model_type"), fields)
    if MODELS[name]["published"] is not None:
        assert acc.total == MODELS[name]["published"]


def test_every_architecture_has_real_and_tiny_models():
    known = {*accounting.ARCHITECTURES}
    assert {kind for kind, _ in TINY} | {"gemma3"} == known
    assert {m["config"]["model_type"] for m in MODELS.values()} == known
    assert len(MODELS) >= 25
    assert sum(m["published"] is not None for m in MODELS.values()) >= 25


def test_active_parameters_of_mixtures():
    # Jiang et al., 2024 ("13B active"), Qwen3 ("3.3B", "22B"), DeepSeek-V2 ("21B") and V3 ("37B").
    billions = {
        "mistralai/Mixtral-8x7B-v0.1": "12.9",
        "Qwen/Qwen3-30B-A3B": "3.4",
        "Qwen/Qwen3-235B-A22B": "22.2",
        "deepseek-ai/DeepSeek-V2": "21.4",
        "deepseek-ai/DeepSeek-V3": "37.6",
    }
    for name, expected in billions.items():
        assert f"{account(MODELS[name]['config']).active / 1e9:.1f}" == expected
    dense = account(MODELS["openai-community/gpt2"]["config"])
    assert dense.active == dense.total


def test_deepseek_v3_stores_routing_offsets_beside_its_parameters():
    acc = account(MODELS["deepseek-ai/DeepSeek-V3"]["config"])
    assert acc.total + acc.buffers == 671_026_419_200  # what its weights hold without extra blocks
    assert "extra block" in acc.shape.notes[0]


configs = (
    st.builds(
        lambda heads, width, **rest: GPTConfig(n_heads=heads, emb_dim=heads * width, **rest),
        heads=st.integers(1, 6),
        width=st.integers(1, 6),
        vocab_size=st.integers(1, 90),
        context_length=st.integers(1, 40),
        n_layers=st.integers(1, 4),
        qkv_bias=st.booleans(),
        tie_weights=st.booleans(),
        norm_first=st.booleans(),
    )
    | configurations()
)


@settings(max_examples=40)
@given(cfg=configs, batch=st.integers(1, 3))
def test_our_own_model_has_the_parameters_and_cache_of_its_account(cfg, batch):
    acc = account(cfg)
    with torch.device("meta"):
        assert acc.total == GPT(cfg).num_params()
    assert acc.total == sum(c.parameters for c in acc.components) == sum(acc.parts.values())
    assert acc.total == sum(c.per_block * max(c.blocks, 1) for c in acc.components)
    assert sum(acc.shares().values()) == pytest.approx(1)
    cache = KVCache(cfg, batch, device="meta")
    assert acc.kv_cache_bytes(cfg.context_length, "fp32", batch) == cache.nbytes


@pytest.mark.parametrize(
    ("qkv_bias", "tie_weights", "small", "medium"),
    [
        (False, False, 163_009_536, 406_212_608),
        (False, True, 124_412_160, 354_749_440),
        (True, False, 163_037_184, 406_286_336),
        (True, True, 124_439_808, 354_823_168),
    ],
)
def test_gpt2_under_every_convention(qkv_bias, tie_weights, small, medium):
    switches = {"qkv_bias": qkv_bias, "tie_weights": tie_weights}
    for name, expected in (("gpt2-small", small), ("gpt2-medium", medium)):
        assert account(GPTConfig.preset(name, **switches)).total == expected


def test_the_ledger_of_gpt2_small_by_component():
    counts = {c.name: c.parameters for c in account("gpt2-small").components}
    assert counts["token table"] == 38_597_376
    assert counts["position table"] == 786_432
    assert counts["query"] == counts["key"] == counts["value"] == 12 * 768**2
    assert counts["feed-forward up"] == counts["feed-forward down"] == 12 * 4 * 768**2
    assert counts["block norms"] == 36_864
    assert counts["final norm"] == 1_536
    assert counts["head (tied)"] == 0


# Bytes --------------------------------------------------------------------------------------------


def test_bytes_of_plain_types():
    acc = account("gpt2-small")
    assert acc.bytes() == acc.bytes("float32") == 4 * acc.total == 497_759_232
    assert acc.bytes("bf16") == acc.bytes("fp16") == 2 * acc.total
    assert acc.bytes("fp8") == acc.total
    source_a = account(GPTConfig())
    assert f"{source_a.bytes() / 2**20:.2f} MiB" == "621.83 MiB"


@tiny
def test_int8_and_int4_add_a_scale_per_output_and_per_group(kind, fields):
    """Every weight of two or more axes is stored in rows of its inputs, as nn.Linear does."""
    acc = account({"model_type": kind, **fields})
    with torch.device("meta"):
        model = build(kind, fields)
    int8 = int4 = 0
    for name, p in model.named_parameters():
        if p.dim() == 1 or "wpe" in name or "embed_positions" in name:
            int8, int4 = int8 + 2 * p.numel(), int4 + 2 * p.numel()
            continue
        inputs = p.shape[0] if re.search(r"c_(attn|fc|proj)\.weight", name) else p.shape[-1]
        if kind == "gpt_neo":
            inputs = p.shape[-1]  # these are nn.Linear in spite of their names
        rows = p.numel() // inputs
        int8 += p.numel() + 2 * rows
        int4 += p.numel() // 2 + 2 * rows * -(-inputs // 128)
    assert acc.bytes("int8") == int8
    assert abs(acc.bytes("int4") - int4) <= len(acc.components)  # odd halves are rounded up


def test_int4_of_a_wide_row_has_a_scale_for_each_128_inputs():
    acc = account(MODELS["meta-llama/Meta-Llama-3-8B"]["config"])
    query = next(c for c in acc.components if c.name == "query")
    assert query.int4_scales == 32 * 4096 * 4096 // 128
    assert query.int8_scales == 32 * 4096
    assert acc.bytes("int4") / acc.bytes("bf16") == pytest.approx(4.125 / 16, rel=1e-3)


# The cache ----------------------------------------------------------------------------------------


def held(cache):
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


@tiny
def test_the_cache_equals_the_one_transformers_really_fills(kind, fields):
    acc = account({"model_type": kind, **fields})
    model = build(kind, fields)
    ids = torch.randint(50, (2, 11))
    for n in (4, 11):
        cache = DynamicCache(config=model.config)
        with torch.no_grad():
            model(ids[:, :n], cache=cache)
        assert held(cache) == acc.kv_cache_bytes(n, "fp32", 2, "transformers")
    if kind != "gpt_neo":  # its local blocks keep all positions and have no window of their own
        cache = StaticCache(config=model.config, max_cache_len=11)
        with torch.no_grad():
            model(ids, cache=cache)
        assert held(cache) == acc.kv_cache_bytes(11, "fp32", 2)


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("openai-community/gpt2", 36_864),
        ("openai-community/gpt2-xl", 307_200),
        ("meta-llama/Meta-Llama-3-8B", 131_072),
        ("meta-llama/Meta-Llama-3-70B", 327_680),
        ("meta-llama/Llama-3.1-405B", 516_096),
    ],
)
def test_cache_bytes_per_token_in_16_bits(name, per_token):
    acc = account(MODELS[name]["config"])
    assert acc.kv_cache_bytes(1) == per_token
    assert acc.kv_cache_bytes(1000, "fp32", 3) == 1000 * 2 * 3 * per_token


def test_windows_bound_the_cache_and_grouping_divides_it():
    mistral = account(MODELS["mistralai/Mistral-7B-v0.1"]["config"])
    assert mistral.kv_cache_bytes(32_768) == mistral.kv_cache_bytes(4096)
    assert mistral.kv_cache_bytes(32_768, kind="unwindowed") == 8 * mistral.kv_cache_bytes(4096)
    gemma = account(MODELS["google/gemma-3-27b-pt"]["config"])
    kept = 52 * 1024 + 10 * 32_768  # ten of 62 blocks look at everything
    assert gemma.kv_cache_bytes(32_768) == kept * 2 * 16 * 128 * 2


def test_latent_attention_has_two_caches_under_two_names():
    acc = account(MODELS["deepseek-ai/DeepSeek-V3"]["config"])
    assert acc.kv_cache_bytes(1) == acc.kv_cache_bytes(1, kind="transformers") == 61 * 576 * 2
    assert acc.kv_cache_bytes(1, kind="expanded") == 61 * 128 * (192 + 128) * 2


# FLOPs --------------------------------------------------------------------------------------------


def counted(model, *args, **kwargs):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*args, **kwargs)
    return counter.get_total_flops()


@settings(max_examples=25)
@given(cfg=configs, data=st.data())
def test_flops_equal_torchs_counter_on_our_model(cfg, data):
    T = data.draw(st.integers(1, cfg.context_length))
    ids = torch.zeros(2, T, dtype=torch.long)
    # A trace asks for the explicit path, where attention's two products can be seen.
    seen = counted(GPT(cfg).eval(), ids, trace={})
    assert seen == 2 * T * account(cfg).flops_per_token(T)


@tiny
def test_flops_equal_torchs_counter_on_transformers(kind, fields):
    acc = account({"model_type": kind, **fields})
    model = build(kind, fields, experts_implementation="eager")
    ids = torch.randint(50, (1, 11))
    assert counted(model, ids) == 11 * acc.flops_per_token(11)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen2", "mistral", "qwen3_moe"])
def test_decoding_flops_equal_torchs_counter_after_a_cached_prompt(kind):
    fields = [fields for k, fields in TINY if k == kind][1]
    acc = account({"model_type": kind, **fields})
    model = build(kind, fields, experts_implementation="eager")
    cache = DynamicCache(config=model.config)
    ids = torch.randint(50, (1, 12))
    with torch.no_grad():
        model(ids[:, :11], cache=cache)
    seen = counted(model, ids[:, 11:], cache=cache)
    assert seen == acc.decode_flops(12)


def test_prefill_causal_is_the_mean_of_decoding():
    """A masked kernel does in one pass what decoding does position by position."""
    for kind, fields in TINY:
        if kind.startswith("deepseek"):
            continue  # decodes on the latent vectors, another arithmetic
        acc = account({"model_type": kind, **fields})
        mean = sum(acc.decode_flops(s) for s in range(1, 20)) / 19
        assert acc.flops_per_token(19, causal=True) == pytest.approx(mean)


def test_the_flops_of_gpt2_small():
    acc = account("gpt2-small")
    assert acc.rule_flops == 248_879_616
    assert acc.flops_per_token(1024) == 284_812_800
    assert acc.flops_per_token(1024, causal=True) == 265_956_864
    assert acc.flops_per_token(1024, training=True) == 3 * 284_812_800
    assert acc.matrix_flops == 247_064_064


# Sources of a configuration -----------------------------------------------------------------------


def test_a_config_is_read_from_every_place_it_lies_in(tmp_path, tiny_cfg):
    model = GPT(tiny_cfg)
    checkpoint.save(tmp_path / "run", model, ByteTokenizer())
    gpt2.export(model, tmp_path / "gpt2")
    (tmp_path / "plain.json").write_text(json.dumps(tiny_cfg.to_dict()), encoding="utf-8")
    places = [tiny_cfg, tiny_cfg.to_dict(), tmp_path / "run", str(tmp_path / "run" / "config.json")]
    for place in (*places, tmp_path / "gpt2", tmp_path / "plain.json"):
        assert account(place).total == model.num_params()


@pytest.fixture
def tiny_cfg():
    return GPTConfig(vocab_size=256, context_length=8, emb_dim=16, n_heads=4, n_layers=2)


def test_gemma3_reads_its_text_part_and_says_so():
    acc = account(MODELS["google/gemma-3-4b-pt"]["config"])
    assert any("only the text part" in note for note in acc.shape.notes)
    assert any("num_attention_heads=8" in note for note in acc.shape.notes)
    full = account(MODELS["google/gemma-3-27b-pt"]["config"])
    assert not any("num_attention_heads" in note for note in full.shape.notes)


LLAMA = {"model_type": "llama", **GROUPED}


def without(*names):
    return {k: v for k, v in LLAMA.items() if k not in names}


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({}, ["lacks model_type"]),
        ({"model_type": "falcon", "vocab_size": 9}, ["'falcon'", "hidden_size", "known: gpt2"]),
        ({"model_type": ["llama"]}, ["not known"]),
        ({"model_type": "llava", "text_config": LLAMA}, ["'llava'", "'llama'", "text_config"]),
        ({"model_type": "gemma3"}, ["text_config"]),
        (without("vocab_size", "hidden_size"), ["llama config lacks vocab_size, hidden_size"]),
        ({**LLAMA, "hidden_size": "16"}, ["hidden_size", "'16'"]),
        ({**LLAMA, "hidden_size": 0}, ["hidden_size", "at least 1", "0"]),
        ({**LLAMA, "hidden_size": None}, ["hidden_size", "None"]),
        ({**LLAMA, "num_hidden_layers": 3.0}, ["num_hidden_layers", "3.0"]),
        ({**LLAMA, "num_hidden_layers": 10**9}, ["num_hidden_layers", "1000000000"]),
        ({**LLAMA, "num_key_value_heads": 3}, ["num_key_value_heads=3", "num_attention_heads=4"]),
        ({**LLAMA, "attention_bias": "no"}, ["attention_bias", "'no'"]),
        ({"model_type": "mistral", **GROUPED}, ["mistral config lacks sliding_window"]),
        ({"model_type": "gemma", **SIZES}, ["gemma config lacks num_key_value_heads"]),
        ({"model_type": "gpt_neo", **NEO, "attention_types": 3}, ["attention_types"]),
        (
            {"model_type": "gemma2", **GROUPED, **WINDOW, "layer_types": ["full_attention"]},
            ["one attention type per layer", "3", "got 1"],
        ),
        (
            {"model_type": "gemma2", **GROUPED, **WINDOW, "layer_types": ["linear"] * 3},
            ["'linear'"],
        ),
        ({"model_type": "mixtral", **GROUPED}, ["num_local_experts, num_experts_per_tok"]),
        (
            {"model_type": "mixtral", **GROUPED, "num_local_experts": 2, "num_experts_per_tok": 3},
            ["num_experts_per_tok=3", "2 experts"],
        ),
        ({"model_type": "deepseek_v3", **SIZES}, ["kv_lora_rank", "first_k_dense_replace"]),
        ({"model_type": "deepseek_v2", **LATENT, "moe_layer_freq": 2}, ["moe_layer_freq=2"]),
        ({"model_type": "gpt2", **GPT2, "add_cross_attention": True}, ["add_cross_attention"]),
        ({"model_type": "gpt2", **GPT2, "n_head": 3}, ["n_head=3", "n_embd=16"]),
    ],
)
def test_what_cannot_be_counted_is_named_in_one_line(config, parts, tmp_path):
    with pytest.raises(ValueError, match=re.escape(parts[0])) as caught:
        account(config)
    assert "\n" not in str(caught.value)
    assert all(part in str(caught.value) for part in parts), caught.value
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json: "):
        account(tmp_path)


def test_files_that_are_no_configuration_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no config\.json"):
        account(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"gpt3 is neither a file nor a folder.*gpt2-small"):
        account("gpt3")
    for content in (b"", b"{", b"\xff\xfe", b'{"a":' * 9999, b"9" * 5000):
        (tmp_path / "config.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"config\.json is damaged: not JSON"):
            account(tmp_path)
    for content in ("[1]", "3", '"llama"', "null", "true", '[{"model_type": "gpt2"}]'):
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=r"config\.json must hold a JSON object, got "):
            account(tmp_path)
    with pytest.raises(TypeError, match="a GPTConfig, a dictionary"):
        account(7)


odd_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
OURS = GPTConfig.preset("mini").to_dict()
EXPORTED = {"model_type": "gpt2", **GPT2, "gptlib": {"model": OURS}}
SHAPES = [{"model_type": kind, **fields} for kind, fields in TINY]
SHAPES += [OURS, {"model": OURS, "tokenizer": {}}, EXPORTED]
SHAPES += [{"model_type": "gemma3", "text_config": dict(TINY[29][1])}]


@settings(max_examples=400)
@given(config=st.sampled_from(SHAPES), value=odd_values, data=st.data())
def test_any_value_in_any_field_is_counted_or_named_in_one_line(config, value, data):
    """A field of any shape, also one inside another, ends in a count or in one clear line."""
    config = json.loads(json.dumps(config))
    place = config
    while isinstance(place, dict) and place:
        field = data.draw(st.sampled_from(sorted(place)) | st.text(max_size=3))
        inner = place.get(field)
        place[field] = value if not isinstance(inner, dict) or data.draw(st.booleans()) else inner
        place = place[field] if place[field] is inner else None
    message = ""
    try:
        assert account(config).total > 0
    except (TypeError, ValueError) as error:
        message = str(error)
    assert message.isprintable()
    assert not message or re.search("config|must|not known|not counted|gptlib", message)


def test_a_path_with_a_line_end_is_quoted_in_one_line(tmp_path, capsys):
    folder = tmp_path / "two\nlines"
    assert run("account", folder) == 2
    assert one_line_error(capsys, r"two\nlines", "neither a file nor a folder")
    folder.mkdir()
    assert run("account", folder) == 2
    assert one_line_error(capsys, r"two\nlines", "holds no config.json")
    for content in ("{", "[]", "{}", '{"emb_dim": 8, "un\\nknown": 1}'):
        (folder / "config.json").write_text(content, encoding="utf-8")
        assert run("account", folder) == 2
        assert one_line_error(capsys, r"two\nlines/config.json")
    (folder / "config.json").write_text(json.dumps(OURS), encoding="utf-8")
    assert run("account", folder) == 0
    assert capsys.readouterr().out.split("\n")[0].endswith(r"two\nlines' (gptlib)")


def test_wrong_questions_are_refused():
    acc = account("gpt2-small")
    for ask in (
        lambda: acc.bytes("fp64"),
        lambda: acc.kv_cache_bytes(1, "int4"),
        lambda: acc.kv_cache_bytes(-1),
        lambda: acc.kv_cache_bytes(1, batch_size=0),
        lambda: acc.kv_cache_bytes(1, kind="all"),
        lambda: acc.flops_per_token(0),
        lambda: acc.decode_flops(0),
    ):
        with pytest.raises(ValueError, match=r"must be"):
            ask()
    with pytest.raises(TypeError, match=r"n_tokens must be an integer, got 1\.5"):
        acc.kv_cache_bytes(1.5)


def test_accounting_loads_no_torch():
    code = (
        "import sys; from gptlib import account, accounting; account('gpt2-small').bytes();"
        "from gptlib import cli; cli.main(['account', 'gpt2-small', '--json']);"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# Training -----------------------------------------------------------------------------------------


def test_training_takes_sixteen_bytes_per_parameter_before_activations():
    acc = account("gpt2-small")
    assert accounting.training_bytes(acc).total == 16 * acc.total
    assert accounting.training_bytes(acc, precision="mixed").total == 16 * acc.total
    assert accounting.training_bytes(acc).gradients == 4 * acc.total


def test_optimizer_bytes_equal_the_state_of_real_optimizers(tiny_cfg):
    model, acc = GPT(tiny_cfg), account(tiny_cfg)
    matrices = [p for p in model.blocks.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if not any(p is m for m in matrices)]
    for optimizer, groups in {
        "adamw": [torch.optim.AdamW(model.parameters())],
        "muon": [torch.optim.Muon(matrices), torch.optim.AdamW(rest)],
    }.items():
        model.loss(*torch.randint(256, (2, 1, 8))).backward()
        state = []
        for group in groups:
            group.step()
            state += [v for kept in group.state.values() for v in kept.values()]
        held = sum(v.nbytes for v in state if torch.is_tensor(v) and v.dim())  # not the counters
        assert held == accounting.optimizer_bytes(acc, optimizer)


def test_activations_of_gpt2_follow_the_published_formula():
    acc, T, B, C, H = account("gpt2-small"), 1024, 3, 768, 12
    logits = 4 * 50257 * T * B
    kept = accounting.activation_bytes(acc, T, B, explicit_attention=True, dropout=True)
    assert kept == 12 * (T * B * C * 34 + 5 * H * T * T * B) + logits
    assert accounting.activation_bytes(acc, T, B, dropout=True) == 12 * T * B * C * 34 + logits
    assert accounting.activation_bytes(acc, T, B) == 12 * T * B * C * 32 + logits


def test_the_activation_estimate_is_near_what_torch_saves():
    """Float32 keeps twice the 16-bit bytes; parameters that autograd also holds are left out."""
    cfg = GPTConfig.preset("mini")
    model, T = GPT(cfg), 64
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        loss = model.loss(*torch.randint(256, (2, 4, T)))
    loss.backward()
    estimate = 2 * accounting.activation_bytes(account(cfg), T, 4)
    assert estimate == pytest.approx(sum(saved.values()), rel=0.3)


def test_training_flops_stand_beside_six_n_d():
    acc = account(MODELS["meta-llama/Meta-Llama-3-8B"]["config"])
    exact, rule = accounting.training_flops(acc, 1e12), 6 * acc.total * 1e12
    assert 1 < exact / rule < 1.15
    for n_tokens in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="n_tokens must be finite and at least 0"):
            accounting.training_flops(acc, n_tokens)
    for T, batch_size in ((-5, 1), (8, 0)):
        with pytest.raises(ValueError, match="must be at least 1"):
            accounting.activation_bytes(acc, T, batch_size)


def test_a_run_is_counted_by_the_checkpoints_in_its_folder(tmp_path):
    cfg = GPTConfig.preset("mini")
    for step in (2, 10):
        folder = tmp_path / f"step-{step:08d}"
        folder.mkdir()
        about = {"model": cfg.to_dict(), "tokenizer": {"type": "bytes"}}
        (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    assert account(tmp_path).total == account(cfg).total


# Accelerators -------------------------------------------------------------------------------------


def test_decoding_of_gpt2_small_on_an_a100_reads_for_122_microseconds():
    acc, a100 = account("gpt2-small"), accounting.accelerator("a100")
    limit = accounting.decode_limit(acc, a100, 1)
    weights = acc.bytes("bf16") - 1023 * 768 * 2  # one row of the position table is read
    assert limit.bytes == weights + acc.kv_cache_bytes(1)
    assert f"{limit.memory_seconds * 1e6:.0f}" == "121"  # 122 with the whole position table
    assert f"{limit.compute_seconds * 1e6:.2f}" == "0.79"
    assert limit.bound == "memory"
    assert limit.intensity == pytest.approx(1, rel=0.01)
    assert f"{a100.ridge:.0f}" == "153"


def test_prefill_is_bound_by_arithmetic_and_decoding_by_memory():
    acc = account(MODELS["meta-llama/Meta-Llama-3-8B"]["config"])
    for on in accounting.ACCELERATORS.values():
        assert accounting.prefill_limit(acc, on, 2048).bound == "compute"
        assert accounting.decode_limit(acc, on, 2048).bound == "memory"
        assert on.source


def test_the_ridge_batch_is_where_the_bound_changes():
    acc = account(MODELS["meta-llama/Meta-Llama-3-8B"]["config"])
    on = accounting.accelerator("a100")
    batch = accounting.ridge_batch(acc, on, 16)
    assert accounting.decode_limit(acc, on, 16, batch).bound == "compute"
    assert accounting.decode_limit(acc, on, 16, batch - 1).bound == "memory"
    assert accounting.ridge_batch(acc, on, 8192) is None


def test_a_batch_visits_more_experts_and_at_most_all():
    acc = account(MODELS["mistralai/Mixtral-8x7B-v0.1"]["config"])
    on = accounting.accelerator("h100")
    read = [accounting.decode_limit(acc, on, 1, b).bytes for b in (1, 2, 8, 1000)]
    table = 2 * 32_000 * 4096  # of the token table one row per token is read
    one_row, one_position = 2 * 4096, acc.kv_cache_bytes(1)
    assert read[0] == pytest.approx(2 * acc.active - table + one_row + one_position)
    assert read == sorted(read)
    full = acc.bytes("bf16") - table + 1000 * (one_row + one_position)
    assert read[3] == pytest.approx(full)


# The assessment and the command -------------------------------------------------------------------


def test_every_finding_has_numbers_a_rule_and_a_source():
    on = accounting.accelerator("h100")
    for model in MODELS.values():
        for found in accounting.assess(account(model["config"]), on, training_tokens=1e12):
            assert re.search(r"\d", found.sentence)
            assert found.sentence.endswith(".")
            assert found.rule
            assert found.source


def test_the_assessment_says_what_is_unusual():
    on = accounting.accelerator("a100")

    def said(name, **more):
        found = accounting.assess(account(MODELS[name]["config"]), on, **more)
        return " ".join(f.sentence for f in found)

    assert "multiple of 64; 47 more rows" in said("openai-community/gpt2")
    assert "outside the usual" in said("google/gemma-7b")
    assert "4,096 wide, the residual stream 3,072" in said("google/gemma-7b")
    assert "52 of 62 blocks look back on 1,024" in said("google/gemma-3-27b-pt")
    assert "do not fit into its 80 GB" in said("meta-llama/Llama-3.1-405B")
    assert "cache is 16 times smaller" in said("meta-llama/Llama-3.1-405B")
    assert "visits 8 and 1 shared" in said("deepseek-ai/DeepSeek-V3")
    assert "20.0 per" in said("openai-community/gpt2", training_tokens=20 * 124_439_808)
    assert "Unusual" not in said("meta-llama/Meta-Llama-3-8B", context=8)


@pytest.mark.parametrize("name", [*MODELS, "gpt2-small", "mini"])
def test_the_table_fits_a_terminal_of_80_columns(name, tmp_path, capsys):
    where = name
    if name in MODELS:
        where = tmp_path / "config.json"
        where.write_text(json.dumps(MODELS[name]["config"]), encoding="utf-8")
    assert run("account", where, "--training-tokens", "1e12", "--dtype", "int4") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert f"{account(where).total:,}" in out
    assert "Rule:" in out
    assert run("account", "--compare", where, "gpt2-xl") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert f"{account(where).total:,}" in out
    assert "1,557,611,200" in out


def test_json_holds_the_numbers_of_the_account(tmp_path, capsys):
    gpt2.export(GPT(GPTConfig.preset("mini")), tmp_path)
    options = ["--context", "100", "--batch", "3", "--dtype", "fp32", "--json"]
    assert run("account", tmp_path, *options) == 0
    figures = json.loads(capsys.readouterr().out)
    acc = account("mini")
    assert figures["total"] == acc.total == sum(c["parameters"] for c in figures["components"])
    assert figures["kv_cache_bytes"]["needed"] == acc.kv_cache_bytes(100, "fp32", 3)
    assert figures["flops_per_token"]["prefill_full"] == acc.flops_per_token(100)
    assert figures["limits"]["decode"]["bound"] == "memory"
    assert run("account", "--compare", "mini", "gpt2-small", "--json") == 0
    assert [f["name"] for f in json.loads(capsys.readouterr().out)] == ["mini", "gpt2-small"]


def test_a_comparison_says_how_long_each_was_trained(capsys):
    assert run("account", "--compare", "gpt2-small", "gpt2-xl", "--training-tokens", "1e10") == 0
    lines = capsys.readouterr().out.splitlines()
    (ratio,) = (line.split() for line in lines if "tokens per parameter" in line)
    assert ratio[-2:] == [f"{1e10 / account(n).total:.1f}" for n in ("gpt2-small", "gpt2-xl")]
    (flops,) = (line.split() for line in lines if "training FLOPs in all" in line)
    assert [float(n) for n in flops[-2:]] == [
        pytest.approx(accounting.training_flops(account(n), 1e10), rel=0.01)
        for n in ("gpt2-small", "gpt2-xl")
    ]


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        ([], ["one model, or two after --compare"]),
        (["mini", "--compare", "mini", "mini"], ["one model, or two"]),
        (["huge"], ["huge is neither a file nor a folder", "gpt2-small"]),
        (["mini", "--context", "0"], ["context must be at least 1, got 0"]),
        (["mini", "--batch", "0"], ["batch must be at least 1, got 0"]),
        (["mini", "--machine", "abacus"], ["unknown machine 'abacus'", "a100"]),
        (["mini", "--training-tokens=-1"], ["training_tokens must be above 0"]),
        (["mini", "--training-tokens", "nan"], ["above 0 and finite, got nan"]),
        (["--compare", "mini", "mini", "--training-tokens", "inf"], ["finite, got inf"]),
    ],
)
def test_wrong_commands_end_in_one_line(args, parts, capsys):
    assert run("account", *args) == 2
    assert one_line_error(capsys, *parts)


def test_the_help_names_every_accelerator(capsys):
    assert run("account", "--help") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in accounting.ACCELERATORS)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model_type": "bert"}', '{"n_embd": 3}'])
def test_wrong_and_partial_files_end_in_one_line(content, tmp_path, capsys):
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    assert run("account", tmp_path) == 2
    assert one_line_error(capsys, "config.json")
