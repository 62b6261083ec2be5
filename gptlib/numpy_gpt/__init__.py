"""The NumPy engine: a GPT with its backward pass written out. Imports no torch."""

from gptlib.numpy_gpt.check import check_gradients
from gptlib.numpy_gpt.model import NumpyGPT
from gptlib.numpy_gpt.optim import AdamW, clip_grad_norm

__all__ = ["AdamW", "NumpyGPT", "check_gradients", "clip_grad_norm"]
