"""The whole GPT in NumPy: the same function as `gptlib.GPT`, with every gradient written out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gptlib.config import GPTConfig, check_config
from gptlib.kv_cache import NumpyKVCache
from gptlib.numpy_gpt import ops
from gptlib.numpy_gpt.ops import Array, Ids, Saved

if TYPE_CHECKING:
    from torch import Tensor

    from gptlib.model import GPT

Params = dict[str, Array]  # under the torch model's names; a tied head has no entry of its own


class NumpyGPT:
    """A GPT whose parameters are a dictionary of arrays and whose backward pass is plain code.

    Args:
        cfg: the model's configuration, every switch of it.
        seed: of the initial weights, drawn from the distributions that `GPT` uses.
        dtype: np.float32 to train and to generate, np.float64 to check gradients.

    Raises:
        TypeError: `cfg` is no GPTConfig.
        ValueError: another dtype.
    """

    def __init__(
        self, cfg: GPTConfig, seed: int = 0, dtype: type[np.floating[Any]] = np.float32
    ) -> None:
        self.cfg, self.dtype = check_config(cfg), _float_type(dtype)
        rng = np.random.default_rng(seed)
        self.params: Params = {
            name: _laid_out(name, _draw(name, shape, cfg, rng).astype(self.dtype))
            for name, shape in parameter_shapes(cfg).items()
        }

    def num_params(self) -> int:
        """Count the stored numbers; a tied head counts once."""
        return sum(param.size for param in self.params.values())

    # Forward ----------------------------------------------------------------------------------

    def forward(self, idx: Ids, cache: NumpyKVCache | None = None) -> Array:
        """Score every possible next token at every position.

        Args:
            idx: (B, T) token ids; with a cache, the T ids that follow those already in it.
            cache: filled by this call and advanced by T positions.

        Returns:
            logits: (B, T, V).

        Raises:
            ValueError: wrong shape or dtype, an id outside the vocabulary, too many positions.
        """
        x, _ = self._stream(idx, cache)
        return self._head_forward(x)[0]

    def new_cache(self, max_len: int | None = None) -> NumpyKVCache:
        """Return an empty cache for one sequence of at most `max_len` positions."""
        return NumpyKVCache(self.cfg, max_len=max_len, dtype=self.dtype)

    def next_logits(self, ids: Sequence[int], cache: NumpyKVCache | None = None) -> Array:
        """Return the (V,) scores of the token after `ids`; with a cache they follow its own."""
        x, _ = self._stream(np.asarray([ids]), cache)
        return self._head_forward(x[:, -1:])[0][0, 0]  # only the last row meets the head

    def _stream(
        self,
        idx: Ids,
        cache: NumpyKVCache | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[Array, list[Saved]]:
        """Return the residual stream after the last block, (B, T, C), and what to save."""
        start = 0 if cache is None else cache.length
        check_ids(idx, start, self.cfg)
        if cache is not None:
            cache.check(self.cfg, self.dtype, *idx.shape)
        positions = np.arange(start, start + idx.shape[1])
        token, saved_token = ops.embedding_forward(idx, self.params["tok_emb.weight"])
        position, saved_position = ops.embedding_forward(positions, self.params["pos_emb.weight"])
        x, saved_drop = self._drop_forward(token + position, rng)  # (B, T, C) + (T, C)
        saved: list[Saved] = [(saved_token, saved_position, saved_drop)]
        for layer in range(self.cfg.n_layers):
            x, saved_block = self._block_forward(x, layer, cache, rng)
            saved.append(saved_block)
        if cache is not None:
            cache.advance(idx.shape[1])
        return x, saved

    def _block_forward(
        self,
        x: Array,
        layer: int,
        cache: NumpyKVCache | None,
        rng: np.random.Generator | None,
    ) -> tuple[Array, Saved]:
        """Attention, then feed-forward, each normed before (Pre-LN) or after its addition."""
        saved = []
        for part, norm in ((self._attention_forward, "norm1"), (self._ff_forward, "norm2")):
            name = f"blocks.{layer}.{norm}"
            read = x
            if self.cfg.norm_first:
                read, saved_norm = self._norm_forward(name, read)
            branch, saved_part = part(read, layer, cache, rng)
            branch, saved_drop = self._drop_forward(branch, rng)
            x = ops.residual_forward(x, branch)
            if not self.cfg.norm_first:
                x, saved_norm = self._norm_forward(name, x)
            saved.append((saved_norm, saved_part, saved_drop))
        return x, tuple(saved)

    def _attention_forward(
        self,
        x: Array,
        layer: int,
        cache: NumpyKVCache | None,
        rng: np.random.Generator | None,
    ) -> tuple[Array, Saved]:
        B, T, C = x.shape
        H, D = self.cfg.n_heads, self.cfg.head_dim
        qkv, saved_qkv = self._linear_forward(f"blocks.{layer}.attn.qkv", x)  # (B, T, 3C)
        # (B, T, 3C) -> (B, T, 3, H, D) -> (3, B, H, T, D)
        q, k, v = np.ascontiguousarray(qkv.reshape(B, T, 3, H, D).transpose(2, 0, 3, 1, 4))
        if cache is not None:
            k, v = cache.append(layer, k, v)  # (B, H, T, D) -> (B, H, S, D)
        drop = None
        if rng is not None and self.cfg.drop_rate > 0:
            shape = (B, H, T, k.shape[2])
            drop = ops.dropout_mask(shape, self.cfg.drop_rate, rng, self.dtype)
        y, saved_attention = ops.attention_forward(q, k, v, drop)
        y = y.transpose(0, 2, 1, 3).reshape(B, T, C)  # (B, H, T, D) -> (B, T, H, D) -> (B, T, C)
        out, saved_out = self._linear_forward(f"blocks.{layer}.attn.out_proj", y)
        return out, (saved_qkv, saved_attention, saved_out)

    def _ff_forward(self, x: Array, layer: int, *_: Any) -> tuple[Array, Saved]:
        up, saved_up = self._linear_forward(f"blocks.{layer}.ff.up", x)  # (B, T, 4C)
        bent, saved_bend = self._op("forward")(up)
        down, saved_down = self._linear_forward(f"blocks.{layer}.ff.down", bent)
        return down, (saved_up, saved_bend, saved_down)

    def _head_forward(self, x: Array) -> tuple[Array, Saved]:
        x, saved_norm = self._norm_forward("final_norm", x)
        logits, saved_head = self._linear_forward("head", x)
        return logits, (saved_norm, saved_head)

    # Backward ---------------------------------------------------------------------------------

    def loss(self, idx: Ids, targets: Ids, rng: np.random.Generator | None = None) -> float:
        """Return the mean cross-entropy in nats over the (B, T) targets that are not ignored.

        With `rng`, which draws the masks, under dropout.
        """
        return self._loss_forward(idx, targets, rng)[0]

    def loss_and_grads(
        self, idx: Ids, targets: Ids, rng: np.random.Generator | None = None
    ) -> tuple[float, Params]:
        """Return the loss and its gradient by every parameter, under the parameter's name.

        Args:
            idx, targets: (B, T); targets[b, t] is the id that follows idx[b, t], or `ops.IGNORE`.
            rng: draws the dropout masks; without it there is no dropout.

        Raises:
            ValueError: ids or targets of the wrong shape or dtype, or outside the vocabulary.
        """
        loss, (stream, head, loss_saved) = self._loss_forward(idx, targets, rng)
        grads: Params = {}  # filled from the loss back to the tables
        V = self.cfg.vocab_size
        dx = ops.cross_entropy_backward(loss_saved).reshape(*idx.shape, V)  # (B*T, V) -> (B, T, V)
        dx = self._head_backward(dx, head, grads)
        for layer in reversed(range(self.cfg.n_layers)):
            dx = self._block_backward(dx, layer, stream[layer + 1], grads)
        saved_token, saved_position, saved_drop = stream[0]
        dx = self._drop_backward(dx, saved_drop)
        dtable = ops.embedding_backward(dx, saved_token)
        # A tied table is read at both ends of the machine, so its two gradients add up.
        grads["tok_emb.weight"] = dtable + grads.get("tok_emb.weight", 0)
        grads["pos_emb.weight"] = ops.embedding_backward(dx.sum(0), saved_position)
        return loss, {name: grads[name] for name in self.params}

    def _loss_forward(
        self, idx: Ids, targets: Ids, rng: np.random.Generator | None
    ) -> tuple[float, tuple[list[Saved], Saved, Saved]]:
        check_targets(targets, idx, self.cfg)
        x, stream = self._stream(idx, rng=rng)
        logits, head = self._head_forward(x)
        # (B, T, V) -> (B*T, V), (B, T) -> (B*T,)
        flat = logits.reshape(-1, self.cfg.vocab_size), targets.reshape(-1)
        loss, loss_saved = ops.cross_entropy_forward(*flat)
        return loss, (stream, head, loss_saved)

    def _head_backward(self, dlogits: Array, saved: Saved, grads: Params) -> Array:
        saved_norm, saved_head = saved
        dx, grads[self.head_name()], _ = ops.linear_backward(dlogits, saved_head)
        return self._norm_backward("final_norm", dx, saved_norm, grads)

    def _block_backward(self, dx: Array, layer: int, saved: Saved, grads: Params) -> Array:
        """Walk `_block_forward` backwards: feed-forward first, then attention."""
        parts = ((self._attention_backward, "norm1"), (self._ff_backward, "norm2"))
        for (part, norm), saved_half in zip(reversed(parts), reversed(saved), strict=True):
            name = f"blocks.{layer}.{norm}"
            saved_norm, saved_part, saved_drop = saved_half
            if not self.cfg.norm_first:
                dx = self._norm_backward(name, dx, saved_norm, grads)
            dx, dbranch = ops.residual_backward(dx)
            dbranch = self._drop_backward(dbranch, saved_drop)
            dread = part(dbranch, layer, saved_part, grads)
            if self.cfg.norm_first:
                dread = self._norm_backward(name, dread, saved_norm, grads)
            dx = dx + dread  # x was used twice: on the stream and by the branch
        return dx

    def _attention_backward(self, dout: Array, layer: int, saved: Saved, grads: Params) -> Array:
        saved_qkv, saved_attention, saved_out = saved
        B, T, C = dout.shape
        H, D = self.cfg.n_heads, self.cfg.head_dim
        dy = self._linear_backward(f"blocks.{layer}.attn.out_proj", dout, saved_out, grads)
        # (B, T, C) -> (B, T, H, D) -> (B, H, T, D)
        dy = np.ascontiguousarray(dy.reshape(B, T, H, D).transpose(0, 2, 1, 3))
        dqkv = np.stack(ops.attention_backward(dy, saved_attention))  # (3, B, H, T, D)
        dqkv = dqkv.transpose(1, 3, 0, 2, 4).reshape(
            B, T, 3 * C
        )  # -> (B, T, 3, H, D) -> (B, T, 3C)
        return self._linear_backward(f"blocks.{layer}.attn.qkv", dqkv, saved_qkv, grads)

    def _ff_backward(self, dout: Array, layer: int, saved: Saved, grads: Params) -> Array:
        saved_up, saved_bend, saved_down = saved
        dbent = self._linear_backward(f"blocks.{layer}.ff.down", dout, saved_down, grads)
        dup = self._op("backward")(dbent, saved_bend)
        return self._linear_backward(f"blocks.{layer}.ff.up", dup, saved_up, grads)

    # The parts by name ------------------------------------------------------------------------

    def head_name(self) -> str:
        """Return the name of the matrix that scores the vocabulary."""
        return "tok_emb.weight" if self.cfg.tie_weights else "head.weight"

    def _op(self, direction: str) -> Any:
        return getattr(ops, f"{self.cfg.activation}_{direction}")

    def _linear_forward(self, name: str, x: Array) -> tuple[Array, Saved]:
        weight = self.head_name() if name == "head" else f"{name}.weight"
        return ops.linear_forward(x, self.params[weight], self.params.get(f"{name}.bias"))

    def _linear_backward(self, name: str, dout: Array, saved: Saved, grads: Params) -> Array:
        dx, grads[f"{name}.weight"], db = ops.linear_backward(dout, saved)
        if db is not None:
            grads[f"{name}.bias"] = db
        return dx

    def _norm_forward(self, name: str, x: Array) -> tuple[Array, Saved]:
        scale, shift = self.params[f"{name}.scale"], self.params[f"{name}.shift"]
        return ops.layer_norm_forward(x, scale, shift)

    def _norm_backward(self, name: str, dout: Array, saved: Saved, grads: Params) -> Array:
        dx, grads[f"{name}.scale"], grads[f"{name}.shift"] = ops.layer_norm_backward(dout, saved)
        return dx

    def _drop_forward(
        self, x: Array, rng: np.random.Generator | None
    ) -> tuple[Array, Saved | None]:
        if rng is None or self.cfg.drop_rate == 0:
            return x, None
        return ops.dropout_forward(x, ops.dropout_mask(x.shape, self.cfg.drop_rate, rng, x.dtype))

    def _drop_backward(self, dout: Array, saved: Saved | None) -> Array:
        return dout if saved is None else ops.dropout_backward(dout, saved)

    # To and from torch ------------------------------------------------------------------------

    @classmethod
    def from_torch(cls, model: GPT, dtype: type[np.floating[Any]] = np.float32) -> NumpyGPT:
        """Copy the weights of a torch model.

        Raises:
            TypeError: it is no GPT.
            ValueError: another dtype, or parameters that are not those of its configuration.
        """
        from gptlib.checkpoint import weights_of
        from gptlib.model import plain

        model = plain(model)
        net = cls.__new__(cls)
        net.cfg, net.dtype = model.cfg, _float_type(dtype)
        net.params = {
            name: _laid_out(name, _to_numpy(weight, net.dtype))
            for name, weight in weights_of(model).items()
        }
        return net

    def to_torch(self) -> GPT:
        """Return a torch model with copies of these weights, in the same precision."""
        import torch

        from gptlib.model import GPT

        state = {name: torch.from_numpy(p.copy(order="C")) for name, p in self.params.items()}
        return GPT.from_state(self.cfg, state)


def parameter_shapes(cfg: GPTConfig) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter under the torch model's name; (out, in) for matrices."""
    C = cfg.emb_dim
    shapes: dict[str, tuple[int, ...]] = {
        "tok_emb.weight": (cfg.vocab_size, C),
        "pos_emb.weight": (cfg.context_length, C),
    }
    for i in range(cfg.n_layers):
        for name, out, into, bias in (
            ("attn.qkv", 3 * C, C, cfg.qkv_bias),
            ("attn.out_proj", C, C, True),
            ("ff.up", 4 * C, C, True),
            ("ff.down", C, 4 * C, True),
        ):
            shapes[f"blocks.{i}.{name}.weight"] = (out, into)
            if bias:
                shapes[f"blocks.{i}.{name}.bias"] = (out,)
        for norm in ("norm1", "norm2"):
            shapes[f"blocks.{i}.{norm}.scale"] = shapes[f"blocks.{i}.{norm}.shift"] = (C,)
    shapes["final_norm.scale"] = shapes["final_norm.shift"] = (C,)
    if not cfg.tie_weights:
        shapes["head.weight"] = (cfg.vocab_size, C)
    return shapes


def _float_type(dtype: Any) -> np.dtype[Any]:
    found = None if dtype is None else np.dtype(dtype)  # NumPy would take None for float64
    if found is None or found not in (np.float32, np.float64):
        raise ValueError(f"dtype must be np.float32 or np.float64, got {found}")
    return found


def _to_numpy(tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    tensor = tensor.detach().cpu()
    if tensor.dtype.itemsize < 4:
        tensor = tensor.float()  # NumPy has no bfloat16
    return tensor.numpy().astype(dtype)  # a copy


def _laid_out(name: str, param: Array) -> Array:
    """Return the same numbers in the memory order that a product with one row reads fastest.

    Decoding does nothing but read weights. BLAS reads a matrix with more outputs than inputs
    fastest by columns; the token table stays in rows, which the embedding reads.
    """
    tall = param.ndim == 2 and param.shape[0] > param.shape[1] and "_emb" not in name
    return np.asfortranarray(param) if tall else np.ascontiguousarray(param)


def _draw(name: str, shape: tuple[int, ...], cfg: GPTConfig, rng: np.random.Generator) -> Array:
    """Draw one parameter as `GPT` does under `init="gpt2"` or `init="torch"`."""
    if name.endswith(".scale"):
        return np.ones(shape)
    if name.endswith(".shift"):
        return np.zeros(shape)
    if cfg.init == "torch":
        if "_emb" in name:
            return rng.standard_normal(shape)
        rows_in = 4 * cfg.emb_dim if "ff.down" in name else cfg.emb_dim
        return rng.uniform(-1, 1, shape) / math.sqrt(rows_in)
    if name.endswith(".bias"):
        return np.zeros(shape)
    writes = name.endswith(("out_proj.weight", "ff.down.weight"))
    return rng.standard_normal(shape) * (0.02 / math.sqrt(2 * cfg.n_layers) if writes else 0.02)


def check_ids(idx: Ids, start: int, cfg: GPTConfig) -> None:
    """Raise ValueError unless (B, T) ids can be read from position `start` on."""
    if not isinstance(idx, np.ndarray):
        raise ValueError(f"idx must be an array of shape (B, T), got {type(idx).__name__}")
    if idx.ndim != 2 or idx.shape[1] == 0:
        raise ValueError(f"idx must have shape (B, T), T at least 1; got {idx.shape}")
    if idx.dtype.kind not in "iu":
        raise ValueError(f"idx must hold integer token ids, got dtype {idx.dtype}")
    if start + idx.shape[1] > cfg.context_length:
        raise ValueError(
            f"{start + idx.shape[1]} positions exceed the context length {cfg.context_length}"
        )
    _check_range("token id", idx, (idx < 0) | (idx >= cfg.vocab_size), cfg)


def check_targets(targets: Ids, idx: Ids, cfg: GPTConfig) -> None:
    """Raise ValueError unless the targets are ids, or IGNORE, in the shape of idx."""
    for name, ids in (("idx", idx), ("targets", targets)):
        if not isinstance(ids, np.ndarray):
            raise ValueError(f"{name} must be an array, got {type(ids).__name__}")
    if targets.shape != idx.shape:
        raise ValueError(f"targets must have the shape of idx {idx.shape}, got {targets.shape}")
    if targets.dtype.kind not in "iu":
        raise ValueError(f"targets must hold integer token ids, got dtype {targets.dtype}")
    outside = ((targets < 0) & (targets != ops.IGNORE)) | (targets >= cfg.vocab_size)
    _check_range("target", targets, outside, cfg)


def _check_range(what: str, ids: Ids, outside: Any, cfg: GPTConfig) -> None:
    if outside.any():
        b, t = (int(i) for i in np.argwhere(outside)[0])
        raise ValueError(
            f"{what} {ids[b, t]} at row {b}, position {t} is outside the vocabulary"
            f" 0..{cfg.vocab_size - 1}"
        )
