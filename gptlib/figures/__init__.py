"""How the chapters draw: one palette, figures that follow dark mode, tables that print well.

May import configurations only.
"""

from gptlib.figures import drawings
from gptlib.figures.drawings import machine
from gptlib.figures.pictures import (
    ATTENTION,
    BROKEN,
    EMBED,
    FEED_FORWARD,
    HEAD,
    NORM,
    RESIDUAL,
    Picture,
    axes,
    inline,
    label_small_bars,
    show,
    smooth,
)
from gptlib.figures.tables import Source, Table, source, table

__all__ = [
    "ATTENTION",
    "BROKEN",
    "EMBED",
    "FEED_FORWARD",
    "HEAD",
    "NORM",
    "RESIDUAL",
    "Picture",
    "Source",
    "Table",
    "axes",
    "drawings",
    "inline",
    "label_small_bars",
    "machine",
    "show",
    "smooth",
    "source",
    "table",
]
