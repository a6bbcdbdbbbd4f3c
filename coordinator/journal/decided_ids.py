"""The ids that one checkpoint of a journal lists, in eight bytes each: enough to know that it must be read for one."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from sys import getsizeof
from typing import Final

from firn.model.identifiers import intent_ids_ms
from firn.model.journal import Checkpoint, Segment

TimedId = tuple[int, str]
"""An intent's id behind the time that it says, in milliseconds since 1970."""

REFUSED_AHEAD_MS: Final = 24 * 3_600_000
"""How far ahead the clock of an intent that was refused for it may have been, as by a wrong time zone: where the
checkpoint of an older version does not say it."""


class TimedIds:
    """Ids with the times that they say. `latest_ms` is the latest of these, -1 where there is none."""

    __slots__ = ("ids", "latest_ms", "times")

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.times = intent_ids_ms(ids)
        self.latest_ms = max(self.times, default=-1)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.ids)

    def __iter__(self) -> Iterator[TimedId]:
        """Each with its time."""
        return zip(self.times, self.ids, strict=True)

    def later_than(self, queued_ms: int) -> list[TimedId]:
        """Those that say a later time."""
        return [one for one in self if one[0] > queued_ms] if self.latest_ms > queued_ms else []

    def until(self, queued_ms: int) -> TimedIds:
        """All others."""
        return self if self.latest_ms <= queued_ms else TimedIds([one for ms, one in self if ms <= queued_ms])


def timed_ids(checkpoint: Checkpoint) -> TimedIds:
    """The ids that a checkpoint lists."""
    return TimedIds([intent_id for intent_id, _, _ in checkpoint.intents])


class ListedIds:
    """Which intents may stand in one checkpoint, behind which is the one `before`, None for the first.

    All of them were queued by `queued_ms`. Those that say a later time, because their writer's clock was ahead of the
    queue's, are not among these (`firn.coordinator.journal.ids_ahead`), but in `len`. `newest_ms` is the latest time
    that any of these says; no id that was decided before them says a later one than `older_ms`.

    Kept are 64 bits of Python's hash of each id, which is keyed anew in every process: one that is not there is taken
    for one that is about never, and whoever reads the checkpoint finds out.
    """

    __slots__ = (
        "_count", "_hashes", "_oldest_ms", "before", "location", "memory", "newest_ms", "older_ms", "queued_ms",
    )  # fmt: skip

    def __init__(self, segment: Segment, timed: TimedIds, *, queued_ms: int, older_ms: int) -> None:
        self.location = segment.location
        self.before = segment.batch.previous_checkpoint
        self.queued_ms = queued_ms
        self.older_ms = older_ms
        self._count = len(timed)
        listed = timed.until(queued_ms)
        self._oldest_ms, self.newest_ms = min(listed.times, default=0), listed.latest_ms
        self._hashes = array("q", sorted(map(hash, listed.ids)))
        self.memory = getsizeof(self) + getsizeof(self._hashes) + getsizeof(self.location)
        """Bytes that these take."""

    def __len__(self) -> int:
        """How many ids the checkpoint lists."""
        return self._count

    def lists(self, intent_id: str, made_ms: int) -> bool:
        """Whether an id, made then, is among these."""
        if not self._oldest_ms <= made_ms <= self.newest_ms:
            return False
        key = hash(intent_id)
        at = bisect_left(self._hashes, key)
        return at < len(self._hashes) and self._hashes[at] == key
