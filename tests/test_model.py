import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gptlib import GPT, GPTConfig, LayerNorm, NumpyGPT, generate, parallel
from gptlib.attention import causal_mask
from gptlib.model import ACTIVATIONS

PROMPT = [15496, 11, 314, 716]  # "Hello, I am"
GIBBERISH = [27018, 24086, 47843, 30961, 42348, 7267, 49706, 43231, 47062, 34657]

SWITCHES = [
    {},
    {"tie_weights": True},
    {"qkv_bias": True},
    {"norm_first": False},
    {"activation": "gelu"},
    {"activation": "relu"},
    {"init": "torch"},
]


@pytest.mark.parametrize("threads", [1, 2])
def test_seed_123_with_torch_init_says_the_known_gibberish(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(123)
        model = GPT(GPTConfig(init="torch"))
        assert model.num_params() == 163_009_536
        assert generate(model, PROMPT, 10, temperature=0) == PROMPT + GIBBERISH
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("cfg", "count"),
    [
        (GPTConfig(), 163_009_536),
        (GPTConfig(tie_weights=True), 124_412_160),
        (GPTConfig.preset("gpt2-small"), 124_439_808),
        (GPTConfig.preset("gpt2-medium"), 354_823_168),
        (GPTConfig.preset("gpt2-large"), 774_030_080),
        (GPTConfig.preset("gpt2-xl"), 1_557_611_200),
        (GPTConfig.preset("mini"), 857_344),
    ],
)
def test_parameter_counts(cfg, count):
    with torch.device("meta"):  # shapes without memory
        assert GPT(cfg).num_params() == count


def test_a_tied_model_is_one_tensor(tiny):
    model = GPT(replace(tiny, tie_weights=True))
    assert model.head.weight is model.tok_emb.weight
    assert GPT(tiny).num_params() - model.num_params() == tiny.vocab_size * tiny.emb_dim


def test_there_are_no_buffers_beside_the_parameters(tiny):
    assert list(GPT(tiny).buffers()) == []


@pytest.mark.parametrize("change", SWITCHES)
def test_the_explicit_path_equals_the_fused_one(tiny, change):
    model = GPT(replace(tiny, **change)).eval()
    idx = torch.randint(50, (3, 8))
    trace = {}
    torch.testing.assert_close(model(idx, trace=trace), model(idx), atol=1e-5, rtol=1e-5)
    weights = trace["blocks.1.attn.weights"]
    assert weights.shape == (3, 4, 8, 8)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 8))
    assert (weights.triu(1) == 0).all()


@pytest.mark.parametrize("change", SWITCHES)
def test_a_later_token_never_changes_an_earlier_row(tiny, change):
    model = GPT(replace(tiny, **change)).eval()
    idx = torch.randint(50, (1, 8))
    changed = idx.clone()
    changed[0, 5] = (idx[0, 5] + 1) % 50
    before, after = model(idx), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


def test_a_row_does_not_depend_on_its_batch(tiny):
    model = GPT(tiny).eval()
    idx = torch.randint(50, (4, 8))
    torch.testing.assert_close(model(idx)[2:3], model(idx[2:3]), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("trace", [None, {}])
def test_dropout_is_off_in_evaluation_on_both_attention_paths(tiny, trace):
    model = GPT(replace(tiny, drop_rate=0.9)).eval()
    plain = GPT(tiny).eval()
    plain.load_state_dict(model.state_dict())
    idx = torch.randint(50, (2, 8))
    first = model(idx, trace=trace)
    assert torch.equal(first, model(idx, trace=trace))
    assert torch.equal(first, plain(idx, trace=trace))
    assert not torch.equal(model.train()(idx, trace=trace), first)


def test_layer_norm_divides_by_n():
    out = LayerNorm(4)(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    expected = torch.tensor([-1.341635, -0.447212, 0.447212, 1.341635])
    torch.testing.assert_close(out, expected, atol=1e-6, rtol=0)


def test_gelu_tanh_is_the_form_of_gpt2():
    out = ACTIVATIONS["gelu_tanh"](torch.tensor([1.0, 2.0, -2.0], dtype=torch.float64))
    known = torch.tensor([0.841191990608, 1.954597694088, -0.045402305912], dtype=torch.float64)
    torch.testing.assert_close(out, known, atol=1e-12, rtol=0)
    exact = ACTIVATIONS["gelu"](torch.tensor(1.0, dtype=torch.float64))
    assert math.isclose(exact.item(), 0.841344746069, abs_tol=1e-12)


def test_gpt2_init_scales_the_two_projections_that_write_to_the_stream():
    model = GPT(GPTConfig.preset("mini"))
    block = model.blocks[2]
    for weight in (block.attn.qkv.weight, block.ff.up.weight, model.tok_emb.weight):
        assert weight.std().item() == pytest.approx(0.02, rel=0.05)
    for weight in (block.attn.out_proj.weight, block.ff.down.weight):
        assert weight.std().item() == pytest.approx(0.02 / math.sqrt(8), rel=0.05)
    assert all((p == 0).all() for name, p in model.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize("vocab_size", [50, 50257])
def test_the_first_loss_is_near_ln_v(tiny, vocab_size):
    model = GPT(replace(tiny, vocab_size=vocab_size)).eval()
    idx, targets = torch.randint(vocab_size, (2, 32, 8))
    assert model.loss(idx, targets).item() == pytest.approx(math.log(vocab_size), abs=0.2)


def test_loss_is_the_mean_cross_entropy(tiny):
    model = GPT(tiny).eval()
    idx, targets = torch.randint(50, (2, 3, 8))
    by_hand = -model(idx).log_softmax(-1).gather(-1, targets[..., None]).mean()
    torch.testing.assert_close(model.loss(idx, targets), by_hand)


def test_every_parameter_receives_a_gradient(tiny):
    for change in SWITCHES:
        model = GPT(replace(tiny, **change))
        idx, targets = torch.randint(50, (2, 3, 8))
        model.loss(idx, targets).backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_the_causal_mask_counts_from_the_end():
    assert causal_mask(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize(
    ("idx", "message"),
    [
        (torch.tensor([[3, 50]]), "token id 50 at row 0, position 1 is outside .* 0..49"),
        (torch.tensor([[3, -1]]), "token id -1 at row 0, position 1"),
        (torch.tensor([[10**9]]), "token id 1000000000"),
        (torch.zeros(1, 9, dtype=torch.long), "9 positions exceed the context length 8"),
        (torch.zeros(1, 0, dtype=torch.long), r"T at least 1; got \(1, 0\)"),
        (torch.zeros(4, dtype=torch.long), r"shape \(B, T\)"),
        (torch.zeros(1, 4), "int64 or int32 token ids, got dtype torch.float32"),
        ([[1, 2]], "idx must be a tensor .*, got list"),
    ],
)
def test_wrong_ids_are_named(tiny, idx, message):
    with pytest.raises(ValueError, match=message):
        GPT(tiny)(idx)


@pytest.mark.parametrize("target", [50, -1])
def test_targets_outside_the_vocabulary_are_named(tiny, target):
    targets = torch.tensor([[1, target]], dtype=torch.int32)
    with pytest.raises(ValueError, match=f"target {target} at row 0, position 1 .* 0..49"):
        GPT(tiny).loss(torch.tensor([[1, 2]]), targets)


def test_targets_that_are_no_tensor_are_named(tiny):
    with pytest.raises(ValueError, match="targets must be a tensor, got list"):
        GPT(tiny).loss(torch.tensor([[1, 2]]), [[2, 3]])


def test_ignored_targets_are_not_counted_and_none_gives_loss_zero(tiny):
    model = GPT(tiny).eval()
    idx, targets = torch.randint(50, (2, 3, 8))
    some = targets.clone()
    some[:, ::2] = -100
    rows = model(idx).log_softmax(-1).gather(-1, targets[..., None])[:, 1::2]
    torch.testing.assert_close(model.loss(idx, some), -rows.mean())
    loss = model.loss(idx, torch.full_like(targets, -100))
    loss.backward()
    assert loss.item() == 0
    assert all((p.grad == 0).all() for p in model.parameters())


def test_targets_of_another_shape_are_refused(tiny):
    with pytest.raises(ValueError, match="targets must have the shape of idx"):
        GPT(tiny).loss(torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long))


def test_next_logits_is_the_last_row_and_leaves_modes_alone(tiny):
    model = GPT(replace(tiny, drop_rate=0.5)).train()
    model.blocks[0].eval()  # a mixed state must survive
    state = torch.get_rng_state()
    logits = model.next_logits([1, 2, 3])
    assert [m.training for m in (model, *model.blocks)] == [True, False, True]
    assert torch.equal(torch.get_rng_state(), state)
    expected = model.eval()(torch.tensor([[1, 2, 3]]))[0, -1]
    torch.testing.assert_close(torch.from_numpy(logits), expected.detach())


def test_modes_survive_an_error(tiny):
    model = GPT(tiny).train()
    with pytest.raises(ValueError, match="outside the vocabulary"):
        model.next_logits([99])
    assert model.training
    assert torch.is_grad_enabled()


def test_the_reference_attention_formula(tiny):
    """Attention equals softmax(Q K^T / sqrt(D)) V, head by head, written without any batching."""
    model = GPT(tiny).eval()
    attn = model.blocks[0].attn
    x = torch.randn(1, 5, 16)
    q, k, v = attn.qkv(x)[0].split(16, dim=-1)  # (5, 16) each
    heads = []
    for h in range(4):
        part = slice(4 * h, 4 * h + 4)
        scores = q[:, part] @ k[:, part].T / 2.0
        scores = scores.masked_fill(~causal_mask(5, 5), -math.inf)
        heads.append(F.softmax(scores, dim=-1) @ v[:, part])
    expected = attn.out_proj(torch.cat(heads, dim=-1))
    torch.testing.assert_close(attn(x)[0], expected, atol=1e-6, rtol=1e-5)


def test_compiling_meets_no_graph_break():
    model = GPT(GPTConfig.preset("mini"))
    idx, targets = torch.randint(256, (2, 2, 16))
    explain = torch._dynamo.explain
    assert explain(model.loss)(idx, targets).graph_break_count == 0
    assert explain(parallel.Loss(model, recompute=False))(idx, targets).graph_break_count == 0
    assert explain(model)(idx[:1], cache=model.new_cache()).graph_break_count == 0


def test_a_list_of_ids_is_checked_too(tiny):
    model = GPT(tiny)
    for ids, what in (([3, 50], "token id 50 at row 0, position 1"), ([], "T at least 1")):
        with pytest.raises(ValueError, match=what):
            model.next_logits(ids)
    with pytest.raises(ValueError, match="9 positions exceed the context length 8"):
        model.next_logits([1] * 9)


def test_hooks_of_the_model_fire_while_it_writes(tiny):
    model, seen = GPT(tiny), []
    model.register_forward_hook(lambda *_: seen.append("after"))
    generate(model, [1, 2], 3, temperature=0)
    assert seen == ["after"] * 3


def test_functional_gradients_go_through_the_door(tiny):
    model, idx = GPT(tiny), torch.randint(50, (2, 4))
    params = {name: p.detach() for name, p in model.named_parameters()}

    def total(params):
        return torch.func.functional_call(model, params, (idx,)).sum()

    found = torch.func.grad(total)(params)
    model(idx).sum().backward()
    for name, param in model.named_parameters():
        torch.testing.assert_close(found[name], param.grad)


def test_compiled_code_still_checks_shapes_and_types(tiny):
    model = GPT(tiny)
    loss = torch.compile(lambda idx, targets: model.loss(idx, targets), backend="eager")
    with pytest.raises(Exception, match="targets must have the shape of idx"):
        loss(torch.zeros(1, 3, dtype=torch.long), torch.zeros(3, 1, dtype=torch.long))
    with pytest.raises(Exception, match="T at least 1"):
        torch.compile(model, backend="eager")(torch.zeros(1, 0, dtype=torch.long))


@pytest.mark.parametrize("ids", [[1.5], [True], "ab", [[1, 2]], [None], np.array([[1]]), {1}])
def test_what_is_no_list_of_ids_is_a_value_error(tiny, ids):
    for model in (GPT(tiny), NumpyGPT(tiny)):
        with pytest.raises(ValueError, match="idx must"):
            model.next_logits(ids)


def test_a_losss_own_definition_is_what_training_uses(tiny):
    class Doubled(GPT):
        def loss(self, idx, targets):
            return 2 * super().loss(idx, targets)

    model, idx = Doubled(tiny), torch.randint(50, (2, 8))
    assert parallel.Loss(model, recompute=False)(idx, idx) == model.loss(idx, idx)
