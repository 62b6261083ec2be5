"""The room that counts a model's parameters, bytes, cache and FLOPs from its configuration.

May import configurations and small helpers only; imports no torch.
"""

from gptlib.accounting.accelerators import (
    ACCELERATORS,
    Accelerator,
    Limit,
    accelerator,
    decode_limit,
    prefill_limit,
    ridge_batch,
)
from gptlib.accounting.accounts import Account, CacheKind, Dtype, account, cache_dtype
from gptlib.accounting.architectures import ARCHITECTURES
from gptlib.accounting.assessment import Finding, assess
from gptlib.accounting.ledger import Component
from gptlib.accounting.training import (
    TrainingBytes,
    activation_bytes,
    optimizer_bytes,
    tokens_per_parameter,
    training_bytes,
    training_flops,
)

__all__ = [
    "ACCELERATORS",
    "ARCHITECTURES",
    "Accelerator",
    "Account",
    "CacheKind",
    "Component",
    "Dtype",
    "Finding",
    "Limit",
    "TrainingBytes",
    "accelerator",
    "account",
    "activation_bytes",
    "assess",
    "cache_dtype",
    "decode_limit",
    "optimizer_bytes",
    "prefill_limit",
    "ridge_batch",
    "tokens_per_parameter",
    "training_bytes",
    "training_flops",
]
