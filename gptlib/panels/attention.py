"""The panel of chapter "Attention": every head of the packaged model on a text of the reader's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import traitlets

from gptlib.panels.base import Panel, Text, Whole, page_model

if TYPE_CHECKING:
    from torch import Tensor

    from gptlib.model import Block

MOST = 40  # bytes


class Bytes(Text):
    """A text of at most `most` bytes."""

    def validate(self, obj: Any, value: Any) -> str:
        """Return the text without halves of characters, or raise TraitError."""
        text = super().validate(obj, value)
        if (size := len(text.encode())) > self.most:
            raise traitlets.TraitError(
                f"{self.name} must have at most {self.most} bytes, not {size}"
            )
        return text


class AttentionPanel(Panel):
    """Type a text and see what each head of each layer looks at; take the scale or the mask away.

    Args:
        text: at most 40 bytes, which are as many letters where they are English.
        layer, head: which of the 4 x 4 heads, from 1.
        position: from which byte, from 1; beyond the text the last one.
        scale: divide the scores by the square root of the head size, in every layer.
        mask: hide later positions, in every layer.
    """

    script = "panels/attention.js"
    title = "What a head looks at"
    heights = (696, 1216)
    needs_weights = True

    text = Bytes("To be, or not to be, that is the", most=MOST).tag(sync=True)
    layer = Whole(2, min=1, max=4).tag(sync=True)
    head = Whole(3, min=1, max=4).tag(sync=True)
    position = Whole(13, min=1, max=MOST).tag(sync=True)
    scale = traitlets.Bool(True).tag(sync=True)
    mask = traitlets.Bool(True).tag(sync=True)

    def numbers(self) -> dict[str, float]:
        """Return the weights from the position, their entropy in nats, and the share ahead."""
        ids = list(self.text.encode())
        if not ids:
            return {}
        at = min(self.position, len(ids)) - 1
        row = self._weights(ids)[self.head - 1, at].double()  # (T,)
        return {
            **{f"weight on {i}": w for i, w in enumerate(row.tolist(), 1)},
            "entropy": -row.xlogy(row).sum().item(),
            "weight ahead": row[at + 1 :].sum().item(),
        }

    def _weights(self, ids: list[int]) -> Tensor:
        """Return the attention weights (H, T, T) of the layer, by the model's parts one by one."""
        import torch  # noqa: PLC0415 (loads torch)

        model, T = page_model(), len(ids)  # packaged: GPT-2's parts, Q, K and V in equal thirds
        H, D = model.cfg.n_heads, model.cfg.head_dim
        later = torch.ones(T, T, dtype=torch.bool).triu(1)
        with torch.no_grad():
            x = model.tok_emb.weight[ids] + model.pos_emb.weight[:T]  # (T, C)
            for block in cast("list[Block]", list(model.blocks)[: self.layer]):
                qkv = block.attn.qkv(block.norm1(x)).view(T, 3, H, D).permute(1, 2, 0, 3)
                scores = qkv[0] @ qkv[1].mT / (D**0.5 if self.scale else 1.0)  # (H, T, T)
                weights = scores.masked_fill(later & self.mask, -torch.inf).softmax(-1)
                heads = (weights @ qkv[2]).transpose(0, 1).reshape(T, -1)  # (T, C)
                x = x + block.attn.out_proj(heads)
                x = x + block.ff(block.norm2(x))
        return weights
