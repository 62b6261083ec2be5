"""Take fields out of a `config.json` one by one, and name those that are missing or wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gptlib.config import MOST_LAYERS

SIZES = (  # what nearly every file has
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
)


def check_layers(name: str, value: int) -> int:
    """Return `value`, or raise ValueError where no memory could hold that many blocks."""
    if value > MOST_LAYERS:
        raise ValueError(f"{name} must be at most {MOST_LAYERS:,}, got {value}")
    return value


class Fields:
    """Read typed fields of one configuration; every error names the field and the architecture."""

    def __init__(self, data: Mapping[str, Any], architecture: str) -> None:
        self.data, self.architecture = data, architecture

    def error(self, what: str) -> ValueError:
        """Return the error to raise; it begins with the architecture."""
        return ValueError(f"{self.architecture} config: {what}")

    def require(self, *names: str) -> None:
        """Raise ValueError that lists every name the configuration lacks."""
        missing = [name for name in names if name not in self.data]
        if missing:
            raise ValueError(f"{self.architecture} config lacks {', '.join(missing)}")

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """Return a whole number; `default` stands for a field that is absent or null."""
        value = self.data.get(name)
        if value is None and default is not None:
            return default
        if name not in self.data:
            self.require(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**40:
            raise self.error(
                f"{name} must be a whole number of at least {least} and below 2**40,"
                f" got {value!r:.60}"
            )
        return value

    def layers(self, name: str) -> int:
        """Return the number of blocks; each is kept apart, so an absurd one is refused."""
        return check_layers(name, self.count(name))

    def optional_count(self, name: str) -> int | None:
        """Return a whole number, or None where the field is absent or null."""
        return None if self.data.get(name) is None else self.count(name)

    def switch(self, name: str, default: bool) -> bool:
        """Return true or false; `default` is what the architecture documents for its absence."""
        value = self.data.get(name, default)
        if not isinstance(value, bool):
            raise self.error(f"{name} must be true or false, got {value!r:.60}")
        return value

    def divide(self, whole: str, part: str) -> int:
        """Return whole / part, 1 without a part, or raise ValueError where a remainder is left."""
        value = self.count(whole)
        by = self.count(part, value)
        if value % by:
            raise self.error(f"{part}={by} must divide {whole}={value} (remainder {value % by})")
        return value // by

    def refuse(self, name: str, allowed: Any, why: str) -> None:
        """Raise ValueError where a field asks for something that is not counted here."""
        value = self.data.get(name, allowed)
        if value != allowed:
            raise self.error(f"{name}={value!r:.60} {why}")
