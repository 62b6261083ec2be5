"""Interactive panels: ordinary widgets in JupyterLab, alive without a kernel in the built book.

May import everything but the command line; nothing imports it.
"""

from __future__ import annotations

from gptlib.panels.attention import AttentionPanel
from gptlib.panels.base import Panel
from gptlib.panels.depth import DepthPanel
from gptlib.panels.gelu import GeluPanel
from gptlib.panels.kv_cache import CachePanel
from gptlib.panels.layer_norm import LayerNormPanel
from gptlib.panels.ledger import LedgerPanel
from gptlib.panels.machine import MachinePanel
from gptlib.panels.merges import MergesPanel
from gptlib.panels.pairs import PairsPanel
from gptlib.panels.playground import PlaygroundPanel
from gptlib.panels.questions import QuestionsPanel, ask
from gptlib.panels.replay import ReplayPanel

__all__ = [
    "AttentionPanel",
    "CachePanel",
    "DepthPanel",
    "GeluPanel",
    "LayerNormPanel",
    "LedgerPanel",
    "MachinePanel",
    "MergesPanel",
    "PairsPanel",
    "Panel",
    "PlaygroundPanel",
    "QuestionsPanel",
    "ReplayPanel",
    "ask",
]
