"""The panel of every chapter's exercises and quiz: answers that are checked where they are given.

Nothing a reader types leaves the page.
"""

from __future__ import annotations

import html
from typing import Any

import traitlets

from gptlib.exercises import Choice, Number, judge
from gptlib.panels.base import Panel, Text

LONGEST = 60  # characters of an answer

SAMPLE = [
    Number(question="How many is a dozen?", answer=12, hint="More than ten.").sent(),
    Choice(
        question="Which is longer, a mile or a kilometre?",
        right=("a mile", "It is 1.609 kilometres."),
        wrong=[("a kilometre", "A mile is 1.609 of them.")],
        because="A mile is 1.609 kilometres.",
    ).sent(),
]


class QuestionsPanel(Panel):
    """Ask questions and judge what is given.

    Args:
        items: the questions, as `gptlib.exercises` defines and sends them.
        given: what the reader gave for each, empty while a question is open.
    """

    script = "panels/questions.js"
    title = "Your answers"
    heights = (0, 0)  # its fallback is as high as it is

    items = traitlets.List(traitlets.Dict(), SAMPLE).tag(sync=True)
    given = traitlets.List(Text("", most=LONGEST), ["", ""]).tag(sync=True)

    @traitlets.validate("given")
    def _one_for_each(self, proposal: Any) -> list[str]:
        given = list(proposal["value"])
        if len(given) != len(self.items):
            raise traitlets.TraitError(f"given must have one answer for each question, got {given}")
        for item, answer in zip(self.items, given, strict=True):
            places = ["", *map(str, range(len(item.get("options", ()))))]
            if "options" in item and answer not in places:
                raise traitlets.TraitError(f"given must be one of {places}, got {answer!r}")
        return given

    def numbers(self) -> dict[str, float]:
        """Return how many questions there are, how many are answered, and how many rightly."""
        verdicts = [judge(*both).state for both in zip(self.items, self.given, strict=True)]
        answered = sum(state in ("right", "wrong") for state in verdicts)
        return {
            "questions": len(verdicts),
            "answered": answered,
            "right": verdicts.count("right"),
        }

    def fallback(self) -> str:
        """Return what stands in the page where scripts do not run: the questions."""
        return f"<ol>{''.join(map(_listed, self.items))}</ol>"


def ask(*questions: Number | Choice) -> QuestionsPanel:
    """Show questions: one is an exercise's answer, several are a quiz."""
    items = [question.sent() for question in questions]
    return QuestionsPanel(items=items, given=[""] * len(items))


def _listed(item: dict[str, Any]) -> str:
    options = [each.get("text") or each["sketch"]["alt"] for each in item.get("options", ())]
    listed = "".join(f"<li>{html.escape(text)}</li>" for text in options)
    return f"<li>{html.escape(item['question'])}{f'<ul>{listed}</ul>' if listed else ''}</li>"
