"""How other models cut text into words before merging, each rule as one regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gptlib.text.tokenizers import GPT2_PATTERN

# GPT-2's cuts between the digits, which stand alone. White space before one ends at its own end.
_BETWEEN_DIGITS = (
    r"'(?:[sdmt]|ll|ve|re)|\p{N}| ?\p{L}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?![^\s\p{N}])|\s"
)
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Cuts:
    """What a GGUF says with one name: the cuts, the normal form, whole words before merges."""

    pattern: str
    nfc: bool = False
    whole_words: bool = False


GGUF_CUTS = {
    "gpt-2": Cuts(GPT2_PATTERN),
    "smollm": Cuts(_BETWEEN_DIGITS),
    "llama-bpe": Cuts(_LLAMA3, whole_words=True),
    "qwen2": Cuts(_LLAMA3.replace("{1,3}", ""), nfc=True),
}


def pattern_of(cutter: dict[str, Any] | None) -> str:
    """Return the one pattern that cuts as a `pre_tokenizer` does, or name what we do not read."""
    steps = [] if cutter is None else cutter.get("pretokenizers", [cutter])
    names = [step["type"] for step in steps]
    if names[-1:] != ["ByteLevel"]:
        raise ValueError(f"pre_tokenizer {names} is not byte-level, which is all we read")
    *before, last = steps
    if last.get("add_prefix_space", True):
        raise ValueError("add_prefix_space puts a space before the text, which we do not")
    by_itself = last.get("use_regex", True)
    if names == ["ByteLevel"] and by_itself:
        return GPT2_PATTERN
    if names == ["Digits", "ByteLevel"] and by_itself:
        alone = before[0].get("individual_digits", False)
        return _BETWEEN_DIGITS if alone else _BETWEEN_DIGITS.replace(r"|\p{N}|", r"|\p{N}++|")
    if names == ["Split", "ByteLevel"] and not by_itself:
        split = before[0]
        if split["behavior"] == "Isolated" and not split["invert"] and "Regex" in split["pattern"]:
            regex = split["pattern"]["Regex"]
            return f"{regex}|(?:(?!{regex})[\\s\\S])+"  # what it does not match stays together
        raise ValueError(f"Split with {split!r:.200} is not supported")
    raise ValueError(f"pre_tokenizer {names} with use_regex={by_itself} is not supported")


def is_nfc(normalizer: dict[str, Any] | None) -> bool:
    steps = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    names = [step["type"] for step in steps]
    if names not in ([], ["NFC"]):
        raise ValueError(f"normalizer {names} is not supported, only NFC")
    return bool(names)
