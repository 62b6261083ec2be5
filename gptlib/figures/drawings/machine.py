"""The machine from ids to logits."""

from __future__ import annotations

from gptlib.config import GPTConfig
from gptlib.figures.pictures import ATTENTION, EMBED, FEED_FORWARD, HEAD, NORM, Picture
from gptlib.figures.strokes import box, plus, stream, svg, text, wire


def machine(cfg: GPTConfig, batch: int, length: int) -> Picture:
    """Draw the machine from ids to logits, with the tensor's shape beside each stage.

    The grey line is the residual stream: parts read from it on the right and are added back to it.

    Args:
        cfg: the model whose numbers are shown.
        batch, length: B and T of the token ids that go in.

    Raises:
        ValueError: a Post-LayerNorm model, which has its norms elsewhere.
    """
    if not cfg.norm_first:
        raise ValueError("machine draws norm_first=True only, got norm_first=False")
    B, T, C, V, N = batch, length, cfg.emb_dim, cfg.vocab_size, cfg.n_layers
    flow = f"({B}, {T}, {C})"
    stages = [  # name, height of its middle, shape, the same in letters
        ("token ids", 20, f"({B}, {T})", "B, T"),
        ("token table + position table", 134, flow, "B, T, C"),
        ("dropout", 177, flow, "B, T, C"),
        ("+ attention", 300, flow, "B, T, C"),
        ("+ feed-forward", 388, flow, "B, T, C"),
        ("final LayerNorm", 441, flow, "B, T, C"),
        ("logits", 550, f"({B}, {T}, {V})", "B, T, V"),
    ]
    parts = [
        box(8, 4, 276, 32, None, "token ids"),
        *(wire((x, 36), (x, 64)) for x in (34, 215)),
        text(42, 54, "which token", size=11, anchor="start"),
        text(207, 54, "which position", size=11, anchor="end"),
        box(8, 64, 130, 44, EMBED, "token table", f"{V:,} × {C:,}"),
        box(154, 64, 130, 44, EMBED, "position table", f"{cfg.context_length:,} × {C:,}"),
        wire((34, 108), (34, 124)),
        wire((215, 108), (215, 134), (44, 134)),
        stream(34, 134, 163),
        plus(34, 134),
        box(8, 163, 130, 28, None, f"dropout {cfg.drop_rate:g}"),
        stream(34, 191, 424),
        '<rect x="1" y="207" width="290" height="203" rx="10" fill="none" stroke="currentColor"'
        ' stroke-opacity="0.55" stroke-dasharray="5 4"/>',
        text(282, 227, f"{N} equal block{'s' if N > 1 else ''}", anchor="end", bold=True),
    ]
    inside = [
        (236, "attention", f"{cfg.n_heads} heads × {cfg.head_dim}", ATTENTION),
        (324, "feed-forward", f"to {4 * C:,} and back", FEED_FORWARD),
    ]
    for y, name, note, colour in inside:
        parts += [
            wire((38, y + 22), (62, y + 22)),
            box(62, y, 90, 44, NORM, "LayerNorm"),
            wire((152, y + 22), (168, y + 22)),
            box(168, y, 116, 44, colour, name, note),
            wire((226, y + 44), (226, y + 64), (44, y + 64)),
            plus(34, y + 64),
        ]
    parts += [
        box(8, 424, 276, 34, NORM, "final LayerNorm"),
        wire((146, 458), (146, 474)),
        box(8, 474, 276, 44, HEAD, "head", f"{C:,} to {V:,}"),
        wire((146, 518), (146, 534)),
        box(8, 534, 276, 32, None, "logits"),
    ]
    for _, y, shape, letters in stages:
        parts.append(text(306, y + 1, shape, anchor="start", mono=True))
        parts.append(text(306, y + 15, letters, size=11, anchor="start", mono=True))
    width = 310 + 8 * max(len(shape) for _, _, shape, _ in stages)
    caption = (
        f"{B} rows of {T} ids go in; {B} × {T} rows of {V:,} logits come out. From the first sum to"
        f" the final LayerNorm the grey residual stream keeps one shape, {flow}, so that a block"
        " can follow a block."
    )
    alt = (
        "The machine from top to bottom, with the tensor's shape after each stage: "
        + "; ".join(f"{name} {shape}" for name, _, shape, _ in stages)
        + f". Each of the {N} blocks reads the residual stream through LayerNorm and attention,"
        " then through LayerNorm and feed-forward, and adds each result back to it."
    )
    return Picture(svg(width, 570, parts), caption, alt)
