"""The whole GPT in NumPy: the same function as `gptlib.GPT`, with every gradient written out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gptlib.config import TABLES, GPTConfig, check_config, parameter_shapes
from gptlib.numpy_gpt import ops
from gptlib.numpy_gpt.forward import ForwardGPT, Params
from gptlib.numpy_gpt.ops import Array, Ids, Saved

if TYPE_CHECKING:
    from torch import Tensor

    from gptlib.model import GPT


class NumpyGPT(ForwardGPT):
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
        shapes, kind = parameter_shapes(check_config(cfg)), _float_type(dtype)
        rng = np.random.default_rng(seed)
        params = {
            name: _laid_out(name, _draw(name, shapes, cfg, rng).astype(kind)) for name in shapes
        }
        super().__init__(cfg, params)

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
        loss, (stream, head, loss_saved) = self.loss_forward(idx, targets, rng)
        grads: Params = {}  # filled from the loss back to the tables
        V = self.cfg.vocab_size
        dx = ops.cross_entropy_backward(loss_saved).reshape(*idx.shape, V)  # (B*T, V) -> (B, T, V)
        dx = self._head_backward(dx, head, grads)
        for layer in reversed(range(self.cfg.n_layers)):
            dx = self.block_backward(dx, layer, stream[layer + 1], grads)
        saved_token, saved_position, saved_drop = stream[0]
        dx = self._drop_backward(dx, saved_drop)
        dtable = ops.embedding_backward(dx, saved_token)
        # A tied table is read at both ends of the machine, so its two gradients add up.
        grads["tok_emb.weight"] = dtable + grads.get("tok_emb.weight", 0)
        if self.cfg.positions == "learned":
            grads["pos_emb.weight"] = ops.embedding_backward(dx.sum(0), saved_position)
        return loss, {name: grads[name] for name in self.params}

    def _head_backward(self, dlogits: Array, saved: Saved, grads: Params) -> Array:
        saved_norm, saved_head = saved
        dx, grads[self.head_name()], _ = ops.linear_backward(dlogits, saved_head)
        return self._norm_backward("final_norm", dx, saved_norm, grads)

    def block_backward(self, dx: Array, layer: int, saved: Saved, grads: Params) -> Array:
        """Walk `block_forward` backwards: feed-forward first, then attention."""
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
        saved_qkv, saved_norms, turn, saved_attention, saved_out = saved
        name, (B, T, _) = f"blocks.{layer}.attn", dout.shape
        H, D = self.cfg.n_heads, self.cfg.head_dim
        dy = self._linear_backward(f"{name}.out_proj", dout, saved_out, grads)
        # (B, T, HD) -> (B, T, H, D) -> (B, H, T, D)
        dy = np.ascontiguousarray(dy.reshape(B, T, H, D).transpose(0, 2, 1, 3))
        dq, dk, dv = ops.attention_backward(dy, saved_attention)
        if turn is not None:
            dq, dk = ops.rotary_backward(dq, turn), ops.rotary_backward(dk, turn)
        if saved_norms:
            saved_q, saved_k = saved_norms
            dq = self._norm_backward(f"{name}.q_norm", dq, saved_q, grads)
            dk = self._norm_backward(f"{name}.k_norm", dk, saved_k, grads)
        dqkv = np.concatenate((dq, dk, dv), axis=1).transpose(0, 2, 1, 3)  # -> (B, T, H + 2G, D)
        return self._linear_backward(
            f"{name}.qkv", dqkv.reshape(B, T, sum(self.cfg.qkv_dims)), saved_qkv, grads
        )

    def _ff_backward(self, dout: Array, layer: int, saved: Saved, grads: Params) -> Array:
        saved_up, saved_gate, saved_bend, saved_down = saved
        name = f"blocks.{layer}.ff"
        dbent = self._linear_backward(f"{name}.down", dout, saved_down, grads)
        if not self.cfg.gated:
            dwide = self._op("backward")(dbent, saved_bend)
            return self._linear_backward(f"{name}.up", dwide, saved_up, grads)
        dgate, dwide = ops.swiglu_backward(dbent, saved_bend)
        dx = self._linear_backward(f"{name}.gate", dgate, saved_gate, grads)
        return dx + self._linear_backward(f"{name}.up", dwide, saved_up, grads)

    def _linear_backward(self, name: str, dout: Array, saved: Saved, grads: Params) -> Array:
        dx, grads[f"{name}.weight"], db = ops.linear_backward(dout, saved)
        if db is not None:
            grads[f"{name}.bias"] = db
        return dx

    def _norm_backward(self, name: str, dout: Array, saved: Saved, grads: Params) -> Array:
        if self.cfg.norm == "rms":
            dx, grads[f"{name}.scale"] = ops.rms_norm_backward(dout, saved)
            return dx
        dx, grads[f"{name}.scale"], dshift = ops.layer_norm_backward(dout, saved)
        if f"{name}.shift" in self.params:
            grads[f"{name}.shift"] = dshift
        return dx

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
        from gptlib.model import unwrapped  # noqa: PLC0415 (the engine works without torch)

        model, kind = unwrapped(model), _float_type(dtype)
        net = cls.__new__(cls)
        weights = {name: _to_numpy(weight, kind) for name, weight in model.weights().items()}
        ForwardGPT.__init__(
            net, model.cfg, {name: _laid_out(name, weights[name]) for name in weights}
        )
        return net

    def to_torch(self) -> GPT:
        """Return a torch model with copies of these weights, in the same precision."""
        import torch  # noqa: PLC0415 (the engine works without torch)

        from gptlib.model import GPT  # noqa: PLC0415 (the engine works without torch)

        state = {name: torch.from_numpy(p.copy(order="C")) for name, p in self.params.items()}
        return GPT.from_state(self.cfg, state)


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
    tall = param.ndim == 2 and param.shape[0] > param.shape[1] and name not in TABLES
    return np.asfortranarray(param) if tall else np.ascontiguousarray(param)


def _draw(
    name: str, shapes: dict[str, tuple[int, ...]], cfg: GPTConfig, rng: np.random.Generator
) -> Array:
    """Draw one parameter as `GPT` does under `init="gpt2"` or `init="torch"`."""
    shape = shapes[name]
    if name.endswith(".scale"):
        return np.ones(shape)
    if name.endswith(".shift"):
        return np.zeros(shape)
    if cfg.init == "torch":
        if name in TABLES:
            return rng.standard_normal(shape)
        inputs = shapes[name.removesuffix("bias").removesuffix("weight") + "weight"][1]
        return rng.uniform(-1, 1, shape) / math.sqrt(inputs)
    if name.endswith(".bias"):
        return np.zeros(shape)
    writes = name.endswith(("out_proj.weight", "ff.down.weight"))
    return rng.standard_normal(shape) * (0.02 / math.sqrt(2 * cfg.n_layers) if writes else 0.02)
