"""Pictures: one palette, plots in one style that follow dark mode.

A component keeps its colour everywhere. The palette is Okabe and Ito's, which colour-blind
readers can tell apart.
"""

from __future__ import annotations

import html
import io
import math
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.container import BarContainer
from matplotlib.figure import Figure as MplFigure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter

EMBED = "#56B4E9"  # embeddings, sky
ATTENTION = "#0072B2"  # attention, blue
FEED_FORWARD = "#E69F00"  # feed-forward, orange
NORM = "#009E73"  # LayerNorm, green
RESIDUAL = "#8C8C8C"  # residual stream, grey
HEAD = "#CC79A7"  # head and sampling, purple
BROKEN = "#D55E00"  # warnings and what is broken on purpose, vermilion

INK = "#010203"  # stands for the reader's text colour and is replaced by it in the SVG

_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and recoloured
    "svg.hashsalt": "gptlib",  # the same figure gives the same bytes
    "text.parse_math": False,  # of labels that are made late
    "font.size": 11,
    "axes.titlesize": 11,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": cycler(color=[ATTENTION, FEED_FORWARD, NORM, HEAD, EMBED, BROKEN]),
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RESIDUAL,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


LITERAL = "mathjax_ignore"  # class of what JupyterLab must not read as mathematics: "$5 and $6"

# An image cannot take the colours around it, so it brings its own: legible in a dark JupyterLab.
CARD = "<style>:root { color: #1f2428; background: #fff }</style>"
_IMAGE = re.compile(
    rf'<figure class="gpt-figure {LITERAL}">'
    r'<img src="data:image/svg\+xml,([^"]*)" alt="([^"]*)">'
)
_LETTERS = re.compile(r"font(?:-size)?(?:=\"|: )(?:\d+ |bold |italic )*([\d.]+)")
LEAST_LETTER = 9  # pixels; smaller ones cannot be read
_PLAIN = " !()*+,-./:;=?@[]_{|}~"  # what needs no escape inside a quoted data URI


@dataclass(frozen=True)
class Picture:
    """An SVG with a caption.

    A notebook shows it as an image, because JupyterLab takes inline SVG out of every notebook that
    it did not run itself. In the book `inline` puts the drawing into the page, where its text
    takes the colour of the page around it.
    """

    svg: str
    caption: str  # states the finding
    alt: str  # says what is drawn, for readers who cannot see it

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        svg = re.sub("<svg[^>]*>", lambda tag: tag[0] + CARD, self.svg, count=1)
        if " xmlns=" not in svg[: svg.index(">")]:  # an image is read as XML
            svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        image = urllib.parse.quote(svg, safe=_PLAIN)
        return {
            "text/html": f'<figure class="gpt-figure {LITERAL}"><img'
            f' src="data:image/svg+xml,{image}" alt="{html.escape(self.alt)}">'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>",
            "text/plain": f"Figure: {self.caption}",
        }


def inline(page: str) -> str:
    """Return HTML with the images of its Pictures drawn inline, so that they follow dark mode.

    Each drawing says how wide it is and how wide it must be for its smallest letter to be read.
    """

    def drawn(image: re.Match[str]) -> str:
        svg = urllib.parse.unquote(image[1]).replace(CARD, "", 1)
        drawing = svg.replace("<svg", f'<svg role="img" aria-label="{image[2]}"', 1)
        return f'<figure class="gpt-figure {LITERAL}"{_widths(svg)}>{drawing}'

    return _IMAGE.sub(drawn, page)


def _widths(svg: str) -> str:
    """Return the style of a drawing that has a size: its widths in pixels, and its shape."""
    size = re.search(r' width="([\d.]+)(pt)?"', svg)
    box = re.search(r' viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if not (size and box):
        return ""
    width, height = map(float, box.groups())
    wide = float(size[1]) * (4 / 3 if size[2] else 1)
    style = f"--gpt-wide:{wide:.0f}px;--gpt-shape:{width / height:.3f}"
    if letters := [float(each) for each in _LETTERS.findall(svg)]:
        style += f";--gpt-least:{math.ceil(LEAST_LETTER / min(letters) * width)}px"
    return f' style="{style}"'


@contextmanager
def axes(
    rows: int = 1, columns: int = 1, *, width: float = 6.2, height: float = 3.1, **options: Any
) -> Iterator[Any]:
    """Yield matplotlib axes in the book's style, inches wide and high; finish with `show`.

    >>> with axes() as ax:
    ...     ax.plot([1, 2, 3])
    >>> picture = show(ax, caption="It rises.", alt="A rising line.")
    """
    with plt.rc_context(_STYLE):
        figure, drawn = plt.subplots(
            rows, columns, figsize=(width, height), layout="constrained", **options
        )
        try:
            yield drawn
        finally:
            plt.close(figure)  # shown once, by the Picture, and never by the notebook as well


def label_small_bars(
    ax: Any, text: str = "{:.2g}", *, below: float = 0.03, size: float = 9, upright: bool = True
) -> None:
    """Write its value at the end of each bar that is too short to be seen.

    Call it last: later bars and limits change what is short.

    Args:
        ax: axes with bars, upright or lying, on a linear scale.
        text: how a value is written.
        below: bars shorter than this share of the axis are labelled.
        size: of the letters, in points.
        upright: False turns the letters, where bars stand close together.
    """
    for bars in ax.containers:
        if not isinstance(bars, BarContainer):
            continue
        low, high = ax.get_xlim() if bars.orientation == "horizontal" else ax.get_ylim()
        least = below * abs(high - low)
        values = np.asarray(bars.datavalues)
        labels = [text.format(v).replace("-", "−") if abs(v) < least else "" for v in values]
        ax.bar_label(bars, labels, padding=2, fontsize=size, rotation=0 if upright else 90)


def show(drawn: Any, *, caption: str, alt: str) -> Picture:
    """Turn the axes of `axes` into a Picture; end the cell with it.

    Args:
        drawn: one axes, an array of them, or their figure.
        caption: one or two sentences that state the finding, with units.
        alt: what is drawn, for readers who cannot see it.
    """
    if not isinstance(drawn, MplFigure):
        drawn = next(iter(getattr(drawn, "flat", [drawn]))).figure
    _name_powers_plainly(drawn)
    for text in drawn.findobj(Text):
        text.set_parse_math(False)  # "$x$" from data is a token, no formula
    buffer = io.StringIO()
    with plt.rc_context(_STYLE):  # of ticks made from here on
        drawn.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # an XML header has no place inside a page
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", svg)
    return Picture(svg, caption, alt)


class _Plain(LogFormatter):
    """Names the ticks of a log axis without raised powers, whose letters are too small to read."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return _plain(x) if super().__call__(x, pos) else ""  # it knows which ticks have a name


def _plain(x: float) -> str:
    if 1e-4 <= abs(x) < 1e7:
        return f"{x:,.4g}" if abs(x) < 1e4 else f"{x:,.0f}"
    text = np.format_float_scientific(x, precision=3, trim="-", exp_digits=1)
    return text.replace("e+", "e").replace("-", "−")  # as the panels write it


def _name_powers_plainly(figure: MplFigure) -> None:
    axes_: list[Any] = figure.axes
    for axis in (each for ax in axes_ for each in (ax.xaxis, ax.yaxis)):
        for get, put in (
            (axis.get_major_formatter, axis.set_major_formatter),
            (axis.get_minor_formatter, axis.set_minor_formatter),
        ):
            if isinstance(made := get(), LogFormatter):
                put(_Plain(axis.get_transform().base, labelOnlyBase=made.labelOnlyBase))


def smooth(values: Sequence[float], weight: float = 0.95) -> list[float]:
    """Return the exponential moving average of `values`, corrected for its start."""
    if not 0 <= weight < 1:
        raise ValueError(f"weight must be in [0, 1), got {weight}")
    mean, smoothed = 0.0, []
    for i, value in enumerate(values, start=1):
        mean = weight * mean + (1 - weight) * value
        smoothed.append(mean / (1 - weight**i))
    return smoothed
