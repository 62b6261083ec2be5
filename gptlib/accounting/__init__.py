"""Count a model's parameters, bytes, cache and FLOPs from its configuration; imports no torch."""

from gptlib.accounting.architectures import ARCHITECTURES
from gptlib.accounting.book import Account, CacheKind, Dtype, account
from gptlib.accounting.ledger import Component

__all__ = ["ARCHITECTURES", "Account", "CacheKind", "Component", "Dtype", "account"]
