"""The ids that one checkpoint of a journal lists, in eight bytes each: enough to know that it must be read for one."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from sys import getsizeof
from typing import Final

from firn.model.identifiers import intent_id_ms
from firn.model.journal import Segment

_MASK: Final = (1 << 64) - 1


class DecidedIds:
    """Which intents may stand in the checkpoint at `location`. Behind it is the one `before`, None for the first.

    Kept are 64 bits of Python's hash of each id, which is keyed anew in every process: one that is not there is taken
    for one that is about never, and whoever reads the checkpoint finds out. `newest_ms` is what the newest id says of
    the time when it was made: younger ones need not be looked for. -1 where there are none.
    """

    __slots__ = ("_hashes", "before", "location", "newest_ms")

    def __init__(self, segment: Segment, ids: Iterable[str]) -> None:
        listed = list(ids)
        self.location = segment.location
        self.before = segment.batch.previous_checkpoint
        self.newest_ms = max(map(intent_id_ms, listed), default=-1)
        self._hashes = array("Q", sorted(hash(intent_id) & _MASK for intent_id in listed))

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, intent_id: object) -> bool:
        key = hash(intent_id) & _MASK
        at = bisect_left(self._hashes, key)
        return at < len(self._hashes) and self._hashes[at] == key

    @property
    def memory(self) -> int:
        """Bytes that these take."""
        return getsizeof(self) + getsizeof(self._hashes) + getsizeof(self.location)
