import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from gptlib import GPT, ByteTokenizer, GPTConfig, NumpyGPT, generate, gpt2, gpt2_tokenizer, load
from gptlib.config import parameter_shapes

# The four released shapes, scaled down: the same layers and heads, a sixteenth of the head size.
SCALED = {
    name: replace(
        GPTConfig.preset(name, drop_rate=0.0),
        vocab_size=97,
        context_length=32,
        emb_dim=4 * GPTConfig.preset(name).n_heads,
    )
    for name in ("gpt2-small", "gpt2-medium", "gpt2-large", "gpt2-xl")
}


def reference(cfg: GPTConfig, seed: int = 0) -> GPT2LMHeadModel:
    """Build transformers' model with random weights that are not small, none of them zero."""
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=cfg.vocab_size,
            n_positions=cfg.context_length,
            n_embd=cfg.emb_dim,
            n_layer=cfg.n_layers,
            n_head=cfg.n_heads,
            tie_word_embeddings=cfg.tie_weights,
            resid_pdrop=cfg.drop_rate,
            embd_pdrop=cfg.drop_rate,
            attn_pdrop=cfg.drop_rate,
            bos_token_id=0,
            eos_token_id=None,
            pad_token_id=0,
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return model.eval()


@pytest.fixture(scope="module")
def cfg():
    return GPTConfig(
        vocab_size=50,
        context_length=8,
        emb_dim=16,
        n_heads=4,
        n_layers=2,
        drop_rate=0.0,
        qkv_bias=True,
        tie_weights=True,
    )


@pytest.fixture(scope="module")
def theirs(cfg):
    return reference(cfg)


@pytest.fixture
def folder(theirs, tmp_path):
    """A folder as transformers writes it."""
    theirs.save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


# Parity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCALED)
def test_the_four_shapes_give_the_same_numbers_as_transformers(name):
    cfg = SCALED[name]
    theirs = reference(cfg)
    ours = gpt2.load(theirs.state_dict(), cfg)
    idx, targets = torch.randint(97, (2, 3, 20))
    logits = theirs(idx).logits
    torch.testing.assert_close(ours(idx), logits, atol=1e-4, rtol=1e-4)
    their_loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    our_loss = ours.loss(idx, targets)
    torch.testing.assert_close(our_loss, their_loss)
    their_loss.backward()
    our_loss.backward()
    gradients = {n.removeprefix("transformer."): p.grad for n, p in theirs.named_parameters()}
    for parameter_name, parameter in ours.named_parameters():
        expected = gradients.pop(gpt2.their_name(parameter_name))
        expected = expected.T if gpt2.is_transposed(parameter_name) else expected
        torch.testing.assert_close(parameter.grad, expected, atol=1e-5, rtol=1e-3)
    assert not gradients
    prompt = [[5, 6, 7]]
    out = theirs.generate(torch.tensor(prompt), max_new_tokens=29, do_sample=False)
    assert generate(ours, prompt[0], 29, temperature=0) == out[0].tolist()


@pytest.mark.slow  # 124 million random weights in three engines: 12 s
def test_gpt2_small_in_full_gives_the_same_numbers_as_transformers():
    cfg = GPTConfig.preset("gpt2-small", drop_rate=0.0)
    theirs = reference(cfg)
    ours = gpt2.load(theirs.state_dict())
    assert ours.num_params() == 124_439_808
    idx = torch.randint(cfg.vocab_size, (1, 40))
    with torch.no_grad():
        torch.testing.assert_close(ours(idx), theirs(idx).logits, atol=1e-3, rtol=1e-4)
    out = theirs.generate(idx[:, :10], max_new_tokens=50, do_sample=False)[0].tolist()
    assert generate(ours, out[:10], 50, temperature=0) == out
    net = NumpyGPT.from_torch(ours)
    assert generate(net, out[:10], 50, temperature=0) == out


@pytest.mark.parametrize("change", [{}, {"tie_weights": False}, {"activation": "gelu"}])
def test_the_numpy_engine_carries_the_weights_too(cfg, change, tmp_path):
    cfg = replace(cfg, **change)
    model = GPT(cfg).eval()
    net = NumpyGPT.from_torch(gpt2.load(gpt2.export(model, tmp_path)))
    idx = torch.randint(50, (2, 8))
    with torch.no_grad():
        np.testing.assert_allclose(net.forward(idx.numpy()), model(idx), atol=1e-5)


# In -----------------------------------------------------------------------------------------


def test_a_folder_a_file_and_a_state_dictionary_give_the_same_model(theirs, cfg, folder):
    state = theirs.state_dict()
    without_prefix = {name.removeprefix("transformer."): value for name, value in state.items()}
    models = [
        gpt2.load(folder),
        gpt2.load(str(folder / "model.safetensors")),
        gpt2.load(state, cfg),
        gpt2.load(without_prefix, cfg),
    ]
    idx = torch.randint(50, (2, 8))
    with torch.no_grad():
        expected = theirs(idx).logits
        for model in models:
            assert not model.training
            assert model.head.weight is model.tok_emb.weight
            torch.testing.assert_close(model(idx), expected, atol=1e-5, rtol=1e-5)


def test_shards_are_put_together(theirs, tmp_path):
    theirs.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    idx = torch.randint(50, (1, 8))
    with torch.no_grad():
        torch.testing.assert_close(gpt2.load(tmp_path)(idx), theirs(idx).logits)
    next(iter(tmp_path.glob("model-00002*"))).unlink()
    with pytest.raises(FileNotFoundError, match=r"names model-00002-.* is missing"):
        gpt2.load(tmp_path)


def test_the_stored_masks_of_old_files_are_ignored(theirs, cfg):
    state = dict(theirs.state_dict())
    for i in range(2):
        state[f"transformer.h.{i}.attn.bias"] = torch.ones(1, 1, 8, 8)
        state[f"transformer.h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    gpt2.load(state, cfg)


def test_the_dtype_can_be_chosen(folder):
    assert gpt2.load(folder).tok_emb.weight.dtype == torch.float32
    model = gpt2.load(folder, dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_training_the_loaded_model_leaves_the_source_alone(theirs, cfg, folder):
    bytes_before = (folder / "model.safetensors").read_bytes()
    state = theirs.state_dict()
    before = {name: value.clone() for name, value in state.items()}
    for model in (gpt2.load(state, cfg), gpt2.load(folder)):
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        model.loss(torch.tensor([[1, 2]]), torch.tensor([[2, 3]])).backward()
        optimizer.step()
    assert all(torch.equal(value, before[name]) for name, value in state.items())
    assert (folder / "model.safetensors").read_bytes() == bytes_before


@pytest.mark.slow  # 80 million weights through a file: 3 s
def test_loading_takes_little_more_memory_than_the_weights(tmp_path):
    cfg = GPTConfig.preset("gpt2-small", n_layers=6)
    torch.manual_seed(0)
    gpt2.export(GPT(cfg), tmp_path)
    size = (tmp_path / "model.safetensors").stat().st_size
    code = f"""
import resource, torch
import gptlib.storage.gpt2
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
model = gptlib.gpt2.load({str(tmp_path)!r})
model.num_params()
assert sum(float(p.detach().sum()) for p in model.parameters()) != 0  # every weight was read
print(peak() - before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 1.3 * size


# Other dialects -----------------------------------------------------------------------------


def nanogpt_state(theirs):
    """The same weights as nanoGPT and today's minGPT hold them: matrices as (outputs, inputs)."""
    turned = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    return {
        name: value.T.contiguous() if name.endswith(turned) else value
        for name, value in theirs.state_dict().items()
    }


@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_nanogpt_checkpoints_load(theirs, cfg, prefix):
    state = {prefix + name: value for name, value in nanogpt_state(theirs).items()}
    model = gpt2.load(state, cfg, layout="nanogpt")
    idx = torch.randint(50, (1, 8))
    with torch.no_grad():
        torch.testing.assert_close(model(idx), theirs(idx).logits, atol=1e-5, rtol=1e-5)


def test_nanogpt_without_biases_loads_as_zeros(theirs, cfg):
    state = {n: v for n, v in nanogpt_state(theirs).items() if not n.endswith(".bias")}
    model = gpt2.load(state, replace(cfg, qkv_bias=False), layout="nanogpt")
    assert not model.final_norm.shift.any()
    assert not model.blocks[0].ff.up.bias.any()


def test_the_first_mingpt_loads(theirs, cfg):
    ours = gpt2.load(theirs.state_dict(), cfg)
    state = {"tok_emb.weight": ours.tok_emb.weight, "pos_emb": ours.pos_emb.weight[None]}
    state |= {"ln_f.weight": ours.final_norm.scale, "ln_f.bias": ours.final_norm.shift}
    state["head.weight"] = ours.tok_emb.weight
    for i, block in enumerate(ours.blocks):
        parts = {"ln1": block.norm1, "ln2": block.norm2}
        for name, norm in parts.items():
            state[f"blocks.{i}.{name}.weight"] = norm.scale
            state[f"blocks.{i}.{name}.bias"] = norm.shift
        for kind in ("weight", "bias"):
            whole = getattr(block.attn.qkv, kind)
            for name, part in zip(("query", "key", "value"), whole.chunk(3), strict=True):
                state[f"blocks.{i}.attn.{name}.{kind}"] = part
            state[f"blocks.{i}.attn.proj.{kind}"] = getattr(block.attn.out_proj, kind)
            state[f"blocks.{i}.mlp.0.{kind}"] = getattr(block.ff.up, kind)
            state[f"blocks.{i}.mlp.2.{kind}"] = getattr(block.ff.down, kind)
        state[f"blocks.{i}.attn.mask"] = torch.ones(1, 1, 8, 8)
    again = gpt2.load(state, cfg, layout="nanogpt")
    idx = torch.randint(50, (1, 8))
    with torch.no_grad():
        torch.testing.assert_close(again(idx), ours(idx))


def test_the_wrong_layout_is_named(theirs, cfg):
    with pytest.raises(
        ValueError, match=r"c_attn.weight has shape \(48, 16\), expected \(16, 48\)"
    ):
        gpt2.load(nanogpt_state(theirs), cfg)
    with pytest.raises(ValueError, match="which is how layout='huggingface' lies"):
        gpt2.load(theirs.state_dict(), cfg, layout="nanogpt")
    with pytest.raises(ValueError, match="layout must be one of"):
        gpt2.load(theirs.state_dict(), cfg, layout="mingpt")


# What does not fit --------------------------------------------------------------------------


def test_missing_unknown_and_misshapen_tensors_are_listed(theirs, cfg):
    state = dict(theirs.state_dict())
    del state["transformer.h.1.ln_2.weight"]
    state["transformer.h.0.extra"] = torch.zeros(1)
    state["transformer.wpe.weight"] = torch.zeros(9, 16)
    with pytest.raises(ValueError, match=r"h\.1\.ln_2\.weight is missing") as caught:
        gpt2.load(state, cfg)
    assert "h.0.extra is unknown" in str(caught.value)
    assert "wpe.weight has shape (9, 16), expected (8, 16)" in str(caught.value)


def test_a_whole_missing_block_is_summed_up(theirs, cfg):
    state = {n: v for n, v in theirs.state_dict().items() if ".h.1." not in n}
    with pytest.raises(ValueError, match=r"h\.1\.\S+ is missing.*and 6 more"):
        gpt2.load(state, cfg)


def test_an_untied_head_under_a_tied_configuration_is_refused(theirs, cfg):
    state = dict(theirs.state_dict()) | {"lm_head.weight": torch.zeros(50, 16)}
    with pytest.raises(ValueError, match="the configuration ties them"):
        gpt2.load(state, cfg)


def test_an_absent_tied_head_is_fine(theirs, cfg):
    state = dict(theirs.state_dict())
    del state["lm_head.weight"]
    gpt2.load(state, cfg)


def test_heads_that_cannot_be_guessed_are_asked_for(theirs):
    with pytest.raises(ValueError, match=r"number of heads is unknown: pass cfg="):
        gpt2.load(theirs.state_dict())
    with pytest.raises(ValueError, match=r"not GPT-2 weights: wte\.weight, wpe\.weight missing"):
        gpt2.load({"a": torch.zeros(1)})


def test_a_truncated_file_is_named_with_its_size(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(0.9 * len(whole))])
    with pytest.raises(
        ValueError, match=rf"safetensors of {path.stat().st_size:,} bytes is damaged"
    ):
        gpt2.load(folder)


@pytest.mark.parametrize(
    "content", [b"<!DOCTYPE html><html>404</html>", b"version https://git-lfs"]
)
def test_a_page_instead_of_weights_is_named(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="is a web page or text, not weights"):
        gpt2.load(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.ckpt", "weights.pt"])
def test_pickles_are_refused_with_the_reason(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ValueError, match="is a pickle, which can run any code"):
        gpt2.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"neither .* is a pickle, which can run any code"):
        gpt2.load(tmp_path)


def test_a_damaged_config_is_named(folder):
    (folder / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json is damaged: not JSON"):
        gpt2.load(folder)
    (folder / "config.json").write_text('{"model_type": "opt"}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json: model_type must be one of .* got 'opt'"):
        gpt2.load(folder)


def test_wrong_types_are_named(theirs, cfg):
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    with pytest.raises(TypeError, match=r"wte\.weight must be a tensor, got ndarray"):
        gpt2.load(state, cfg)
    with pytest.raises(ValueError, match=r"dtype must be None or one of .*; got torch\.int8"):
        gpt2.load(theirs.state_dict(), cfg, dtype=torch.int8)


def test_odd_dtypes_and_doubled_names_are_named(theirs, cfg):
    state = dict(theirs.state_dict())
    for dtype in (torch.int8, torch.float8_e4m3fn, torch.complex64):
        odd = {"transformer.ln_f.bias": torch.zeros(16).to(dtype)}
        with pytest.raises(ValueError, match=rf"one dtype out of .*; found .*{dtype}"):
            gpt2.load(state | odd, cfg)
    with pytest.raises(ValueError, match=r"wte\.weight occurs twice"):
        gpt2.load(state | {"wte.weight": state["transformer.wte.weight"]}, cfg)


def test_a_folder_may_be_called_like_a_pickle(cfg, tmp_path):
    gpt2.load(gpt2.export(GPT(cfg), tmp_path / "model.pt"))


def test_an_exported_config_edited_on_one_side_is_refused(cfg, tmp_path):
    gpt2.export(GPT(cfg), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"gelu_new"', '"relu"'))
    with pytest.raises(ValueError, match=r"activation is gelu_tanh under 'gptlib' and relu beside"):
        gpt2.load(tmp_path)


def test_biases_that_were_trained_elsewhere_come_back(cfg, tmp_path):
    gpt2.export(GPT(replace(cfg, qkv_bias=False)), tmp_path)
    assert not gpt2.load(tmp_path).cfg.qkv_bias
    path = tmp_path / "model.safetensors"
    state = safetensors.torch.load(path.read_bytes())
    state["transformer.h.0.attn.c_attn.bias"][3] = 0.01
    safetensors.torch.save_file(state, path)
    model = gpt2.load(tmp_path)
    assert model.cfg.qkv_bias
    assert model.blocks[0].attn.qkv.bias[3].item() == pytest.approx(0.01)


def test_a_noted_tokenizer_that_is_no_object_is_named(cfg, tmp_path):
    gpt2.export(GPT(cfg), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"tokenizer": null', '"tokenizer": "gpt2"'))
    with pytest.raises(
        ValueError, match=r"config\.json: 'tokenizer' must be an object, got 'gpt2'"
    ):
        load(tmp_path)


def test_an_absurd_number_of_layers_is_refused_at_once(cfg, tmp_path):
    gpt2.export(GPT(cfg), tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    del about["gptlib"]
    (tmp_path / "config.json").write_text(json.dumps(about | {"n_layer": 2_000_000_000}))
    with pytest.raises(ValueError, match="n_layers must be at most 10,000"):
        gpt2.load(tmp_path)


def test_a_name_on_the_hub_without_the_hub_says_what_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FileNotFoundError, match="needs: pip install huggingface_hub"):
        gpt2.load("openai-community/gpt2")


def test_a_name_on_the_hub_without_a_network_says_so(monkeypatch):
    import huggingface_hub

    def unreachable(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(FileNotFoundError, match=r"'gpt2' is not a folder .* no route to host"):
        gpt2.load("gpt2")


def test_a_name_on_the_hub_is_read_from_the_downloaded_folder(monkeypatch, folder):
    import huggingface_hub

    asked = []
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **_: asked.append(name) or str(folder)
    )
    assert gpt2.load("openai-community/gpt2").cfg.emb_dim == 16
    assert asked == ["openai-community/gpt2"]


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        gpt2.load(tmp_path / "nowhere")


# Out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"tie_weights": False},
        {"qkv_bias": False},
        {"activation": "relu"},
        {"activation": "gelu"},
        {"drop_rate": 0.2},
    ],
)
def test_transformers_loads_what_we_export_with_the_same_logits(cfg, change, tmp_path):
    model = GPT(replace(cfg, **change)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    gpt2.export(model, tmp_path)
    theirs, report = GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[kind]
    idx = torch.randint(50, (2, 8))
    with torch.no_grad():
        torch.testing.assert_close(theirs.eval()(idx).logits, model(idx), atol=1e-5, rtol=1e-5)
    again = gpt2.load(tmp_path)
    assert again.cfg == model.cfg
    state = again.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_a_post_ln_model_cannot_be_exported(cfg, tmp_path):
    with pytest.raises(ValueError, match="GPT-2 has norm_first=True, got False"):
        gpt2.export(GPT(replace(cfg, norm_first=False)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_export_leaves_files_that_are_not_its_own(cfg, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep")
    folder = tmp_path / "out"
    folder.mkdir()
    foreign = {".write-test", "model.safetensors.new", "config.json.new"}
    for name in foreign:
        (folder / name).symlink_to(precious)
    gpt2.export(GPT(cfg), folder)
    assert precious.read_text() == "keep"
    assert {p.name for p in folder.iterdir()} == foreign | {"config.json", "model.safetensors"}


def test_the_end_of_text_is_the_tokenizers(cfg, tmp_path):
    def eos(vocab_size, tokenizer):
        model = GPT(replace(cfg, vocab_size=vocab_size))
        gpt2.export(model, tmp_path, tokenizer)
        return json.loads((tmp_path / "config.json").read_text())["eos_token_id"]

    assert eos(50304, gpt2_tokenizer()) == 50256
    assert eos(50257, None) == 50256
    assert eos(300, ByteTokenizer()) is None
    assert eos(300, None) is None


def test_a_tokenizer_larger_than_the_model_is_refused(cfg, tmp_path):
    with pytest.raises(ValueError, match="tokenizer has 256 tokens, the model only 50"):
        gpt2.export(GPT(cfg), tmp_path / "out", ByteTokenizer())
    assert not (tmp_path / "out").exists()


def test_an_unwritable_folder_is_named(cfg, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="cannot write into the folder"):
        gpt2.export(GPT(cfg), tmp_path / "file" / "inside")


def test_the_config_is_plain_json(cfg, tmp_path):
    gpt2.export(GPT(cfg), tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    assert (about["model_type"], about["n_embd"], about["n_head"]) == ("gpt2", 16, 4)
    names = set(safetensors.torch.load_file(tmp_path / "model.safetensors"))
    assert "transformer.h.1.mlp.c_fc.weight" in names
    assert "lm_head.weight" not in names  # tied, stored once


# Proof --------------------------------------------------------------------------------------


def test_every_parameter_has_a_name_of_its_own(cfg):
    names = [gpt2.their_name(name) for name in parameter_shapes(replace(cfg, tie_weights=False))]
    assert len(set(names)) == len(names)
    assert gpt2.their_name("blocks.3.attn.out_proj.bias") == "h.3.attn.c_proj.bias"
    assert gpt2.their_name("blocks.0.norm2.scale") == "h.0.ln_2.weight"
    assert gpt2.is_transposed("blocks.0.attn.out_proj.weight")
    assert not gpt2.is_transposed("tok_emb.weight")


def test_a_copy_is_verified_equal(cfg, theirs):
    a, b = (gpt2.load(theirs.state_dict(), cfg) for _ in range(2))
    verdict = gpt2.verify(a, b.train())
    assert verdict.same
    assert "equal at all" in verdict.reason
    assert b.training


@pytest.mark.parametrize(
    ("damage", "stage"),
    [
        (lambda m: m.pos_emb.weight, "embeddings"),
        (lambda m: m.blocks[0].attn.qkv.weight, "blocks.0.attn.q"),
        (lambda m: m.blocks[1].attn.out_proj.weight, "blocks.1"),
        (lambda m: m.blocks[0].ff.down.bias, "blocks.0"),
        (lambda m: m.final_norm.shift, "final_norm"),
    ],
)
def test_the_first_stage_that_differs_is_named(cfg, theirs, damage, stage):
    a, b = (gpt2.load(theirs.state_dict(), cfg) for _ in range(2))
    with torch.no_grad():
        damage(b).add_(0.5)
    verdict = gpt2.verify(a, b)
    assert not verdict.same
    assert verdict.reason.startswith(f"{stage} is the first stage to differ")


def test_one_square_matrix_left_transposed_is_found(cfg, theirs):
    a, b = (gpt2.load(theirs.state_dict(), cfg) for _ in range(2))
    with torch.no_grad():
        b.blocks[1].attn.out_proj.weight.copy_(b.blocks[1].attn.out_proj.weight.T.clone())
    assert gpt2.verify(a, b).reason.startswith("blocks.1 is the first stage to differ")


@pytest.mark.parametrize("change", [{"n_layers": 1}, {"n_heads": 2}])
def test_models_of_different_sizes_are_refused(cfg, change):
    with pytest.raises(ValueError, match="different sizes"):
        gpt2.verify(GPT(cfg), GPT(replace(cfg, **change)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("order", [1, -1])
def test_numbers_that_are_not_finite_are_a_difference(cfg, theirs, value, order):
    pair = [gpt2.load(theirs.state_dict(), cfg) for _ in range(2)]
    with torch.no_grad():
        pair[0].pos_emb.weight[7] = value
    assert gpt2.verify(*pair[::order]).reason.startswith("embeddings is the first stage")


def test_verifying_leaves_each_module_in_its_own_mode(cfg):
    model = GPT(cfg).train()
    model.blocks[0].eval()
    gpt2.verify(model, GPT(cfg))
    assert model.training
    assert not model.blocks[0].training


def test_a_model_that_is_not_the_released_one_is_told_so(cfg):
    assert gpt2.verify(GPT(cfg)).reason == "another size than the released GPT-2 small"
    torch.manual_seed(0)
    verdict = gpt2.verify(GPT(GPTConfig.preset("gpt2-small")))
    assert not verdict.same
    assert "the released model's is" in verdict.reason
    assert 10 < verdict.loss < 12


def test_the_released_numbers_are_accepted(monkeypatch):
    """No network here: a stand-in answers with the stored numbers, and with one of them wrong."""
    from gptlib.storage.gpt2 import proof

    model = GPT(GPTConfig.preset("gpt2-small", n_layers=1))
    monkeypatch.setattr(proof, "parameter_shapes", lambda cfg: {})
    logits = torch.full((1, 4, 50257), -111.9)
    for i, value in proof._LOGITS.items():
        logits[0, 0, i] = value
    logits[0, 3, -1] += proof._MEAN_LOGIT * logits[0].numel() - logits.sum()
    monkeypatch.setattr(GPT, "forward", lambda self, idx, **_: logits[:, : idx.shape[1]])
    losses = [torch.tensor(proof._LOSS)]
    monkeypatch.setattr(GPT, "loss", lambda self, idx, targets: losses[-1])
    ids = list(proof._DOG + proof._GREEDY)
    monkeypatch.setattr(proof, "generate", lambda *_, **__: ids)
    assert gpt2.verify(model).same
    ids[5] += 1
    assert "greedy token 3 is 258, not 257" in gpt2.verify(model).reason
    losses.append(torch.tensor(3.48))
    assert "the loss is 3.4800" in gpt2.verify(model).reason
    logits[0, 0, 100] += 0.1
    assert "logit 100 is -43.2126" in gpt2.verify(model).reason


def test_the_words_that_the_book_quotes_begin_as_the_proof_expects():
    quoted = Path(__file__).parent.parent / "notebooks" / "results" / "gpt2_words.json"
    words = json.loads(quoted.read_text(encoding="utf-8"))["words"]
    tokenizer = gpt2_tokenizer()
    ids = {
        said["prompt"]: tokenizer.encode(said["prompt"] + said["continuation"]) for said in words
    }
    from gptlib.storage.gpt2 import proof

    expected = proof._DOG + proof._GREEDY
    assert tuple(ids["The dog"][: len(expected)]) == expected
    assert all(
        len(ids[s["prompt"]]) == s["tokens"] + len(tokenizer.encode(s["prompt"])) for s in words
    )


def test_a_model_is_not_exported_over_a_training_run(cfg, tmp_path):
    (tmp_path / "step-00000010").mkdir()
    (tmp_path / "step-00000010" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="holds a training run; choose another folder"):
        gpt2.export(GPT(cfg), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000010"]


def test_a_dictionary_is_no_configuration(cfg, tmp_path):
    with pytest.raises(TypeError, match="cfg must be a GPTConfig, got dict"):
        gpt2.load(gpt2.export(GPT(cfg), tmp_path), cfg.to_dict())
