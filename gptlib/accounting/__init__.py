"""Count a model's parameters, bytes, cache and FLOPs from its configuration; imports no torch."""

from gptlib.accounting.accelerators import (
    MACHINES,
    Limit,
    Machine,
    decode_limit,
    machine,
    prefill_limit,
    ridge_batch,
)
from gptlib.accounting.accounts import Account, CacheKind, Dtype, account
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
    "ARCHITECTURES",
    "MACHINES",
    "Account",
    "CacheKind",
    "Component",
    "Dtype",
    "Finding",
    "Limit",
    "Machine",
    "TrainingBytes",
    "account",
    "activation_bytes",
    "assess",
    "decode_limit",
    "machine",
    "optimizer_bytes",
    "prefill_limit",
    "ridge_batch",
    "tokens_per_parameter",
    "training_bytes",
    "training_flops",
]
