from dataclasses import replace

import numpy as np
import pytest
import torch
from switches import ALONE, RELATIVES

from gptlib import GPT, GPTConfig, TrainConfig, Trainer, corpus, for_decoding, generate
from gptlib.numpy_gpt.packed import Precision

PRECISIONS = ["float32", "bfloat16", "int8"]


@pytest.fixture(scope="module")
def trained():
    """A small model that has learned something, and text it has not seen."""
    tokens = np.frombuffer(b"To be, or not to be, that is the question. " * 200, np.uint8)
    torch.manual_seed(0)
    cfg = GPTConfig(vocab_size=256, context_length=32, emb_dim=32, n_heads=4, n_layers=2)
    train, val = corpus.split(tokens, context_length=32)
    config = TrainConfig.plain(steps=60, learning_rate=3e-3, warmup_steps=5, eval_windows=8)
    trainer = Trainer(GPT(cfg), train, val, config)
    trainer.run(progress=False)
    return trainer.model.eval(), trainer.val_windows


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_loss_stays_within_one_percent(trained, precision: Precision):
    model, (x, y) = trained
    with torch.no_grad():
        expected = model.loss(torch.from_numpy(x), torch.from_numpy(y)).item()
    assert expected < 3  # ln 256 is 5.5
    assert for_decoding(model, precision).loss(x, y) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    "change",
    [{}, {"tie_weights": True}, *ALONE, {"gated": True, "bias": True}, *RELATIVES.values()],
    ids=str,
)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_logits_are_near_for_every_switch(tiny, change, precision):
    torch.manual_seed(0)
    model = GPT(replace(tiny, **change)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        idx = torch.randint(50, (2, 8))
        expected = model(idx).numpy()
    logits = for_decoding(model, precision).forward(idx.numpy())
    tolerance = {"float32": 1e-5, "bfloat16": 0.02, "int8": 0.1}[precision]
    assert np.abs(logits - expected).max() < tolerance * np.abs(expected).max()


def test_float32_gives_the_same_tokens(tiny):
    model = GPT(tiny).eval()
    fast = for_decoding(model)
    for settings in ({"temperature": 0}, {"seed": 3, "top_p": 0.9}):
        assert generate(fast, [1, 2], 20, **settings) == generate(model, [1, 2], 20, **settings)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_cached_and_uncached_logits_agree(trained, precision):
    fast = for_decoding(trained[0], precision)
    ids = list(range(65, 85))
    cache = fast.new_cache()
    for i, token in enumerate(ids):
        cached = fast.next_logits([token], cache)
        whole = fast.next_logits(ids[: i + 1])
        # int8 rounds all the rows of a call with one scale, so it depends a little on the others.
        tolerance = {"float32": 1e-5, "bfloat16": 1e-2, "int8": 0.1}[precision]
        assert np.abs(cached - whole).max() < tolerance * np.abs(whole).max()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_model_it_came_from_is_left_alone(tiny, precision):
    model = GPT(tiny).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fast = for_decoding(model, precision)
    generate(fast, [1], 5, seed=0)
    assert model.training
    with torch.no_grad():
        model.head.weight.zero_()
    assert np.abs(fast.next_logits([1])).max() > 0  # a copy
    del before["head.weight"]
    state = model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in before.items())


def test_a_sixteen_bit_model_can_be_laid_out(tiny):
    model = GPT(tiny).eval()
    exact = for_decoding(model).next_logits([1, 2])
    half = for_decoding(model.bfloat16()).next_logits([1, 2])
    np.testing.assert_allclose(half, exact, atol=0.02 * np.abs(exact).max())


def test_an_all_zero_matrix_does_not_divide_by_zero(tiny):
    model = GPT(tiny).eval()
    with torch.no_grad():
        model.blocks[0].ff.up.weight.zero_()
    assert np.isfinite(for_decoding(model, "int8").next_logits([1, 2])).all()


def test_a_packed_model_reads_only(tiny):
    packed = for_decoding(GPT(tiny), "int8")
    assert not hasattr(packed, "loss_and_grads")  # its matrices have lost digits
    assert not hasattr(packed, "to_torch")


def test_an_unknown_precision_is_named(tiny):
    with pytest.raises(ValueError, match=r"\('float32', 'bfloat16', 'int8'\), got 'int4'"):
        for_decoding(GPT(tiny), "int4")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_row_alone_is_near_the_row_in_company(tiny, precision):
    fast = for_decoding(GPT(tiny), precision)
    idx = np.random.default_rng(0).integers(50, size=(3, 8))
    together = fast.forward(idx)
    tolerance = {"float32": 1e-5, "bfloat16": 1e-2, "int8": 0.1}[precision]
    for row in range(3):
        alone = fast.forward(idx[row : row + 1])[0]
        np.testing.assert_allclose(together[row], alone, atol=tolerance * np.abs(alone).max())


def test_a_packed_model_counts_what_it_was_made_from(tiny):
    for precision in PRECISIONS:
        assert for_decoding(GPT(tiny), precision).num_params() == GPT(tiny).num_params()


def test_what_cannot_be_packed_is_named(tiny):
    with pytest.raises(TypeError, match="model must be a GPT, got str"):
        for_decoding("gpt2")
    with pytest.raises(TypeError, match="model must be a GPT, got ForwardGPT"):
        for_decoding(for_decoding(GPT(tiny), "int8"))


@pytest.mark.parametrize("name", ["blocks.0.ff.up.weight", "blocks.1.norm2.scale", "head.weight"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_that_are_not_finite_are_named(tiny, name, precision):
    model = GPT(tiny)
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = float("nan")
    with pytest.raises(ValueError, match=f"{name} is not finite"):
        for_decoding(model, precision)
