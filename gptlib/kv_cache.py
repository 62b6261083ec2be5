"""The key-value cache: what attention has already computed, kept by the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from gptlib._helpers.numbers import integer
from gptlib.config import GPTConfig, check_config


class KVCache:
    """Hold the keys and values of every layer for one batch of sequences.

    The caller creates the cache and passes it to `GPT.forward`; the model keeps nothing between
    calls, so two caches can be used in turn on one model. The memory is allocated once. Only the G
    heads of keys and values are kept, fewer than the model's heads where these share them.

    Args:
        cfg: the model's configuration.
        batch_size: B, number of sequences that grow side by side.
        max_len: most positions to hold; the model's `context_length` when None.
        dtype, device: of the stored tensors; those of the model that will use the cache.

    Raises:
        TypeError: `cfg` is no GPTConfig, or a size is not an integer.
        ValueError: a size is out of range; later, when the batch or the length does not fit.
    """

    def __init__(
        self,
        cfg: GPTConfig,
        batch_size: int = 1,
        max_len: int | None = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        max_len = check_config(cfg).context_length if max_len is None else max_len
        batch_size, max_len = integer("batch_size", batch_size, 1), integer("max_len", max_len)
        if not 1 <= max_len <= cfg.context_length:
            raise ValueError(
                f"max_len must be in 1..{cfg.context_length} (the context length), got {max_len}"
            )
        shape = (cfg.n_layers, batch_size, cfg.kv_heads, max_len, cfg.head_dim)
        self.keys = self._zeros(shape, dtype, device)  # (L, B, G, S_max, D)
        self.values = self._zeros(shape, dtype, device)  # (L, B, G, S_max, D)
        self.length = 0  # S, positions filled so far, the same in every layer

    @property
    def batch_size(self) -> int:
        """Return B, the number of sequences."""
        return self.keys.shape[1]

    @property
    def max_len(self) -> int:
        """Return the most positions the cache can hold."""
        return self.keys.shape[3]

    @property
    def nbytes(self) -> int:
        """Return the allocated bytes: 2 x layers x batch x positions x G D x bytes per value."""
        return self.keys.nbytes + self.values.nbytes

    def reset(self) -> None:
        """Forget every position, keeping the memory."""
        self.length = 0

    def check(self, cfg: GPTConfig, dtype: Any, batch_size: int, n_new: int) -> None:
        """Raise ValueError unless a model of this kind can append `n_new` positions per row."""
        layers, _, heads, _, head_dim = self.keys.shape
        made, got = (layers, heads, head_dim), (cfg.n_layers, cfg.kv_heads, cfg.head_dim)
        if made != got:
            raise ValueError(
                "the cache was made for another model: (layers, key-value heads, head size) are"
                f" {made} in the cache and {got} in the model"
            )
        if self.keys.dtype != dtype:
            raise ValueError(
                f"the cache holds {self.keys.dtype}, the model computes in {dtype};"
                " model.new_cache() makes one that fits"
            )
        if batch_size != self.batch_size:
            raise ValueError(
                f"the cache was made for a batch of {self.batch_size}, got a batch of {batch_size}"
            )
        if self.length + n_new > self.max_len:
            raise ValueError(
                f"the cache holds {self.length} of at most {self.max_len} positions,"
                f" {n_new} more do not fit; call reset() and read the window again"
            )

    def append(self, layer: int, k: Any, v: Any) -> tuple[Any, Any]:
        """Write one layer's new keys and values after the `length` old ones and return them all.

        The position moves only in `advance`, once per forward pass, so that every layer writes to
        the same place.

        Args:
            k, v: (B, G, T, D) for the T new positions.

        Returns:
            Views of shape (B, G, S, D), S = length + T.
        """
        end = self.length + k.shape[2]
        self.keys[layer, :, :, self.length : end] = k
        self.values[layer, :, :, self.length : end] = v
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]

    def advance(self, n_new: int) -> None:
        """Count `n_new` positions as filled, after all layers have appended them."""
        self.length += n_new

    def _zeros(self, shape: tuple[int, ...], dtype: Any, device: Any) -> Any:
        import torch  # noqa: PLC0415 (NumPy's cache works without torch)

        return torch.zeros(shape, dtype=dtype, device=device)


class NumpyKVCache(KVCache):
    """The same cache in NumPy arrays, for `NumpyGPT`."""

    def _zeros(self, shape: tuple[int, ...], dtype: Any, device: Any) -> Any:
        return np.zeros(shape, dtype)
