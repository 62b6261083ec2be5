"""Weights of Llama's relatives: read from Hugging Face's folders, written back for others."""

from gptlib.storage.llama.names import their_names
from gptlib.storage.llama.reading import load
from gptlib.storage.llama.writing import export

__all__ = ["export", "load", "their_names"]
