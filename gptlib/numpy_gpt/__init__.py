"""The same function by hand: a GPT in NumPy with its backward pass written out, and packed weights.

May import configuration, cache and, to convert, the torch model; all but `packed` runs without
torch.
"""

from gptlib.numpy_gpt.check import check_gradients
from gptlib.numpy_gpt.forward import ForwardGPT
from gptlib.numpy_gpt.model import NumpyGPT
from gptlib.numpy_gpt.optimizer import AdamW, clip_grad_norm

__all__ = ["AdamW", "ForwardGPT", "NumpyGPT", "check_gradients", "clip_grad_norm"]
