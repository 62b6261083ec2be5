"""Drawings made by hand: the machine from ids to logits."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence

from gptlib.config import GPTConfig
from gptlib.figures.pictures import ATTENTION, EMBED, FEED_FORWARD, HEAD, NORM, RESIDUAL, Picture


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
    stream = f"({B}, {T}, {C})"
    stages = [  # name, height of its middle, shape, the same in letters
        ("token ids", 20, f"({B}, {T})", "B, T"),
        ("token table + position table", 134, stream, "B, T, C"),
        ("dropout", 177, stream, "B, T, C"),
        ("+ attention", 300, stream, "B, T, C"),
        ("+ feed-forward", 388, stream, "B, T, C"),
        ("final LayerNorm", 441, stream, "B, T, C"),
        ("logits", 550, f"({B}, {T}, {V})", "B, T, V"),
    ]
    parts = [
        _box(8, 4, 276, 32, None, "token ids"),
        *(_wire((x, 36), (x, 64)) for x in (34, 215)),
        _text(42, 54, "which token", size=11, anchor="start"),
        _text(207, 54, "which position", size=11, anchor="end"),
        _box(8, 64, 130, 44, EMBED, "token table", f"{V:,} × {C:,}"),
        _box(154, 64, 130, 44, EMBED, "position table", f"{cfg.context_length:,} × {C:,}"),
        _wire((34, 108), (34, 124)),
        _wire((215, 108), (215, 134), (44, 134)),
        _stream(34, 134, 163),
        _plus(34, 134),
        _box(8, 163, 130, 28, None, f"dropout {cfg.drop_rate:g}"),
        _stream(34, 191, 424),
        '<rect x="1" y="207" width="290" height="203" rx="10" fill="none" stroke="currentColor"'
        ' stroke-opacity="0.55" stroke-dasharray="5 4"/>',
        _text(282, 227, f"{N} equal block{'s' if N > 1 else ''}", anchor="end", bold=True),
    ]
    inside = [
        (236, "attention", f"{cfg.n_heads} heads × {cfg.head_dim}", ATTENTION),
        (324, "feed-forward", f"to {4 * C:,} and back", FEED_FORWARD),
    ]
    for y, name, note, colour in inside:
        parts += [
            _wire((38, y + 22), (62, y + 22)),
            _box(62, y, 90, 44, NORM, "LayerNorm"),
            _wire((152, y + 22), (168, y + 22)),
            _box(168, y, 116, 44, colour, name, note),
            _wire((226, y + 44), (226, y + 64), (44, y + 64)),
            _plus(34, y + 64),
        ]
    parts += [
        _box(8, 424, 276, 34, NORM, "final LayerNorm"),
        _wire((146, 458), (146, 474)),
        _box(8, 474, 276, 44, HEAD, "head", f"{C:,} to {V:,}"),
        _wire((146, 518), (146, 534)),
        _box(8, 534, 276, 32, None, "logits"),
    ]
    for _, y, shape, letters in stages:
        parts.append(_text(306, y + 1, shape, anchor="start", mono=True))
        parts.append(_text(306, y + 15, letters, size=11, anchor="start", mono=True))
    width = 310 + 8 * max(len(shape) for _, _, shape, _ in stages)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 570" width="{width}"'
        f' font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )
    caption = (
        f"{B} rows of {T} ids go in; {B} × {T} rows of {V:,} scores come out. From the first sum to"
        f" the final LayerNorm the grey residual stream keeps one shape, {stream}, so that a block"
        " can follow a block."
    )
    alt = (
        "The machine from top to bottom, with the tensor's shape after each stage: "
        + "; ".join(f"{name} {shape}" for name, _, shape, _ in stages)
        + f". Each of the {N} blocks reads the residual stream through LayerNorm and attention,"
        " then through LayerNorm and feed-forward, and adds each result back to it."
    )
    return Picture(svg, caption, alt)


def ladder(
    rungs: Sequence[tuple[str, str, float]], here: Collection[str], note: str = ""
) -> Picture:
    """Draw what each rung of a ladder of losses pays, and what it saves against the one before.

    Args:
        rungs: name, what its guess depends on, and loss in nats per byte, from the top down.
        here: names of the rungs in colour; those after the last of them are pale.
        note: a sentence for the end of the caption.
    """
    last = max(i for i, (name, _, _) in enumerate(rungs) if name in here)
    zero, most, row = 150, max(loss for _, _, loss in rungs), 30
    parts = [_text(zero, 14, "nats per byte of held-out text", size=11, anchor="start")]
    for i, (name, sees, loss) in enumerate(rungs):
        y, wide, now = 24 + row * i, 250 * loss / most, name in here
        saved = f"−{rungs[i - 1][2] - loss:.2f}" if i else ""
        parts += [
            f'<g fill-opacity="{0.45 if i > last else 1}">',
            _text(zero - 10, y + 15, name, anchor="end", bold=now),
            f'<rect x="{zero}" y="{y}" width="{wide:.1f}" height="20" rx="3"'
            f' fill="{HEAD if now else RESIDUAL}" fill-opacity="{0.25 if i > last else 0.85}"/>',
            _text(zero + wide + 6, y + 15, f"{loss:.2f}", anchor="start", bold=now),
            _text(zero + wide + 42, y + 15, saved, size=11, anchor="start"),
            _text(510, y + 15, sees, size=11, anchor="start"),
            "</g>",
        ]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 690 {30 + row * len(rungs)}"'
        f' width="690" font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )
    caption = "The ladder of losses. In colour: what this chapter builds; pale: what comes later."
    alt = "Losses in nats per byte, one rung below the other: " + "; ".join(
        f"{name} {loss:.2f}{' (this chapter)' if name in here else ''}" for name, _, loss in rungs
    )
    return Picture(svg, f"{caption} {note}".strip(), alt + ".")


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 13,
    anchor: str = "middle",
    bold: bool = False,
    mono: bool = False,
) -> str:
    style = ' font-weight="600"' if bold else ""
    style += ' font-family="ui-monospace, monospace"' if mono else ""
    style += ' fill-opacity="0.8"' if size < 13 else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
        f' fill="currentColor"{style}>{html.escape(text)}</text>'
    )


def _box(
    x: float, y: float, w: float, h: float, colour: str | None, name: str, note: str = ""
) -> str:
    paint = (
        f'fill="{colour}" fill-opacity="0.18" stroke="{colour}"'
        if colour
        else 'fill="none" stroke="currentColor" stroke-opacity="0.55"'
    )
    middle, centre = y + h / 2 + 4.5, x + w / 2
    label = _text(centre, middle - 8 if note else middle, name, bold=True)
    label += _text(centre, middle + 9, note, size=11) if note else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" {paint}'
        f' stroke-width="1.5"/>{label}'
    )


def _wire(*corners: tuple[float, float]) -> str:
    """Draw a line through `corners`, each step along one axis, with an arrow head at its end."""
    (x, y), (end_x, end_y) = corners[-2:]
    dx, dy = (end_x > x) - (end_x < x), (end_y > y) - (end_y < y)
    left = f"{end_x - 6 * dx - 4 * dy:g} {end_y - 6 * dy - 4 * dx:g}"
    right = f"{end_x - 6 * dx + 4 * dy:g} {end_y - 6 * dy + 4 * dx:g}"
    line = "L".join(f"{a:g} {b:g}" for a, b in corners)
    return (
        f'<path d="M{line}M{left}L{end_x:g} {end_y:g}L{right}" fill="none" stroke="currentColor"'
        ' stroke-width="1.4"/>'
    )


def _stream(x: float, top: float, bottom: float) -> str:
    return f'<path d="M{x:g} {top:g}V{bottom:g}" stroke="{RESIDUAL}" stroke-width="8"/>'


def _plus(x: float, y: float) -> str:
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="10" fill="{RESIDUAL}"/>'
        f'<path d="M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10" stroke="#fff" stroke-width="2.4"/>'
    )
