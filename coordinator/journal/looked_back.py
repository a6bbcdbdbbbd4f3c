"""Checkpoints that were looked back into: what they list stays in memory for the next who asks.

A writer whose clock is behind makes ids that are older than what memory has let go, all of them, and new all the same.
"""

from __future__ import annotations

from collections import OrderedDict

from firn.coordinator.journal.decided_ids import ListedIds


class LookedBack:
    """The ids of such checkpoints, `bytes_max` at most; those that were not asked for longest go first."""

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[str, ListedIds] = OrderedDict()
        self.memory = 0
        """Bytes that these take."""

    def find(self, location: str) -> ListedIds | None:
        """What the checkpoint at `location` lists, if it is kept."""
        ids = self._kept.get(location)
        if ids is not None:
            self._kept.move_to_end(location)
        return ids

    def keep(self, ids: ListedIds) -> None:
        """Keep what a checkpoint lists that is not kept."""
        self._kept[ids.location] = ids
        self.memory += ids.memory
        while self.memory > self._bytes_max:
            self.memory -= self._kept.popitem(last=False)[1].memory

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()
        self.memory = 0
