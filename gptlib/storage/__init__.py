"""Models on disk: our own files, and published weights in and out.

May import the model, the engines and texts; knows no trainer, no run, no panel.
"""

from gptlib.storage import checkpoint, gguf, gpt2, llama

__all__ = ["checkpoint", "gguf", "gpt2", "llama"]
