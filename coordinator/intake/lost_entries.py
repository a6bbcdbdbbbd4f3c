"""Entries that somebody removed from a stream before a daemon was handed them: found out by counting.

Redis tells nobody that an entry is gone, and its own counters (``lag``, ``entries-read``) say something else in each
version once one is. Two numbers are the same in all: how many entries were ever added, and how many of them are not
there any more. Between two looks, those that were added and are not waiting must all have been handed out to this
daemon, which has counted them. What is missing was removed; never more than was removed beside firn's own trims, so
that what a former reader of the shard was still handed does not count.

All of that only while nobody else has had the shard: who had it took and trimmed as well. So an account ends with the
ownership of its shard, and a loss is told when ZooKeeper has said that the shard still was this daemon's afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from firn.coordinator.metrics import Metrics
from firn.storage.intent_streams import FIRST_ID, Deliveries, Entry, IntentStreams, id_order


class _Account(msgspec.Struct):
    """A shard as it was at the last look: entries that were `passed` (handed out or gone), `removed`, `waiting`.

    Since then so many were `taken` by this daemon, and `trimmed` by it. `last` is None before the first look.
    """

    last: Deliveries | None = None
    passed: int = 0
    waiting: int = 0
    taken: int = 0
    trimmed: int = 0


class LostEntries:
    """Keeps count of the shards of a daemon. No look may be beside a read: what is handed out meanwhile seems lost.

    `still_owns` says by ZooKeeper whether a shard is this daemon's.
    """

    def __init__(
        self, streams: IntentStreams, metrics: Metrics, *, still_owns: Callable[[int], Awaitable[bool]]
    ) -> None:
        self._streams = streams
        self._metrics = metrics
        self._still_owns = still_owns
        self._accounts: dict[int, _Account] = {}
        self._taken_seen = streams.entries_lost
        self._log = structlog.get_logger()

    def took_over(self, shard: int) -> None:
        """The shard is this daemon's from now on."""
        self._accounts[shard] = _Account()

    def took(self, entries: Sequence[Entry]) -> None:
        """These, all of one shard, were handed out to this daemon for the first time."""
        account = self._accounts.get(entries[0].shard)
        if account is not None:
            account.taken += len(entries)

    def trimmed(self, shard: int, count: int) -> None:
        """This daemon has removed so many."""
        account = self._accounts.get(shard)
        if account is not None:
            account.trimmed += count

    def forget(self, shard: int) -> None:
        """The shard is this daemon's no more."""
        self._accounts.pop(shard, None)

    def start_over(self) -> None:
        """An answer was lost, or Redis was emptied: nobody knows what was handed out with it."""
        for shard in self._accounts:
            self._accounts[shard] = _Account()

    async def look(self, shard: int) -> None:
        """Count what was lost of a shard since the last look. Raises as the streams do."""
        taken = self._streams.entries_lost - self._taken_seen  # which have been logged
        self._taken_seen += taken
        self._metrics.lost_entries.labels("taken").inc(taken)
        before = self._accounts.get(shard)
        if before is None:
            return
        now = await self._streams.deliveries(shard)
        if now is None or now.undelivered is None:
            return
        waiting = _lost_since(before, now, now.undelivered)
        if waiting and not await self._still_owns(shard):
            return  # the account stays: if the shard is this daemon's after all, the next look tells
        if self._accounts.get(shard) is not before:
            return  # it was given up meanwhile
        self._accounts[shard] = _Account(now, now.added - now.undelivered, now.undelivered)
        if waiting:
            self._metrics.lost_entries.labels("waiting").inc(waiting)
            self._log.error(
                "entries lost", shard=shard, count=waiting,
                hint="removed from the stream before they were read: gone unless their writers submit them again",
            )  # fmt: skip


def _lost_since(before: _Account, now: Deliveries, undelivered: int) -> int:
    """How many were removed since the last look that nobody had read."""
    passed = now.added - undelivered
    if before.last is None:
        return _lost_unwatched(now, passed)
    if now.added < before.last.added or id_order(now.delivered_id) < id_order(before.last.delivered_id):
        return max(0, before.waiting - before.taken)  # another stream of that name: these were seen in the old one
    missing = passed - before.passed - before.taken
    removed = now.removed - before.last.removed - before.trimmed
    return max(0, min(missing, removed))


def _lost_unwatched(now: Deliveries, passed: int) -> int:
    """How many were lost while nobody counted: only where the entry that was handed out last has gone with them.

    Where it is there, what is missing by Redis's own count was missing before, and has been told.
    """
    if now.delivered_there or now.delivered is None or now.delivered_id == FIRST_ID:
        return 0
    return max(0, passed - now.delivered)
