"""Which blocks look back on `sliding_window` positions only: one function for each rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gptlib.accounting.fields import Fields
from gptlib.accounting.shape import Windows

Slides = Callable[[int], bool]  # whether block number i, from 0, has a window


def nowhere(f: Fields) -> Windows:
    """Let every block look back on everything."""
    return (None,) * f.layers("num_hidden_layers")


def if_given(f: Fields, slides: Slides = lambda i: True) -> Windows:
    """Give a window to blocks by `layer_types`, where the file lacks it to those that `slides`."""
    if f.data.get("sliding_window") is None:
        return nowhere(f)
    layers, kinds = f.layers("num_hidden_layers"), f.data.get("layer_types")
    if kinds is None:
        kinds = ["sliding_attention" if slides(i) else "full_attention" for i in range(layers)]
    return by_kind(f, kinds, ("full_attention", "sliding_attention"), "sliding_window", layers)


def required(f: Fields, slides: Slides = lambda i: True) -> Windows:
    """Do as `if_given`, and raise ValueError where the file says nothing, not even null."""
    f.require("sliding_window")
    return if_given(f, slides)


def all_but_each(nth: int) -> Callable[[Fields], Windows]:
    """Return a rule that spares each block number `nth`, or the file's `sliding_window_pattern`."""
    return lambda f: required(f, lambda i: (i + 1) % f.count("sliding_window_pattern", nth) != 0)


def later_if_on(f: Fields) -> Windows:
    """Begin at block `max_window_layers`, or go by `layer_types`, if `use_sliding_window` is on."""
    if not f.switch("use_sliding_window", False):
        return nowhere(f)
    return required(f, lambda i: i >= f.count("max_window_layers", least=0))


def all_if_on(f: Fields) -> Windows:
    """Give every block a window if `use_sliding_window` is on, whatever `layer_types` says."""
    if not f.switch("use_sliding_window", False):
        return nowhere(f)
    f.require("sliding_window")
    return (f.optional_count("sliding_window"),) * f.layers("num_hidden_layers")


def unturned_if_on(f: Fields) -> Windows:
    """Give a window to the blocks without rotary positions, if `use_sliding_window` is on."""
    if not f.switch("use_sliding_window", False):
        return nowhere(f)
    nth, turned = f.count("no_rope_layer_interval", 4), f.data.get("no_rope_layers")
    return required(f, lambda i: (i + 1) % nth == 0 if turned is None else not turned[i])


def by_kind(f: Fields, kinds: Any, known: tuple[str, str], field: str, layers: int) -> Windows:
    """Give the blocks of the second `known` kind the window that `field` holds, the first none."""
    if not isinstance(kinds, list) or len(kinds) != layers:
        got = len(kinds) if isinstance(kinds, list) else f"{kinds!r:.60}"
        raise f.error(f"one attention type per layer is needed, {layers}; got {got}")
    for kind in kinds:
        if kind not in known:
            raise f.error(f"attention type {kind!r:.60} is not known; known: {', '.join(known)}")
    return tuple(f.count(field) if kind == known[1] else None for kind in kinds)
