"""Models of today from GGUF, the files of llama.cpp: read whole, turned into float32."""

from gptlib.storage.gguf.reading import load, read_config, smollm2
from gptlib.text.data_packages import smollm2_file as find

__all__ = ["find", "load", "read_config", "smollm2"]
