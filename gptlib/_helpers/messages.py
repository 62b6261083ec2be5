"""Words for messages that must stay in one line."""

from __future__ import annotations


def shown(text: object) -> str:
    r"""Return text that fits in one line: as it is, or quoted where it holds `\n` or the like."""
    plain = str(text)
    return plain if plain.isprintable() else repr(plain)
