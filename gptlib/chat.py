"""A conversation with a model that has learned to take turns.

The turns are written as SmolLM2, Qwen and others were trained on them (“ChatML”):
`<|im_start|>role`, a line end, the text, `<|im_end|>`, a line end. The two marks are single tokens,
which no text of a user can contain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gptlib.sampling import LanguageModel, Step, stream
from gptlib.text.tokenizers import Tokenizer

START, END = "<|im_start|>", "<|im_end|>"


class Chat:
    """Hold a conversation's tokens and their keys and values, so that each turn is read once.

    Args:
        model: a `GPT`, or what `for_decoding` makes of it, which is faster.
        tokenizer: the model's own.
        system: what the model is told before the first turn; "" for nothing.

    Raises:
        ValueError: the tokenizer has no tokens for turns, so the model was not trained on any.
    """

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, system: str = "") -> None:
        self.model, self.tokenizer = model, tokenizer
        self.start_id, self.end_id = (_mark(tokenizer, mark) for mark in (START, END))
        self.line_end = tokenizer.encode("\n")
        self.ids = self._turn("system", system) if system else []
        self._beginning = len(self.ids)
        self.cache = model.new_cache()

    def say(
        self, text: str, max_new_tokens: int | None = None, *, seed: int | None = None, **rule: Any
    ) -> Iterator[str]:
        """Yield the answer to a user's turn, piece by piece.

        An answer that is left before its end, by `close` or by an exception, counts as ended there.

        Args:
            max_new_tokens: longest answer; by default as long as the context has room.
            seed, rule: as for `sampling.stream`.

        Raises:
            ValueError: an empty turn, or one that the context has no room for; at the call, and
                the conversation stays as it was.
        """
        if not text.strip():
            raise ValueError("an empty turn has no answer; say something")
        opening = [self.start_id, *self.tokenizer.encode("assistant\n")]
        ids = [*self.ids, *self._turn("user", text), *opening]
        room = self.model.cfg.context_length - len(ids) - len(self.line_end) - 1
        if room < 1:
            raise ValueError(
                f"with this turn the conversation has {len(ids)} tokens, the model reads at most"
                f" {self.model.cfg.context_length}; say less, or begin anew"
            )
        steps = stream(
            self.model,
            ids,
            room if max_new_tokens is None else min(max_new_tokens, room),
            cache=self.cache,
            stop_id=self.end_id,
            n_vocab=self.tokenizer.n_vocab,
            seed=seed,
            **rule,
        )
        return self._answer(ids, steps)

    def reset(self) -> None:
        """Forget all turns but the system's."""
        del self.ids[self._beginning :]
        self.cache.reset()

    def _answer(self, ids: list[int], steps: Iterator[Step]) -> Iterator[str]:
        self.ids = ids
        try:
            yield from self.tokenizer.decode_stream(self._noted(steps))
        finally:
            self.ids += [self.end_id, *self.line_end]

    def _noted(self, steps: Iterator[Step]) -> Iterator[int]:
        for step in steps:
            self.ids.append(step.token_id)
            yield step.token_id

    def _turn(self, role: str, text: str) -> list[int]:
        said = self.tokenizer.encode(f"{role}\n{text}")
        return [self.start_id, *said, self.end_id, *self.line_end]


def _mark(tokenizer: Tokenizer, mark: str) -> int:
    try:
        (token_id,) = tokenizer.encode(mark, allowed_special={mark})
    except ValueError:
        raise ValueError(
            f"the tokenizer {tokenizer.name!r} has no token {mark}: its model was not trained to"
            " take turns; `gptlib sample` lets it continue a text"
        ) from None
    return token_id
