"""What the playground talks to in JupyterLab when it was given a model: samples drawn in Python.

The script asks for a few tokens at a time, so that Stop is heard between two answers.
"""

from __future__ import annotations

import codecs
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gptlib import sampling
from gptlib.sampling import LanguageModel, Settings, Step
from gptlib.text.tokenizers import Tokenizer, check_fits

SLICE = 0.05  # seconds of work for one answer

Shown = tuple[dict[str, Any], Any]  # what the script gets of a token, and its logits (V)


class KernelAnswers:
    """Answers the playground's script with a gptlib model.

    Args:
        model: anything that `gptlib.stream` takes.
        tokenizer: its tokenizer; ids beyond its vocabulary are never drawn.

    Raises:
        ValueError: the tokenizer has more tokens than the model.
    """

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer) -> None:
        check_fits(tokenizer, model.cfg.vocab_size)
        self.model, self.tokenizer = _Listening(model), tokenizer
        self._runs: dict[Any, Iterator[Shown]] = {}  # by the view that writes

    def answer(self, message: dict[str, Any], send: Callable[..., None]) -> None:
        """Answer one message of the script; what goes wrong is said in the answer."""
        reply = {"reply": message.get("number")}
        try:
            content, logits = self._reply(message)
        except (TypeError, ValueError) as error:
            send({**reply, "error": str(error)})
        else:
            send({**reply, **content}, [np.asarray(row, np.float32).tobytes() for row in logits])

    def _reply(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        if message["ask"] == "weights":
            ids = range(self.tokenizer.n_vocab)
            vocabulary = [self.tokenizer.decode([i]) for i in ids]
            return {"vocabulary": vocabulary, "window": self.model.cfg.context_length}, []
        if message["ask"] == "more":
            return self._more(message["view"])
        prompt = self.tokenizer.encode(message["prompt"])
        if message["ask"] == "start":
            self._runs[message["view"]] = self._shown(self.stream(message, prompt))
            return {"length": len(prompt)}, []
        for _ in self.stream({**message, "n": 1}, [*prompt, *message["written"]]):
            pass
        return {"length": len(prompt)}, [self.model.logits[: self.tokenizer.n_vocab]]

    def stream(self, message: dict[str, Any], ids: list[int]) -> Iterator[Step]:
        """Draw what a message asks for, after `ids`."""
        known = {field.name for field in dataclasses.fields(Settings)} | {"seed"}
        settings = {name: value for name, value in message.items() if name in known}
        n_vocab = self.tokenizer.n_vocab
        window = ids[-self.model.cfg.context_length :]  # the script says so, not a warning
        return sampling.stream(self.model, window, message["n"], n_vocab=n_vocab, **settings)

    def _shown(self, steps: Iterator[Step]) -> Iterator[Shown]:
        """Yield each token with the text that is certain with it, and the logits of its draw."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for step in steps:
            piece = decoder.decode(self.tokenizer.token_bytes(step.token_id))
            shown = {"id": step.token_id, "prob": step.prob, "piece": piece}
            yield shown, self.model.logits[: self.tokenizer.n_vocab]

    def _more(self, view: Any) -> tuple[dict[str, Any], list[Any]]:
        """Return the tokens of one slice of time."""
        steps, logits, end = [], [], time.monotonic() + SLICE
        for step, row in self._runs.get(view, iter(())):
            steps.append(step)
            logits.append(row)
            if time.monotonic() > end:
                return {"steps": steps, "done": False}, logits
        self._runs.pop(view, None)
        return {"steps": steps, "done": True}, logits


class _Listening:
    """A model that remembers the last logits it gave."""

    def __init__(self, model: LanguageModel) -> None:
        self.model, self.cfg, self.logits = model, model.cfg, np.empty(0)

    def new_cache(self, max_len: int | None = None) -> Any:
        return self.model.new_cache(max_len)

    def next_logits(self, ids: Any, cache: Any = None) -> Any:
        self.logits = np.array(self.model.next_logits(ids, cache))
        return self.logits
