import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch

from gptlib import GPT, CharTokenizer, Run, TrainConfig, Trainer, checkpoint

TOKENIZER = CharTokenizer.from_text("abcdefgh")
CONFIG = TrainConfig(steps=12, batch_size=4, warmup_steps=2, eval_windows=4, eval_every=5)
TOKENS = (np.arange(2_000, dtype=np.uint8) ** 2 // 7) % 50
TEXTS = TOKENS[:1500], TOKENS[1500:]


@pytest.fixture
def dropping(tiny):
    return replace(tiny, drop_rate=0.2)


def new(cfg, config=CONFIG):
    torch.manual_seed(3)
    return Trainer(GPT(cfg), *TEXTS, config, TOKENIZER)


def state(trainer):
    """Return everything that decides how the run goes on."""
    tensors = [
        optimizer.state[param][what]
        for optimizer in trainer.optimizers
        for group in optimizer.param_groups
        for param in group["params"]
        for what in sorted(optimizer.state[param])
    ]
    losses = [r.loss for r in trainer.history], [e.loss for e in trainer.evaluations]
    return [*trainer.model.parameters(), *tensors, torch.get_rng_state()], losses


def assert_equal_bit_for_bit(a, b):
    assert a[1] == b[1]
    assert len(a[0]) == len(b[0])
    assert all(torch.equal(x, y) for x, y in zip(a[0], b[0], strict=True))


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_stop_and_resume_equals_running_through_bit_for_bit(tmp_path, dropping, optimizer):
    config = replace(CONFIG, optimizer=optimizer)
    through = new(dropping, config)
    through.run(save=Run(tmp_path / "through").save, progress=False)
    expected = state(through)
    stopped = new(dropping, config)
    stopped.run(5, save=Run(tmp_path / "stopped").save, progress=False)
    torch.manual_seed(999)  # whatever happens in between
    resumed, report = Run(tmp_path / "stopped").resume(*TEXTS)
    resumed.run(save=Run(tmp_path / "stopped").save, progress=False)
    assert_equal_bit_for_bit(state(resumed), expected)
    assert "5 of 12 steps done" in report
    files = [Run(tmp_path / run).newest for run in ("through", "stopped")]
    weights = [(folder / "model.safetensors").read_bytes() for folder in files]
    assert weights[0] == weights[1]


@pytest.mark.slow  # imports torch in new processes: 3 s
def test_a_new_process_goes_on_bit_for_bit(tmp_path, dropping):
    through = new(dropping)
    through.run(8, progress=False)
    new(dropping).run(4, save=Run(tmp_path).save, progress=False)
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "import test_run as t; from gptlib import Run\n"
        "trainer, _ = Run(__import__('sys').argv[1]).resume(*t.TEXTS)\n"
        "trainer.run(4, save=Run(__import__('sys').argv[1]).save, progress=False)\n"
    )
    here = os.path.dirname(__file__)
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=here)
    resumed, _ = Run(tmp_path).resume(*TEXTS)
    through.evaluations = resumed.evaluations  # the other one looked at step 4 too
    assert_equal_bit_for_bit(state(resumed), state(through))


def test_the_newest_few_and_the_best_are_kept_and_the_best_is_loaded(tmp_path, tiny):
    trainer = new(tiny, replace(CONFIG, save_every=2, keep_checkpoints=2))
    trainer.run(4, save=Run(tmp_path).save, progress=False)
    best = Run(tmp_path).at(2)
    numbers = json.loads((best / "training.json").read_text())
    numbers["validation_loss"] = 0.5  # better than all that come
    (best / "training.json").write_text(json.dumps(numbers))
    wanted = (best / "model.safetensors").read_bytes()
    trainer.run(save=Run(tmp_path).save, progress=False)
    names = [folder.name for folder in Run(tmp_path).checkpoints]
    assert names == ["step-00000002", "step-00000010", "step-00000012"]
    model, tokenizer = checkpoint.load(tmp_path)
    checkpoint.save(tmp_path / "copy", model, tokenizer)
    assert (tmp_path / "copy" / "model.safetensors").read_bytes() == wanted
    assert Run(tmp_path).newest.name == "step-00000012"


def test_the_history_is_a_plain_table(tmp_path, tiny):
    trainer = new(tiny)
    trainer.run(save=Run(tmp_path).save, progress=False)
    lines = (Run(tmp_path).newest / "history.csv").read_text().splitlines()
    assert lines[0] == "step,tokens,loss,learning_rate,grad_norm,clipped,seconds"
    table = np.genfromtxt(lines, delimiter=",", names=True, dtype=None, encoding=None)
    assert table["loss"].tolist() == [r.loss for r in trainer.history]
    validation = (Run(tmp_path).newest / "validation.csv").read_text()
    assert validation.startswith("step,loss\n0,")
    assert Run(tmp_path).resume(*TEXTS)[0].history == trainer.history


def test_saving_at_other_steps_changes_nothing(tmp_path, dropping):
    rare, often = new(dropping), None
    rare.run(progress=False)
    expected = [r.loss for r in rare.history]
    often = new(dropping, replace(CONFIG, save_every=1))
    often.run(save=Run(tmp_path).save, progress=False)
    assert [r.loss for r in often.history] == expected


def test_another_text_is_refused(tmp_path, tiny):
    new(tiny).run(1, save=Run(tmp_path).save, progress=False)
    other = TOKENS.copy()
    other[:1400] = 1
    with pytest.raises(ValueError, match="training text is not the one of the run"):
        Run(tmp_path).resume(other[:1500], TEXTS[1])
    with pytest.raises(ValueError, match="validation text is not"):
        Run(tmp_path).resume(TEXTS[0], TEXTS[1][:-1])


def test_the_report_names_what_was_changed(tmp_path, tiny):
    new(tiny).run(3, save=Run(tmp_path).save, progress=False)
    trainer, report = Run(tmp_path).resume(*TEXTS, changes={"steps": 20, "eval_every": 7})
    assert "3 of 20 steps done" in report
    assert "changed: steps 12 -> 20" in report
    assert "changed: eval_every 5 -> 7" in report
    assert trainer.config == replace(CONFIG, steps=20, eval_every=7)
    with pytest.raises(TypeError, match="TrainConfig has no stepz"):
        Run(tmp_path).resume(*TEXTS, changes={"stepz": 20})


def test_an_empty_folder_and_a_damaged_checkpoint_are_named(tmp_path, tiny):
    with pytest.raises(FileNotFoundError, match="holds no checkpoint"):
        Run(tmp_path).resume(*TEXTS)
    new(tiny).run(1, save=Run(tmp_path).save, progress=False)
    newest = Run(tmp_path).newest
    (newest / "training.safetensors").write_bytes(b"not it")
    with pytest.raises(ValueError, match=r"step-00000001 is damaged"):
        Run(tmp_path).resume(*TEXTS)
    (newest / "training.json").write_text("[]")
    with pytest.raises(ValueError, match="must hold a JSON object"):
        Run(tmp_path).resume(*TEXTS)


def without(name):
    """Return a function that takes one tensor out of a checkpoint."""

    def change(folder):
        path = folder / "training.safetensors"
        tensors = safetensors.torch.load_file(path)
        del tensors[next(key for key in sorted(tensors) if name in key)]
        safetensors.torch.save_file(tensors, path)

    return change


def misshapen(folder):
    path = folder / "training.safetensors"
    tensors = safetensors.torch.load_file(path)
    key = next(key for key in sorted(tensors) if key.endswith("momentum"))
    safetensors.torch.save_file(tensors | {key: torch.zeros(3)}, path)


def first_lines(name, n):
    def change(folder):
        lines = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:n]), encoding="utf-8")

    return change


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (first_lines("history.csv", 0), "history.csv has 0 rows, expected 6"),
        (first_lines("history.csv", 3), "history.csv has 2 rows, expected 6"),
        (first_lines("validation.csv", 0), "validation.csv has 0 rows"),
        (lambda folder: (folder / "history.csv").write_text("step\nabc\n"), "abc"),
        (lambda folder: (folder / "history.csv").unlink(), "history.csv"),
        (lambda folder: (folder / "training.json").unlink(), "training.json"),
        (lambda folder: (folder / "training.json").write_text("{}"), "texts"),
        (without("generator.cpu"), "generator.cpu"),
        (without("momentum"), "lacks 1 tensors, such as optimizer"),
        (misshapen, "shape"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_never_gone_on_from(tmp_path, tiny, damage, what):
    new(tiny).run(6, save=Run(tmp_path).save, progress=False)
    damage(Run(tmp_path).newest)
    before = Run(tmp_path).newest
    with pytest.raises(ValueError, match=f"step-00000006 is damaged: .*{what}"):
        Run(tmp_path).resume(*TEXTS)
    assert Run(tmp_path).newest == before


def test_a_damaged_older_checkpoint_does_not_stop_a_run(tmp_path, tiny):
    trainer = new(tiny)
    for steps in (4, 5):
        trainer.run(steps, save=Run(tmp_path).save, progress=False)
    older, newest = Run(tmp_path).checkpoints[-2:]
    (older / "training.json").write_text('{"validation_loss": "abc"}')
    trainer, _ = Run(tmp_path).resume(*TEXTS)
    trainer.run(progress=False, save=Run(tmp_path).save)
    assert Run(tmp_path).best != older
    assert newest != older


def test_a_run_that_never_looked_at_the_validation_text_resumes(tmp_path, tiny):
    trainer = new(tiny)
    trainer.step()
    Run(tmp_path).save(trainer)
    again, _ = Run(tmp_path).resume(*TEXTS)
    assert (len(again.history), again.evaluations) == (1, [])


def test_steps_that_are_done_cannot_be_taken_back(tmp_path, tiny):
    new(tiny).run(6, save=Run(tmp_path).save, progress=False)
    with pytest.raises(ValueError, match="steps must be at least the 6 that are done, got 5"):
        Run(tmp_path).resume(*TEXTS, changes={"steps": 5})


def test_a_trainer_without_tokenizer_says_so_before_any_step(tmp_path, tiny):
    trainer = Trainer(GPT(tiny), *TEXTS, CONFIG)
    with pytest.raises(ValueError, match="holds the tokenizer too"):
        trainer.run(save=Run(tmp_path).save, progress=False)
    assert trainer.history == trainer.evaluations == []


def test_ctrl_c_ends_the_step_saves_and_resumes_bit_for_bit(tmp_path, dropping):
    through = new(dropping)
    through.run(progress=False)
    trainer = new(dropping)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def interrupt(record):
        if record.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped after 5 steps"):
        trainer.run(save=Run(tmp_path).save, callback=interrupt, progress=False)
    assert trainer.stopped == "interrupted"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    resumed, _ = Run(tmp_path).resume(*TEXTS)
    resumed.run(progress=False)
    losses = [r.loss for r in resumed.history]
    assert losses == [r.loss for r in through.history]


def test_a_second_ctrl_c_is_obeyed_at_once(tiny):
    trainer = new(tiny)

    def twice(record):
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)  # handled before the next; two kills may merge

    with pytest.raises(KeyboardInterrupt):
        trainer.run(callback=twice, progress=False)
    assert len(trainer.history) == 1


def test_a_run_in_another_thread_leaves_signals_alone(tiny):
    trainer = new(tiny)
    thread = threading.Thread(target=trainer.run, args=(2,), kwargs={"progress": False})
    thread.start()
    thread.join()
    assert len(trainer.history) == 2


def child(work):
    """Run `work` in a forked process and return its id."""
    pid = os.fork()
    if pid == 0:
        torch.set_num_threads(1)  # the other threads did not come along, and would be waited for
        try:
            work()
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(1)
    return pid


@pytest.mark.slow  # kills and resumes at every write: 3 s
def test_killed_at_any_moment_the_folder_still_resumes(tmp_path, tiny):
    dice = random.Random(0)
    config = replace(CONFIG, steps=10_000, save_every=1, eval_every=10_000, eval_windows=1)
    new(tiny, config).run(1, save=Run(tmp_path).save, progress=False)

    def go_on():
        Run(tmp_path).resume(*TEXTS)[0].run(save=Run(tmp_path).save, progress=False)

    done = 1
    for attempt in range(20):
        pid, deadline = child(go_on), time.monotonic() + 60
        while attempt % 4 and time.monotonic() < deadline:  # mostly, let it write something first
            if (Run(tmp_path).newest or tmp_path) > Run(tmp_path).at(done):
                break
        time.sleep(dice.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        trainer, _ = Run(tmp_path).resume(*TEXTS)
        assert len(trainer.history) >= done
        done = len(trainer.history)
        checkpoint.load(tmp_path)
    assert done > 15  # it did get on
    trainer.run(1, save=Run(tmp_path).save, progress=False)
    assert not list(tmp_path.glob(".writing-*"))
    assert len(Run(tmp_path).checkpoints) <= 3


def test_a_full_disk_is_an_os_error_and_leaves_the_run_as_it_was(tmp_path, tiny):
    trainer = new(tiny)
    trainer.run(1, save=Run(tmp_path).save, progress=False)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large|cannot write"):
            trainer.run(1, save=Run(tmp_path).save, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [folder.name for folder in Run(tmp_path).checkpoints] == ["step-00000001"]
    assert not list(tmp_path.glob(".writing-*"))
    assert math.isfinite(Run(tmp_path).resume(*TEXTS)[0].step().loss)


def test_a_run_that_breaks_keeps_its_last_checkpoint(tmp_path, tiny):
    trainer = new(tiny, replace(CONFIG, save_every=2))

    def spoil(record):
        if record.step == 2:
            trainer.model.blocks[1].ff.up.weight.data[0, 0] = math.nan

    with pytest.raises(FloatingPointError, match=r"step 3: .* weight blocks\.1\.ff\.up\.weight"):
        trainer.run(save=Run(tmp_path).save, callback=spoil, progress=False)
    assert [folder.name for folder in Run(tmp_path).checkpoints] == ["step-00000002"]
    model, _ = checkpoint.load(tmp_path)
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_compiled_model_is_saved_and_resumed_as_the_model_inside(tmp_path, tiny):
    model = GPT(tiny)
    trainer = Trainer(torch.compile(model), *TEXTS, CONFIG, TOKENIZER)
    assert trainer.model is model
    assert trainer.config.compile
    groups = [[len(group["params"]) for group in o.param_groups] for o in trainer.optimizers]
    assert groups == [[len(g["params"]) for g in o.param_groups] for o in new(tiny).optimizers]
    Run(tmp_path).save(trainer)
    resumed, _ = Run(tmp_path).resume(*TEXTS)
    assert resumed.config.compile
    both = zip(resumed.model.parameters(), model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in both)


def test_a_model_that_could_not_be_read_back_is_refused_before_the_first_step(tmp_path, tiny):
    model = GPT(tiny)
    model.head.weight = model.tok_emb.weight
    trainer = Trainer(model, *TEXTS, CONFIG, TOKENIZER)
    with pytest.raises(ValueError, match="not as its configuration says"):
        trainer.run(save=Run(tmp_path / "run").save)
    assert trainer.history == []
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_a_run_with_a_frozen_table_goes_on(tmp_path, tiny, optimizer):
    trainer = new(tiny, replace(CONFIG, optimizer=optimizer))
    trainer.model.tok_emb.weight.requires_grad_(False)
    trainer.run(4, save=Run(tmp_path).save, progress=False)
    resumed, _ = Run(tmp_path).resume(*TEXTS)
    assert len(resumed.history) == 4
    assert math.isfinite(resumed.step().loss)
