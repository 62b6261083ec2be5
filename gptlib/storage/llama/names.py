"""The names of the tensors of Llama and its relatives in Hugging Face's files.

All matrices lie as ours, (outputs, inputs). Queries, keys and values have a matrix each there, and
lie below each other in one of ours; the halves of a head are turned against each other in both.
"""

from __future__ import annotations

_TOP = {
    "tok_emb.weight": "model.embed_tokens.weight",
    "final_norm.scale": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
_BLOCK = {
    "norm1": ["input_layernorm"],
    "attn.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "attn.q_norm": ["self_attn.q_norm"],
    "attn.k_norm": ["self_attn.k_norm"],
    "attn.out_proj": ["self_attn.o_proj"],
    "norm2": ["post_attention_layernorm"],
    "ff.up": ["mlp.up_proj"],
    "ff.gate": ["mlp.gate_proj"],
    "ff.down": ["mlp.down_proj"],
}


def their_names(ours: str) -> list[str]:
    """Return the names under which one of our parameters is stored: three for Q, K and V."""
    if ours in _TOP:
        return [_TOP[ours]]
    _, layer, rest = ours.split(".", 2)
    part, kind = rest.rsplit(".", 1)
    kind = "weight" if kind == "scale" else kind
    return [f"model.layers.{layer}.{their}.{kind}" for their in _BLOCK[part]]
