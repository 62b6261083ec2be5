"""How the chapters draw: one palette, figures that follow dark mode, tables that print well.

A component keeps its colour everywhere. The palette is Okabe and Ito's, which colour-blind
readers can tell apart.
"""

from __future__ import annotations

import html
import inspect
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler
from matplotlib.figure import Figure as MplFigure

from gptlib.config import GPTConfig

EMBED = "#56B4E9"  # embeddings, sky
ATTENTION = "#0072B2"  # attention, blue
FEED_FORWARD = "#E69F00"  # feed-forward, orange
NORM = "#009E73"  # LayerNorm, green
RESIDUAL = "#8C8C8C"  # residual stream, grey
HEAD = "#CC79A7"  # head and sampling, purple
BROKEN = "#D55E00"  # warnings and what is broken on purpose, vermilion

_INK = "#010203"  # stands for the reader's text colour and is replaced by it in the SVG

_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and recoloured
    "svg.hashsalt": "gptlib",  # the same figure gives the same bytes
    "font.size": 11,
    "axes.titlesize": 11,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
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


@dataclass(frozen=True)
class Picture:
    """An inline SVG with a caption; its text takes the colour of the page around it."""

    svg: str
    caption: str  # states the finding
    alt: str  # says what is drawn, for readers who cannot see it

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        svg = self.svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(self.alt)}"', 1)
        caption = html.escape(self.caption)
        return {
            "text/html": f'<figure class="gpt-figure">{svg}<figcaption>{caption}</figcaption>'
            "</figure>",
            "text/plain": f"Figure: {self.caption}",
        }


@contextmanager
def axes(
    rows: int = 1, columns: int = 1, *, width: float = 6.2, height: float = 3.1, **options: Any
) -> Iterator[Any]:
    """Yield matplotlib axes in the book's style, inches wide and high; finish with `show`.

    >>> with axes() as ax:
    ...     ax.plot([1, 2, 3])
    ...     picture = show(ax, caption="It rises.", alt="A rising line.")
    """
    with plt.rc_context(_STYLE):
        figure, drawn = plt.subplots(
            rows, columns, figsize=(width, height), layout="constrained", **options
        )
        try:
            yield drawn
        finally:
            plt.close(figure)  # shown once, by the Picture, and never by the notebook as well


def show(drawn: Any, *, caption: str, alt: str) -> Picture:
    """Turn the axes of `axes` into a Picture; end the cell with it.

    Args:
        drawn: one axes, an array of them, or their figure.
        caption: one or two sentences that state the finding, with units.
        alt: what is drawn, for readers who cannot see it.
    """
    if not isinstance(drawn, MplFigure):
        drawn = next(iter(getattr(drawn, "flat", [drawn]))).figure
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # an XML header has no place inside a page
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(_INK, "currentColor")
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", svg)
    return Picture(svg, caption, alt)


@dataclass(frozen=True)
class Table:
    """Rows under a header, as HTML in a page and aligned text in a terminal."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def __str__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        text = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*([self.caption] if self.caption else []), *text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def row(tag: str, cells: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        head, body = row("th", self.header), "".join(row("td", cells) for cells in self.rows)
        return (
            f'<table class="gpt-table">{caption}<thead>{head}</thead><tbody>{body}</tbody></table>'
        )


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> Table:
    """Make a table; integers get thousands separators, everything else is shown as `str` does.

    Raises:
        ValueError: a row has another length than the header.
    """
    for cells in rows:
        if len(cells) != len(header):
            raise ValueError(f"a row has {len(cells)} cells, the header {len(header)}: {cells}")

    def text(cell: Any) -> str:
        number = isinstance(cell, int) and not isinstance(cell, bool)
        return f"{cell:,}" if number else str(cell)

    return Table(header, [[text(cell) for cell in cells] for cells in rows], caption)


@dataclass(frozen=True)
class Source:
    """Python source, coloured by the page's own style sheet."""

    code: str

    def __str__(self) -> str:
        return self.code

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from pygments import highlight  # comes with every notebook kernel
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer

        return highlight(self.code, PythonLexer(), HtmlFormatter(cssclass="highlight gpt-source"))


def source(thing: Any) -> Source:
    """Show the source of a class or function as it stands in the package."""
    return Source(textwrap.dedent(inspect.getsource(thing)).rstrip())


def smooth(values: Sequence[float], weight: float = 0.95) -> list[float]:
    """Return the exponential moving average of `values`, corrected for its start."""
    mean, smoothed = 0.0, []
    for i, value in enumerate(values, start=1):
        mean = weight * mean + (1 - weight) * value
        smoothed.append(mean / (1 - weight**i))
    return smoothed


def machine(cfg: GPTConfig, batch: int, length: int) -> Picture:
    """Draw the machine as a column of stages with the tensor's shape after each.

    Args:
        cfg: the model whose numbers are shown.
        batch, length: B and T of the token ids that go in.
    """
    B, T, C, V, N = batch, length, cfg.emb_dim, cfg.vocab_size, cfg.n_layers
    stages = [
        ("token ids", f"({B}, {T})", None),
        ("token table + position table", f"({B}, {T}, {C})", EMBED),
        ("dropout", f"({B}, {T}, {C})", RESIDUAL),
        (f"{N} equal blocks", f"({B}, {T}, {C})", None),
        ("final LayerNorm", f"({B}, {T}, {C})", NORM),
        ("head", f"({B}, {T}, {V:,})", HEAD),
        ("logits", f"({B}, {T}, {V:,})", None),
    ]
    inside = [("LayerNorm", NORM), ("attention", ATTENTION), ("+", RESIDUAL)]
    inside += [("LayerNorm", NORM), ("feed-forward", FEED_FORWARD), ("+", RESIDUAL)]
    parts, y = [], 8
    for i, (name, shape, colour) in enumerate(stages):
        if i:
            parts.append(_arrow(170, y, y + 18))
            y += 20
        if name.endswith("blocks"):
            parts.append(_box(20, y, 300, 116, RESIDUAL, name, align_top=True))
            for j, (part, part_colour) in enumerate(inside):
                column, row = j % 3, j // 3
                left, width = (30, 116, 262)[column], (80, 140, 48)[column]
                parts.append(_box(left, y + 34 + 38 * row, width, 30, part_colour, part))
            height = 116
        else:
            height = 34
            parts.append(_box(20, y, 300, height, colour, name))
        parts.append(
            f'<text x="336" y="{y + height / 2 + 4:g}" font-family="ui-monospace, monospace"'
            f' font-size="13" fill="currentColor">{shape}</text>'
        )
        y += height
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 {y + 8}" width="480"'
        f' font-family="system-ui, sans-serif" font-size="13">{"".join(parts)}</svg>'
    )
    caption = (
        f"{B} rows of {T} ids go in and {B} x {T} rows of {V:,} scores come out. Between the"
        f" tables and the head every stage hands on the same shape, ({B}, {T}, {C})."
    )
    alt = "The stages from top to bottom with the shape after each: " + "; ".join(
        f"{name} {shape}" for name, shape, _ in stages
    )
    return Picture(svg, caption, alt)


def _box(
    x: float, y: float, w: float, h: float, colour: str | None, text: str, align_top: bool = False
) -> str:
    fill = f'fill="{colour}" fill-opacity="0.18" stroke="{colour}"' if colour else 'fill="none"'
    stroke = "" if colour else ' stroke="currentColor" stroke-opacity="0.5"'
    baseline = y + 21 if align_top else y + h / 2 + 4.5
    return (
        f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" {fill}{stroke}'
        f' stroke-width="1.5"/><text x="{x + w / 2:g}" y="{baseline:g}" text-anchor="middle"'
        f' fill="currentColor">{html.escape(text)}</text>'
    )


def _arrow(x: float, top: float, bottom: float) -> str:
    return (
        f'<path d="M{x} {top}V{bottom - 5}m-4 -1l4 6l4 -6" fill="none" stroke="currentColor"'
        ' stroke-width="1.5"/>'
    )
