"""Drawings made by hand, a file each; the colours are those of the parts they show."""

from gptlib.figures.drawings.batches import batches
from gptlib.figures.drawings.ladder import ladder
from gptlib.figures.drawings.machine import machine

__all__ = ["batches", "ladder", "machine"]
