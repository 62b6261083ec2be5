"""From text to token ids and back: tokenizers, corpora, token files of any size, Shakespeare.

May import the helpers only; runs without torch.
"""

from gptlib.text import byte_pair_files, byte_pairs, corpus, shards, tokenizers

__all__ = ["byte_pair_files", "byte_pairs", "corpus", "shards", "tokenizers"]
