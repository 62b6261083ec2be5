import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gptlib import GPT, GPTConfig, TrainConfig, Trainer
from gptlib.muon import make_optimizers

CONFIG = TrainConfig(
    steps=60, batch_size=8, learning_rate=1e-2, warmup_steps=5, eval_every=20, eval_windows=10
)


@pytest.fixture
def tokens():
    """A text in which each token decides the next: 0, 1, ... 49, 0, 1, ..."""
    return np.arange(2_000, dtype=np.uint8) % 50


@pytest.fixture
def trainer(tiny, tokens):
    return Trainer(GPT(tiny), tokens[:1500], tokens[1500:], CONFIG)


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_the_loss_falls_far_below_ln_v_on_a_text_that_can_be_learned(trainer):
    history = trainer.run(progress=False)
    assert history[0].loss == pytest.approx(math.log(50), abs=0.2)
    assert trainer.evaluations[-1].loss < 1.0
    assert [e.step for e in trainer.evaluations] == [0, 20, 40, 60]


def test_records_say_what_happened(trainer):
    record = trainer.step()
    assert (record.step, record.tokens) == (0, 64)
    assert record.learning_rate == pytest.approx(1e-2 / 6)
    assert record.clipped == (record.grad_norm > 1.0)
    assert record.seconds > 0
    assert trainer.step().tokens == 128


def test_the_logged_rate_is_the_optimizers(trainer):
    for _ in range(10):
        record = trainer.step()
        adamw, muon = trainer.optimizers
        assert {g["lr"] for g in adamw.param_groups} == {record.learning_rate}
        share = record.learning_rate / CONFIG.learning_rate
        rates = [g["lr"] for g in muon.param_groups]
        assert rates == pytest.approx([share * CONFIG.muon_learning_rate] * 2)


def test_gradients_are_clipped_at_every_step_from_the_first(tiny, tokens):
    trainer = Trainer(GPT(tiny), tokens, tokens, replace(CONFIG, grad_clip=0.01))
    for _ in range(5):
        assert trainer.step().clipped
        norm = torch.stack([p.grad.norm() for p in trainer.model.parameters()]).norm()
        assert norm.item() <= 0.01 * (1 + 1e-4)


def test_two_runs_with_one_seed_are_equal_bit_for_bit(tiny, tokens):
    def run():
        torch.manual_seed(5)
        trainer = Trainer(GPT(replace(tiny, drop_rate=0.2)), tokens, tokens, CONFIG)
        trainer.run(15, progress=False)
        return [r.loss for r in trainer.history], weights(trainer.model)

    (losses_a, weights_a), (losses_b, weights_b) = run(), run()
    assert losses_a == losses_b
    assert equal(weights_a, weights_b)


def test_evaluating_more_often_changes_nothing(tiny, tokens):
    def run(eval_every):
        torch.manual_seed(5)
        config = replace(CONFIG, eval_every=eval_every)
        trainer = Trainer(GPT(replace(tiny, drop_rate=0.2)), tokens, tokens, config)
        trainer.run(15, progress=False)
        return [r.loss for r in trainer.history]

    assert run(1) == run(100)


def test_evaluation_is_repeatable_and_restores_the_mode(trainer):
    trainer.model.train()
    assert trainer.evaluate() == trainer.evaluate()
    assert trainer.model.training


def test_evaluation_is_the_mean_over_all_windows(trainer):
    x, y = (torch.from_numpy(part) for part in trainer.val_windows)
    assert len(x) == 10
    expected = trainer.model.eval().loss(x, y).item()
    assert trainer.evaluate() == pytest.approx(expected, rel=1e-5)


def test_the_callback_sees_every_step(trainer):
    seen = []
    trainer.run(7, callback=lambda record: seen.append(record.step), progress=False)
    assert seen == list(range(7))


@pytest.mark.parametrize("session", ["", "notebooks/12_training.ipynb"])
def test_progress_is_shown_where_a_person_sees_it(trainer, session, monkeypatch, capsys):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    if session:
        monkeypatch.setenv("JPY_SESSION_NAME", session)
    trainer.run(2)
    assert ("/2 " in capsys.readouterr().err) == bool(session)


def test_run_continues_to_the_end_of_the_schedule(trainer):
    trainer.run(10, progress=False)
    trainer.run(progress=False)
    assert len(trainer.history) == 60
    trainer.run(progress=False)
    assert len(trainer.history) == 60


def test_a_loss_that_is_not_finite_stops_the_run_before_the_update(trainer):
    trainer.step()
    trainer.model.final_norm.scale.data[3] = math.nan
    before = weights(trainer.model)
    with pytest.raises(FloatingPointError, match="step 1: loss nan"):
        trainer.step()
    after = weights(trainer.model)
    assert all(
        torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(before, after, strict=True)
    )
    assert len(trainer.history) == 1


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("tied", [False, True])
def test_each_parameter_is_in_exactly_one_group(tiny, tied, optimizer):
    model = GPT(replace(tiny, tie_weights=tied, qkv_bias=True))
    optimizers = make_optimizers(model, replace(CONFIG, optimizer=optimizer))
    groups = [group for o in optimizers for group in o.param_groups]
    ids = [id(p) for group in groups for p in group["params"]]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(p) for p in model.parameters()}
    names = {id(p): name for name, p in model.named_parameters()}
    free = {names[id(p)] for g in groups if g["weight_decay"] == 0.0 for p in g["params"]}
    assert free == {n for n in names.values() if n.endswith(("bias", "scale", "shift"))}
    in_muon = {names[id(p)] for o in optimizers[1:] for g in o.param_groups for p in g["params"]}
    matrices = {n for n, p in model.named_parameters() if n.startswith("blocks.") and p.dim() == 2}
    assert in_muon == (matrices if optimizer == "muon" else set())


@pytest.mark.parametrize("short", ["training", "validation"])
def test_a_text_shorter_than_the_window_is_named(tiny, tokens, short):
    texts = [tokens[:8], tokens] if short == "training" else [tokens, tokens[:8]]
    with pytest.raises(ValueError, match=f"the {short} text has 8 tokens, a context of 8 needs"):
        Trainer(GPT(tiny), *texts, CONFIG)


def test_ids_beyond_the_vocabulary_are_named(tiny, tokens):
    with pytest.raises(ValueError, match=r"validation text holds ids 0\.\.50.* 0\.\.49"):
        Trainer(GPT(tiny), tokens, np.arange(51), CONFIG)


def test_a_negative_number_of_steps_is_refused_before_any_work(tiny, tokens):
    trainer = Trainer(GPT(tiny), tokens, tokens, CONFIG)
    with pytest.raises(ValueError, match="steps must be None or at least 0, got -1"):
        trainer.run(-1)
    assert trainer.evaluations == []


def test_the_smallest_text_trains(tiny):
    tokens = np.arange(9)
    trainer = Trainer(GPT(tiny), tokens, tokens, CONFIG)
    assert math.isfinite(trainer.step().loss)


def test_mini_fits_the_default_config(tokens):
    trainer = Trainer(GPT(GPTConfig.preset("mini")), tokens, tokens, TrainConfig(eval_windows=2))
    assert trainer.evaluate() == pytest.approx(math.log(256), abs=0.2)


def gradients(cfg, tokens, config):
    torch.manual_seed(1)
    trainer = Trainer(GPT(cfg), tokens, tokens, replace(config, grad_clip=1e9))
    record = trainer.step()
    return record, [p.grad.clone() for p in trainer.model.parameters()]


@pytest.mark.parametrize("micro", [1, 3, 5, 8, 100])
def test_accumulation_gives_the_gradient_of_the_whole_batch(tiny, tokens, micro):
    whole, expected = gradients(tiny, tokens, CONFIG)
    parts, found = gradients(tiny, tokens, replace(CONFIG, micro_batch_size=micro))
    assert parts.loss == pytest.approx(whole.loss, rel=1e-6)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


def test_accumulation_weighs_tokens_and_not_batches(tiny):
    tokens = np.where(np.arange(400) % 29 < 20, 7, np.arange(400) % 50)  # some windows are all 7
    config = replace(CONFIG, ignore_token=7)
    whole, expected = gradients(tiny, tokens, config)
    parts, found = gradients(tiny, tokens, replace(config, micro_batch_size=1))
    assert parts.loss == pytest.approx(whole.loss, rel=1e-6)
    assert 0 < parts.tokens == whole.tokens < 64
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


def test_ignored_targets_do_not_count_in_the_loss(tiny, tokens):
    trainer = Trainer(GPT(tiny), tokens, tokens, replace(CONFIG, ignore_token=3))
    x, y = trainer.draw()[0]
    assert (y == -100).any()
    counted = y != -100
    with torch.no_grad():
        logits = trainer.model(x)[counted]
        expected = torch.nn.functional.cross_entropy(logits, y[counted]).item()
        found, n = trainer.loss_module(x, y).item(), int(counted.sum())
    assert found == pytest.approx(expected, rel=1e-6)
    assert 0 < n < 64


def test_a_batch_of_ignored_targets_updates_nothing_and_warns(tiny, tokens):
    trainer = Trainer(GPT(tiny), np.full(100, 5), tokens, replace(CONFIG, ignore_token=5))
    before = weights(trainer.model)
    with pytest.warns(UserWarning, match="step 0: every target is ignored"):
        record = trainer.step()
    assert (record.loss, record.tokens, record.grad_norm) == (0.0, 0, 0.0)
    assert equal(before, weights(trainer.model))


def test_a_validation_text_without_a_counted_target_is_refused(tiny, tokens):
    with pytest.raises(ValueError, match="holds only ignored tokens 5"):
        Trainer(GPT(tiny), tokens, np.full(100, 5), replace(CONFIG, ignore_token=5))


def test_the_token_budget_ends_the_run(tiny, tokens):
    trainer = Trainer(GPT(tiny), tokens, tokens, replace(CONFIG, max_tokens=130))
    trainer.run(progress=False)
    assert (len(trainer.history), trainer.stopped) == (3, "max_tokens")  # 64 tokens a step
    assert trainer.evaluations[-1].step == 3


def test_the_time_budget_ends_the_run(tiny, tokens):
    trainer = Trainer(GPT(tiny), tokens, tokens, replace(CONFIG, max_seconds=1e-6))
    trainer.run(progress=False)
    assert (len(trainer.history), trainer.stopped) == (1, "max_seconds")


def test_a_gradient_that_is_not_finite_is_named(trainer):
    weight = trainer.model.blocks[0].ff.up.weight
    weight.register_hook(lambda grad: grad * math.inf)
    with pytest.raises(FloatingPointError, match=r"gradient of blocks\.0\.ff\.up\.weight"):
        trainer.step()


def test_the_default_recipe_beats_the_plain_one_on_the_same_windows(tiny):
    rng = np.random.default_rng(0)
    follows = rng.integers(50, size=(50, 2))  # each token has two likely successors
    tokens = [0]
    for choice in rng.integers(2, size=5_000):
        tokens.append(int(follows[tokens[-1], choice]))
    text = np.array(tokens)
    last = {}
    for make in (TrainConfig, TrainConfig.plain):
        torch.manual_seed(0)
        config = make(steps=150, batch_size=8, warmup_steps=10, eval_windows=50, eval_every=150)
        trainer = Trainer(GPT(tiny), text[:4_000], text[4_000:], config)
        trainer.run(progress=False)
        last[config.optimizer] = trainer.evaluations[-1].loss
    assert last["muon"] < last["adamw"] - 0.2


@pytest.mark.parametrize(
    "text",
    [[1, 2] * 50, torch.ones(100, dtype=torch.long), np.full(100, 3.7), np.ones((20, 8), int)],
    ids=["list", "tensor", "floats", "rows"],
)
def test_a_text_is_a_flat_array_of_integers(tiny, tokens, text):
    for texts in ((text, tokens), (tokens, text)):
        with pytest.raises(TypeError, match=r"text must be a NumPy array \(N,\) of integers"):
            Trainer(GPT(tiny), *texts, CONFIG)
