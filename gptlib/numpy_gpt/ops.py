"""Every operation of a GPT, forward and backward, in NumPy and by hand.

Each pair is pure: `op_forward(...) -> (out, saved)` and `op_backward(dout, saved) -> gradients`,
where `saved` is what backward needs and `dout` is dL/d(out), of the shape of `out`. The letter d in
front of a name always means the derivative of the loss L by that name.

Shape letters: B batch, T new positions, S all positions so far, C width, H heads, G heads of keys
and values, D head size, V vocabulary, N any number of rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gptlib._helpers.ids import IGNORE as IGNORE
from gptlib._helpers.ids import Ids as Ids
from gptlib.config import NORM_EPS

Array = NDArray[np.floating[Any]]
Saved = tuple[Any, ...]


# Linear ---------------------------------------------------------------------------------------


def linear_forward(x: Array, w: Array, b: Array | None) -> tuple[Array, Saved]:
    """Return x w^T + b: (..., I) by (O, I) and (O,) to (..., O)."""
    rows = x.reshape(-1, x.shape[-1])  # (..., I) -> (N, I): one large product, not many small ones
    out = rows @ w.T  # (N, I) @ (I, O) -> (N, O)
    if b is not None:
        out += b
    return out.reshape(*x.shape[:-1], w.shape[0]), (rows, w, b is not None, x.shape)


def linear_backward(dout: Array, saved: Saved) -> tuple[Array, Array, Array | None]:
    """Return dx (..., I), dw (O, I), db (O,) or None."""
    # out[n,o] = sum_i x[n,i] w[o,i] + b[o], so by the chain rule
    #   dx[n,i] = sum_o dout[n,o] w[o,i]    every output that x[n,i] feeds sends its share back
    #   dw[o,i] = sum_n dout[n,o] x[n,i]    every row that used w[o,i] adds its share
    #   db[o]   = sum_n dout[n,o]
    rows, w, has_bias, shape = saved
    dout = dout.reshape(-1, w.shape[0])  # (..., O) -> (N, O)
    dx = (dout @ w).reshape(shape)  # (N, O) @ (O, I) -> (N, I) -> (..., I)
    # (O, N) @ (N, I) -> (O, I), in the memory order of w, so that updating w reads both in step
    dw = dout.T @ rows if w.flags.c_contiguous else (rows.T @ dout).T
    return dx, dw, dout.sum(0) if has_bias else None


# Embedding ------------------------------------------------------------------------------------


def embedding_forward(ids: Ids, table: Array) -> tuple[Array, Saved]:
    """Return the rows of the table: ids (...) and table (V, C) to (..., C)."""
    return table[ids], (ids, table.shape)


def embedding_backward(dout: Array, saved: Saved) -> Array:
    """Return dtable (V, C)."""
    # out[n] = table[ids[n]] is a product with one-hot rows, so
    #   dtable[v] = sum of dout[n] over all n with ids[n] = v.
    # A token that occurs twice is counted twice: plain indexed assignment would keep only the last.
    # Sorting brings equal ids together; reduceat then sums each run of rows.
    ids, shape = saved
    dtable = np.zeros(shape, dout.dtype)
    order = np.argsort(ids, axis=None, kind="stable")
    ranked = ids.reshape(-1)[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]][: ranked.size])
    dtable[ranked[starts]] = np.add.reduceat(dout.reshape(-1, shape[1])[order], starts, axis=0)
    return dtable


# LayerNorm ------------------------------------------------------------------------------------


def layer_norm_forward(
    x: Array, scale: Array, shift: Array | float = 0, eps: float = NORM_EPS
) -> tuple[Array, Saved]:
    """Normalise the last axis to mean 0 and variance 1 (n in the divisor): (..., C) to (..., C)."""
    C = x.shape[-1]
    xhat = x - np.add.reduce(x, -1, keepdims=True) / C  # .mean() costs more than this whole line
    var = np.vecdot(xhat, xhat)[..., None] / C  # (..., 1)
    rstd = 1.0 / np.sqrt(var + eps)
    xhat *= rstd
    return xhat * scale + shift, (xhat, rstd, scale)


def layer_norm_backward(dout: Array, saved: Saved) -> tuple[Array, Array, Array]:
    """Return dx (..., C), dscale (C,), dshift (C,)."""
    # out = scale * xhat + shift, so dshift and dscale sum dout and dout * xhat over all rows, and
    # g = dout * scale is what reaches xhat = (x - mean) * rstd. x moves xhat on three paths:
    #   directly                       g * rstd
    #   through the mean               -mean(g) * rstd, because every x[i] lifts it by 1/C
    #   through the variance           -xhat * mean(g * xhat) * rstd
    # Their sum says: take from g its mean and its part along xhat; what LayerNorm throws away in
    # the forward pass, the offset and the length, can get no gradient in the backward pass.
    xhat, rstd, scale = saved
    C = xhat.shape[-1]
    dscale = np.einsum("nc,nc->c", dout.reshape(-1, C), xhat.reshape(-1, C))
    dshift = dout.reshape(-1, C).sum(0)
    dx = dout * scale
    along = np.vecdot(dx, xhat)[..., None] / C  # (..., 1)
    dx -= dx.mean(-1, keepdims=True)
    dx -= xhat * along
    dx *= rstd
    return dx, dscale, dshift


def rms_norm_forward(x: Array, scale: Array, eps: float = NORM_EPS) -> tuple[Array, Saved]:
    """Divide the last axis by the root of its mean square: (..., C) to (..., C)."""
    square = np.vecdot(x, x)[..., None] / x.shape[-1]  # (..., 1)
    rstd = 1.0 / np.sqrt(square + eps)
    xhat = x * rstd
    return xhat * scale, (xhat, rstd, scale)


def rms_norm_backward(dout: Array, saved: Saved) -> tuple[Array, Array]:
    """Return dx (..., C), dscale (C,)."""
    # LayerNorm without its mean: of the three paths two are left, so
    #   dx = (g - xhat * mean(g * xhat)) * rstd   with g = dout * scale.
    # The length is thrown away in the forward pass, and no gradient moves it.
    xhat, rstd, scale = saved
    C = xhat.shape[-1]
    dscale = np.einsum("nc,nc->c", dout.reshape(-1, C), xhat.reshape(-1, C))
    dx = dout * scale
    dx -= xhat * (np.vecdot(dx, xhat)[..., None] / C)
    dx *= rstd
    return dx, dscale


# Activations ----------------------------------------------------------------------------------

_K = math.sqrt(2 / math.pi)
_A = 0.044715


def gelu_tanh_forward(x: Array) -> tuple[Array, Saved]:
    """Return x (1 + tanh(k (x + a x^3))) / 2, GPT-2's form of GELU, element by element."""
    t = x * x
    t *= _A * _K
    t += _K
    t *= x
    np.tanh(t, out=t)  # in place: at this size a temporary array costs as much as the tanh
    out = t + 1.0
    out *= x
    out *= 0.5
    return out, (x, t)


def gelu_tanh_backward(dout: Array, saved: Saved) -> Array:
    """Return dx, element by element."""
    # out = x (1 + t) / 2 with t = tanh(u), u = k (x + a x^3), so by the product and chain rules
    #   dout/dx = (1 + t) / 2 + x (1 - t^2) u' / 2,   u' = k (1 + 3 a x^2)
    # because tanh' = 1 - tanh^2.
    x, t = saved
    slope = x * x
    slope *= 3 * _A * _K
    slope += _K
    slope *= x  # x u'
    slope *= 1.0 - t * t
    slope += t
    slope += 1.0
    slope *= 0.5
    slope *= dout
    return slope


_erf = np.frompyfunc(math.erf, 1, 1)  # NumPy has no erf; exact, and slow: one call per element


def gelu_forward(x: Array) -> tuple[Array, Saved]:
    """Return x Phi(x) with the exact normal distribution function, element by element."""
    phi = (1.0 + _erf(x / math.sqrt(2)).astype(x.dtype)) / 2
    return x * phi, (x, phi)


def gelu_backward(dout: Array, saved: Saved) -> Array:
    """Return dx, element by element."""
    # (x Phi(x))' = Phi(x) + x phi(x), where phi = Phi' is the bell curve exp(-x^2/2) / sqrt(2 pi).
    x, phi = saved
    return dout * (phi + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


def relu_forward(x: Array) -> tuple[Array, Saved]:
    """Return max(x, 0), element by element."""
    return np.maximum(x, 0), (x,)


def relu_backward(dout: Array, saved: Saved) -> Array:
    """Return dx, element by element."""
    # The slope is 1 where x > 0 and 0 where x < 0; at 0 itself we take 0, as torch does.
    (x,) = saved
    return dout * (x > 0)


def silu_forward(x: Array) -> tuple[Array, Saved]:
    """Return x sigmoid(x), element by element."""
    s = 0.5 * np.tanh(0.5 * x) + 0.5  # sigmoid(x) = (1 + tanh(x / 2)) / 2, which cannot overflow
    return x * s, (x, s)


def silu_backward(dout: Array, saved: Saved) -> Array:
    """Return dx, element by element."""
    # (x s)' = s + x s (1 - s), because sigmoid' = s (1 - s).
    x, s = saved
    return dout * s * (1.0 + x * (1.0 - s))


def swiglu_forward(gate: Array, wide: Array, bend: str = "silu") -> tuple[Array, Saved]:
    """Return silu(gate) * wide, both (..., F); another `bend` makes a relative, as GeGLU."""
    bent, saved_bend = globals()[f"{bend}_forward"](gate)
    return bent * wide, (bent, wide, saved_bend, bend)


def swiglu_backward(dout: Array, saved: Saved) -> tuple[Array, Array]:
    """Return dgate and dwide, (..., F) each."""
    # A product hands each factor the other one: dwide = dout bent, dbent = dout wide.
    bent, wide, saved_bend, bend = saved
    return globals()[f"{bend}_backward"](dout * wide, saved_bend), dout * bent


# Softmax and attention ------------------------------------------------------------------------


def softmax_forward(x: Array) -> tuple[Array, Saved]:
    """Return exp(x) / sum(exp(x)) along the last axis."""
    p = x - x.max(-1, keepdims=True)  # the same result, and exp cannot overflow
    np.exp(p, out=p)
    p /= p.sum(-1, keepdims=True)
    return p, (p,)


def softmax_backward(dout: Array, saved: Saved) -> Array:
    """Return dx of the shape of dout."""
    # p[i] depends on every x[j]: dp[i]/dx[j] = p[i] (1[i = j] - p[j]), so
    #   dx[j] = sum_i dout[i] p[i] (1[i = j] - p[j]) = p[j] (dout[j] - sum_i dout[i] p[i]).
    # An all-ones dout gives 0: raising every probability at once is impossible, they sum to 1.
    (p,) = saved
    dx = dout - np.vecdot(dout, p)[..., None]
    dx *= p
    return dx


def rotary_turn(positions: Ids, D: int, base: float) -> tuple[Array, Array]:
    """Return the cosines and sines (T, D/2) by which positions (T,) turn the D/2 pairs of a head.

    Pair i turns by base^(-2i/D) per position: the first quickly, the last hardly (Su et al., 2021).
    """
    angles = positions[:, None] * base ** (-np.arange(0, D, 2) / D)  # (T, D/2)
    return np.cos(angles), np.sin(angles)


def rotary_forward(x: Array, cos: Array, sin: Array) -> tuple[Array, Saved]:
    """Turn each pair of (B, H, T, D) by its angle, (T, D/2); i and i + D/2 are a pair."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1), (cos, sin)


def rotary_backward(dout: Array, saved: Saved) -> Array:
    """Return dx (B, H, T, D)."""
    # The pair (a, b) was multiplied by a rotation, and the transpose of a rotation turns back.
    cos, sin = saved
    return rotary_forward(dout, cos, -sin)[0]


def attention_forward(
    q: Array, k: Array, v: Array, drop: Array | None = None
) -> tuple[Array, Saved]:
    """Return softmax(q k^T / sqrt(D)) v with a causal mask.

    Args:
        q: (B, H, T, D), the T newest of the S positions.
        k, v: (B, G, S, D); H / G query heads in a row share a head of these.
        drop: dropout mask for the (B, H, T, S) weights, see `dropout_forward`.

    Returns:
        (B, H, T, D).
    """
    (B, H, T, D), (G, S) = q.shape, k.shape[1:3]
    rows = q.reshape(B, G, H // G * T, D)  # heads that share keys are more rows that meet them
    scores = rows @ k.swapaxes(-2, -1)  # (B, G, HT/G, D) @ (B, G, D, S) -> (B, G, HT/G, S)
    scores = scores.reshape(B, H, T, S)
    scores *= 1 / math.sqrt(D)
    if T > 1:  # one new position may read everything
        future = np.triu(np.ones((T, S), bool), S - T + 1)  # new position i sits at S - T + i
        np.copyto(scores, -np.inf, where=future)
    weights, _ = softmax_forward(scores)  # rows sum to 1, future positions are exactly 0
    used = (weights if drop is None else weights * drop).reshape(B, G, H // G * T, S)
    # (B, G, HT/G, S) @ (B, G, S, D) -> (B, G, HT/G, D) -> (B, H, T, D)
    return (used @ v).reshape(B, H, T, D), (rows, k, v, weights, used, drop)


def attention_backward(dout: Array, saved: Saved) -> tuple[Array, Array, Array]:
    """Return dq (B, H, T, D), dk (B, G, S, D), dv (B, G, S, D)."""
    # out = P v, P = softmax(Z), Z = q k^T / sqrt(D), each product differentiated like a linear:
    #   dv = P^T dout        (S, T) @ (T, D)
    #   dP = dout v^T        (T, D) @ (D, S)
    #   dZ = softmax_backward(dP): where P is 0, in the future, dZ is 0 too, so the mask needs no
    #        line of its own
    #   dq = dZ k / sqrt(D)  (T, S) @ (S, D)      dk = dZ^T q / sqrt(D)  (S, T) @ (T, D)
    # Keys that several heads share get the sum of what these send: their rows lie in one product.
    rows, k, v, weights, used, drop = saved
    dout_rows = dout.reshape(rows.shape)  # (B, H, T, D) -> (B, G, HT/G, D)
    dv = used.swapaxes(-2, -1) @ dout_rows
    dweights = (dout_rows @ v.swapaxes(-2, -1)).reshape(weights.shape)  # (B, H, T, S)
    if drop is not None:
        dweights *= drop
    dscores = softmax_backward(dweights, (weights,))
    dscores *= 1 / math.sqrt(rows.shape[-1])
    dscores = dscores.reshape(used.shape)  # -> (B, G, HT/G, S)
    return (dscores @ k).reshape(dout.shape), dscores.swapaxes(-2, -1) @ rows, dv


# Residual addition and dropout ----------------------------------------------------------------


def residual_forward(x: Array, branch: Array) -> Array:
    """Return x + branch, both (..., C); nothing has to be saved."""
    return x + branch


def residual_backward(dout: Array) -> tuple[Array, Array]:
    """Return dx and dbranch."""
    # d(x + branch)/dx = d(x + branch)/dbranch = 1: addition hands the gradient to both unchanged.
    return dout, dout


def dropout_mask(
    shape: tuple[int, ...], rate: float, rng: np.random.Generator, dtype: np.typing.DTypeLike
) -> Array:
    """Draw a mask: 0 with probability `rate`, else 1 / (1 - rate), so that the mean stays 1."""
    return ((rng.random(shape) >= rate) / (1 - rate)).astype(dtype)


def dropout_forward(x: Array, mask: Array) -> tuple[Array, Saved]:
    """Return x * mask."""
    return x * mask, (mask,)


def dropout_backward(dout: Array, saved: Saved) -> Array:
    """Return dx."""
    # Each element was multiplied by a constant, so its gradient is multiplied by the same one.
    (mask,) = saved
    return dout * mask


# Loss -----------------------------------------------------------------------------------------


def cross_entropy_forward(logits: Array, targets: Ids) -> tuple[float, Saved]:
    """Return the mean of -log softmax(logits)[target] in nats, over targets that are not IGNORE.

    Args:
        logits: (N, V).
        targets: (N,); when all are IGNORE the loss is 0.
    """
    counted = targets != IGNORE
    count = int(counted.sum())
    top = logits.max(-1, keepdims=True)
    p = np.exp(logits - top)  # (N, V)
    total = p.sum(-1, keepdims=True)  # (N, 1), at least 1
    p /= total
    safe = np.where(counted, targets, 0)
    # -log p[target] = log(total) + top - logits[target], which survives a p that rounds to 0
    rows = np.arange(len(targets))
    losses = np.log(total[:, 0]) + top[:, 0] - logits[rows, safe]
    loss = float(losses[counted].sum(dtype=np.float64)) / max(count, 1)
    return loss, (p, safe, counted, count)


def cross_entropy_backward(saved: Saved) -> Array:
    """Return dlogits (N, V) for dL/dloss = 1."""
    # loss[n] = logsumexp(logits[n]) - logits[n, target], and d logsumexp/d logits = softmax, so
    #   dlogits[n, v] = (p[n, v] - 1[v = target]) / count, and 0 in rows that are not counted:
    # the gradient is the difference between what was predicted and what came.
    p, safe, counted, count = saved
    dlogits = p.copy()
    dlogits[np.arange(len(safe)), safe] -= 1.0
    dlogits *= (counted / max(count, 1)).astype(p.dtype)[:, None]
    return dlogits
