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
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler
from matplotlib.figure import Figure as MplFigure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, LogitFormatter

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


LITERAL = "mathjax_ignore"  # class of what JupyterLab must not read as mathematics: "$5 and $6"

# An image cannot take the colours around it, so it brings its own: legible in a dark JupyterLab.
_CARD = "<style>:root { color: #1f2428; background: #fff }</style>"
_IMAGE = re.compile(r'<img src="data:image/svg\+xml,([^"]*)" alt="([^"]*)">')
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
        svg = re.sub("<svg[^>]*>", lambda tag: tag[0] + _CARD, self.svg, count=1)
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
    """Return HTML with the images of its Pictures drawn inline, so that they follow dark mode."""

    def drawn(image: re.Match[str]) -> str:
        svg = urllib.parse.unquote(image[1]).replace(_CARD, "", 1)
        return svg.replace("<svg", f'<svg role="img" aria-label="{image[2]}"', 1)

    return _IMAGE.sub(drawn, page)


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


def show(drawn: Any, *, caption: str, alt: str) -> Picture:
    """Turn the axes of `axes` into a Picture; end the cell with it.

    Args:
        drawn: one axes, an array of them, or their figure.
        caption: one or two sentences that state the finding, with units.
        alt: what is drawn, for readers who cannot see it.
    """
    if not isinstance(drawn, MplFigure):
        drawn = next(iter(getattr(drawn, "flat", [drawn]))).figure
    powers = _powers(drawn)
    for text in drawn.findobj(Text):
        text.set_parse_math(text in powers)  # "$x$" from data is a token, no formula
    buffer = io.StringIO()
    with plt.rc_context(_STYLE | {"text.parse_math": bool(powers)}):  # of ticks made from here on
        drawn.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # an XML header has no place inside a page
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(_INK, "currentColor")
    svg = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", svg)
    return Picture(svg, caption, alt)


def _powers(figure: MplFigure) -> set[Text]:
    """Return the labels that log axes make for themselves; they are formulas."""
    labels: set[Text] = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatter | LogitFormatter):
                labels.update(axis.get_ticklabels())
            if isinstance(axis.get_minor_formatter(), LogFormatter | LogitFormatter):
                labels.update(axis.get_ticklabels(minor=True))
    return labels


_NUMBER = re.compile(r"[-+−±≈~<>]? ?(\(?\d.*|nan|inf)?|[–—]")  # "2.5 MB" and "(2, 4)" too


@dataclass(frozen=True)
class Table:
    """Rows under a header, as HTML in a page and aligned text in a terminal.

    Columns of numbers are set to the right, columns of words to the left.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    @property
    def _words(self) -> list[bool]:
        """Say of each column whether it holds words."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.header)
        return [not all(_NUMBER.fullmatch(cell) for cell in column) for column in columns]

    def __str__(self) -> str:
        one_line = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})
        lines = [[c.translate(one_line) for c in cells] for cells in (self.header, *self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        text = [
            "  ".join(
                cell.ljust(width) if words or i == 0 else cell.rjust(width)
                for i, (cell, width, words) in enumerate(
                    zip(line, widths, self._words, strict=True)
                )
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*([self.caption] if self.caption else []), *text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def row(tag: str, cells: Sequence[str]) -> str:
            left = [' style="text-align: left"' if words else "" for words in self._words]
            made = [
                f"<{tag}{style}>{html.escape(cell)}</{tag}>"
                for cell, style in zip(cells, left, strict=True)
            ]
            return "<tr>" + "".join(made) + "</tr>"

        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        head, body = row("th", self.header), "".join(row("td", cells) for cells in self.rows)
        return (
            f'<table class="gpt-table {LITERAL}">{caption}<thead>{head}</thead>'
            f"<tbody>{body}</tbody></table>"
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
    if not 0 <= weight < 1:
        raise ValueError(f"weight must be in [0, 1), got {weight}")
    mean, smoothed = 0.0, []
    for i, value in enumerate(values, start=1):
        mean = weight * mean + (1 - weight) * value
        smoothed.append(mean / (1 - weight**i))
    return smoothed


def machine(cfg: GPTConfig, batch: int, length: int) -> Picture:
    """Draw the machine from ids to logits, with the tensor's shape beside each stage.

    The grey line is the residual stream: parts read from it on the right and are added back to it.

    Args:
        cfg: the model whose numbers are shown.
        batch, length: B and T of the token ids that go in.

    Raises:
        ValueError: a Post-LayerNorm model, which has its norms elsewhere.
    """
    if not cfg.norm_first:
        raise ValueError("machine draws norm_first=True only, got norm_first=False")
    B, T, C, V, N = batch, length, cfg.emb_dim, cfg.vocab_size, cfg.n_layers
    stream = f"({B}, {T}, {C})"
    stages = [  # name, height of its middle, shape, the same in letters
        ("token ids", 20, f"({B}, {T})", "B, T"),
        ("token table + position table", 134, stream, "B, T, C"),
        ("dropout", 177, stream, "B, T, C"),
        ("+ attention", 300, stream, "B, T, C"),
        ("+ feed-forward", 388, stream, "B, T, C"),
        ("final LayerNorm", 441, stream, "B, T, C"),
        ("logits", 550, f"({B}, {T}, {V})", "B, T, V"),
    ]
    parts = [
        _box(8, 4, 276, 32, None, "token ids"),
        *(_wire((x, 36), (x, 64)) for x in (34, 215)),
        _text(42, 54, "which token", size=11, anchor="start"),
        _text(207, 54, "which position", size=11, anchor="end"),
        _box(8, 64, 130, 44, EMBED, "token table", f"{V:,} × {C:,}"),
        _box(154, 64, 130, 44, EMBED, "position table", f"{cfg.context_length:,} × {C:,}"),
        _wire((34, 108), (34, 124)),
        _wire((215, 108), (215, 134), (44, 134)),
        _stream(34, 134, 163),
        _plus(34, 134),
        _box(8, 163, 130, 28, None, f"dropout {cfg.drop_rate:g}"),
        _stream(34, 191, 424),
        '<rect x="1" y="207" width="290" height="203" rx="10" fill="none" stroke="currentColor"'
        ' stroke-opacity="0.55" stroke-dasharray="5 4"/>',
        _text(282, 227, f"{N} equal block{'s' if N > 1 else ''}", anchor="end", bold=True),
    ]
    inside = [
        (236, "attention", f"{cfg.n_heads} heads × {cfg.head_dim}", ATTENTION),
        (324, "feed-forward", f"to {4 * C:,} and back", FEED_FORWARD),
    ]
    for y, name, note, colour in inside:
        parts += [
            _wire((38, y + 22), (62, y + 22)),
            _box(62, y, 90, 44, NORM, "LayerNorm"),
            _wire((152, y + 22), (168, y + 22)),
            _box(168, y, 116, 44, colour, name, note),
            _wire((226, y + 44), (226, y + 64), (44, y + 64)),
            _plus(34, y + 64),
        ]
    parts += [
        _box(8, 424, 276, 34, NORM, "final LayerNorm"),
        _wire((146, 458), (146, 474)),
        _box(8, 474, 276, 44, HEAD, "head", f"{C:,} to {V:,}"),
        _wire((146, 518), (146, 534)),
        _box(8, 534, 276, 32, None, "logits"),
    ]
    for _, y, shape, letters in stages:
        parts.append(_text(306, y + 1, shape, anchor="start", mono=True))
        parts.append(_text(306, y + 15, letters, size=11, anchor="start", mono=True))
    width = 310 + 8 * max(len(shape) for _, _, shape, _ in stages)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 570" width="{width}"'
        f' font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )
    caption = (
        f"{B} rows of {T} ids go in; {B} × {T} rows of {V:,} scores come out. From the first sum to"
        f" the final LayerNorm the grey residual stream keeps one shape, {stream}, so that a block"
        " can follow a block."
    )
    alt = (
        "The machine from top to bottom, with the tensor's shape after each stage: "
        + "; ".join(f"{name} {shape}" for name, _, shape, _ in stages)
        + f". Each of the {N} blocks reads the residual stream through LayerNorm and attention,"
        " then through LayerNorm and feed-forward, and adds each result back to it."
    )
    return Picture(svg, caption, alt)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 13,
    anchor: str = "middle",
    bold: bool = False,
    mono: bool = False,
) -> str:
    style = ' font-weight="600"' if bold else ""
    style += ' font-family="ui-monospace, monospace"' if mono else ""
    style += ' fill-opacity="0.8"' if size < 13 else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
        f' fill="currentColor"{style}>{html.escape(text)}</text>'
    )


def _box(
    x: float, y: float, w: float, h: float, colour: str | None, name: str, note: str = ""
) -> str:
    paint = (
        f'fill="{colour}" fill-opacity="0.18" stroke="{colour}"'
        if colour
        else 'fill="none" stroke="currentColor" stroke-opacity="0.55"'
    )
    middle, centre = y + h / 2 + 4.5, x + w / 2
    label = _text(centre, middle - 8 if note else middle, name, bold=True)
    label += _text(centre, middle + 9, note, size=11) if note else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" {paint}'
        f' stroke-width="1.5"/>{label}'
    )


def _wire(*corners: tuple[float, float]) -> str:
    """Draw a line through `corners`, each step along one axis, with an arrow head at its end."""
    (x, y), (end_x, end_y) = corners[-2:]
    dx, dy = (end_x > x) - (end_x < x), (end_y > y) - (end_y < y)
    left = f"{end_x - 6 * dx - 4 * dy:g} {end_y - 6 * dy - 4 * dx:g}"
    right = f"{end_x - 6 * dx + 4 * dy:g} {end_y - 6 * dy + 4 * dx:g}"
    line = "L".join(f"{a:g} {b:g}" for a, b in corners)
    return (
        f'<path d="M{line}M{left}L{end_x:g} {end_y:g}L{right}" fill="none" stroke="currentColor"'
        ' stroke-width="1.4"/>'
    )


def _stream(x: float, top: float, bottom: float) -> str:
    return f'<path d="M{x:g} {top:g}V{bottom:g}" stroke="{RESIDUAL}" stroke-width="8"/>'


def _plus(x: float, y: float) -> str:
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="10" fill="{RESIDUAL}"/>'
        f'<path d="M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10" stroke="#fff" stroke-width="2.4"/>'
    )
