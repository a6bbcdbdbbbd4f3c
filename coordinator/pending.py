"""An intent on its way: decoded, with where it came from and when."""

from __future__ import annotations

import msgspec

from firn.coordinator.replay.decision import Refused
from firn.model.intent_codec import DecodedIntent
from firn.storage.intent_streams import Entry


class Pending(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One queued intent.

    `entry` is its stream entry, `epoch` the identity of the queue's content, `entry_ms` the queue's clock when it was
    added, `taken_at` the monotonic clock (s) when the daemon took it. `verdict` is set when it is refused already, and
    only needs to be put on record.
    """

    decoded: DecodedIntent
    entry: Entry
    epoch: str
    entry_ms: int
    taken_at: float
    verdict: Refused | None = None

    @property
    def entry_name(self) -> str:
        """Where the intent stands in the queue, for people: epoch, shard and entry id."""
        entry = self.entry
        return f"{self.epoch}/{entry.shard}/{entry.entry_id}"
