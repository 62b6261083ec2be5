"""Tables and source code as the chapters show them, in a page and in a terminal."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gptlib.figures.pictures import LITERAL

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

    # By hand: tabulate pads and strips what cells hold, and leaves words to JupyterLab, which sets
    # them to the right.
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
        from pygments import highlight  # noqa: PLC0415 (comes with notebooks, not with gptlib)
        from pygments.formatters import HtmlFormatter  # noqa: PLC0415 (comes with notebooks, not with gptlib)
        from pygments.lexers import PythonLexer  # noqa: PLC0415 (comes with notebooks, not with gptlib)

        return highlight(self.code, PythonLexer(), HtmlFormatter(cssclass="highlight gpt-source"))


def source(thing: Any) -> Source:
    """Show the source of a class or function as it stands in the package."""
    return Source(textwrap.dedent(inspect.getsource(thing)).rstrip())
