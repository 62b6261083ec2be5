"""Configurations of every kind, for the tests that hold the engines together."""

from dataclasses import replace

from hypothesis import strategies as st

from gptlib.config import GPTConfig

# Each switch with the values a small model can have; the first is GPT-2's.
CHOICES = {
    "norm": ["layer", "rms"],
    "positions": ["learned", "rotary"],
    "rotary_base": [10_000.0, 50.0],
    "rotary_skip": [0, 2],
    "gated": [False, True],
    "activation": ["gelu_tanh", "gelu", "silu", "relu"],
    "ff_size": [None, 20],
    "n_kv_heads": [None, 1, 2],
    "head_size": [None, 6],
    "qk_norm": [False, True],
    "bias": [True, False],
    "qkv_bias": [False, True],
    "norm_first": [True, False],
    "norm_eps": [1e-5, 1e-2],
    "tie_weights": [False, True],
    "init": ["gpt2", "torch"],
}
TINY = GPTConfig(17, 9, 16, 4, 2, drop_rate=0.0)
ALONE = [{name: value} for name, values in CHOICES.items() for value in values[1:]]
LLAMA = {
    "norm": "rms",
    "positions": "rotary",
    "gated": True,
    "activation": "silu",
    "ff_size": 20,
    "n_kv_heads": 2,
    "bias": False,
    "tie_weights": True,
}
RELATIVES = {
    "llama": LLAMA,
    "qwen2": {**LLAMA, "qkv_bias": True},
    "qwen3": {**LLAMA, "qk_norm": True, "head_size": 6},
    "smollm3": {**LLAMA, "rotary_skip": 2},
}


@st.composite
def configurations(draw: st.DrawFn) -> GPTConfig:
    """Draw any combination of switches that does not contradict itself."""
    chosen = {name: draw(st.sampled_from(values)) for name, values in CHOICES.items()}
    if chosen["gated"] and chosen["activation"] == "relu":
        chosen["activation"] = "silu"
    return replace(TINY, **chosen)
