"""Drawings made by hand, a file each; the colours are those of the parts they show."""

from gptlib.figures.drawings.attention_flow import attention_flow
from gptlib.figures.drawings.backward import backward_graph, backward_machine, backward_rules
from gptlib.figures.drawings.batches import batches
from gptlib.figures.drawings.block import block, norm_orders
from gptlib.figures.drawings.dice import dice
from gptlib.figures.drawings.ladder import ladder
from gptlib.figures.drawings.machine import machine
from gptlib.figures.drawings.merging import merging
from gptlib.figures.drawings.norm_axes import norm_axes
from gptlib.figures.drawings.parameters import parameters
from gptlib.figures.drawings.prefill_decode import prefill_decode
from gptlib.figures.drawings.river import river
from gptlib.figures.drawings.soft_search import soft_search
from gptlib.figures.drawings.widening import widening
from gptlib.figures.drawings.writing import writing

__all__ = [
    "attention_flow",
    "backward_graph",
    "backward_machine",
    "backward_rules",
    "batches",
    "block",
    "dice",
    "ladder",
    "machine",
    "merging",
    "norm_axes",
    "norm_orders",
    "parameters",
    "prefill_decode",
    "river",
    "soft_search",
    "widening",
    "writing",
]
