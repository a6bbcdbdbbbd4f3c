"""The ids that one checkpoint of a journal lists, in eight bytes each: enough to know that it must be read for one."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection
from sys import getsizeof
from typing import Final

from firn.model.identifiers import intent_id_ms
from firn.model.journal import Checkpoint, Segment

_MASK: Final = (1 << 64) - 1


class DecidedIds:
    """Which intents may stand in the checkpoint at `location`.

    Kept are 64 bits of Python's hash of each id, which is keyed anew in every process: one that is not there is taken
    for one that is about never, and whoever reads the checkpoint finds out. `oldest_ms` and `newest_ms` are what the
    ids say of the time when they were made: others need not be looked for.
    """

    __slots__ = ("_hashes", "location", "newest_ms", "oldest_ms")

    def __init__(self, location: str, ids: Collection[str]) -> None:
        self.location = location
        times = [intent_id_ms(intent_id) for intent_id in ids]
        self.oldest_ms = min(times, default=0)
        self.newest_ms = max(times, default=-1)
        self._hashes = array("Q", sorted(hash(intent_id) & _MASK for intent_id in ids))

    def __len__(self) -> int:
        return len(self._hashes)

    def lists(self, intent_id: str, made_ms: int) -> bool:
        """Whether an id, made then, is among these."""
        if not self.oldest_ms <= made_ms <= self.newest_ms:
            return False
        key = hash(intent_id) & _MASK
        at = bisect_left(self._hashes, key)
        return at < len(self._hashes) and self._hashes[at] == key

    @property
    def memory(self) -> int:
        """Bytes that these take."""
        return getsizeof(self) + getsizeof(self._hashes) + getsizeof(self.location)


class ListedIds(DecidedIds):
    """All ids of one checkpoint, behind which is the one `before`, None for the first.

    All of them were queued by `queued_ms`. `ahead` are those that say a later time, because their writer's clock was
    ahead of the queue's: None in most checkpoints.
    """

    __slots__ = ("ahead", "before", "queued_ms")

    def __init__(self, segment: Segment, checkpoint: Checkpoint) -> None:
        super().__init__(segment.location, [intent_id for intent_id, _, _ in checkpoint.intents])
        self.before = segment.batch.previous_checkpoint
        self.queued_ms = checkpoint.newest_entry_ms
        self.ahead = ids_ahead(segment, checkpoint) if self.newest_ms > self.queued_ms else None

    @property
    def memory(self) -> int:
        """Bytes that these take."""
        return super().memory + (0 if self.ahead is None else self.ahead.memory)


def ids_ahead(segment: Segment, checkpoint: Checkpoint) -> DecidedIds | None:
    """Of the ids of a checkpoint those that say a later time than when the last of them was queued, if any does."""
    queued_ms = checkpoint.newest_entry_ms
    ahead = [intent_id for intent_id, _, _ in checkpoint.intents if intent_id_ms(intent_id) > queued_ms]
    return DecidedIds(segment.location, ahead) if ahead else None
