"""The GPT in torch, from leaf to root: feed-forward, block, model.

Shape letters: B batch, T new positions, S all positions so far, C emb_dim, H heads, D head size,
V vocabulary, F middle of the feed-forward part. Norms and attention, the other leaves, have a file
of their own each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from gptlib._helpers.ids import (
    IGNORE,
    check_few,
    check_pair,
    check_range,
    check_rows,
    check_target_range,
)
from gptlib.attention import CausalSelfAttention, Trace
from gptlib.config import GPTConfig, check_config, misfit
from gptlib.kv_cache import KVCache
from gptlib.norms import make_norm

ACTIVATIONS = {
    # x * Phi(x) through tanh, the form GPT-2 was trained with (Hendrycks & Gimpel, 2016)
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,  # x * Phi(x) exactly, through erf
    "relu": F.relu,
    "silu": F.silu,  # x * sigmoid(x)
}


class FeedForward(nn.Module):
    """Widen each token, bend it, and narrow it again (chapter "GELU and feed-forward").

    A gate is a second way to widen: bent, it multiplies the first (Shazeer, 2020; SwiGLU with
    "silu").
    """

    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        C, F = cfg.emb_dim, cfg.ff_dim
        self.up = nn.Linear(C, F, bias=cfg.bias)
        self.gate = nn.Linear(C, F, bias=cfg.bias) if cfg.gated else None
        self.down = nn.Linear(F, C, bias=cfg.bias)
        self.activation = cfg.activation

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, C) to (B, T, C), each position by itself."""
        bend, wide = ACTIVATIONS[self.activation], self.up(x)  # (B, T, C) -> (B, T, F)
        return self.down(bend(wide) if self.gate is None else bend(self.gate(x)) * wide)


class Block(nn.Module):
    """One transformer block: attention, then feed-forward, each added to the residual stream.

    `norm_first` puts a norm before each part (GPT-2); otherwise it follows the addition, as in
    the 2017 transformer (Xiong et al., 2020, compare the two; chapter "Assembly").
    """

    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        self.attn = CausalSelfAttention(cfg)
        self.ff = FeedForward(cfg)
        self.norm1 = make_norm(cfg, cfg.emb_dim)
        self.norm2 = make_norm(cfg, cfg.emb_dim)
        self.drop = nn.Dropout(cfg.drop_rate)
        self.norm_first = cfg.norm_first

    def forward(
        self, x: Tensor, layer: int = 0, cache: KVCache | None = None, trace: Trace | None = None
    ) -> Tensor:
        """Map (B, T, C) to (B, T, C)."""
        if self.norm_first:
            x = x + self.drop(self.attn(self.norm1(x), layer, cache, trace))
            x = x + self.drop(self.ff(self.norm2(x)))
        else:
            x = self.norm1(x + self.drop(self.attn(x, layer, cache, trace)))
            x = self.norm2(x + self.drop(self.ff(x)))
        return x


class GPT(nn.Module):
    """The whole machine: token ids in, one row of V scores per position out.

    Weights are drawn from torch's global generator: call `torch.manual_seed` first to repeat them.
    `init="torch"` keeps each layer's own default, in an order that makes seed 123 reproduce source
    A's untrained model to the last id; `init="gpt2"` is described at `_init_gpt2`.
    """

    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        self.cfg = check_config(cfg)
        self.tok_emb = nn.Embedding(cfg.vocab_size, cfg.emb_dim)
        if cfg.positions == "learned":
            self.pos_emb = nn.Embedding(cfg.context_length, cfg.emb_dim)
        self.drop = nn.Dropout(cfg.drop_rate)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layers))
        self.final_norm = make_norm(cfg, cfg.emb_dim)
        self.head = nn.Linear(cfg.emb_dim, cfg.vocab_size, bias=False)
        if cfg.init == "gpt2":
            self._init_gpt2()
        if cfg.tie_weights:
            self.head.weight = self.tok_emb.weight  # one tensor under two names

    @classmethod
    def from_state(cls, cfg: GPTConfig, state: Mapping[str, Tensor]) -> GPT:
        """Build a model around the tensors of `state`; nothing is drawn and nothing is copied.

        Args:
            state: one tensor per parameter; a tied model needs no "head.weight".

        Raises:
            RuntimeError: torch's own, listing what is missing, unknown or misshapen.
        """
        with torch.device("meta"):  # shapes only
            model = cls(cfg)
        tied = {"head.weight": state["tok_emb.weight"]} if cfg.tie_weights else {}
        model.load_state_dict({**state, **tied}, assign=True)
        if cfg.tie_weights:
            model.head.weight = model.tok_emb.weight
        return model

    @torch.no_grad()
    def _init_gpt2(self) -> None:
        """Draw all matrices from N(0, 0.02) and set all biases to 0, as OpenAI's code does.

        Each block adds twice to the residual stream, so the two projections that write to it are
        divided by sqrt(2 n_layers): the stream's variance then does not grow with depth (Radford
        et al., 2019, section 2.3).
        """
        for name, param in self.named_parameters():
            if param.dim() == 2:
                writes = name.endswith(("out_proj.weight", "ff.down.weight"))
                param.normal_(0.0, 0.02 / math.sqrt(2 * self.cfg.n_layers) if writes else 0.02)
            elif name.endswith("bias"):
                param.zero_()

    def __call__(self, idx: Tensor, *, cache: KVCache | None = None, **more: Any) -> Tensor:
        """Check the ids at the door, then run `forward`, whose arguments these are.

        Compiled code checks shapes and types only. Repeated steps, whose ids were checked where
        they came from, go past this door.

        Raises:
            ValueError: wrong shape or dtype, an id outside the vocabulary, too many positions.
        """
        _check_ids(idx, 0 if cache is None else cache.length, self.cfg)
        return super().__call__(idx, cache=cache, **more)

    def forward(
        self, idx: Tensor, *, cache: KVCache | None = None, trace: Trace | None = None
    ) -> Tensor:
        """Score every possible next token at every position.

        Args:
            idx: (B, T) token ids; with a cache, the T ids that follow those already in it.
            cache: filled by this call and advanced by T positions; no gradients are kept then.
            trace: a dictionary that receives each stage's tensor by name; switches attention to
                the step-by-step path.

        Returns:
            logits: (B, T, V).

        Raises:
            ValueError: the cache was made for another model or batch, or is full.
        """
        if cache is not None and torch.is_grad_enabled():
            with torch.no_grad():  # a cache outlives the pass, its history must not
                return self.forward(idx, cache=cache, trace=trace)
        if cache is not None:
            cache.check(self.cfg, self.tok_emb.weight.dtype, *idx.shape)
        x = self.tok_emb(idx)  # (B, T) -> (B, T, C)
        if self.cfg.positions == "learned":
            start = 0 if cache is None else cache.length
            pos = torch.arange(start, start + idx.shape[1], device=idx.device)  # (T,)
            x = x + self.pos_emb(pos)  # (B, T, C) + (T, C)
        if trace is not None:
            trace["embeddings"] = x
        x = self.drop(x)
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, cache, trace)
            if trace is not None:
                trace[f"blocks.{layer}"] = x
        x = self.final_norm(x)
        if trace is not None:
            trace["final_norm"] = x
        if cache is not None:
            cache.advance(idx.shape[1])
        return self.head(x)  # (B, T, C) -> (B, T, V)

    def loss(self, idx: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy in nats per counted token; 0 when none is counted.

        Args:
            idx, targets: (B, T); targets[b, t] is the id that follows idx[b, t], or -100 where
                nothing is to be predicted.

        Raises:
            ValueError: as for the logits; targets of another shape or outside the vocabulary.
        """
        _check_targets(targets, idx, self.cfg)
        _check_ids(idx, 0, self.cfg)
        return next_token_loss(super().__call__(idx), targets)

    def new_cache(self, max_len: int | None = None) -> KVCache:
        """Return an empty cache for one sequence, in the model's dtype and on its device."""
        weight = self.tok_emb.weight
        return KVCache(self.cfg, max_len=max_len, dtype=weight.dtype, device=weight.device)

    @torch.no_grad()
    def next_logits(self, ids: Sequence[int], cache: KVCache | None = None) -> NDArray[np.float32]:
        """Return the (V,) scores of the token after `ids`, without dropout.

        The training mode of every part, the gradient mode and the random state are left as they
        were, also after an error. With a cache, `ids` follow those it holds.
        """
        check_few(ids, 0 if cache is None else cache.length, self.cfg)
        idx = torch.tensor([ids], device=self.tok_emb.weight.device)  # (1, T)
        with evaluating(self):
            logits = super().__call__(idx, cache=cache)  # (1, T, V)
        return logits[0, -1].float().cpu().numpy()

    def weights(self) -> dict[str, Tensor]:
        """Return every parameter by name, a tied one once, gathered where FSDP has sharded them.

        Raises:
            ValueError: they are not those of the configuration.
        """
        self.check_fits()
        return {name: whole(p.detach()).contiguous() for name, p in self.named_parameters()}

    def check_fits(self) -> None:
        """Raise ValueError where the parameters are not those that the configuration promises."""
        if wrong := misfit(self.cfg, {n: tuple(p.shape) for n, p in self.named_parameters()}):
            raise ValueError(
                f"the model is not as its configuration says: {wrong}; tie_weights must be True"
                " where the head is the token table, and only there"
            )

    def num_params(self) -> int:
        """Count the stored numbers; a tied head counts once."""
        return sum(param.numel() for param in self.parameters())


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of -log softmax(logits)[target] in nats over the targets not IGNOREd.

    Args:
        logits: (B, T, V).
        targets: (B, T); where all are ignored the loss is 0, with a gradient of 0.
    """
    flat = targets.flatten().long()  # (B, T) -> (B*T,)
    total = F.cross_entropy(logits.flatten(0, 1), flat, ignore_index=IGNORE, reduction="sum")
    return total / (flat != IGNORE).sum().clamp(min=1)


def loss_of_checked(model: GPT, idx: Tensor, targets: Tensor) -> Tensor:
    """Return `model.loss` for ids and targets that were checked where they came from."""
    if type(model).loss is not GPT.loss:
        return model.loss(idx, targets)  # a subclass's own
    logits: Tensor = nn.Module.__call__(model, idx)  # past the door of `GPT.__call__`
    return next_token_loss(logits, targets)


def unwrapped(model: nn.Module) -> GPT:
    """Return the GPT itself, also from inside what `torch.compile` returns.

    Raises:
        TypeError: it is none.
    """
    inner = getattr(model, "_orig_mod", model)
    if not isinstance(inner, GPT):
        raise TypeError(f"model must be a GPT, got {type(model).__name__}")
    return inner


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the block; every module then gets its own mode back."""
    training = [module for module in model.modules() if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def whole(x: Tensor) -> Tensor:
    """Gather a tensor that FSDP has sharded; any other is returned as it is. All must call it."""
    return x.full_tensor() if hasattr(x, "full_tensor") else x


_WHOLE = (torch.int64, torch.int32)


def _check_ids(idx: Tensor, start: int, cfg: GPTConfig) -> None:
    if not isinstance(idx, Tensor):
        raise ValueError(f"idx must be a tensor of shape (B, T), got {type(idx).__name__}")
    check_rows(idx, start, cfg, whole=idx.dtype in _WHOLE, kind="int64 or int32")
    if not torch.compiler.is_compiling():
        check_range(idx, cfg)


def _check_targets(targets: Tensor, idx: Tensor, cfg: GPTConfig) -> None:
    for name, ids in (("idx", idx), ("targets", targets)):
        if not isinstance(ids, Tensor):
            raise ValueError(f"{name} must be a tensor, got {type(ids).__name__}")
    check_pair(targets, idx, whole=targets.dtype in _WHOLE, kind="int64 or int32")
    if not torch.compiler.is_compiling():
        check_target_range(targets, cfg)
