"""What a batch asks for."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.pending import Pending
from firn.model.intent import Intent
from firn.model.operations.transaction import Transaction


def transaction_in(batch: Sequence[Pending]) -> Transaction | None:
    """The transaction that the batch is, unless it is refused already."""
    first = batch[0]
    return first.decoded.intent if isinstance(first.decoded.intent, Transaction) and first.verdict is None else None


def operations_in(batch: Sequence[Pending]) -> list[Intent]:
    """What the batch asks for, operation by operation: the members of a transaction, else the intents."""
    operations: list[Intent] = []
    for pending in batch:
        intent = pending.decoded.intent
        operations += intent.members if isinstance(intent, Transaction) else (intent,)
    return operations
