"""The forward pass in NumPy: the function of `gptlib.GPT`, whatever multiplies its matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gptlib._helpers.ids import check_few, check_ids, check_targets
from gptlib.config import TABLES, GPTConfig, parameter_shapes
from gptlib.kv_cache import NumpyKVCache
from gptlib.numpy_gpt import ops
from gptlib.numpy_gpt.ops import Array, Ids, Saved

Params = dict[str, Array]  # under the torch model's names; a tied head has no entry of its own
Turn = tuple[Array, Array]  # cosines and sines (T, D/2) of the angles that positions turn by
Product = Callable[[str, Array], tuple[Array, Saved]]  # a matrix's name and (..., I) -> (..., O)


class ForwardGPT:
    """A GPT that reads: logits, loss and cache, without gradients.

    Args:
        cfg: the model's configuration, every switch of it.
        params: tables and norms by name, and the matrices where no `product` has them.
        product: multiplies (..., I) by the matrix of a part, "head" or "blocks.0.ff.up", and adds
            its bias; by default NumPy does, with the matrices in `params`.
    """

    def __init__(self, cfg: GPTConfig, params: Params, product: Product | None = None) -> None:
        self.cfg, self.params, self.product = cfg, params, product
        self.dtype = params["tok_emb.weight"].dtype

    def num_params(self) -> int:
        """Count the stored numbers; a tied head counts once."""
        return sum(math.prod(shape) for shape in parameter_shapes(self.cfg).values())

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
        check_ids(idx, 0 if cache is None else cache.length, self.cfg)
        x, _ = self._stream(idx, cache)
        return self._head_forward(x)[0]

    def new_cache(self, max_len: int | None = None) -> NumpyKVCache:
        """Return an empty cache for one sequence of at most `max_len` positions."""
        return NumpyKVCache(self.cfg, max_len=max_len, dtype=self.dtype)

    def next_logits(self, ids: Sequence[int], cache: NumpyKVCache | None = None) -> Array:
        """Return the (V,) scores of the token after `ids`; with a cache they follow its own."""
        check_few(ids, 0 if cache is None else cache.length, self.cfg)
        x, _ = self._stream(np.asarray([ids]), cache)
        return self._head_forward(x[:, -1:])[0][0, 0]  # only the last row meets the head

    def _stream(
        self,
        idx: Ids,
        cache: NumpyKVCache | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[Array, list[Saved]]:
        """Return the residual stream after the last block, (B, T, C), and what to save."""
        if cache is not None:
            cache.check(self.cfg, self.dtype, *idx.shape)
        start = 0 if cache is None else cache.length
        positions = np.arange(start, start + idx.shape[1])
        x, saved_token = ops.embedding_forward(idx, self.params["tok_emb.weight"])
        saved_position, turn = None, None
        if self.cfg.positions == "learned":
            table = self.params["pos_emb.weight"]
            position, saved_position = ops.embedding_forward(positions, table)
            x = x + position  # (B, T, C) + (T, C)
        else:
            angles = ops.rotary_turn(positions, self.cfg.head_dim, self.cfg.rotary_base)
            turn = angles[0].astype(self.dtype), angles[1].astype(self.dtype)
        x, saved_drop = self._drop_forward(x, rng)
        saved: list[Saved] = [(saved_token, saved_position, saved_drop)]
        for layer in range(self.cfg.n_layers):
            own = turn if self.cfg.turns(layer) else None
            x, saved_block = self.block_forward(x, layer, cache, rng, own)
            saved.append(saved_block)
        if cache is not None:
            cache.advance(idx.shape[1])
        return x, saved

    def block_forward(
        self,
        x: Array,
        layer: int,
        cache: NumpyKVCache | None,
        rng: np.random.Generator | None,
        turn: Turn | None = None,
    ) -> tuple[Array, Saved]:
        """Attention, then feed-forward, each normed before (Pre-LN) or after its addition."""
        saved = []
        for part, norm in ((self._attention_forward, "norm1"), (self._ff_forward, "norm2")):
            name = f"blocks.{layer}.{norm}"
            read = x
            if self.cfg.norm_first:
                read, saved_norm = self._norm_forward(name, read)
            branch, saved_part = part(read, layer, cache, rng, turn)
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
        turn: Turn | None,
    ) -> tuple[Array, Saved]:
        name, (B, T, _) = f"blocks.{layer}.attn", x.shape
        H, G, D = self.cfg.n_heads, self.cfg.kv_heads, self.cfg.head_dim
        qkv, saved_qkv = self._linear_forward(f"{name}.qkv", x)  # (B, T, (H + 2G) D)
        # -> (B, T, H + 2G, D) -> (B, H + 2G, T, D)
        heads = np.ascontiguousarray(qkv.reshape(B, T, H + 2 * G, D).transpose(0, 2, 1, 3))
        qk, v = heads[:, : H + G], heads[:, H + G :]
        saved_norms: Saved = ()
        if self.cfg.qk_norm:
            q, saved_q = self._norm_forward(f"{name}.q_norm", qk[:, :H])
            k, saved_k = self._norm_forward(f"{name}.k_norm", qk[:, H:])
            qk, saved_norms = np.concatenate((q, k), axis=1), (saved_q, saved_k)
        if turn is not None:
            qk, _ = ops.rotary_forward(qk, *turn)
        q, k = qk[:, :H], qk[:, H:]
        if cache is not None:
            k, v = cache.append(layer, k, v)  # (B, G, T, D) -> (B, G, S, D)
        drop = None
        if rng is not None and self.cfg.drop_rate > 0:
            shape = (B, H, T, k.shape[2])
            drop = ops.dropout_mask(shape, self.cfg.drop_rate, rng, self.dtype)
        y, saved_attention = ops.attention_forward(q, k, v, drop)
        y = y.transpose(0, 2, 1, 3).reshape(
            B, T, H * D
        )  # (B, H, T, D) -> (B, T, H, D) -> (B, T, HD)
        out, saved_out = self._linear_forward(f"{name}.out_proj", y)
        return out, (saved_qkv, saved_norms, turn, saved_attention, saved_out)

    def _ff_forward(self, x: Array, layer: int, *_: Any) -> tuple[Array, Saved]:
        name = f"blocks.{layer}.ff"
        wide, saved_up = self._linear_forward(f"{name}.up", x)  # (B, T, C) -> (B, T, F)
        saved_gate: Saved = ()
        if self.cfg.gated:
            if self.product is not None:
                wide, gate = np.split(wide, 2, axis=-1)  # one product for both, see `matrices`
            else:
                gate, saved_gate = self._linear_forward(f"{name}.gate", x)
            bent, saved_bend = ops.swiglu_forward(gate, wide, self.cfg.activation)
        else:
            bent, saved_bend = self._op("forward")(wide)
        down, saved_down = self._linear_forward(f"{name}.down", bent)
        return down, (saved_up, saved_gate, saved_bend, saved_down)

    def _head_forward(self, x: Array) -> tuple[Array, Saved]:
        x, saved_norm = self._norm_forward("final_norm", x)
        logits, saved_head = self._linear_forward("head", x)
        return logits, (saved_norm, saved_head)

    def loss(self, idx: Ids, targets: Ids, rng: np.random.Generator | None = None) -> float:
        """Return the mean cross-entropy in nats over the (B, T) targets that are not ignored.

        With `rng`, which draws the masks, under dropout.
        """
        return self.loss_forward(idx, targets, rng)[0]

    def loss_forward(
        self, idx: Ids, targets: Ids, rng: np.random.Generator | None
    ) -> tuple[float, tuple[list[Saved], Saved, Saved]]:
        """Return the loss and what `loss_and_grads` needs: of the stream, the head, the loss."""
        check_targets(targets, idx, self.cfg)
        check_ids(idx, 0, self.cfg)
        x, stream = self._stream(idx, rng=rng)
        logits, head = self._head_forward(x)
        # (B, T, V) -> (B*T, V), (B, T) -> (B*T,)
        flat = logits.reshape(-1, self.cfg.vocab_size), targets.reshape(-1)
        loss, loss_saved = ops.cross_entropy_forward(*flat)
        return loss, (stream, head, loss_saved)

    # The parts by name ------------------------------------------------------------------------

    def matrices(self) -> Iterator[tuple[str, Array, Array | None]]:
        """Yield every part that multiplies: its name, its (out, in) weights, its bias.

        A gate lies below the matrix beside it, under that one's name: a product less per block.
        """
        for name, weight in self.params.items():
            part = name.removesuffix(".weight")
            if weight.ndim != 2 or name in TABLES or part.endswith("ff.gate"):
                continue
            bias = self.params.get(f"{part}.bias")
            if part.endswith("ff.up") and self.cfg.gated:
                gate = part.replace("up", "gate")
                weight = np.concatenate((weight, self.params[f"{gate}.weight"]))
                bias = None if bias is None else np.append(bias, self.params[f"{gate}.bias"])
            yield part, weight, bias
        if self.cfg.tie_weights:
            yield "head", self.params[self.head_name()], None

    def head_name(self) -> str:
        """Return the name of the matrix that scores the vocabulary."""
        return "tok_emb.weight" if self.cfg.tie_weights else "head.weight"

    def _op(self, direction: str) -> Any:
        return getattr(ops, f"{self.cfg.activation}_{direction}")

    def _linear_forward(self, name: str, x: Array) -> tuple[Array, Saved]:
        if self.product is not None:
            return self.product(name, x)
        weight = self.head_name() if name == "head" else f"{name}.weight"
        return ops.linear_forward(x, self.params[weight], self.params.get(f"{name}.bias"))

    def _norm_forward(self, name: str, x: Array) -> tuple[Array, Saved]:
        scale, eps = self.params[f"{name}.scale"], self.cfg.norm_eps
        if self.cfg.norm == "rms":
            return ops.rms_norm_forward(x, scale, eps)
        return ops.layer_norm_forward(x, scale, self.params.get(f"{name}.shift", 0), eps)

    def _drop_forward(
        self, x: Array, rng: np.random.Generator | None
    ) -> tuple[Array, Saved | None]:
        if rng is None or self.cfg.drop_rate == 0:
            return x, None
        return ops.dropout_forward(x, ops.dropout_mask(x.shape, self.cfg.drop_rate, rng, x.dtype))
