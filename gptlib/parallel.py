"""Where a training step runs: device, precision, and one process or many under torchrun.

One process is the normal case, and then nothing here changes anything. Under `torchrun` every
process draws the same global batch and takes its own rows, so a run does not depend on how many
processes share it, and can go on with another number of them.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gptlib.model import GPT, loss_of_checked


def pick_device(name: str = "auto") -> torch.device:
    """Return the named device, or by default the best one that is here: CUDA, MPS, else the CPU.

    Under torchrun each process on a machine gets a GPU of its own.

    Raises:
        ValueError: the device does not exist, or is not usable here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cpu" and torch.backends.mps.is_available():
            name = "mps"
    if name == "cuda" and "LOCAL_RANK" in os.environ:
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}") from error
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


@contextlib.contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the other processes where torchrun started this one; otherwise do nothing."""
    if "WORLD_SIZE" not in os.environ or dist.is_initialized():
        yield
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def rank() -> int:
    """Return this process's number, 0 for the one that writes."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """Return how many processes share the run."""
    return dist.get_world_size() if dist.is_initialized() else 1


def total(value: float, device: torch.device) -> float:
    """Return the sum of `value` over all processes."""
    if world_size() == 1:
        return value
    everyone = torch.tensor(value, dtype=torch.float64 if device.type == "cpu" else torch.float32)
    everyone = everyone.to(device)
    dist.all_reduce(everyone)
    return everyone.item()


def wait_for_all() -> None:
    """Return when every process has come here."""
    if world_size() > 1:
        dist.barrier()


class Loss(nn.Module):
    """The model's loss as a module of its own, which DDP and torch.compile can wrap."""

    def __init__(self, model: GPT, *, recompute: bool) -> None:
        super().__init__()
        self.model, self.recompute = model, recompute

    def forward(self, idx: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss in nats per counted token; idx and targets are (B, T)."""
        with _recomputing(self.model) if self.recompute else contextlib.nullcontext():
            return loss_of_checked(self.model, idx, targets)


@contextlib.contextmanager
def _recomputing(model: GPT) -> Iterator[None]:
    """Keep only each block's input; the backward pass computes the rest again (Chen et al., 2016).

    One more forward pass buys back the memory of all activations inside the blocks.
    """
    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    try:
        yield
    finally:
        for block in model.blocks:
            del block.forward  # the class's own method shows again


def loss_module(model: GPT, *, recompute: bool, compile: bool, fsdp: bool) -> nn.Module:
    """Return a module that maps (idx, targets) to the loss, over however many processes there are.

    With several processes its gradients are means over them. `fsdp` shards `model` in place, block
    by block; otherwise DDP keeps a copy per process.
    """
    loss: nn.Module = Loss(model, recompute=recompute)
    if world_size() > 1 and fsdp:
        from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 (slow to load)

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model, reshard_after_forward=True)  # so that evaluating leaves it sharded
    elif world_size() > 1:
        loss = nn.parallel.DistributedDataParallel(loss)
    if compile:
        loss.compile()
    return loss


def optimizer_state(
    model: nn.Module, optimizers: list[torch.optim.Optimizer]
) -> dict[str, dict[str, Tensor]]:
    """Return each parameter's state by name, whole and on the CPU.

    All processes call it together; the first one gets it, the others get nothing.
    """
    from torch.distributed.checkpoint import state_dict  # noqa: PLC0415 (slow to load)

    options = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
    found = state_dict.get_optimizer_state_dict(model, optimizers, options=options)
    return dict(found.get("state", {}))  # type: ignore[arg-type]


def restore_optimizers(
    model: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    state: dict[str, dict[str, Tensor]],
) -> None:
    """Put back what `optimizer_state` returned, which every process holds whole."""
    from torch.distributed.checkpoint import state_dict  # noqa: PLC0415 (slow to load)

    own = state_dict.get_optimizer_state_dict(model, optimizers)  # for its groups
    # Not strict: a frozen parameter has no state.
    options = state_dict.StateDictOptions(full_state_dict=True, strict=False)
    own["state"] = state  # type: ignore[assignment]
    state_dict.set_optimizer_state_dict(model, optimizers, own, options=options)


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[Any]:
    """Return the context in which products are computed: bfloat16 or, on its own, float32.

    "auto" is bfloat16 on GPUs that have it. Weights, sums and optimizers stay float32.
    """
    if precision == "auto":
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
        precision = "bfloat16" if fast else "float32"
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def like(x: Tensor, like: Tensor) -> Tensor:
    """Cut `x`, which every process holds whole, as FSDP has cut `like`; mostly a no-op."""
    if not hasattr(like, "full_tensor"):
        return x
    from torch.distributed.tensor import DTensor, Replicate  # noqa: PLC0415 (slow to load)

    assert isinstance(like, DTensor)
    everywhere = [Replicate()] * like.device_mesh.ndim
    return DTensor.from_local(x, like.device_mesh, everywhere).redistribute(
        placements=like.placements
    )
