"""Drawings made by hand, a file each; the colours are those of the parts they show."""

from gptlib.figures.drawings.attention_flow import attention_flow
from gptlib.figures.drawings.ladder import ladder
from gptlib.figures.drawings.machine import machine
from gptlib.figures.drawings.soft_search import soft_search

__all__ = ["attention_flow", "ladder", "machine", "soft_search"]
