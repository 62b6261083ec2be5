"""The playground of chapter "Sampling" and the welcome page: a model that writes, and its dials."""

from __future__ import annotations

from typing import Any

import numpy as np

from gptlib import sampling
from gptlib.panels.base import Number, Panel, Text, Whole, page_model
from gptlib.panels.kernel_answers import KernelAnswers
from gptlib.sampling import LanguageModel
from gptlib.text.tokenizers import ByteTokenizer, Tokenizer

SHOWN = 10  # of the most probable next tokens


class PlaygroundPanel(Panel):
    """Type a prompt, stream text, and see what each filter leaves of the next token's chances.

    Without a model the packaged one runs, inside the page. With one, tokens are drawn in Python, in
    JupyterLab only: `PlaygroundPanel(*checkpoint.load("runs/mini"))`.

    Args:
        model: what `gptlib.stream` takes: a GPT, a NumpyGPT, GPT-2 from `gpt2.load`.
        tokenizer: that of the model; bytes by default.
        prompt: at most 400 characters.
        temperature, top_k, top_p: see `gptlib.sampling.Settings`; top_k 0 keeps all.
        seed: repeats the draws; the page's generator is not Python's.
        length: how many tokens to write.
        look: which written token the bars belong to; beyond the last one it is the next one.
    """

    script = "panels/playground.js"
    title = "Playground"
    heights = (662, 1213)
    needs_weights = True

    prompt = Text("ROMEO:\n", most=400).tag(sync=True)
    temperature = Number(0.8, min=0.0, max=2.0).tag(sync=True)
    top_k = Whole(0, min=0, max=256).tag(sync=True)
    top_p = Number(0.95, min=0.0, max=1.0).tag(sync=True)
    seed = Whole(1, min=0, max=999).tag(sync=True)
    length = Whole(200, min=10, max=250).tag(sync=True)
    look = Whole(251, min=1, max=251).tag(sync=True)

    def __init__(
        self,
        model: LanguageModel | None = None,
        tokenizer: Tokenizer | None = None,
        **values: Any,
    ) -> None:
        self._answers = model and KernelAnswers(model, tokenizer or ByteTokenizer())
        super().__init__(**values)

    def _answer(self, _: Any, message: dict[str, Any], buffers: list[Any]) -> None:
        if self._answers:
            self._answers.answer(message, self.send)
        else:
            super()._answer(_, message, buffers)

    def numbers(self) -> dict[str, float]:
        """Return what the packaged model, as in the page, says of the token after the prompt."""
        ids = list(self.prompt.encode())
        if not ids:
            return {}
        model = page_model()
        logits = model.next_logits(ids[-model.cfg.context_length :])
        found = sampling.trace(
            logits, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p
        )
        best = np.sort(found.raw)[::-1][:SHOWN].tolist()
        return {
            "entropy": sampling.entropy(found.raw),
            "entropy at temperature": sampling.entropy(found.temperature),
            "entropy left": sampling.entropy(found.top_p),
            "kept by top-k": float((found.top_k > 0).sum()),
            "kept by top-p": float((found.top_p > 0).sum()),
            **{f"rank {i}": prob for i, prob in enumerate(best, 1)},
        }
