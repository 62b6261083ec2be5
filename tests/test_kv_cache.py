import itertools
from dataclasses import replace

import pytest
import torch
from switches import LLAMA

from gptlib import GPT, GPTConfig, KVCache


def compositions(n):
    """Yield every way to cut n positions into consecutive pieces."""
    for cuts in itertools.product([False, True], repeat=n - 1):
        edges = [0, *(i for i, cut in enumerate(cuts, start=1) if cut), n]
        yield [(a, b) for a, b in itertools.pairwise(edges)]


@pytest.mark.parametrize("change", [{}, {"norm_first": False}, {"qkv_bias": True}, LLAMA])
@torch.no_grad()
def test_every_way_of_cutting_a_prompt_gives_the_full_logits(tiny, change):
    model = GPT(replace(tiny, **change)).eval()
    idx = torch.randint(50, (2, 8))
    full = model(idx)
    cache = KVCache(model.cfg, batch_size=2)
    for pieces in compositions(8):
        cache.reset()
        logits = torch.cat([model(idx[:, a:b], cache=cache) for a, b in pieces], dim=1)
        torch.testing.assert_close(logits, full, atol=1e-5, rtol=1e-5)
        assert cache.length == 8


@torch.no_grad()
def test_the_explicit_path_uses_the_cache_too(tiny):
    model = GPT(tiny).eval()
    idx = torch.randint(50, (1, 8))
    cache = KVCache(tiny)
    model(idx[:, :5], cache=cache)
    logits = model(idx[:, 5:], cache=cache, trace={})
    torch.testing.assert_close(logits, model(idx)[:, 5:], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_two_caches_on_one_model_do_not_disturb_each_other(tiny):
    model = GPT(tiny).eval()
    a, b = torch.randint(50, (2, 1, 6))
    cache_a, cache_b = KVCache(tiny), KVCache(tiny)
    out_a, out_b = [], []
    for t in range(6):
        out_a.append(model(a[:, t : t + 1], cache=cache_a))
        out_b.append(model(b[:, t : t + 1], cache=cache_b))
    torch.testing.assert_close(torch.cat(out_a, 1), model(a), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(torch.cat(out_b, 1), model(b), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_sixteen_bits_stay_finite_and_near(tiny, dtype):
    model = GPT(tiny).eval()
    idx = torch.randint(50, (1, 8))
    full = model(idx)
    model.to(dtype)
    cache = model.new_cache()
    assert cache.keys.dtype == dtype
    logits = torch.cat([model(idx[:, :4], cache=cache), model(idx[:, 4:], cache=cache)], dim=1)
    assert logits.isfinite().all()
    torch.testing.assert_close(logits.float(), full, atol=0.02, rtol=0.05)


@pytest.mark.parametrize(
    ("cfg", "dtype", "nbytes"),
    [
        (GPTConfig.preset("gpt2-small"), torch.float32, 75_497_472),
        (GPTConfig.preset("gpt2-small"), torch.bfloat16, 37_748_736),
    ],
)
def test_bytes_at_gpt2_size(cfg, dtype, nbytes):
    assert KVCache(cfg, dtype=dtype, device="meta").nbytes == nbytes


def test_only_the_heads_of_keys_and_values_are_kept(tiny):
    shared = KVCache(replace(tiny, n_kv_heads=1))
    assert shared.nbytes * tiny.n_heads == KVCache(tiny).nbytes


def test_bytes_of_the_tiny_cache(tiny):
    assert KVCache(tiny).nbytes == 2_048


def test_another_batch_size_is_refused_and_the_cache_stays_as_it_was(tiny):
    model, cache = GPT(tiny).eval(), KVCache(tiny, batch_size=2)
    model(torch.zeros(2, 3, dtype=torch.long), cache=cache)
    with pytest.raises(ValueError, match="made for a batch of 2, got a batch of 3"):
        model(torch.zeros(3, 1, dtype=torch.long), cache=cache)
    assert cache.length == 3


def test_a_full_cache_is_refused(tiny):
    model, cache = GPT(tiny).eval(), KVCache(tiny, max_len=4)
    model(torch.zeros(1, 3, dtype=torch.long), cache=cache)
    with pytest.raises(ValueError, match="holds 3 of at most 4 positions, 2 more do not fit"):
        model(torch.zeros(1, 2, dtype=torch.long), cache=cache)


@pytest.mark.parametrize("sizes", [{"batch_size": 0}, {"max_len": 0}, {"max_len": 9}])
def test_impossible_sizes_are_refused(tiny, sizes):
    with pytest.raises(ValueError, match=next(iter(sizes))):
        KVCache(tiny, **sizes)


@pytest.mark.parametrize("sizes", [{"batch_size": 2.5}, {"batch_size": True}, {"max_len": "4"}])
def test_sizes_are_integers(tiny, sizes):
    with pytest.raises(TypeError, match=f"{next(iter(sizes))} must be an integer"):
        KVCache(tiny, **sizes)


@pytest.mark.parametrize("change", [{"n_layers": 3}, {"n_heads": 2}, {"emb_dim": 32}])
def test_a_cache_of_another_model_is_refused(tiny, change):
    cache = KVCache(replace(tiny, **change))
    with pytest.raises(ValueError, match=r"made for another model.*in the cache.*in the model"):
        GPT(tiny)(torch.zeros(1, 2, dtype=torch.long), cache=cache)
    assert cache.length == 0


def test_a_cache_of_another_precision_is_refused(tiny):
    cache = KVCache(tiny, dtype=torch.bfloat16)
    with pytest.raises(
        ValueError, match=r"holds torch.bfloat16, the model computes in torch.float32"
    ):
        GPT(tiny)(torch.zeros(1, 2, dtype=torch.long), cache=cache)


@torch.no_grad()
def test_a_new_cache_has_the_length_asked_for(tiny):
    assert GPT(tiny).new_cache(5).max_len == 5
    assert GPT(tiny).new_cache().max_len == 8


def test_a_cache_keeps_no_history_where_gradients_are_on(tiny):
    model, cache = GPT(tiny), KVCache(tiny)
    idx = torch.zeros(1, 4, dtype=torch.long)
    logits = model(idx, cache=cache)
    assert not cache.keys.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        logits.sum().backward()
    assert torch.is_grad_enabled()
