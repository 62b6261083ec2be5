"""Decoding at GPT-2 small's shape: ours against transformers, and the cache against none.

Batch 1, a prompt of 32 tokens, float32, the same random weights on both sides, greedy, the same ids
asserted. The figures are ratios of medians of runs taken in turn.
"""

from _common import NEW, PROMPT, medians, reference_generate, reference_model, same_weights

from gptlib import generate

CACHE_NEW = 200


def main() -> None:
    """Print the two ratios."""
    reference = reference_model()
    model = same_weights(reference)

    def ours(new: int = NEW, use_cache: bool = True) -> list[int]:
        return generate(model, PROMPT, new, temperature=0, use_cache=use_cache)

    def theirs() -> list[int]:
        return reference_generate(reference)

    assert ours() == theirs(), "the two models continue differently"  # and a warm-up of both
    slow, fast = medians(theirs, ours)
    print(
        f"decode, float32: {NEW / fast:.1f} tokens/s against transformers' {NEW / slow:.1f},"
        f" ratio {slow / fast:.2f}"
    )
    cached, uncached = medians(
        lambda: ours(CACHE_NEW), lambda: ours(CACHE_NEW, use_cache=False), rounds=1
    )
    print(f"{CACHE_NEW} new tokens: the cache is {uncached / cached:.1f} times faster than none")


if __name__ == "__main__":
    main()
