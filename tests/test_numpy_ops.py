"""Every op against central differences and against torch autograd, in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gptlib.numpy_gpt import ops

rng = np.random.default_rng(0)


def randn(*shape):
    return rng.standard_normal(shape)


IDS = np.array([[3, 1, 3], [0, 3, 6]])  # id 3 three times, others never
TARGETS = np.array([2, 0, ops.IGNORE, 4, 4])
MASK = (rng.random((2, 3, 5)) > 0.4) / 0.6
WEIGHT_MASK = (rng.random((2, 2, 3, 5)) > 0.3) / 0.7


def torch_attention(q, k, v, drop=None):
    T, S = q.shape[2], k.shape[2]
    mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    scores = q @ k.mT / q.shape[3] ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return (weights if drop is None else weights * torch.from_numpy(drop)) @ v


# name: (differentiable inputs, forward, backward as a tuple of gradients, the same in torch)
CASES = {
    "linear": (
        (randn(2, 3, 4), randn(5, 4), randn(5)),
        ops.linear_forward,
        ops.linear_backward,
        F.linear,
    ),
    "linear without bias": (
        (randn(2, 3, 4), randn(5, 4)),
        lambda x, w: ops.linear_forward(x, w, None),
        lambda d, s: ops.linear_backward(d, s)[:2],
        F.linear,
    ),
    "embedding": (
        (randn(7, 4),),
        lambda table: ops.embedding_forward(IDS, table),
        ops.embedding_backward,
        lambda table: F.embedding(torch.from_numpy(IDS), table),
    ),
    "layer_norm": (
        (randn(2, 3, 6), randn(6), randn(6)),
        ops.layer_norm_forward,
        ops.layer_norm_backward,
        lambda x, scale, shift: F.layer_norm(x, (6,), scale, shift),
    ),
    "gelu_tanh": (
        (2 * randn(3, 5),),
        ops.gelu_tanh_forward,
        ops.gelu_tanh_backward,
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "gelu": ((2 * randn(3, 5),), ops.gelu_forward, ops.gelu_backward, F.gelu),
    "relu": ((randn(3, 5),), ops.relu_forward, ops.relu_backward, F.relu),
    "softmax": (
        (3 * randn(2, 3, 5),),
        ops.softmax_forward,
        ops.softmax_backward,
        lambda x: x.softmax(-1),
    ),
    "attention": (
        (randn(2, 2, 5, 3), randn(2, 2, 5, 3), randn(2, 2, 5, 3)),
        ops.attention_forward,
        ops.attention_backward,
        torch_attention,
    ),
    "attention after a cache": (
        (randn(2, 2, 3, 4), randn(2, 2, 5, 4), randn(2, 2, 5, 4)),
        ops.attention_forward,
        ops.attention_backward,
        torch_attention,
    ),
    "attention with dropout": (
        (randn(2, 2, 3, 4), randn(2, 2, 5, 4), randn(2, 2, 5, 4)),
        lambda q, k, v: ops.attention_forward(q, k, v, WEIGHT_MASK),
        ops.attention_backward,
        lambda q, k, v: torch_attention(q, k, v, WEIGHT_MASK),
    ),
    "residual": (
        (randn(2, 3), randn(2, 3)),
        lambda x, branch: (ops.residual_forward(x, branch), ()),
        lambda d, _: ops.residual_backward(d),
        torch.add,
    ),
    "dropout": (
        (randn(2, 3, 5),),
        lambda x: ops.dropout_forward(x, MASK),
        ops.dropout_backward,
        lambda x: x * torch.from_numpy(MASK),
    ),
    "cross_entropy": (
        (3 * randn(5, 6),),
        lambda x: ops.cross_entropy_forward(x, TARGETS),
        lambda d, s: d * ops.cross_entropy_backward(s),
        lambda x: F.cross_entropy(x, torch.from_numpy(TARGETS)),
    ),
}


def relative(a, b):
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300)


def hand_gradients(name):
    """Return the inputs, a random upstream gradient, and the hand-written gradients."""
    inputs, forward, backward, _ = CASES[name]
    out, saved = forward(*inputs)
    dout = np.asarray(np.random.default_rng(1).standard_normal(np.shape(out)))
    grads = backward(dout, saved)
    return inputs, out, dout, grads if isinstance(grads, tuple) else (grads,)


@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward_equal_torch(name):
    inputs, out, dout, grads = hand_gradients(name)
    tensors = [torch.from_numpy(x.copy()).requires_grad_() for x in inputs]
    expected = CASES[name][3](*tensors)
    assert relative(out, expected.detach().numpy()) < 1e-12
    expected.backward(torch.from_numpy(dout))
    assert len(grads) == len(inputs)
    for grad, tensor in zip(grads, tensors, strict=True):
        assert relative(grad, tensor.grad.numpy()) < 1e-9


@pytest.mark.parametrize("name", CASES)
def test_backward_equals_central_differences(name):
    inputs, _, dout, grads = hand_gradients(name)
    forward = CASES[name][1]
    for which, grad in enumerate(grads):
        measured = np.zeros_like(inputs[which])
        for index in np.ndindex(measured.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [x.copy() for x in inputs]
                moved[which][index] += step
                ends.append(np.sum(dout * forward(*moved)[0]))
            measured[index] = (ends[0] - ends[1]) / 2e-5
        assert relative(grad, measured) < 1e-6


@pytest.mark.parametrize("name", CASES)
def test_ops_leave_their_inputs_alone(name):
    inputs, forward, backward, _ = CASES[name]
    before = [x.copy() for x in inputs]
    out, saved = forward(*inputs)
    dout = np.ones(np.shape(out))
    backward(dout, saved)
    first = backward(dout, saved)
    again = backward(dout, saved)  # saved is not used up either
    for a, b in zip(before, inputs, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (dout == 1).all()


def test_softmax_and_layer_norm_give_an_all_ones_gradient_nothing():
    for name in ("softmax", "layer_norm"):
        x = randn(4, 9)
        extra = (np.ones(9), randn(9)) if name == "layer_norm" else ()
        out, saved = getattr(ops, f"{name}_forward")(x, *extra)
        grads = getattr(ops, f"{name}_backward")(np.ones_like(out), saved)
        dx = grads[0] if isinstance(grads, tuple) else grads
        assert np.abs(dx).max() < 1e-10


def test_known_values():
    out, _ = ops.gelu_tanh_forward(np.array([1.0, 2.0, -2.0]))
    np.testing.assert_allclose(out, [0.841191990608, 1.954597694088, -0.045402305912], atol=1e-12)
    out, _ = ops.gelu_forward(np.array([1.0]))
    np.testing.assert_allclose(out, [0.841344746069], atol=1e-12)
    out, _ = ops.layer_norm_forward(np.array([[1.0, 2.0, 3.0, 4.0]]), np.ones(4), np.zeros(4))
    np.testing.assert_allclose(out[0], [-1.341635, -0.447212, 0.447212, 1.341635], atol=1e-6)


def test_large_logits_do_not_overflow():
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        p, _ = ops.softmax_forward(np.array([1000.0, 0.0]))
        assert p.tolist() == [1, 0]
        logits = np.array([[1000.0, 0.0], [1000.0, 0.0]])
        loss, saved = ops.cross_entropy_forward(logits, np.array([1, 0]))
        assert loss == 500  # the mean of 1000 and 0
        assert np.isfinite(ops.cross_entropy_backward(saved)).all()
        logits = np.array([[-1e4, 0.0, 1e4]], np.float32)
        loss, saved = ops.cross_entropy_forward(logits, np.array([0]))
        assert loss == 2e4
        assert np.isfinite(ops.cross_entropy_backward(saved)).all()


def test_no_counted_target_gives_loss_and_gradient_zero():
    loss, saved = ops.cross_entropy_forward(randn(3, 4), np.full(3, ops.IGNORE))
    assert loss == 0
    assert (ops.cross_entropy_backward(saved) == 0).all()


def test_ignored_targets_leave_the_mean_of_the_others():
    logits = randn(5, 6)
    counted = TARGETS != ops.IGNORE
    some, _ = ops.cross_entropy_forward(logits, TARGETS)
    only, _ = ops.cross_entropy_forward(logits[counted], TARGETS[counted])
    assert some == pytest.approx(only, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_float32_in_float32_out(name):
    inputs, forward, backward, _ = CASES[name]
    out, saved = forward(*(x.astype(np.float32) for x in inputs))
    grads = backward(np.ones_like(out, dtype=np.float32), saved)
    if "dropout" not in name:  # those masks were made in float64
        for grad in grads if isinstance(grads, tuple) else (grads,):
            assert grad.dtype == np.float32


def test_a_dropout_mask_keeps_the_mean():
    mask = ops.dropout_mask((200, 200), 0.25, np.random.default_rng(0), np.float32)
    assert set(np.unique(mask)) == {0.0, np.float32(1 / 0.75)}
    assert mask.mean() == pytest.approx(1, abs=0.01)
    assert mask.dtype == np.float32
