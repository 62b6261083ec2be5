"""Muon: momentum whose matrices are made orthogonal before they are applied.

A gradient matrix is dominated by a few directions. Muon replaces the momentum M = U S V^T by the
nearest U V^T, so that all directions move equally far (Jordan et al., 2024; chapter "Training").
U V^T is approached by a fixed polynomial iteration, here on the small square M^T M of all matrices
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gptlib import parallel
from gptlib.model import GPT, whole
from gptlib.recipe import TrainConfig

# One odd polynomial a x + b x^3 + c x^5 per iteration. Each stays as near to 1 as such a one can
# over the singular values that its predecessor leaves, starting from 0.003 to 1 (Amsel et al.,
# 2025, "The Polar Express"; these three by Remez exchange): 0.003 to 1 end in 0.35 to 1.65.
# Reaching further down, to weak directions, trained better than ending nearer to 1.
POLYNOMIALS = (
    (8.383674, -24.765906, 18.357082),
    (4.04342, -3.011405, 0.569512),
    (3.505571, -2.626654, 0.525719),
)


@torch.no_grad()
def orthogonalize(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Return a matrix near U V^T for each matrix U S V^T.

    With X tall, each iteration maps X to X P(A) where A = X^T X and P(A) = a + b A + c A^2. All
    P commute with A, so A and the product of all P stay small squares, and X itself is
    touched twice only, at the start and at the end.

    Args:
        matrices: (n, m) each, in any mix of shapes.

    Returns:
        One new matrix per matrix, of its shape. Its singular values lie in 0.35 to 1.65, or below
        where those of the original are below 0.003 of the largest.
    """
    tall = [X if X.shape[0] >= X.shape[1] else X.mT for X in matrices]
    by_shape: dict[torch.Size, list[int]] = {}
    for i, X in enumerate(tall):
        by_shape.setdefault(X.shape, []).append(i)
    stacks = {shape: torch.stack([tall[i] for i in at]) for shape, at in by_shape.items()}
    result: list[Tensor] = [torch.empty(0)] * len(matrices)
    for side in {shape[1] for shape in stacks}:
        mine = [shape for shape in stacks if shape[1] == side]
        A = torch.cat([stacks[shape].mT @ stacks[shape] for shape in mine])  # (N, m, m)
        Q = _product_of_polynomials(A).split([len(stacks[shape]) for shape in mine])
        for shape, part in zip(mine, Q, strict=True):
            for i, Y in zip(by_shape[shape], stacks[shape] @ part, strict=True):
                result[i] = Y if matrices[i].shape == Y.shape and tall[i] is matrices[i] else Y.mT
    return result


def _product_of_polynomials(A: Tensor) -> Tensor:
    """Map the Gram matrices (N, m, m) of all X to the (N, m, m) by which X becomes orthogonal."""
    trace = A.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None] + 1e-30  # (N, 1, 1)
    A = A / trace  # a first scaling, so that nothing under- or overflows
    A2 = A @ A
    # The Schatten norm of order 8, (sum of s^8)^(1/8), bounds the largest singular value of X far
    # more tightly than the Frobenius norm would, and A^2 is needed anyway.
    bound = 1.01 * torch.linalg.matrix_norm(A2, keepdim=True).sqrt() + 1e-12  # of A's eigenvalues
    A, A2 = A / bound, A2 / bound**2
    Q: Tensor | None = None
    for i, (a, b, c) in enumerate(POLYNOMIALS):
        if i > 0:
            A2 = A @ A  # and not baddbmm, which takes more than twice as long on CPUs
        P = A2.mul_(c).add_(A, alpha=b)
        P.diagonal(dim1=-2, dim2=-1).add_(a)
        Q = P if Q is None else Q @ P
        if i < len(POLYNOMIALS) - 1:
            A = P @ A @ P
    assert Q is not None
    return Q / (bound.sqrt() * trace.sqrt())  # one by one: their product may underflow


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, made orthogonal, with decoupled weight decay, for matrices only.

    Args:
        params: matrices (n, m), or groups of them. A group's "parts" says into how many matrices
            of equal height each is cut, or gives their heights, as for a fused Q, K and V.
        lr: step size; each update has singular values near lr * every * sqrt(max(1, n / m)).
        momentum: memory of the gradient, in [0, 1).
        weight_decay: the weights shrink by lr * weight_decay per step.
        every: steps from one update of a matrix to its next, which goes so many times as far. The
            matrices take turns; the momentum sees every gradient.

    Sharded matrices (DTensor) are gathered for the update, which every process computes.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 2e-2,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        every: int = 1,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "parts": 1}
        super().__init__(params, defaults | {"every": every})
        for group in self.param_groups:
            for name in ("parts", "every"):
                whole = isinstance(group[name], int) and group[name] >= 1
                if not (whole or (name == "parts" and isinstance(group[name], tuple))):
                    raise ValueError(f"{name} must be an integer, at least 1; got {group[name]!r}")
            for param in group["params"]:
                if param.dim() != 2 or not _can_cut(param.shape[0], group["parts"]):
                    kind = "a multiple" if isinstance(group["parts"], int) else "the sum"
                    raise ValueError(
                        f"Muon needs matrices whose height is {kind} of {group['parts']},"
                        f" got the shape {tuple(param.shape)}"
                    )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take up all gradients, and update the matrices whose turn it is, all of them together."""
        turn: list[tuple[dict[str, Any], Tensor]] = []  # a matrix and its group
        pieces: list[tuple[Tensor, ...]] = []  # what each of them is cut into
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            for p in params:
                if not self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
                    self.state[p]["step"] = torch.zeros(())
                self.state[p]["step"] += 1
            grads, momenta = [p.grad for p in params], [self.state[p]["momentum"] for p in params]
            torch._foreach_lerp_(momenta, grads, 1 - group["momentum"])
            ahead = torch._foreach_lerp(grads, momenta, group["momentum"])  # Nesterov's look ahead
            for i, (p, u) in enumerate(zip(params, ahead, strict=True)):
                if (int(self.state[p]["step"]) + i) % group["every"] == 0:
                    turn.append((group, p))
                    pieces.append(_cut(whole(u), group["parts"]))
        directions = iter(orthogonalize([part for parts in pieces for part in parts]))
        for (group, p), cut in zip(turn, pieces, strict=True):
            parts, lr = [_scaled(next(directions)) for _ in cut], group["lr"] * group["every"]
            p.mul_(1 - lr * group["weight_decay"])
            direction = parts[0] if len(parts) == 1 else torch.cat(parts)
            p.add_(parallel.like(direction, p), alpha=-lr)


def _can_cut(height: int, parts: int | tuple[int, ...]) -> bool:
    return height % parts == 0 if isinstance(parts, int) else height == sum(parts)


def _cut(matrix: Tensor, parts: int | tuple[int, ...]) -> tuple[Tensor, ...]:
    return matrix.chunk(parts) if isinstance(parts, int) else matrix.split(parts)


def _scaled(direction: Tensor) -> Tensor:
    """Let a tall matrix (n, m) go further, by sqrt(n / m): each output then moves as far."""
    n, m = direction.shape
    return direction * (n / m) ** 0.5 if n > m else direction


def make_optimizers(model: GPT, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Return AdamW, and Muon beside it for the matrices of the blocks where the recipe says so.

    Each parameter is in exactly one group of one optimizer, a tied one once. Matrices and tables
    decay, biases and norms do not. A group's "ratio" is its rate over AdamW's.
    """
    qkv = model.cfg.qkv_dims  # three matrices stored in one
    matrices: dict[int | tuple[int, ...], list[torch.nn.Parameter]] = {1: [], qkv: []}
    rest: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}  # by whether they decay
    for name, param in model.named_parameters():
        if config.optimizer == "muon" and name.startswith("blocks.") and param.dim() == 2:
            matrices[qkv if name.endswith("qkv.weight") else 1].append(param)
        else:
            rest[param.dim() >= 2].append(param)
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [
                {
                    "params": params,
                    "weight_decay": config.weight_decay if decays else 0.0,
                    "ratio": 1.0,
                }
                for decays, params in rest.items()
            ],
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            fused=True,
        )
    ]
    if config.optimizer == "muon":
        ratio = config.muon_learning_rate / config.learning_rate
        optimizers.append(
            Muon(
                [
                    {"params": params, "parts": parts, "ratio": ratio}
                    for parts, params in matrices.items()
                ],
                lr=config.muon_learning_rate,
                momentum=config.momentum,
                weight_decay=config.weight_decay,
                every=config.muon_every,
            )
        )
    return optimizers
