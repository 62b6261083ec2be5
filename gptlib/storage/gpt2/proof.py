"""Prove that a model is the released GPT-2, or the same function as another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gptlib.config import GPTConfig, parameter_shapes
from gptlib.model import GPT, evaluating
from gptlib.sampling import generate

# Of the released GPT-2 small, as programs that are not ours found them: the logits of "Hello, I am"
# at its first position, by ONNX Runtime (Lokad.Onnx's tests; a CUDA port agrees on the first five);
# the loss of "lorem ipsum", from the example of Hugging Face's perplexity metric, whose 11.11 is 2
# to its power; and the greedy continuation of "The dog", from transformers' own tests.
_PROMPT = (15496, 11, 314, 716)
_LOGITS = {0: -35.236244, 1: -35.326595, 2: -38.975349, 3: -39.390675, 4: -37.653183}
_LOGITS |= {100: -43.312637, 1000: -40.749809, 10000: -41.987228, 50000: -44.113781}
_MEAN_LOGIT = -111.894714  # of all four positions
_IPSUM = (75, 29625, 220, 2419, 388)
_LOSS, _LOSS_ROUNDING = 3.4738, 1e-3  # nats per token
_DOG = (464, 3290)
_GREEDY = (373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290, 2688, 27262, 13, 198, 198)


@dataclass(frozen=True)
class Verdict:
    """What `verify` found."""

    same: bool
    reason: str  # one line: the figures, or where the difference begins
    loss: float | None = None  # nats per token of "lorem ipsum", for a model of the released size


@torch.no_grad()
def verify(model: GPT, other: GPT | None = None, *, tolerance: float = 1e-4) -> Verdict:
    """Say whether a model is the released GPT-2 small, or the same function as `other`.

    Without `other`: logits at a fixed prompt, a loss and a greedy continuation against stored
    values. With it: stage by stage through both models on one prompt, naming the first that
    differs.

    Args:
        tolerance: largest difference of two numbers that count as equal, relative to the largest.

    Raises:
        ValueError: the two models have different sizes or numbers of heads.
    """
    if other is None:
        with evaluating(model):
            return _against_release(model, tolerance)
    with evaluating(model), evaluating(other):
        return _against_model(model, other, tolerance)


def _against_release(model: GPT, tolerance: float) -> Verdict:
    small = GPTConfig.preset("gpt2-small")
    if parameter_shapes(model.cfg) != parameter_shapes(small):
        return Verdict(False, "another size than the released GPT-2 small")
    idx = torch.tensor([_PROMPT], device=model.tok_emb.weight.device)
    logits = model(idx)[0].float().cpu()  # (4, V)
    ipsum = torch.tensor([_IPSUM], device=idx.device)
    loss = float(model.loss(ipsum[:, :-1], ipsum[:, 1:]))
    pairs = [(float(logits[0, i]), value, f"logit {i}") for i, value in _LOGITS.items()]
    pairs.append((float(logits.mean()), _MEAN_LOGIT, "mean logit"))
    for got, expected, what in pairs:
        if abs(got - expected) <= tolerance * abs(expected):
            continue
        return Verdict(False, f"{what} is {got:.4f}, the released model's is {expected:.4f}", loss)
    if not abs(loss - _LOSS) <= _LOSS_ROUNDING:
        return Verdict(False, f"the loss is {loss:.4f}, the released model's is {_LOSS}", loss)
    ids = tuple(generate(model, list(_DOG), len(_GREEDY), temperature=0)[len(_DOG) :])
    if ids != _GREEDY:
        at = next(i for i, (a, b) in enumerate(zip(ids, _GREEDY, strict=True)) if a != b)
        return Verdict(False, f"greedy token {at} is {ids[at]}, not {_GREEDY[at]}", loss)
    worst = max(abs(got - expected) for got, expected, _ in pairs)
    return Verdict(True, f"the released GPT-2 small: logits within {worst:.1e}", loss)


def _against_model(model: GPT, other: GPT, tolerance: float) -> Verdict:
    sizes = [(net.cfg.n_heads, parameter_shapes(net.cfg)) for net in (model, other)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"the models have different sizes: {model.cfg} and {other.cfg}")
    length = min(16, model.cfg.context_length)
    generator = torch.Generator().manual_seed(0)
    idx = torch.randint(model.cfg.vocab_size, (1, length), generator=generator)
    stages: list[dict[str, Tensor]] = [{}, {}]
    for net, trace in zip((model, other), stages, strict=True):
        trace["logits"] = net(idx.to(net.tok_emb.weight.device), trace=trace)
    largest = 0.0
    for name, value in stages[0].items():
        a, b = value.double().cpu(), stages[1][name].double().cpu()
        masked = torch.isneginf(a) & torch.isneginf(b) & name.endswith(".scores")
        a, b = a.masked_fill(masked, 0.0), b.masked_fill(masked, 0.0)
        gap = float((a - b).abs().max() / b.abs().max().clamp(min=1e-12))
        if not gap <= tolerance:  # also where a number is not finite
            return Verdict(False, f"{name} is the first stage to differ, by {gap:.1e} of its size")
        largest = max(largest, gap)
    return Verdict(True, f"equal at all {len(stages[0])} stages, within {largest:.1e}")
