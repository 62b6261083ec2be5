"""The panel of chapter "The whole machine": one tensor on its way, stage by stage."""

from __future__ import annotations

import dataclasses
import html
from typing import TYPE_CHECKING

from gptlib.accounting import account
from gptlib.config import GPTConfig
from gptlib.panels.base import Panel, Sent, Whole

if TYPE_CHECKING:
    from torch import Tensor, nn

STAGES = 17
BASE = GPTConfig()  # what the reader does not change


class MachinePanel(Panel):
    """Walk a tensor from ids to logits, and see how five numbers fix every shape.

    The sliders offer only widths that the heads divide; other values, which Python can set, are
    shown as what they are: a machine that cannot be built.

    Args:
        stage: where the walk stands, 1 (token table) to 17 (head).
        vocab_size, emb_dim, n_heads: V, C and H of the machine; the rest is GPTConfig()'s.
        batch, length: B and T of the ids that go in.
    """

    script = "panels/machine.js"
    title = "The machine by stages"
    heights = (739, 969)

    stage = Whole(1, min=1, max=STAGES).tag(sync=True)
    vocab_size = Whole(BASE.vocab_size, min=257, max=100_257).tag(sync=True)
    emb_dim = Whole(BASE.emb_dim, min=64, max=1600).tag(sync=True)
    n_heads = Whole(BASE.n_heads, min=1, max=25).tag(sync=True)
    batch = Whole(2, min=1, max=8).tag(sync=True)
    length = Whole(4, min=1, max=BASE.context_length).tag(sync=True)
    rest = Sent({"context_length": BASE.context_length, "n_layers": BASE.n_layers}).tag(sync=True)

    def config(self) -> GPTConfig:
        """Return the machine, or raise GPTConfig's ValueError where the heads do not fit."""
        return GPTConfig(vocab_size=self.vocab_size, emb_dim=self.emb_dim, n_heads=self.n_heads)

    def numbers(self) -> dict[str, float]:
        """Return shape, size and parameters of each stage; only a remainder without a machine."""
        if remainder := self.emb_dim % self.n_heads:
            return {"remainder": remainder}
        numbers: dict[str, float] = {"remainder": 0}
        for place, (_, out, parameters) in enumerate(self.walk(), 1):
            numbers |= {f"stage {place}, axis {i}": n for i, n in enumerate(out.shape, 1)}
            numbers[f"stage {place}, numbers"] = out.numel()
            numbers[f"stage {place}, parameters"] = parameters
        return numbers | {"parameters in all": account(self.config()).total}

    def walk(self) -> list[tuple[str, Tensor, int]]:
        """Return each stage's name, output and parameters: the real model, without its memory."""
        import torch  # noqa: PLC0415 (loads torch)

        from gptlib.attention import Trace  # noqa: PLC0415 (loads torch)
        from gptlib.model import ACTIVATIONS, GPT, Block  # noqa: PLC0415 (loads torch)

        stages: list[tuple[str, Tensor, int]] = []

        def note(name: str, out: Tensor, *modules: nn.Module) -> Tensor:
            stages.append((name, out, sum(p.numel() for m in modules for p in m.parameters())))
            return out

        with torch.device("meta"), torch.no_grad():
            cfg, trace = self.config(), Trace()
            model = GPT(dataclasses.replace(cfg, n_layers=1)).eval()
            ids, positions = torch.zeros(self.batch, self.length).long(), torch.arange(self.length)
            block = model.blocks[0]
            assert isinstance(block, Block)
            x = note("token table", model.tok_emb(ids), model.tok_emb)
            x = note("position table", x + model.pos_emb(positions), model.pos_emb)
            x = note("dropout", model.drop(x), model.drop)
            out = block.attn(note("LayerNorm", block.norm1(x), block.norm1), trace=trace)
            seen = {name.rpartition(".")[2]: tensor for name, tensor in trace.items()}
            heads = torch.stack([seen[name] for name in "qkv"])
            note("Q, K, V in heads", heads, block.attn.qkv)
            note("scores, softmax", seen["weights"])
            note("weighted values", seen["heads"])
            note("heads joined", out, block.attn.out_proj)
            x = note("add to the stream", x + out)
            read = note("LayerNorm", block.norm2(x), block.norm2)
            wide = note("widen", block.ff.up(read), block.ff.up)
            bent = note("GELU", ACTIVATIONS[block.ff.activation](wide))
            out = note("narrow", block.ff.down(bent), block.ff.down)
            x = note("add to the stream", x + out)
            others = [block] * (cfg.n_layers - 1)  # their equals: one is enough for the shapes
            x = note(f"{len(others)} more blocks", block(x), *others)
            x = note("final LayerNorm", model.final_norm(x), model.final_norm)
            note("head", model.head(x), model.head)
        return stages

    def fallback(self) -> str:
        """Return both ends' shapes and the parts' parameters, or what GPTConfig refuses."""
        try:
            counted = account(self.config())
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"
        B, T, C, V = self.batch, self.length, self.emb_dim, self.vocab_size
        rows = "".join(
            f'<tr><th scope="row">{part.name}</th><td>{part.parameters:,}</td></tr>'
            for part in counted.components
        )
        return (
            f"<table><caption>{self.title}: ids ({B}, {T}), then ({B}, {T}, {C}) all the way,"
            f" logits ({B}, {T}, {V})</caption><tbody>{rows}</tbody></table>"
        )
