"""Drawings made by hand, a file each; the colours are those of the parts they show."""

from gptlib.figures.drawings.block import block, norm_orders
from gptlib.figures.drawings.ladder import ladder
from gptlib.figures.drawings.machine import machine
from gptlib.figures.drawings.river import river

__all__ = ["block", "ladder", "machine", "norm_orders", "river"]
