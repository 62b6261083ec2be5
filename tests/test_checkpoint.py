import json
from dataclasses import replace

import pytest
import safetensors.torch
import torch

from gptlib import GPT, ByteTokenizer, CharTokenizer, GPTConfig, NumpyGPT, checkpoint, corpus, gpt2

TOKENIZER = CharTokenizer.from_text("abcdefgh")


@pytest.fixture
def model(tiny):
    return GPT(replace(tiny, tie_weights=True)).eval()


@pytest.fixture
def folder(tmp_path, model):
    checkpoint.save(tmp_path / "run", model, TOKENIZER)
    return tmp_path / "run"


def test_what_is_loaded_is_what_was_saved(model, folder):
    loaded, tokenizer = checkpoint.load(folder)
    idx = torch.randint(50, (2, 8))
    assert torch.equal(loaded(idx), model(idx))
    assert loaded.cfg == model.cfg
    assert not loaded.training
    assert tokenizer.encode("head") == TOKENIZER.encode("head")


@pytest.mark.parametrize("tied", [False, True])
def test_a_tied_head_is_stored_once_and_tied_again(tmp_path, tiny, tied):
    checkpoint.save(tmp_path, GPT(replace(tiny, tie_weights=tied)), TOKENIZER)
    names = safetensors.torch.load_file(tmp_path / "model.safetensors").keys()
    assert ("head.weight" in names) != tied
    loaded, _ = checkpoint.load(tmp_path)
    assert (loaded.head.weight is loaded.tok_emb.weight) == tied


def test_the_folder_holds_two_plain_files(folder):
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert about["model"]["emb_dim"] == 16
    assert about["tokenizer"]["type"] == "chars"


def test_saving_again_replaces_the_model(folder, tiny):
    other = GPT(tiny).eval()
    checkpoint.save(folder, other, TOKENIZER)
    loaded, _ = checkpoint.load(folder)
    idx = torch.randint(50, (1, 8))
    assert torch.equal(loaded(idx), other(idx))


def test_loading_leaves_the_random_state_alone(folder):
    state = torch.get_rng_state()
    checkpoint.load(folder)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path, model):
    with pytest.raises(ValueError, match="tokenizer has 256 tokens, the model only 50"):
        checkpoint.save(tmp_path / "run", model, ByteTokenizer())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"holds no saved model: {name} is missing"):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"<!DOCTYPE html><title>not found</title>",
        lambda data: b"",
    ],
)
def test_damaged_weights_are_named(folder, damage):
    path = folder / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "damaged: not JSON"),
        ("[]", r"must hold a JSON object, got \[\]"),
        ('{"model": {}}', "needs 'model' and 'tokenizer'"),
        ('{"model": {}, "tokenizer": null}', "'tokenizer' must be an object, got None"),
        ('{"model": [], "tokenizer": {}}', r"'model' must be an object, got \[\]"),
        ("[" * 100_000, "damaged: not JSON"),
    ],
)
def test_damaged_config_is_named(folder, text, message):
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        checkpoint.load(folder)


def test_weights_of_mixed_types_are_refused(folder):
    state = safetensors.torch.load_file(folder / "model.safetensors")
    state["final_norm.shift"] = state["final_norm.shift"].half()
    safetensors.torch.save_file(state, folder / "model.safetensors")
    with pytest.raises(
        ValueError, match=r"one floating dtype, found torch\.float16, torch\.float32"
    ):
        checkpoint.load(folder)


def test_a_tokenizer_larger_than_the_saved_model_is_refused(folder):
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    about["tokenizer"] = {"type": "bytes"}
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(ValueError, match="tokenizer has 256 tokens, the model only 50"):
        checkpoint.load(folder)


def test_weights_of_another_size_are_listed(folder, tiny):
    state = GPT(replace(tiny, tie_weights=True)).state_dict()
    del state["head.weight"]
    state["blocks.0.norm1.scale"] = torch.ones(5)
    del state["final_norm.shift"]
    state["extra"] = torch.ones(1)
    safetensors.torch.save_file(state, folder / "model.safetensors")
    with pytest.raises(ValueError, match="does not fit") as error:
        checkpoint.load(folder)
    for part in (
        "blocks.0.norm1.scale expected (16,), found (5,)",
        "extra expected nothing, found (1,)",
        "final_norm.shift expected (16,), found nothing",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize("where", ["file/run", "file"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path, model, where):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match=r"cannot write into the folder .*file"):
        checkpoint.save(tmp_path / where, model, TOKENIZER)


def test_a_failed_save_leaves_the_old_model(folder, model, monkeypatch):
    before = (folder / "model.safetensors").read_bytes()

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(folder, GPT(GPTConfig.preset("mini")), ByteTokenizer())
    assert (folder / "model.safetensors").read_bytes() == before
    checkpoint.load(folder)


def test_the_packaged_model_predicts_text_it_never_saw():
    model, tokenizer = checkpoint.packaged()
    assert model.cfg == GPTConfig.preset("mini")
    assert not model.training
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    tokens = corpus.encode_corpus(corpus.shakespeare(), tokenizer)
    _, held_out = corpus.split(tokens, context_length=256)
    x, y = map(torch.from_numpy, corpus.fixed_windows(held_out, 16, 256))
    with torch.no_grad():
        assert 1.3 < model.loss(x, y) < 1.6


def test_the_packaged_history_is_plain_and_thinned():
    folder = checkpoint.PACKAGED
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    columns = history["history"]
    assert list(columns) == ["step", "tokens", "loss", "learning_rate"]
    lengths = {len(column) for column in columns.values()}
    assert len(lengths) == 1
    assert 50 < lengths.pop() <= 200
    assert columns["loss"][0] == pytest.approx(5.55, abs=0.1)
    steps = [sample["step"] for sample in history["samples"]]
    assert steps[:5] == [0, 10, 30, 100, 300]
    assert all(sample["text"].startswith("ROMEO:\n") for sample in history["samples"])
    assert "gptlib.checkpoint.packaged()" in (folder / "README.md").read_text(encoding="utf-8")


def test_the_packaged_run_ends_flat_and_at_its_best():
    folder = checkpoint.PACKAGED
    seen = json.loads((folder / "history.json").read_text(encoding="utf-8"))["validation"]
    late = seen["loss"][-3:]
    assert seen["step"][-3] > 0.9 * seen["step"][-1]
    assert late[-1] == min(seen["loss"])
    assert all(abs(a - b) < 0.005 for a in late for b in late)  # max() would drop a NaN


def test_files_are_readable_by_others(folder):
    assert (folder / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_a_model_is_not_saved_over_a_training_run(folder, model):
    (folder / "config.json").rename(folder / "kept.json")
    (folder / "step-00000010").mkdir()
    (folder / "kept.json").rename(folder / "step-00000010" / "config.json")
    with pytest.raises(ValueError, match="holds a training run; choose another folder"):
        checkpoint.save(folder, model, TOKENIZER)
    assert not (folder / "config.json").exists()


def test_a_compiled_model_is_saved_under_its_own_names(tmp_path, model):
    checkpoint.save(tmp_path, torch.compile(model), TOKENIZER)
    loaded, _ = checkpoint.load(tmp_path)
    assert all(
        torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters(), strict=True)
    )


@pytest.mark.parametrize("tied", [False, True])
def test_a_head_that_is_not_what_the_configuration_says_is_refused(tmp_path, tiny, tied):
    model = GPT(replace(tiny, tie_weights=tied))
    model.head.weight = torch.nn.Parameter(torch.ones(50, 16)) if tied else model.tok_emb.weight
    for write in (
        lambda: checkpoint.save(tmp_path / "new", model, TOKENIZER),
        lambda: gpt2.export(model, tmp_path / "new"),
        lambda: NumpyGPT.from_torch(model),
    ):
        with pytest.raises(
            ValueError, match=r"not as its configuration says: 1 tensors, head\.weight"
        ):
            write()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("part", "changes"),
    [("model", {"vocab_size": "50"}), ("model", {"unknown": 1}), ("tokenizer", {"type": "words"})],
)
def test_a_field_that_cannot_be_is_named_with_its_file(folder, part, changes):
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    about[part].update(changes)
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(ValueError, match=r"run.config\.json: "):
        checkpoint.load(folder)


def test_what_is_no_model_or_no_tokenizer_is_named_before_anything_is_written(tmp_path, model):
    for what in (
        lambda: checkpoint.save(tmp_path / "new", NumpyGPT(model.cfg), TOKENIZER),
        lambda: gpt2.export("gpt2", tmp_path / "new"),
    ):
        with pytest.raises(TypeError, match="model must be a GPT, got"):
            what()
    with pytest.raises(TypeError, match="holds the tokenizer too, got None"):
        checkpoint.save(tmp_path / "new", model, None)
    assert not (tmp_path / "new").exists()
