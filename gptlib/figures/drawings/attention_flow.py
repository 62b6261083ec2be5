"""How the last token of a text reads the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gptlib.figures.pictures import ATTENTION, EMBED, RESIDUAL, Picture
from gptlib.figures.strokes import box, plus, svg, text, wire

Rows = Sequence[Sequence[float]]

LEFT, WIDE = 130, 112  # where the first token's column begins, and how wide a column is


def attention_flow(words: Sequence[str], x: Rows, q: Sequence[float], k: Rows, v: Rows) -> Picture:
    """Draw one head of attention for the last token, with all numbers on their way.

    A later token is drawn pale beside the last, to show where the mask acts.

    Args:
        words: names of the tokens.
        x: numbers of each token.
        q: query of the last token.
        k, v: key and value of each token.

    Raises:
        ValueError: not as many tokens, keys and values as words, or keys as long as the query.
    """
    if not len(words) == len(x) == len(k) == len(v):
        raise ValueError(f"{len(words)} words, {len(x)} tokens, {len(k)} keys, {len(v)} values")
    if any(len(key) != len(q) for key in k):
        raise ValueError(f"keys must be as long as the query, {len(q)}")
    products = [sum(a * b for a, b in zip(q, key, strict=True)) for key in k]
    scores = [product / math.sqrt(len(q)) for product in products]
    powers = [math.exp(score) for score in scores]
    weights = [power / sum(powers) for power in powers]
    out = [sum(w * value[i] for w, value in zip(weights, v, strict=True)) for i in range(len(v[0]))]
    middles = [LEFT + WIDE * (i + 0.5) for i in range(len(words))]
    later, end = LEFT + WIDE * (len(words) + 0.4), LEFT + WIDE * len(words)
    parts = [
        *_names(len(q), sum(powers)),
        *_readings(words, x, q, k, middles),
        *_shares(products, scores, powers, weights, middles, later),
        *_sum(words[-1], weights, v, out, middles),
    ]
    caption = (
        f"“{words[-1]}” reads. Its query meets every key; the products become weights that sum to"
        " 1; the values, each times its weight, are summed. A later token is crossed out before the"
        " softmax: e to the power of −∞ is 0."
    )
    alt = f"The flow for “{words[-1]}” from top to bottom: " + "; ".join(
        f"{word}: score {score:.2f}, weight {weight:.2f}"
        for word, score, weight in zip(words, scores, weights, strict=True)
    )
    return Picture(svg(end + 86, 560, parts), caption, f"{alt}; weighted sum {vector(out)}.")


def vector(numbers: Sequence[float]) -> str:
    """Write a short vector as (1, 0, 2.5)."""
    return "(" + ", ".join(f"{number:.2f}".rstrip("0").rstrip(".") for number in numbers) + ")"


def _names(size: int, total: float) -> list[str]:
    steps = [
        (36, "token x"),
        (98, "query q"),
        (164, "key k"),
        (222, "q · k"),
        (254, f"÷ √{size}: score"),
        (286, "mask"),
        (318, "e to the score"),
        (350, f"÷ their sum {total:.2f}:"),
        (366, "weight"),
        (412, "value v"),
        (458, "weight × v"),
        (512, "sum"),
    ]
    return [text(0, y, name, anchor="start", bold=True) for y, name in steps]


def _readings(
    words: Sequence[str], x: Rows, q: Sequence[float], k: Rows, middles: Sequence[float]
) -> list[str]:
    """Draw tokens, the query of the last, which meets all keys, and the way to the values."""
    parts, last = [], middles[-1]
    for word, token, key, middle in zip(words, x, k, middles, strict=True):
        parts += [
            box(middle - 48, 10, 96, 42, EMBED, word, vector(token)),
            wire((middle - 38, 52), (middle - 38, 390)),  # past all that is drawn later
            wire((middle - 14, 52), (middle - 14, 144)),
            box(middle - 26, 144, 76, 30, ATTENTION, vector(key)),
            wire((middle + 12, 174), (middle + 12, 206)),
        ]
        parts.append(
            wire((last + 36, 108), (last + 36, 122), (middle + 12, 122), (middle + 12, 144))
        )
    parts += [
        wire((last + 36, 52), (last + 36, 78)),
        box(last + 2, 78, 68, 30, ATTENTION, vector(q)),
    ]
    return parts


def _shares(
    products: Sequence[float],
    scores: Sequence[float],
    powers: Sequence[float],
    weights: Sequence[float],
    middles: Sequence[float],
    later: float,
) -> list[str]:
    """Write the numbers from products to weights, and a bar for each weight."""
    parts = []
    for row in zip(products, scores, powers, weights, middles, strict=True):
        product, score, power, weight, middle = row
        at = middle + 12
        parts += [
            text(at, 222, f"{product:g}"),
            text(at, 254, f"{score:.2f}"),
            text(at, 286, "may be read", size=11),
            text(at, 318, f"{power:.2f}"),
            text(at - 4, 358, f"{weight:.2f}", anchor="end", bold=True),
            f'<rect x="{at:g}" y="346" width="{44 * weight:.1f}" height="14" rx="2"'
            f' fill="{ATTENTION}" fill-opacity="0.85"/>',
        ]
    parts += [
        f'<g opacity="0.75">{text(later, 36, "a later one")}',
        text(later, 222, "…"),
        text(later, 286, "−∞"),
        text(later, 318, "0"),
        text(later, 358, "0"),
        "</g>",
    ]
    return parts


def _sum(
    reader: str, weights: Sequence[float], v: Rows, out: Sequence[float], middles: Sequence[float]
) -> list[str]:
    """Draw the values, each times its weight, and what comes of them."""
    parts, last = [], middles[-1]
    for weight, value, middle in zip(weights, v, middles, strict=True):
        shares = [weight * each for each in value]
        parts += [
            box(middle - 48, 392, 96, 30, ATTENTION, vector(value)),
            wire((middle, 422), (middle, 442)),
            text(middle, 458, vector(shares)),
            f'<path d="M{middle:g} 464V478H{last:g}" fill="none" stroke="currentColor"'
            ' stroke-width="1.4"/>',
        ]
    parts += [
        wire((last, 478), (last, 494)),
        box(last - 56, 494, 112, 30, ATTENTION, vector(out)),
        wire((last - 56, 509), (last - 136, 509)),
        box(last - 262, 494, 126, 30, ATTENTION, "output matrix"),
        wire((last - 262, 509), (last - 322, 509)),
        plus(last - 332, 509),
        text(last - 332, 540, f"added to what “{reader}” knew", size=11),
        f'<path d="M{last - 332:g} 486V499" stroke="{RESIDUAL}" stroke-width="4"/>',
    ]
    return parts
