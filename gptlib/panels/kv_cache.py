"""The panel of chapter "The KV cache": which rows of Q, K and V a step computes."""

from __future__ import annotations

import traitlets

from gptlib import accounting
from gptlib.config import PRESETS, GPTConfig
from gptlib.panels.base import Panel, Sent, Whole

WAYS = {"no cache": False, "cache": True}


def sizes(cfg: GPTConfig) -> dict[str, int]:
    """Return what the counts depend on, under the letters of the chapters.

    Beside them Q and K, the widths of a block's queries and keys, and M, its weights in matrices.
    """
    C, (Q, K, _) = cfg.emb_dim, cfg.qkv_dims
    M = C * (2 * Q + 2 * K + (3 if cfg.gated else 2) * cfg.ff_dim)
    return {
        "V": cfg.vocab_size,
        "L": cfg.n_layers,
        "H": cfg.n_heads,
        "C": C,
        "Q": Q,
        "K": K,
        "M": M,
    }


class CachePanel(Panel):
    """Step through prefill and decode; see what is computed, reused and computed again.

    Args:
        model: the preset whose sizes the counts are for.
        prompt_length: tokens read by the first step, the prefill.
        new_tokens: steps, each of which writes one token.
        step: the step shown; the last one where there are fewer.
    """

    script = "panels/kv_cache.js"
    title = "What a step computes, with and without a cache"
    heights = (643, 1125)

    model = traitlets.Enum(list(PRESETS), "gpt2-small").tag(sync=True)
    prompt_length = Whole(4, min=1, max=8).tag(sync=True)
    new_tokens = Whole(6, min=1, max=8).tag(sync=True)
    step = Whole(3, min=1, max=8).tag(sync=True)
    sizes = Sent({name: sizes(GPTConfig.preset(name)) for name in PRESETS}).tag(sync=True)

    def numbers(self) -> dict[str, float]:
        """Return what both ways do at this step and up to it, and the bytes that they keep."""
        present = min(self.step, self.new_tokens)
        account = accounting.account(GPTConfig.preset(self.model))
        found: dict[str, float] = {}
        for way, cached in WAYS.items():
            steps = [self.work(step, cached=cached) for step in range(1, present + 1)]
            for kind, now in steps[-1].items():
                found[f"{way}: {kind} now"] = now
                found[f"{way}: {kind} so far"] = sum(step[kind] for step in steps)
            held = self.prompt_length + present - 1 if cached else 0
            found[f"{way}: bytes held"] = account.kv_cache_bytes(held, "fp32")
        return found

    def work(self, step: int, *, cached: bool) -> dict[str, float]:
        """Count one step over all layers: rows of Q, K and V, scores, multiply-adds.

        Scores are counted as a plain kernel computes them: every new query with every key.
        """
        cfg = GPTConfig.preset(self.model)
        account = accounting.account(cfg)
        seen = self.prompt_length + step - 1
        new = 1 if cached and step > 1 else seen
        flops = account.decode_flops(seen) if new == 1 else new * account.flops_per_token(seen)
        return {
            "rows": 3 * cfg.n_layers * new,
            "scores": cfg.n_layers * cfg.n_heads * new * seen,
            "multiply-adds": flops / 2,
        }
