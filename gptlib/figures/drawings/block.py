"""The inside of a block, and the two places its norms can have."""

from __future__ import annotations

from gptlib.config import GPTConfig
from gptlib.figures.pictures import ATTENTION, FEED_FORWARD, NORM, RESIDUAL, Picture
from gptlib.figures.strokes import box, plus, stream, svg, text, wire

Shape = tuple[str, tuple[int, ...]]  # in letters and in numbers
Step = tuple[str, str, Shape]


def block(cfg: GPTConfig, batch: int, length: int) -> Picture:
    """Draw one block step by step, with the tensor's shape beside each step.

    Args:
        cfg: the model whose numbers are shown.
        batch, length: B and T of the token ids.

    Raises:
        ValueError: a Post-LayerNorm model, which has its norms elsewhere.
    """
    if not cfg.norm_first:
        raise ValueError("block draws norm_first=True only, got norm_first=False")
    B, T, C, H, D = batch, length, cfg.emb_dim, cfg.n_heads, cfg.head_dim
    flow: Shape = ("B, T, C", (B, T, C))
    wide: Shape = ("B, T, 4C", (B, T, 4 * C))
    heads: Shape = ("B, H, T, D", (B, H, T, D))
    steps: list[Step | None] = [  # name, colour, what comes out; None is the sum
        ("LayerNorm", NORM, flow),
        ("queries, keys, values", ATTENTION, ("3 × " + heads[0], heads[1])),
        ("scores, mask, softmax", ATTENTION, ("B, H, T, T", (B, H, T, T))),
        ("weighted mean of values", ATTENTION, heads),
        ("heads joined, mapped", ATTENTION, flow),
        None,
        ("LayerNorm", NORM, flow),
        ("widened", FEED_FORWARD, wide),
        ("GELU", FEED_FORWARD, wide),
        ("narrowed", FEED_FORWARD, flow),
        None,
    ]
    parts = [text(30, 14, "x", mono=True), text(330, 14, "what comes out", size=11, anchor="start")]
    y, fresh, drawn = 26, True, list[str]()
    for step in steps:
        if step is None:
            parts += [wire((166, y - 8), (166, y + 14), (40, y + 14)), plus(30, y + 14)]
            y, fresh = y + 40, True
            parts.append(text(330, y - 22, _shape(flow), anchor="start", mono=True))
            drawn.append(f"added to x {_shape(flow)}")
            continue
        name, colour, shape = step
        start = (34, y + 13) if fresh else (166, y - 8)
        parts += [
            wire(start, (70, y + 13) if fresh else (166, y)),
            box(70, y, 192, 26, colour, name),
            text(330, y + 12, _shape(shape), anchor="start", mono=True),
            text(330, y + 25, shape[0], size=11, anchor="start", mono=True),
        ]
        drawn.append(f"{name} {_shape(shape)}")
        y, fresh = y + 34, False
    parts.insert(0, stream(30, 20, y))
    caption = (
        f"One block. B = {B} texts, T = {T} tokens, C = {C} numbers each, H = {H} heads of D = {D}."
        " Twice a copy leaves the grey stream, is normalised, worked on and added."
    )
    alt = "One block from top to bottom, with shapes: " + "; ".join(drawn) + "."
    return Picture(svg(490, y + 6, parts), caption, alt)


def _shape(shape: Shape) -> str:
    return f"{'3 × ' if shape[0].startswith('3') else ''}({', '.join(map(str, shape[1]))})"


def norm_orders(n_layers: int) -> Picture:
    """Draw one block with its norms before the parts, and one with them after the additions."""
    parts = [
        text(120, 16, "Pre-LN", bold=True),
        text(420, 16, "Post-LN", bold=True),
        stream(30, 30, 344),
        stream(330, 30, 344),
    ]
    halves = (46, "attention", ATTENTION), (194, "feed-forward", FEED_FORWARD)
    for x in (30, 330):
        parts.append(f'<path d="M{x - 10} 342h20l-10 14z" fill="{RESIDUAL}"/>')
        for top, name, colour in halves:
            part = box(x + 68, top + (36 if x == 30 else 14), 124, 30, colour, name)
            middle, low = x + 130, top + 88
            parts += [wire((middle, top + (66 if x == 30 else 44)), (middle, low), (x + 10, low))]
            parts += [part, plus(x, low)]
            if x == 30:
                parts += [wire((x + 4, top + 13), (x + 68, top + 13))]
                parts += [wire((middle, top + 26), (middle, top + 36))]
                parts += [box(x + 68, top, 124, 26, NORM, "norm")]
            else:
                parts += [wire((x + 4, top), (middle, top), (middle, top + 14))]
                parts += [_on_stream(x, top + 106)]
    caption = (
        "One block from top to bottom. Left, the way down the grey stream meets only additions."
        f" Right, it passes a norm after each of them: {2 * n_layers} in a row in"
        f" {n_layers} blocks."
    )
    alt = (
        "Two blocks. Pre-LN: norm, then attention, added to the stream; norm, then feed-forward,"
        " added to the stream. Post-LN: attention, added to the stream, then a norm on the stream;"
        " feed-forward, added, then a norm on the stream."
    )
    return Picture(svg(540, 360, parts), caption, alt)


def _on_stream(x: float, y: float) -> str:
    """Draw a norm that the stream itself runs through."""
    cover = f'<rect x="{x - 26:g}" y="{y:g}" width="52" height="26" rx="6" fill="{NORM}"/>'
    return cover + (
        f'<text x="{x:g}" y="{y + 17.5:g}" text-anchor="middle" font-size="13"'
        ' font-weight="600" fill="#111">norm</text>'
    )
