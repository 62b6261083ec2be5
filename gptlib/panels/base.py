"""The base of all panels: an anywidget that carries, for pages without a kernel, its HTML twin.

A panel is one Python class and one script. The script draws controls and picture and does its own
arithmetic, so it needs no kernel; the class checks the values and computes the same numbers with
`gptlib`, for the twin's table and for the tests that compare the two.
"""

from __future__ import annotations

import html
import json
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from gptlib.page_gpt import packing, scripts
from gptlib.text import tokenizers

try:
    import anywidget
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("panels need anywidget; run: pip install 'gptlib[lab]'") from error

if TYPE_CHECKING:
    from gptlib.model import GPT

# For a notebook that was not run yet; the book's pages, which have no cells to run, leave it out.
ASLEEP = "<p>Run this cell to bring the panel to life.</p>"

STYLE = Path(__file__).with_name("panels.css").read_text(encoding="utf-8")


@cache
def packaged_weights() -> dict[str, Any]:
    """Return the packaged mini model for `gpt.js`, with one byte per weight."""
    from gptlib.storage import checkpoint  # noqa: PLC0415 (loads torch)

    return packing.pack(checkpoint.packaged()[0])


@cache
def page_model() -> GPT:
    """Return the packaged model with its weights rounded as in the page."""
    return packing.unpack(packaged_weights()).to_torch()


class Number(traitlets.Float[float, Any]):
    """A number within its bounds; whole numbers are taken as well, True and NaN are not."""

    def validate(self, obj: Any, value: Any) -> float:
        """Return the value as a float, or raise TraitError."""
        if isinstance(value, bool) or (isinstance(value, float) and math.isnan(value)):
            self.error(obj, value)
        return float(super().validate(obj, value))


class Numbers(traitlets.List[float]):
    """As many numbers within the bounds as the default has."""

    def __init__(self, default: list[float], *, min: float, max: float) -> None:
        self.size, self.min, self.max = len(default), min, max
        each = Number(min=min, max=max)
        super().__init__(each, default_value=default, minlen=self.size, maxlen=self.size)


class Whole(traitlets.Int[int, Any]):
    """A whole number within its bounds; 3.0 and True are none."""

    def validate(self, obj: Any, value: Any) -> int:
        """Return the value, or raise TraitError."""
        if type(value) is not int:  # traitlets takes True and 3.0
            self.error(obj, value)
        return int(super().validate(obj, value))


class Text(traitlets.Unicode[str, Any]):
    """A text of at most `most` characters."""

    def __init__(self, default: str, *, most: int) -> None:
        super().__init__(default)
        self.most = most

    def validate(self, obj: Any, value: Any) -> str:
        """Return the text without halves of characters, or raise TraitError."""
        if not isinstance(value, str) or len(value) > self.most:
            raise traitlets.TraitError(
                f"{self.name} must be a text of at most {self.most} characters, got {value!r:.60}"
            )
        return tokenizers.clean(value)


class Sent(traitlets.Dict):
    """A table of Python's that the script needs too, such as the presets; nobody can change it."""

    def validate(self, obj: Any, value: Any) -> dict[str, Any]:
        """Return the table, or raise TraitError where it is another one."""
        own: Any = self.default(obj)
        if value != own:
            raise traitlets.TraitError(f"{self.name} cannot be changed, got {value!r:.60}")
        return dict(own)


class Panel(anywidget.AnyWidget):
    """One interactive panel.

    A subclass gives its script, a title, a height in pixels that its twin keeps free (at 1280 and
    at 390 pixels), its traits, and `numbers`.
    """

    script: ClassVar[str]
    title: ClassVar[str]
    heights: ClassVar[tuple[int, int]]  # pixels, of a wide page and of a phone
    needs_weights: ClassVar[bool] = False  # asks for the packaged model

    _css = STYLE
    initial = traitlets.Dict().tag(sync=True)  # what Reset goes back to

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "script" in vars(cls):  # not in the class that add_traits makes for each instance
            cls._esm = "\n".join(map(scripts.text, scripts.in_order(cls.script)))

    def __init__(self, **values: Any) -> None:
        unknown = sorted(set(values) - set(self.state_names()))
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no {', '.join(unknown)};"
                f" it has {', '.join(self.state_names())}"
            )
        super().__init__(**values)
        self.initial = self.state()
        if self.needs_weights:
            self.on_msg(self._answer)

    def _answer(self, _: Any, message: dict[str, Any], buffers: list[Any]) -> None:
        """Give the script what the built page has in a script of its own: the packaged model."""
        if message.get("ask") == "weights":
            self.send({"weights": packaged_weights()})

    @classmethod
    def state_names(cls) -> list[str]:
        """Return the names of the values that make its state, in the class's order."""
        panel = next(kind for kind in cls.__mro__ if "script" in vars(kind))
        own = vars(panel).items()
        return [name for name, trait in own if isinstance(trait, traitlets.TraitType)]

    def state(self) -> dict[str, Any]:
        """Return those values, ready for JSON, floats to six digits."""
        return {name: _rounded(getattr(self, name)) for name in self.state_names()}

    def numbers(self) -> dict[str, float]:
        """Return what the panel shows for its present values, computed by `gptlib`."""
        raise NotImplementedError

    def fallback(self) -> str:
        """Return what stands in the page where scripts do not run: the numbers as a table."""
        rows = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th><td>{_written(value)}</td></tr>'
            for name, value in self.numbers().items()
        )
        return f"<table><caption>{html.escape(self.title)}</caption><tbody>{rows}</tbody></table>"

    def twin(self) -> str:
        """Return the HTML that the built page brings to life: the values, and a fallback inside."""
        wide, narrow = self.heights
        state = html.escape(json.dumps(self.state(), ensure_ascii=False, allow_nan=False))
        return (
            f'<div class="gptlib-panel mathjax_ignore" data-panel="{Path(self.script).stem}"'
            f' data-state="{state}" style="--gp-wide:{wide}px;--gp-narrow:{narrow}px">'
            f"{self.fallback()}{ASLEEP}</div>"
        )

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        plain = f"{type(self).__name__}: {self.title}"
        return {**data, "text/html": self.twin(), "text/plain": plain}, metadata


def _written(value: float) -> str:
    """Write a count in full and anything else to four digits, which processors agree on."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return value
