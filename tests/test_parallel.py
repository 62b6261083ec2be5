"""Two processes on this machine, talking through gloo, against one."""

import json
import os
import socket
import subprocess
import sys
import traceback
from dataclasses import replace

import numpy as np
import pytest
import torch

from gptlib import (
    GPT,
    ByteTokenizer,
    CharTokenizer,
    Run,
    TrainConfig,
    Trainer,
    checkpoint,
    parallel,
)
from gptlib.storage import files

TOKENIZER = CharTokenizer.from_text("abcdefgh")
CONFIG = TrainConfig(steps=6, batch_size=4, warmup_steps=1, eval_windows=4, eval_every=3)
TOKENS = (np.arange(2_000, dtype=np.uint8) ** 2 // 7) % 50
TEXTS = TOKENS[:1500], TOKENS[1500:]
MODES = pytest.mark.parametrize("fsdp", [False, True], ids=["ddp", "fsdp"])


def ranks(work, n=2):
    """Run `work()` in n forked processes that form one group; return their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    children = []
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            os.environ |= group | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            code = 1
            try:
                with parallel.process_group(torch.device("cpu")):
                    work()
                code = 0
            except SystemExit as stopped:
                code = stopped.code
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def new(cfg, config):
    torch.manual_seed(3)
    return Trainer(GPT(cfg), *TEXTS, config, TOKENIZER)


def train_on_two(cfg, config, out, steps=None):
    def work():
        trainer = new(cfg, config)
        trainer.run(steps, save=Run(out).save, progress=False)

    assert ranks(work) == [0, 0]


def losses(out):
    trainer, _ = Run(out).resume(*TEXTS, changes={"fsdp": False})
    return [r.loss for r in trainer.history], [e.loss for e in trainer.evaluations]


@MODES
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_two_processes_give_the_losses_of_one(tmp_path, tiny, fsdp, optimizer):
    cfg = replace(tiny, tie_weights=True)
    config = replace(CONFIG, optimizer=optimizer)
    alone = new(cfg, config)
    alone.run(save=Run(tmp_path / "alone").save, progress=False)
    train_on_two(cfg, replace(config, fsdp=fsdp, micro_batch_size=1), tmp_path / "two")
    for one, two in zip(losses(tmp_path / "alone"), losses(tmp_path / "two"), strict=True):
        assert two == pytest.approx(one, rel=1e-5)
    model, _ = checkpoint.load(Run(tmp_path / "two").newest)
    for a, b in zip(alone.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@MODES
def test_a_run_goes_on_with_another_number_of_processes(tmp_path, tiny, fsdp):
    config = replace(CONFIG, fsdp=fsdp)
    through = new(tiny, CONFIG)
    through.run(progress=False)
    expected = pytest.approx([r.loss for r in through.history], rel=1e-5)
    # two processes, then one
    train_on_two(tiny, config, tmp_path / "a", 3)
    trainer, _ = Run(tmp_path / "a").resume(*TEXTS)
    trainer.run(progress=False)
    assert [r.loss for r in trainer.history] == expected
    # one process, then two
    new(tiny, config).run(3, save=Run(tmp_path / "b").save, progress=False)

    def work():
        trainer, _ = Run(tmp_path / "b").resume(*TEXTS)
        trainer.run(save=Run(tmp_path / "b").save, progress=False)

    assert ranks(work) == [0, 0]
    assert losses(tmp_path / "b")[0] == expected


def test_only_the_first_process_writes(tmp_path, tiny, monkeypatch):
    written_aside = files.written_aside

    def checked(folder):
        assert parallel.rank() == 0
        return written_aside(folder)

    monkeypatch.setattr(files, "written_aside", checked)
    train_on_two(tiny, CONFIG, tmp_path)
    assert [folder.name for folder in Run(tmp_path).checkpoints] == ["step-00000006"]


def test_processes_see_other_windows_and_drop_out_other_numbers(tmp_path, tiny):
    def work():
        trainer = new(replace(tiny, drop_rate=0.5), CONFIG)
        (x, _), *_ = trainer.draw()
        seen = {"windows": x.tolist(), "dice": torch.rand(3).tolist()}
        (tmp_path / f"{parallel.rank()}.json").write_text(json.dumps(seen))

    assert ranks(work) == [0, 0]
    a, b = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    (whole, _), *_ = new(tiny, CONFIG).draw()
    assert a["windows"] + b["windows"] == whole.tolist()
    assert a["dice"] != b["dice"]


def test_a_budget_stops_all_processes_at_the_same_step(tmp_path, tiny):
    train_on_two(tiny, replace(CONFIG, max_tokens=50), tmp_path)  # 4 windows of 8 per step
    assert Run(tmp_path).newest.name == "step-00000002"


def test_a_batch_that_cannot_be_shared_is_named(tiny, capfd):
    def work():
        with pytest.raises(ValueError, match="batch_size 3 cannot be shared equally by 2"):
            new(tiny, replace(CONFIG, batch_size=3))

    assert ranks(work) == [0, 0]


def test_a_process_that_dies_ends_the_run_with_a_message(tmp_path, tiny, capfd):
    from gptlib.cli import training

    new(tiny, CONFIG).run(1, save=Run(tmp_path).save, progress=False)

    def work():
        trainer, _ = Run(tmp_path).resume(*TEXTS)
        step = trainer.step

        def dying():
            if parallel.rank() == 1 and len(trainer.history) == 3:
                os._exit(7)
            return step()

        trainer.step = dying
        with pytest.raises(RuntimeError, match="process 0 of 2 stopped at step 3, another"):
            training.train_to_the_end(trainer, Run(tmp_path), "")

    assert ranks(work) == [0, 7]
    assert Run(tmp_path).newest.name == "step-00000001"
    Run(tmp_path).resume(*TEXTS)


@pytest.mark.slow  # torchrun and two processes import torch: 6 s
def test_torchrun_runs_the_command_line(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("To be, or not to be, that is the question.\n" * 20, encoding="utf-8")
    small = "--context-length 16 --emb-dim 16 --n-heads 2 --n-layers 1 --steps 3 --warmup-steps 1"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "-m"]
    command += ["gptlib", "train", "--corpus", str(text), "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [*command, *small.split(), "--batch-size", "4", "--eval-windows", "2"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("read it with: gptlib sample") == 1
    assert isinstance(checkpoint.load(tmp_path / "run")[1], ByteTokenizer)


def test_recomputing_the_activations_changes_no_gradient(tiny):
    def step(recompute):
        trainer = new(replace(tiny, drop_rate=0.3), replace(CONFIG, recompute=recompute))
        trainer.step()
        assert all("forward" not in vars(block) for block in trainer.model.blocks)
        return [p.grad.clone() for p in trainer.model.parameters()]

    for plain, again in zip(step(False), step(True), strict=True):
        torch.testing.assert_close(plain, again, rtol=0, atol=0)


def test_recomputing_keeps_fewer_activations(tiny):
    kept = []

    def count(recompute):
        kept.clear()
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda x: kept.append(x.numel()) or x, lambda x: x
        )
        trainer = new(tiny, replace(CONFIG, recompute=recompute))
        with hooks:
            trainer.loss_module(*trainer.draw()[0])
        return sum(kept)

    assert count(True) < count(False) / 2


def test_bfloat16_products_stay_near_float32_and_weights_stay_float32(tiny):
    runs = {p: new(tiny, replace(CONFIG, precision=p)) for p in ("float32", "bfloat16")}
    for trainer in runs.values():
        trainer.run(progress=False)
    last = {p: trainer.history[-1].loss for p, trainer in runs.items()}
    assert last["bfloat16"] == pytest.approx(last["float32"], abs=0.02)
    assert last["bfloat16"] != last["float32"]
    assert {p.dtype for p in runs["bfloat16"].model.parameters()} == {torch.float32}


def test_the_device_is_chosen_and_can_be_overridden():
    found = parallel.pick_device().type
    assert found == ("cuda" if torch.cuda.is_available() else found)
    assert parallel.pick_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="device 'quantum' cannot be used here"):
        parallel.pick_device("quantum")


def test_one_process_needs_no_group():
    with parallel.process_group(torch.device("cpu")):
        assert (parallel.rank(), parallel.world_size()) == (0, 1)
        assert parallel.total(2.5, torch.device("cpu")) == 2.5
