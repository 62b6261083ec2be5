"""The playground's Python side: what it answers to the script's questions."""

from typing import Any

import numpy as np
import pytest

from gptlib import GPT, ByteTokenizer, GPTConfig, NumpyGPT, generate, gpt2_tokenizer
from gptlib.panels.kernel_answers import KernelAnswers
from gptlib.sampling import Step


@pytest.fixture
def model() -> GPT:
    return GPT(GPTConfig(260, 16, 16, 4, 2, 0.0))  # four ids that no byte has


def ask(engine: KernelAnswers, **message: Any) -> tuple[dict[str, Any], list[bytes]]:
    message = {"view": "a", **message}
    answers: list[tuple[dict[str, Any], list[bytes]]] = []
    engine.answer(message, lambda content, buffers=(): answers.append((content, list(buffers))))
    (answer,) = answers
    return answer


def write(engine: KernelAnswers, **message: Any) -> list[int]:
    """Return all ids that the engine writes, as the script would gather them."""
    ask(engine, ask="start", **message)
    ids, done = [], False
    while not done:
        content, buffers = ask(engine, ask="more")
        assert len(buffers) == len(content["steps"])
        assert all(len(logits) == 4 * 256 for logits in buffers)
        ids += [step["id"] for step in content["steps"]]
        done = content["done"]
    return ids


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_it_writes_what_generate_writes(model: GPT, kind: str) -> None:
    own = model if kind == "torch" else NumpyGPT.from_torch(model)
    engine = KernelAnswers(own, ByteTokenizer())
    settings = {"temperature": 0.9, "top_k": 20, "top_p": 0.8, "seed": 3}
    expected = generate(own, list(b"To be"), 30, n_vocab=256, **settings)
    assert write(engine, prompt="To be", n=30, **settings) == expected[5:]


def test_a_question_is_answered_under_its_number_with_the_logits(model: GPT) -> None:
    engine = KernelAnswers(model, ByteTokenizer())
    content, (logits,) = ask(engine, ask="next", number=4, prompt="To", written=[32, 98])
    assert content == {"reply": 4, "length": 2}
    expected = np.asarray(model.next_logits(list(b"To b")))[:256]
    np.testing.assert_allclose(np.frombuffer(logits, np.float32), expected, atol=1e-6)


def test_a_character_of_several_tokens_comes_whole_with_its_last() -> None:
    engine = KernelAnswers(GPT(GPTConfig(256, 16, 16, 4, 1, 0.0)), ByteTokenizer())
    text = "é’😀"
    engine.stream = lambda *_: (Step(i, 1.0, 0.0, 0.0) for i in text.encode())  # type: ignore
    engine.model.logits = np.zeros(256)
    ask(engine, ask="start", prompt="")
    pieces = [step["piece"] for step in ask(engine, ask="more")[0]["steps"]]
    assert pieces == ["", "é", "", "", "’", "", "", "", "😀"]


def test_two_views_write_each_their_own_text(model: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gptlib.panels.kernel_answers.SLICE", 0.0)  # one token per answer
    engine = KernelAnswers(model, ByteTokenizer())
    alone = [write(engine, prompt="To be", n=6, seed=seed) for seed in (1, 2)]
    for view, seed in (("a", 1), ("b", 2)):
        ask(engine, ask="start", view=view, prompt="To be", n=6, seed=seed)
    found: dict[str, list[int]] = {"a": [], "b": []}
    for view in "ab" * 7:
        found[view] += [step["id"] for step in ask(engine, ask="more", view=view)[0]["steps"]]
    assert [*found.values()] == alone


def test_it_gives_the_vocabulary_in_place_of_weights(model: GPT) -> None:
    content, buffers = ask(KernelAnswers(model, ByteTokenizer()), ask="weights")
    assert content["window"] == 16
    assert content["vocabulary"] == [ByteTokenizer().decode([i]) for i in range(256)]
    assert buffers == []


@pytest.mark.parametrize("wrong", [{"prompt": ""}, {"prompt": "x", "temperature": -1.0}])
def test_wrong_settings_come_back_as_a_sentence(model: GPT, wrong: dict[str, Any]) -> None:
    content, _ = ask(KernelAnswers(model, ByteTokenizer()), ask="start", number=1, n=3, **wrong)
    assert content["reply"] == 1
    assert "temperature" in content["error"] or "prompt is empty" in content["error"]


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(model: GPT) -> None:
    with pytest.raises(ValueError, match="50257 tokens, the model only 260"):
        KernelAnswers(model, gpt2_tokenizer())
