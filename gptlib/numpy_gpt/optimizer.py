"""AdamW and gradient clipping for a dictionary of arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gptlib.numpy_gpt.ops import Array


class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019), updating arrays in place.

    Matrices and tables decay, vectors (biases, scales, shifts) do not: the groups of the trainer.

    Args:
        params: the arrays to update, by name.
        learning_rate: default of `step`.
        beta1, beta2: memory of the gradient and of its square, in [0, 1).
        eps: keeps the division finite.
        weight_decay: share of a matrix removed per unit of learning rate.
    """

    def __init__(
        self,
        params: Mapping[str, Array],
        learning_rate: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.1,
    ) -> None:
        self.params = params
        self.learning_rate = learning_rate
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.weight_decay = weight_decay
        self.mean = {name: np.zeros_like(p) for name, p in params.items()}
        self.square = {name: np.zeros_like(p) for name, p in params.items()}
        self.steps = 0

    def step(self, grads: Mapping[str, Array], learning_rate: float | None = None) -> None:
        """Update every parameter once.

        The running means start at 0, so early ones are too small; dividing by 1 - beta^t makes
        them fair. Decay shrinks the weight itself and never enters the means.
        """
        rate = self.learning_rate if learning_rate is None else learning_rate
        self.steps += 1
        fair1 = 1 - self.beta1**self.steps
        fair2 = math.sqrt(1 - self.beta2**self.steps)
        for name, param in self.params.items():
            grad, mean, square = grads[name], self.mean[name], self.square[name]
            mean += (1 - self.beta1) * (grad - mean)
            square *= self.beta2
            square += (1 - self.beta2) * (grad * grad)
            if param.ndim >= 2:
                param *= 1 - rate * self.weight_decay
            update = np.sqrt(square)
            update /= fair2
            update += self.eps
            np.divide(mean, update, out=update)
            update *= rate / fair1
            param -= update


def clip_grad_norm(grads: Mapping[str, Array], max_norm: float) -> float:
    """Scale all gradients together, in place, so that their joint norm is at most `max_norm`.

    Returns:
        The norm before clipping.
    """
    norm = math.sqrt(sum(float(np.linalg.norm(grad)) ** 2 for grad in grads.values()))
    if norm > max_norm:
        for grad in grads.values():
            grad *= max_norm / (norm + 1e-6)  # torch's margin
    return norm
