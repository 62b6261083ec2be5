"""Messages of the backward pass: on a small graph, and beside the whole machine."""

from __future__ import annotations

import math

from gptlib.figures.pictures import ATTENTION, EMBED, FEED_FORWARD, HEAD, NORM, Picture
from gptlib.figures.strokes import box, svg, text, wire

MESSAGE = HEAD  # the colour of what comes from the loss


def backward_graph(w: float = 0.5, x: float = 2.0, y: float = 0.2) -> Picture:
    """Draw the graph of (tanh(w x) - y)^2: values forward, slopes of the loss backward.

    Args:
        w, x, y: weight, input and target; finite.

    Raises:
        ValueError: one of them is not finite.
    """
    if not all(map(math.isfinite, (w, x, y))):
        raise ValueError(f"w, x and y must be finite, got {w}, {x} and {y}")
    z = w * x
    t = math.tanh(z)
    d = t - y
    dd = 2 * d
    dz = dd * (1 - t**2)
    top, low = 60, 150
    nodes = [(130, "×"), (235, "tanh"), (340, "− y"), (445, "²")]
    parts = [
        *_leaf(40, top - 24, "w", w, dz * x),
        *_leaf(40, low - 6, "x", x, dz * w),
        *_bend((78, top - 26), (115, 94)),
        *_bend((78, low - 10), (115, 117)),
    ]
    for at, name in nodes:
        parts += _node(at, 105, name)
    stops = [*(at for at, _ in nodes), 535]
    for a, b, value, slope in zip(
        stops, stops[1:], (z, t, d, d * d), (dz, dd, dd, 1.0), strict=False
    ):
        middle = (a + b) / 2
        parts.append(wire((a + 22, 99), (b - 22, 99)))
        parts.append(_back(b - 22, a + 22, 112))
        parts.append(text(middle, 90, _number(value), size=12))
        parts.append(_said(middle, 130, _number(slope)))
    parts.append(text(548, 110, "loss", bold=True))
    caption = (
        "Values run forward. Below them, in colour, slopes run back: how much the loss rises"
        " per unit of a value. Each node multiplies the slope that arrives by its own."
    )
    alt = (
        f"A chain of nodes: w = {w:g} times x = {x:g}, then tanh, minus {y:g}, squared."
        f" Backward from the loss: 1, {_number(dd)}, {_number(dd)}, {_number(dz)}; at w"
        f" {_number(dz * x)}, at x {_number(dz * w)}."
    )
    return Picture(svg(580, 175, parts), caption, alt)


def backward_rules() -> Picture:
    """Draw what a sum, a product and a value that is used twice do to a message."""
    parts = []
    rules = [
        ("a sum copies", "+", "g", "g", "g", ""),
        ("a product crosses over", "×", "g · b", "g · a", "g", ""),
        ("used twice: it adds up", "", "g", "h", "", "g + h"),
    ]
    for i, (name, sign, up, down, out, back) in enumerate(rules):
        left = 205 * i
        parts.append(text(left + 90, 16, name, bold=True))
        if sign:
            parts += [
                text(left + 22, 50, "a"),
                text(left + 22, 112, "b"),
                *_bend((left + 32, 45), (left + 84, 72)),
                *_bend((left + 32, 108), (left + 84, 84)),
                *_node(left + 102, 78, sign),
                wire((left + 122, 73), (left + 160, 73)),
                _back(left + 160, left + 122, 86),
                _said(left + 142, 104, out),
                _said(left + 22, 67, up),
                _said(left + 22, 129, down),
            ]
        else:
            parts += [
                *_node(left + 40, 78, "a"),
                wire((left + 60, 70), (left + 60, 52), (left + 108, 52)),
                wire((left + 60, 86), (left + 60, 104), (left + 108, 104)),
                text(left + 150, 57, "first use", size=11),
                text(left + 150, 109, "second use", size=11),
                _said(left + 85, 44, up),
                _said(left + 85, 124, down),
                _said(left + 22, 118, back),
            ]
    caption = (
        "g and h are messages from the loss. A sum hands its message to both inputs. A product"
        " gives each input the message times the other input. What was used twice receives both."
    )
    alt = "Three small graphs with the messages beside their inputs, as the caption says."
    return Picture(svg(600, 138, parts), caption, alt)


def backward_machine() -> Picture:
    """Draw one block and its ends, with the way of the data down and of the messages up."""
    rows = [
        ("token and position rows", EMBED, "rows of equal tokens add up"),
        ("LayerNorm", NORM, "minus two means"),
        ("attention", ATTENTION, "to values, weights, scores, q and k"),
        ("+", None, "a copy around, a copy through"),
        ("LayerNorm", NORM, "minus two means"),
        ("feed-forward", FEED_FORWARD, "two products, GELU's slope between"),
        ("+", None, "a copy around, a copy through"),
        ("final LayerNorm", NORM, "minus two means"),
        ("head", HEAD, "to the stream and to the table"),
        ("loss", None, "p − what came"),
    ]
    parts = [text(90, 14, "forward", bold=True), text(330, 14, "backward", bold=True)]
    for i, (name, colour, does) in enumerate(rows):
        y = 26 + 36 * i
        parts.append(box(10, y, 190, 26, colour, name))
        if i < len(rows) - 1:
            parts.append(wire((90, y + 26), (90, y + 36)))
            parts.append(_up(120, y + 36, y + 26))
        parts.append(text(215, y + 18, does, size=12, anchor="start"))
    caption = (
        "The data goes down, the messages come up (in colour). On its way up each part also leaves"
        " behind the gradients of its own parameters."
    )
    alt = "From bottom to top: " + "; ".join(f"{name}: {does}" for name, _, does in reversed(rows))
    return Picture(svg(450, 26 + 36 * len(rows), parts), caption, alt + ".")


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _said(x: float, y: float, words: str) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="13" font-weight="600"'
        f' fill="{MESSAGE}">{words}</text>'
    )


def _leaf(x: float, y: float, name: str, value: float, slope: float) -> list[str]:
    return [text(x, y, f"{name} = {_number(value)}"), _said(x, y + 17, _number(slope))]


def _node(x: float, y: float, name: str) -> list[str]:
    return [
        f'<circle cx="{x:g}" cy="{y:g}" r="19" fill="none" stroke="currentColor"'
        ' stroke-width="1.5"/>',
        text(x, y + 5, name, bold=True),
    ]


def _bend(start: tuple[float, float], end: tuple[float, float]) -> list[str]:
    (a, b), (c, d) = start, end
    return [
        f'<path d="M{a:g} {b:g}L{c:g} {d:g}" fill="none" stroke="currentColor" stroke-width="1.4"/>'
    ]


def _back(x: float, end: float, y: float) -> str:
    return (
        f'<path d="M{x:g} {y:g}H{end:g}M{end + 6:g} {y - 4:g}L{end:g} {y:g}L{end + 6:g} {y + 4:g}"'
        f' fill="none" stroke="{MESSAGE}" stroke-width="1.8"/>'
    )


def _up(x: float, y: float, end: float) -> str:
    return (
        f'<path d="M{x:g} {y:g}V{end:g}M{x - 4:g} {end + 5:g}L{x:g} {end:g}L{x + 4:g} {end + 5:g}"'
        f' fill="none" stroke="{MESSAGE}" stroke-width="1.8"/>'
    )
