"""Real GPT-2 weights: read from the published files, written back for others, proven equal."""

from gptlib.storage.gpt2.names import is_transposed, their_name
from gptlib.storage.gpt2.proof import Verdict, verify
from gptlib.storage.gpt2.reading import load
from gptlib.storage.gpt2.writing import export

__all__ = ["Verdict", "export", "is_transposed", "load", "their_name", "verify"]
