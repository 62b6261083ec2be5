import math
from dataclasses import replace

import pytest
import torch
from switches import RELATIVES, TINY

from gptlib import GPT, TrainConfig
from gptlib.muon import POLYNOMIALS, Muon, make_optimizers, orthogonalize


def singular_values(x):
    return torch.linalg.svdvals(x.double())


@pytest.mark.parametrize("shape", [(32, 32), (128, 32), (32, 128), (7, 3), (1, 5), (5, 1)])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_singular_values_come_near_one_whatever_the_size(shape, size):
    x = torch.randn(shape) * size
    y = orthogonalize([x])[0]
    assert y.shape == shape
    values = singular_values(x)
    strong = values > 0.0031 * (values**8).sum() ** (
        1 / 8
    )  # weaker directions would need more iterations
    assert singular_values(y)[strong].min() > 0.35
    assert singular_values(y).max() < 1.66


@pytest.mark.parametrize("shape", [(16, 16), (48, 16), (16, 48)])
def test_the_result_points_where_the_exact_polar_factor_points(shape):
    x = torch.randn(shape)
    U, _, Vh = torch.linalg.svd(x, full_matrices=False)
    cosine = torch.cosine_similarity(orthogonalize([x])[0].flatten(), (U @ Vh).flatten(), dim=0)
    assert cosine > 0.85


def test_a_batch_of_mixed_shapes_gives_what_each_gives_alone():
    xs = [torch.randn(s) for s in [(8, 8), (32, 8), (8, 32), (8, 8), (4, 6), (6, 4)]]
    for x, y in zip(xs, orthogonalize(xs), strict=True):
        torch.testing.assert_close(y, orthogonalize([x])[0])


def test_the_transposed_matrix_gives_the_transposed_result():
    x = torch.randn(24, 8)
    torch.testing.assert_close(orthogonalize([x.T])[0], orthogonalize([x])[0].T)


def test_each_polynomial_is_as_near_to_one_as_one_of_its_degree_can_be():
    low, high = 0.003, 1.0
    for a, b, c in POLYNOMIALS:
        x = torch.linspace(low, high, 100_001, dtype=torch.float64)
        error = a * x + b * x**3 + c * x**5 - 1
        at = torch.tensor([low, *turns(a, b, c), high], dtype=torch.float64)
        extremes = a * at + b * at**3 + c * at**5 - 1
        # four extremes of equal size and alternating sign: no such polynomial does better
        torch.testing.assert_close(
            extremes.abs(), extremes.abs().mean().expand(4), rtol=1e-2, atol=0
        )
        assert (extremes.sign() == torch.tensor([-1, 1, -1, 1])).all()
        low, high = 1 + error.min().item(), 1 + error.max().item()
    assert (low, high) == (pytest.approx(0.354, abs=1e-3), pytest.approx(1.646, abs=1e-3))


def turns(a, b, c):
    """Return where a + 3 b x^2 + 5 c x^4 is 0, for x above 0."""
    root = math.sqrt(9 * b * b - 20 * a * c)
    return [math.sqrt((-3 * b - root) / (10 * c)), math.sqrt((-3 * b + root) / (10 * c))]


@pytest.mark.parametrize("x", [torch.zeros(4, 4), torch.ones(6, 3), torch.eye(3) * 1e-12])
def test_degenerate_matrices_stay_finite(x):
    assert orthogonalize([x])[0].isfinite().all()


def updated(param, grad, **settings):
    param = torch.nn.Parameter(param.clone())
    optimizer = Muon([param] if "parts" not in settings else [{"params": [param], **settings}])
    param.grad = grad.clone()
    optimizer.step()
    return param.detach()


def test_a_fused_matrix_is_updated_as_its_parts_are():
    param, grad = torch.randn(24, 8), torch.randn(24, 8)
    whole = updated(param, grad, parts=3)
    alone = [updated(p, g) for p, g in zip(param.chunk(3), grad.chunk(3), strict=True)]
    torch.testing.assert_close(whole, torch.cat(alone))
    assert not torch.allclose(whole, updated(param, grad))


def test_parts_of_unequal_heights_are_updated_as_they_are_alone():
    param, grad = torch.randn(24, 8), torch.randn(24, 8)
    heights = (16, 4, 4)
    whole = updated(param, grad, parts=heights)
    pairs = zip(param.split(heights), grad.split(heights), strict=True)
    torch.testing.assert_close(whole, torch.cat([updated(p, g) for p, g in pairs]))


@pytest.mark.parametrize("change", RELATIVES.values(), ids=RELATIVES)
def test_shared_heads_are_told_apart_in_the_fused_matrix(change):
    model = GPT(replace(TINY, **change))
    _, muon = make_optimizers(model, TrainConfig())
    parts = {name: group["parts"] for group in muon.param_groups for name in _names(model, group)}
    assert parts["blocks.0.attn.qkv.weight"] == model.cfg.qkv_dims
    assert parts["blocks.1.ff.gate.weight"] == 1
    assert len(parts) == 10


def _names(model, group):
    ids = {id(param) for param in group["params"]}
    return [name for name, param in model.named_parameters() if id(param) in ids]


def test_every_direction_of_the_update_is_equally_long():
    grad = torch.randn(32, 32)
    change = updated(torch.zeros(32, 32), grad)
    values = singular_values(change) / 2e-2
    assert values.max() / values.quantile(0.1) < 4
    before = singular_values(grad)
    assert before.max() / before.quantile(0.1) > 6  # the gradient's own were not


def test_the_weight_decay_does_not_pass_through_the_momentum():
    param = torch.nn.Parameter(torch.ones(4, 4))
    optimizer = Muon([param], lr=0.5, weight_decay=0.1)
    param.grad = torch.zeros(4, 4)
    optimizer.step()
    torch.testing.assert_close(param.detach(), torch.full((4, 4), 0.95))


def test_a_tall_matrix_takes_longer_steps():
    change = updated(torch.zeros(64, 16), torch.randn(64, 16))
    assert singular_values(change).median() / 2e-2 == pytest.approx(math.sqrt(4), rel=0.65)


def test_matrices_take_turns_and_no_gradient_is_lost():
    torch.manual_seed(0)
    grads = torch.randn(4, 2, 6, 6)  # four steps, two matrices
    params = [torch.nn.Parameter(torch.zeros(6, 6)) for _ in range(2)]
    optimizer = Muon(params, lr=0.1, momentum=0.5, weight_decay=0.0, every=2)
    moved = []
    for step in grads:
        before = [p.detach().clone() for p in params]
        for p, grad in zip(params, step, strict=True):
            p.grad = grad.clone()
        optimizer.step()
        moved.append([not torch.equal(p, b) for p, b in zip(params, before, strict=True)])
    assert moved == [[False, True], [True, False]] * 2
    memory = torch.zeros(6, 6)
    expected = torch.zeros(6, 6)
    for step, grad in enumerate(grads[:, 0], start=1):
        memory = memory.lerp(grad, 0.5)
        if step % 2 == 0:
            expected -= 0.2 * orthogonalize([grad.lerp(memory, 0.5)])[0]
    torch.testing.assert_close(params[0].detach(), expected)


def test_a_matrix_without_gradient_is_left_alone():
    a, b = (torch.nn.Parameter(torch.ones(4, 4)) for _ in range(2))
    optimizer = Muon([a, b])
    a.grad = torch.randn(4, 4)
    optimizer.step()
    assert torch.equal(b, torch.ones(4, 4))
    assert not torch.equal(a, b)


@pytest.mark.parametrize(
    ("shape", "parts"), [((5,), 1), ((5, 4), 3), ((2, 2, 2), 1), ((5, 4), (3, 1)), ((6, 4), (3, 2))]
)
def test_what_is_no_matrix_is_refused(shape, parts):
    with pytest.raises(ValueError, match="Muon needs matrices"):
        Muon([{"params": [torch.nn.Parameter(torch.ones(shape))], "parts": parts}])
