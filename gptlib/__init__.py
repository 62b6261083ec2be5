"""A small, exact GPT to read, run and train.

The public names stand in `__init__.pyi`. They are imported on first use, so `import gptlib` is
quick and loads no torch.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
