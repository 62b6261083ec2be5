import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from switches import ALONE, TINY, configurations

from gptlib import GPT, generate, stream
from gptlib.config import parameter_shapes
from gptlib.kv_cache import NumpyKVCache
from gptlib.numpy_gpt import AdamW, NumpyGPT, check_gradients, clip_grad_norm, ops

SWITCHES = [
    {"tie_weights": tied, "qkv_bias": bias, "norm_first": first, "activation": activation}
    for tied, bias, first, activation in itertools.product(
        [False, True], [False, True], [False, True], ["gelu_tanh", "gelu", "relu"]
    )
]
STANDARD = {"tie_weights": True, "qkv_bias": True}


def pair(cfg, spread=0.1):
    """Return the same float64 model in torch and in NumPy, with no parameter at 0 or 1."""
    model = GPT(cfg).double()
    with torch.no_grad():
        for param in model.parameters():
            param += spread * torch.randn_like(param)
    return model, NumpyGPT.from_torch(model, np.float64)


def batch(cfg, rows=3, seed=0):
    rng = np.random.default_rng(seed)
    shape = (2, rows, cfg.context_length)
    return rng.integers(cfg.vocab_size, size=shape)


def losses_and_gradients(model, net, idx, targets):
    """Return the loss and every gradient by name, of the NumPy engine and of torch."""
    loss = model.loss(torch.from_numpy(idx), torch.from_numpy(targets))
    loss.backward()
    theirs = loss.item(), {name: param.grad for name, param in model.named_parameters()}
    return net.loss_and_grads(idx, targets), theirs


def worst_difference(arrays, tensors, least=0.0):
    """Return the largest relative difference by parameter; both sides must have the same names.

    Norms below `least` count as `least`: what is 0 but for rounding has no digits to compare.
    """
    assert arrays.keys() == tensors.keys()
    return np.max(  # built-in max() would drop a NaN
        [
            np.linalg.norm(arrays[name] - tensors[name].numpy())
            / max(tensors[name].norm().item(), least)
            for name in arrays
        ]
    )


@pytest.mark.parametrize("change", SWITCHES)
def test_loss_and_every_gradient_equal_torch(tiny, change):
    cfg = replace(tiny, **change)
    model, net = pair(cfg)
    (ours, grads), (loss, theirs) = losses_and_gradients(model, net, *batch(cfg))
    assert ours == pytest.approx(loss, rel=1e-12)
    assert worst_difference(grads, theirs) < 1e-9
    assert all(np.abs(grad).sum() > 0 for grad in grads.values())


@pytest.mark.parametrize("change", SWITCHES[::5])
def test_three_adamw_steps_keep_the_parameters_equal_to_torch(tiny, change):
    cfg = replace(tiny, **change)
    model, net = pair(cfg)
    params = list(model.parameters())
    reference = torch.optim.AdamW(
        [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=1e-2,
        betas=(0.9, 0.99),
    )
    optimizer = AdamW(net.params, learning_rate=1e-2)
    for seed in range(3):
        idx, targets = batch(cfg, seed=seed)
        reference.zero_grad()
        model.loss(torch.from_numpy(idx), torch.from_numpy(targets)).backward()
        norm = torch.nn.utils.clip_grad_norm_(params, 0.5).item()
        reference.step()
        _, grads = net.loss_and_grads(idx, targets)
        assert clip_grad_norm(grads, 0.5) == pytest.approx(norm, rel=1e-9)
        optimizer.step(grads)
    assert worst_difference(net.params, {n: p.detach() for n, p in model.named_parameters()}) < 1e-9


@given(configurations())
@settings(deadline=None)
def test_any_switches_together_give_torchs_loss_gradients_and_cached_logits(cfg):
    torch.manual_seed(0)
    model, net = pair(cfg)
    idx, targets = batch(cfg)
    (ours, grads), (loss, theirs) = losses_and_gradients(model, net, idx, targets)
    assert ours == pytest.approx(loss, rel=1e-9)
    # A vector added to every key lifts all scores of a query alike, so its gradient is 0.
    assert worst_difference(grads, theirs, least=1e-5) < 1e-9
    with torch.no_grad():
        whole, row = model(torch.from_numpy(idx)).numpy(), idx[:1]
        caches = model.new_cache(), net.new_cache()
        steps = [
            (model(torch.from_numpy(part), cache=caches[0]).numpy(), net.forward(part, caches[1]))
            for part in np.split(row, [3, 4, 5], axis=1)
        ]
    size = np.abs(whole).max()
    for engine in zip(*steps, strict=True):
        assert np.abs(np.concatenate(engine, axis=1)[0] - whole[0]).max() < 1e-9 * size
    assert np.abs(net.forward(idx) - whole).max() < 1e-9 * size


@pytest.mark.parametrize("change", ALONE, ids=str)
def test_each_switch_alone_changes_the_parameters_or_the_function(change):
    rotary = {"positions": "rotary"} if any(name.startswith("rotary") for name in change) else {}
    plain, _ = pair(replace(TINY, **rotary))
    other, _ = pair(replace(TINY, **(rotary | change)))
    if parameter_shapes(plain.cfg) == parameter_shapes(other.cfg) and "init" not in change:
        other.load_state_dict(plain.state_dict())
        ids = torch.arange(9)[None]
        assert (plain(ids) - other(ids)).abs().max() > 1e-6


def test_fifty_float32_steps_follow_torchs_loss_curve(tiny):
    cfg = replace(tiny, **STANDARD)
    model = GPT(cfg)
    net = NumpyGPT.from_torch(model)
    reference = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.0)
    optimizer = AdamW(net.params, learning_rate=3e-3, weight_decay=0.0)
    text = np.arange(500) % 50
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(50):
        starts = rng.integers(len(text) - 8, size=12)
        idx, targets = (np.stack([text[s + k : s + k + 8] for s in starts]) for k in (0, 1))
        reference.zero_grad()
        loss = model.loss(torch.from_numpy(idx), torch.from_numpy(targets))
        loss.backward()
        reference.step()
        ours, grads = net.loss_and_grads(idx, targets)
        optimizer.step(grads)
        losses.append((ours, loss.item()))
    ours, theirs = np.array(losses).T
    assert np.abs(ours - theirs).max() < 1e-3
    assert ours[-1] < ours[0] - 1


@pytest.mark.parametrize("change", SWITCHES[::7])
def test_the_checker_accepts_the_right_gradients(tiny, change):
    cfg = replace(tiny, **change)
    net = NumpyGPT.from_torch(pair(cfg)[0], np.float64)
    before = {name: param.copy() for name, param in net.params.items()}
    errors = check_gradients(net, *batch(cfg))
    assert errors.keys() == net.params.keys()
    assert max(errors.values()) < 1e-6
    assert all((before[name] == param).all() for name, param in net.params.items())


def broken(name, change):
    """Return a mutated backward: the real one, then `change` on its list of gradients."""
    real = getattr(ops, name)

    def mutant(dout, saved):
        grads = real(dout, saved)
        single = not isinstance(grads, tuple)
        grads = change([grads] if single else list(grads), dout, saved)
        return grads[0] if single else tuple(grads)

    return mutant


MUTANTS = {
    "attention: no path through the scores": (
        "attention_backward",
        lambda g, d, s: [0 * g[0], 0 * g[1], g[2]],
    ),
    "attention: keys forgotten": ("attention_backward", lambda g, d, s: [g[0], 0 * g[1], g[2]]),
    "attention: scale forgotten": (
        "attention_backward",
        lambda g, d, s: [2 * g[0], 2 * g[1], g[2]],
    ),
    "attention: values with the wrong sign": (
        "attention_backward",
        lambda g, d, s: [g[0], g[1], -g[2]],
    ),
    "softmax: the subtracted mean forgotten": ("softmax_backward", lambda g, d, s: [d * s[0]]),
    "layer norm: the mean's path forgotten": (
        "layer_norm_backward",
        lambda g, d, s: [g[0] + s[1] * (d * s[2]).mean(-1, keepdims=True), *g[1:]],
    ),
    "layer norm: the variance's path forgotten": (
        "layer_norm_backward",
        lambda g, d, s: [
            g[0] + s[1] * s[0] * (d * s[2] * s[0]).mean(-1, keepdims=True),
            *g[1:],
        ],
    ),
    "layer norm: scale's gradient without xhat": (
        "layer_norm_backward",
        lambda g, d, s: [g[0], g[2], g[2]],
    ),
    "gelu: the slope of relu": ("gelu_tanh_backward", lambda g, d, s: [d * (s[0] > 0)]),
    "linear: bias forgotten": (
        "linear_backward",
        lambda g, d, s: [*g[:2], None if g[2] is None else 0 * g[2]],
    ),
    "embedding: one token's rows overwritten": (
        "embedding_backward",
        lambda g, d, s: [np.where(np.arange(len(g[0]))[:, None] == s[0].flat[0], 0, g[0])],
    ),
    "residual: the stream cut off": ("residual_backward", None),
    "loss: the one-hot term forgotten": ("cross_entropy_backward", None),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_checker_catches_a_broken_backward(tiny, mutant, monkeypatch):
    name, change = MUTANTS[mutant]
    if name == "residual_backward":
        function = lambda d: (0 * d, d)  # noqa: E731
    elif name == "cross_entropy_backward":
        function = lambda s: s[0] / len(s[0])  # noqa: E731
    else:
        function = broken(name, change)
    cfg = replace(tiny, **STANDARD)
    net = NumpyGPT.from_torch(pair(cfg)[0], np.float64)
    monkeypatch.setattr(ops, name, function)
    errors = check_gradients(net, *batch(cfg))
    assert max(errors.values()) > 1e-3


def test_whole_numbers_are_no_weights(tiny):
    with pytest.raises(ValueError, match=r"np\.float32 or np\.float64, got int32"):
        NumpyGPT(tiny, dtype=np.int32)
    with pytest.raises(ValueError, match=r"np\.float32 or np\.float64, got int32"):
        NumpyGPT.from_torch(GPT(tiny), dtype=np.int32)
    for dtype in (None, np.float16):
        with pytest.raises(ValueError, match=r"dtype must be np\.float32 or np\.float64"):
            NumpyGPT(tiny, dtype=dtype)


def test_a_batch_of_nothing_costs_nothing(tiny):
    net, nothing = NumpyGPT(tiny), np.zeros((0, 4), int)
    loss, grads = net.loss_and_grads(nothing, nothing)
    assert loss == 0
    assert grads.keys() == net.params.keys()
    assert not any(grad.any() for grad in grads.values())


def test_the_checker_wants_float64(tiny):
    with pytest.raises(ValueError, match="float64, the model is in float32"):
        check_gradients(NumpyGPT(tiny), *batch(tiny))


@pytest.mark.parametrize("change", SWITCHES[::5])
def test_logits_equal_torch_and_round_trip_is_exact(tiny, change):
    cfg = replace(tiny, **change)
    model = GPT(cfg).eval()
    net = NumpyGPT.from_torch(model)
    idx, _ = batch(cfg)
    expected = model(torch.from_numpy(idx)).detach().numpy()
    np.testing.assert_allclose(net.forward(idx), expected, atol=1e-5)
    back = net.to_torch()
    for name, value in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], value)
    assert (back.head.weight is back.tok_emb.weight) == cfg.tie_weights
    assert net.num_params() == model.num_params()


def test_a_cached_prompt_in_pieces_gives_the_full_logits(tiny):
    net = NumpyGPT(tiny)
    idx, _ = batch(tiny, rows=2)
    full = net.forward(idx)
    for pieces in ([1] * 8, [3, 5], [5, 1, 2], [8]):
        cache = NumpyKVCache(tiny, batch_size=2, dtype=np.float32)
        edges = np.cumsum([0, *pieces])
        logits = [net.forward(idx[:, a:b], cache) for a, b in itertools.pairwise(edges)]
        np.testing.assert_allclose(np.concatenate(logits, 1), full, atol=1e-5)
    assert cache.nbytes == 2 * 2048


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"seed": 1}, {"seed": 1, "top_k": 5}])
def test_generate_and_stream_run_on_it_unchanged(tiny, settings):
    net = NumpyGPT(tiny)
    model = net.to_torch().eval()
    ids = generate(net, [1, 2, 3], 20, **settings)
    assert ids == generate(model, [1, 2, 3], 20, **settings)
    assert ids == generate(net, [1, 2, 3], 20, use_cache=False, **settings)
    assert ids[3:] == [step.token_id for step in stream(net, [1, 2, 3], 20, **settings)]


def test_dropout_is_drawn_from_the_given_generator_only(tiny):
    cfg = replace(tiny, drop_rate=0.3)
    net = NumpyGPT(cfg, dtype=np.float64)
    idx, targets = batch(cfg)
    plain = net.loss_and_grads(idx, targets)[0]
    assert plain == net.loss(idx, targets)
    a, b = (net.loss_and_grads(idx, targets, np.random.default_rng(1))[0] for _ in range(2))
    assert a == b != plain


def test_gradients_under_dropout_equal_central_differences(tiny):
    cfg = replace(tiny, drop_rate=0.3)
    net = NumpyGPT.from_torch(pair(cfg)[0], np.float64)
    assert max(check_gradients(net, *batch(cfg), dropout_seed=7).values()) < 1e-6


def unmasked_attention(dout, saved, real=ops.attention_backward):
    return real(dout, (*saved[:-1], None))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("dropout_backward", lambda dout, saved: dout),
        ("dropout_backward", lambda dout, saved: dout * (saved[0] > 0)),
        ("attention_backward", unmasked_attention),
    ],
)
def test_the_checker_catches_a_broken_backward_of_dropout(tiny, name, function, monkeypatch):
    cfg = replace(tiny, drop_rate=0.3)
    net = NumpyGPT.from_torch(pair(cfg)[0], np.float64)
    monkeypatch.setattr(ops, name, function)
    assert max(check_gradients(net, *batch(cfg), dropout_seed=7).values()) > 1e-3
    assert max(check_gradients(net, *batch(cfg)).values()) < 1e-6  # nothing is dropped here


@pytest.mark.parametrize("factor", [np.inf, np.nan, 1e200])
@pytest.mark.filterwarnings("ignore:(invalid|overflow):RuntimeWarning")
def test_a_gradient_that_is_not_finite_is_infinitely_wrong(tiny, factor, monkeypatch):
    net = NumpyGPT.from_torch(pair(tiny)[0], np.float64)
    real, name = ops.linear_backward, "blocks.0.ff.up.weight"

    def mutant(dout, saved):
        dx, dw, db = real(dout, saved)
        return dx, dw * factor if saved[1] is net.params[name] else dw, db

    monkeypatch.setattr(ops, "linear_backward", mutant)
    errors = check_gradients(net, *batch(tiny))
    assert errors.pop(name) == np.inf
    assert max(errors.values()) < 1e-6


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_loss_that_is_not_finite_once_is_infinitely_wrong(tiny, bad, monkeypatch):
    net = NumpyGPT.from_torch(pair(tiny)[0], np.float64)
    real, first = NumpyGPT.loss, net.params["tok_emb.weight"].copy()
    calls = []

    def loss(self, *args):
        calls.append((self.params["tok_emb.weight"] != first).any())
        return bad if calls == [True] else real(self, *args)  # one of six, which a median hides

    monkeypatch.setattr(NumpyGPT, "loss", loss)
    errors = check_gradients(net, *batch(tiny))
    assert errors.pop("tok_emb.weight") == np.inf
    assert max(errors.values()) < 1e-6


def test_all_targets_ignored_give_loss_zero_and_no_update(tiny):
    net = NumpyGPT(tiny)
    idx, targets = batch(tiny)
    loss, grads = net.loss_and_grads(idx, np.full_like(targets, ops.IGNORE))
    assert loss == 0
    assert all((grad == 0).all() for grad in grads.values())


def test_large_weights_do_not_overflow(tiny):
    net = NumpyGPT(tiny)
    net.params["head.weight"] *= 1e6
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        loss, grads = net.loss_and_grads(*batch(tiny))
    assert np.isfinite(loss)
    assert all(np.isfinite(grad).all() for grad in grads.values())


@pytest.mark.parametrize("init", ["gpt2", "torch"])
def test_initial_weights_have_the_spreads_of_the_torch_model(tiny, init):
    cfg = replace(tiny, emb_dim=128, vocab_size=500, init=init)
    model, net = GPT(cfg), NumpyGPT(cfg, seed=3)
    for name, param in model.named_parameters():
        if param.dim() == 2:
            assert net.params[name].std() == pytest.approx(param.std().item(), rel=0.05)
    assert (net.params["final_norm.scale"] == 1).all()
    again = NumpyGPT(cfg, seed=3)
    assert all((again.params[n] == p).all() for n, p in net.params.items())


@pytest.mark.parametrize(
    ("idx", "message"),
    [
        ([[3, 50]], "token id 50 at row 0, position 1 is outside the vocabulary 0..49"),
        ([[3, -1]], "token id -1 at row 0, position 1"),
        ([[0] * 9], "9 positions exceed the context length 8"),
        ([[]], "T at least 1"),
        ([1, 2], r"shape \(B, T\)"),
        ([[0.5]], "integer token ids, got dtype float64"),
    ],
)
def test_wrong_ids_are_named(tiny, idx, message):
    with pytest.raises(ValueError, match=message):
        NumpyGPT(tiny).forward(np.array(idx) if idx != [[]] else np.zeros((1, 0), int))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([[1, 50]], "target 50 at row 0, position 1 is outside the vocabulary 0..49"),
        ([[1, -1]], "target -1 at row 0, position 1"),
        ([[1]], "shape of idx"),
        ([[0.5, 1]], "integer token ids"),
    ],
)
def test_wrong_targets_are_named(tiny, targets, message):
    with pytest.raises(ValueError, match=message):
        NumpyGPT(tiny).loss_and_grads(np.array([[1, 2]]), np.array(targets))


def test_lists_are_named(tiny):
    net = NumpyGPT(tiny)
    with pytest.raises(ValueError, match=r"idx must be an array .*, got list"):
        net.forward([[1, 2]])
    with pytest.raises(ValueError, match="targets must be an array, got list"):
        net.loss(np.array([[1, 2]]), [[2, 3]])


def test_it_runs_where_torch_cannot_be_imported():
    code = """
import sys
sys.modules["torch"] = None
import numpy as np
from gptlib import GPTConfig, generate
from gptlib.numpy_gpt import AdamW, NumpyGPT
net = NumpyGPT(GPTConfig.preset("mini", n_layers=1, emb_dim=16, context_length=8))
_, grads = net.loss_and_grads(np.zeros((1, 4), int), np.ones((1, 4), int))
AdamW(net.params).step(grads)
assert len(generate(net, [1, 2], 10, seed=0)) == 12
"""
    subprocess.run([sys.executable, "-c", code], check=True)
