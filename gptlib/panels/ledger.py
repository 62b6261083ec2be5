"""The panel of chapter "Accounting": where a GPT's parameters and bytes are."""

from __future__ import annotations

import traitlets

from gptlib import accounting
from gptlib.config import GPTConfig, parameter_shapes
from gptlib.panels.base import Panel, Sent, Whole

# What the ledger depends on. The number of heads is left out: it cuts the width into pieces and
# changes no count.
SIZES = ("vocab_size", "context_length", "emb_dim", "n_layers", "tie_weights", "qkv_bias")
DTYPES = ("fp32", "bf16", "int8", "int4")
SMALL = GPTConfig.preset("gpt2-small")
CHOICES = {
    "GPT-2 small, as released": SMALL,
    "GPT-2 medium": GPTConfig.preset("gpt2-medium"),
    "GPT-2 large": GPTConfig.preset("gpt2-large"),
    "GPT-2 xl": GPTConfig.preset("gpt2-xl"),
    "the first chapter's machine": GPTConfig(),
    "the book's mini model": GPTConfig.preset("mini"),
}


def sizes(cfg: GPTConfig) -> dict[str, int]:
    """Return what the ledger depends on."""
    return {name: getattr(cfg, name) for name in SIZES}


class LedgerPanel(Panel):
    """Slide a machine's sizes; see parameters by component, bytes by type, caches by length.

    Args:
        vocab_size, context_length, emb_dim, n_layers, tie_weights, qkv_bias: as in `GPTConfig`;
            the first state is GPT-2 small as released.
        dtype: "fp32", "bf16", "int8" or "int4", how the weights are stored; the caches are fp32
            beside fp32 weights and bf16 otherwise.
        texts: sequences written at once, 1 to 64, each with a cache of its own.
    """

    script = "panels/ledger.js"
    title = "The ledger of a GPT"
    heights = (720, 1050)

    vocab_size = Whole(SMALL.vocab_size, min=256, max=131_211).tag(sync=True)
    context_length = Whole(SMALL.context_length, min=128, max=8192).tag(sync=True)
    emb_dim = Whole(SMALL.emb_dim, min=64, max=4096).tag(sync=True)
    n_layers = Whole(SMALL.n_layers, min=1, max=96).tag(sync=True)
    tie_weights = traitlets.Bool(True).tag(sync=True)
    qkv_bias = traitlets.Bool(True).tag(sync=True)
    dtype = traitlets.Enum(DTYPES, "fp32").tag(sync=True)
    texts = Whole(8, min=1, max=64).tag(sync=True)
    presets = Sent({name: sizes(cfg) for name, cfg in CHOICES.items()}).tag(sync=True)

    @classmethod
    def of(cls, cfg: GPTConfig) -> LedgerPanel:
        """Return the panel set to a model's sizes, such as `GPTConfig.preset("gpt2-xl")`.

        Raises:
            ValueError: the model has other parts than GPT-2.
        """
        panel = cls(**sizes(cfg))
        if parameter_shapes(cfg) != parameter_shapes(panel.config()):
            raise ValueError(
                "the ledger counts GPT-2's parts, and this model has others; gptlib.account counts"
                " them all"
            )
        return panel

    def config(self) -> GPTConfig:
        """Return the configuration that the controls stand for; heads change no count."""
        return GPTConfig(n_heads=1, **{name: getattr(self, name) for name in SIZES})

    def numbers(self) -> dict[str, float]:
        """Return parameters by component, bytes by type, bytes of the caches by length."""
        account = accounting.account(self.config())
        owned = {component.name: component.parameters for component in account.components}
        kind = accounting.cache_dtype(self.dtype)
        quarters = {n: n * self.context_length // 4 for n in (1, 2, 3, 4)}
        cached = account.kv_cache_bytes(1, kind, self.texts)
        return {
            "token table": owned["token table"],
            "position table": owned["position table"],
            "attention": account.parts["attention"],
            "feed-forward": account.parts["feed-forward"],
            "norms": account.parts["norm"],
            "head": account.parts["head"],
            "total": account.total,
            **{f"weights in {dtype}": account.bytes(dtype) for dtype in DTYPES},
            **{
                f"caches at {n}/4 of the window": account.kv_cache_bytes(length, kind, self.texts)
                for n, length in quarters.items()
            },
            "length from which caches outweigh weights": account.bytes(self.dtype) // cached + 1,
        }
