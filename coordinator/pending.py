"""An intent on its way: decoded, with where it came from and when."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firn.coordinator.replay.decision import Refused
from firn.model.intent import Intent
from firn.model.intent_codec import DecodedIntent
from firn.model.journal import Decided
from firn.model.operations.transaction import Transaction
from firn.storage.intent_streams import Entry


class Pending(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One queued intent.

    `entry` is its stream entry, `epoch` the identity of the queue's content, `entry_ms` the queue's clock when it was
    added, `taken_at` the monotonic clock (s) when the daemon took it, `queued_ms` how long it had been queued then, by
    the queue's clock. `verdict` is set when it is refused already, and only needs to be put on record;
    `repeats` when it repeats an epoch that was committed, and gets that outcome.
    """

    decoded: DecodedIntent
    entry: Entry
    epoch: str
    entry_ms: int
    taken_at: float
    queued_ms: float | None = None
    verdict: Refused | None = None
    repeats: Decided | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is to be replayed."""
        return self.verdict is None and self.repeats is None

    @property
    def entry_name(self) -> str:
        """Where the intent stands in the queue, for people: epoch, shard and entry id."""
        entry = self.entry
        return f"{self.epoch}/{entry.shard}/{entry.entry_id}"


def transaction_in(batch: Sequence[Pending]) -> Transaction | None:
    """The transaction that the batch is, unless it is decided already."""
    first = batch[0]
    return first.decoded.intent if isinstance(first.decoded.intent, Transaction) and first.is_open else None


def operations_in(batch: Sequence[Pending]) -> list[Intent]:
    """What the batch asks for, operation by operation: the members of a transaction, else the intents."""
    intents = [pending.decoded.intent for pending in batch]
    if Transaction not in set(map(type, intents)):  # as nearly always
        return intents
    return [one for intent in intents for one in (intent.members if isinstance(intent, Transaction) else (intent,))]
