"""Time to the plain recipe's final loss, and one training step against a plain eager model's.

    python benchmarks/train.py --corpus FILE --seeds 3
    python benchmarks/train.py --mini              # the packaged model's size, T = 256, on bytes

Both recipes train the same model on the same first 90 % of a text's characters: 4 layers, 4 heads,
128 wide, T = 64, no dropout. The plain one is `TrainConfig.plain` (AdamW 1e-3 -> 1e-4, cosine,
betas 0.9/0.99, decay 0.1, clip 1, warm-up 100, batch 12) over 2,000 steps; ours is `TrainConfig`'s
default over 640. Their steps are timed in turn, 50 by 50, so that a slow moment hits both, and
both losses are measured on the whole validation text; neither evaluation is in the times.
"""

import argparse
import dataclasses
import math

import torch
import torch.nn.functional as F
from _common import medians
from torch import nn

from gptlib import GPT, ByteTokenizer, CharTokenizer, GPTConfig, TrainConfig, Trainer, corpus
from gptlib.model import evaluating


@dataclasses.dataclass(frozen=True)
class Race:
    """A model and its texts, and how many steps each recipe makes."""

    cfg: GPTConfig
    texts: tuple
    plain_steps: int
    our_steps: int


def main() -> None:
    """Print both ratios; the slowest seed counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="shakespeare", help="a UTF-8 text file")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to try")
    parser.add_argument("--mini", action="store_true", help="preset mini, 1,000 steps against 350")
    options = parser.parse_args()
    text = corpus.shakespeare() if options.corpus == "shakespeare" else None
    race = make_race(text or corpus.load_text(options.corpus), options.mini)
    step_ratio(race)
    ratios = [time_to_loss(race, seed) for seed in range(options.seeds)]
    print(f"time to the plain recipe's loss: ratio {max(ratios):.2f}, the slowest of {ratios}")


def make_race(text: str, mini: bool) -> Race:
    """Return the race on characters that nanoGPT's figure is about, or the one on `mini`."""
    tokenizer = ByteTokenizer() if mini else CharTokenizer.from_text(text)
    sizes = {} if mini else {"vocab_size": tokenizer.n_vocab, "context_length": 64}
    cfg = GPTConfig.preset("mini", **sizes)
    tokens = corpus.encode_corpus(text, tokenizer)
    texts = corpus.split(tokens, context_length=cfg.context_length)
    return Race(cfg, texts, *((1000, 350) if mini else (2000, 640)))


def time_to_loss(race: Race, seed: int) -> float:
    """Print how both runs of one seed ended; return the ratio of their times, or infinity."""
    ours = new_trainer(race, TrainConfig(steps=race.our_steps, seed=seed))
    plain = new_trainer(race, TrainConfig.plain(steps=race.plain_steps, seed=seed))
    rounds = race.plain_steps // 50
    for i in range(1, rounds + 1):
        for trainer in (plain, ours):
            while len(trainer.history) < trainer.config.steps * i // rounds:
                trainer.step()
    losses = [whole_loss(trainer) for trainer in (plain, ours)]
    seconds = [sum(r.seconds for r in trainer.history) for trainer in (plain, ours)]
    ratio = round(seconds[1] / seconds[0], 3)
    print(
        f"seed {seed}: plain {losses[0]:.3f} in {seconds[0]:.0f} s, ours {losses[1]:.3f} in"
        f" {seconds[1]:.0f} s, ratio {ratio:.2f}"
        + ("" if losses[1] <= losses[0] else ", but the loss was NOT reached"),
        flush=True,
    )
    return ratio if losses[1] <= losses[0] else math.inf


def new_trainer(race: Race, config: TrainConfig) -> Trainer:
    """Return a trainer of a model drawn with the run's seed."""
    torch.manual_seed(config.seed)
    return Trainer(GPT(race.cfg), *race.texts, config)


@torch.no_grad()
def whole_loss(trainer: Trainer) -> float:
    """Return the loss on the whole validation text, cut into windows side by side."""
    tokens, model = torch.from_numpy(trainer.val_tokens.astype("int64")), trainer.model
    T = model.cfg.context_length
    n = (len(tokens) - 1) // T
    x, y = tokens[: n * T].view(n, T), tokens[1 : n * T + 1].view(n, T)
    with evaluating(model):
        pairs = zip(x.split(64), y.split(64), strict=True)
        parts = [model.loss(a, b).item() * len(a) for a, b in pairs]
    return sum(parts) / n


class EagerGPT(nn.Module):
    """The same GPT written as most people would, from torch's own layers."""

    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        C = cfg.emb_dim
        self.tok, self.pos = nn.Embedding(cfg.vocab_size, C), nn.Embedding(cfg.context_length, C)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(C),
                    "qkv": nn.Linear(C, 3 * C, bias=False),
                    "out": nn.Linear(C, C),
                    "norm2": nn.LayerNorm(C),
                    "ff": nn.Sequential(
                        nn.Linear(C, 4 * C), nn.GELU(approximate="tanh"), nn.Linear(4 * C, C)
                    ),
                }
            )
            for _ in range(cfg.n_layers)
        )
        self.norm, self.n_heads = nn.LayerNorm(C), cfg.n_heads

    def forward(self, idx: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss."""
        B, S = idx.shape
        x = self.tok(idx) + self.pos(torch.arange(S))
        for block in self.blocks:
            q, k, v = (
                part.view(B, S, self.n_heads, -1).transpose(1, 2)
                for part in block["qkv"](block["norm1"](x)).chunk(3, dim=-1)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["out"](y.transpose(1, 2).reshape(B, S, -1))
            x = x + block["ff"](block["norm2"](x))
        logits = F.linear(self.norm(x), self.tok.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def step_ratio(race: Race) -> None:
    """Print a whole training step with AdamW, batch 12, against the plain eager model's."""
    trainer = new_trainer(race, TrainConfig.plain())
    model = EagerGPT(race.cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def eager() -> None:
        x, y = trainer.draw()[0]
        optimizer.zero_grad(set_to_none=True)
        loss = model(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    for _ in range(3):  # warm both up
        eager(), trainer.step()
    theirs, ours = medians(eager, trainer.step, rounds=40)
    print(
        f"training step: {1e3 * ours:.0f} ms against a plain eager model's {1e3 * theirs:.0f} ms,"
        f" ratio {ours / theirs:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
