"""What somebody else did to a stream: entries removed before a daemon was handed them, a group that was moved.

Redis tells nobody that an entry is gone, and its own counters (``lag``, ``entries-read``) say something else in each
version once one is. Two numbers are the same in all: how many entries were ever added, and how many of them are not
there any more. Between two looks, those that were added and are not waiting must all have been handed out to this
daemon, which has counted them. What is missing was removed; never more than was removed beside firn's own trims, so
that what a former reader of the shard was still handed does not count.

The group has to stand where this daemon's last read has left it, and every entry that is held back here has to be
pending. Where it is not so, entries may stand in the stream that no read hands out: `look` tells, and the caller reads
them again (`firn.coordinator.intake.unanswered_entries`).

All of that only while nobody else has had the shard: who had it took and trimmed as well. So an account ends with the
ownership of its shard, and a loss is told when ZooKeeper has said that the shard still was this daemon's afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

import msgspec

from firn.coordinator.metrics import Metrics
from firn.storage.intent_streams import FIRST_ID, Deliveries, Entry, IntentStreams
from firn.storage.log import get_logger

SETTLES_S: Final = 5.0
"""A shard that is new here may still be read by the daemon that had it before: its last read waits for so long."""

Interference = Literal["replaced", "position", "pending"]
"""What somebody else did: put another stream in the place of this one, moved the group or read in it, or took entries
out of what is pending."""


class _Account(msgspec.Struct):
    """A shard as it was at the last look: entries that were `passed` (handed out or gone), `removed`, `waiting`.

    Since then so many were `taken` by this daemon, up to the entry `taken_to`, and `trimmed` by it. `last` is None
    before the first look.
    """

    begun: float = msgspec.field(default_factory=time.monotonic)
    taken_to: str | None = None
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
        self._log = get_logger()

    def took_over(self, shard: int) -> None:
        """The shard is this daemon's from now on."""
        self._accounts[shard] = _Account()

    def took(self, entries: Sequence[Entry]) -> None:
        """These, all of one shard, were handed out to this daemon for the first time."""
        account = self._accounts.get(entries[0].shard)
        if account is not None:
            account.taken += len(entries)
            account.taken_to = entries[-1].entry_id

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
            self._accounts[shard] = _Account(begun=self._accounts[shard].begun)

    async def look(self, shard: int, *, held_back: int = 0) -> Interference | None:
        """Count what was lost of a shard since the last look; return what somebody else did to it otherwise.

        `held_back` entries have to be pending. Raises as the streams do.
        """
        taken = self._streams.entries_lost - self._taken_seen  # which have been logged
        self._taken_seen += taken
        self._metrics.lost_entries.labels("taken").inc(taken)
        before = self._accounts.get(shard)
        if before is None:
            return None
        now = await self._streams.deliveries(shard)
        if now is None:
            return None
        waiting = 0 if now.undelivered is None else _lost_since(before, now, now.undelivered)
        found = _interference(before, now, held_back=held_back)
        if (waiting or found) and not await self._still_owns(shard):
            return None  # the account stays: if the shard is this daemon's after all, the next look tells
        if self._accounts.get(shard) is not before:
            return None  # it was given up meanwhile
        if now.undelivered is not None or found is not None:
            undelivered = now.undelivered or 0
            last = now if now.undelivered is not None else None
            self._accounts[shard] = _Account(
                begun=before.begun, last=last, passed=now.added - undelivered, waiting=undelivered
            )
        if waiting:
            self.tell(shard, "waiting", waiting, after=None if before.last is None else before.last.delivered_id)
        return found

    def is_new(self, shard: int) -> bool:
        """Whether the shard's former daemon may still be at it."""
        account = self._accounts.get(shard)
        return account is None or time.monotonic() < account.begun + SETTLES_S

    def tell(self, shard: int, was: Literal["waiting", "taken"], count: int, *, after: str | None) -> None:
        """Say that entries are lost, which came after an entry as far as is known."""
        self._metrics.lost_entries.labels(was).inc(count)
        self._log.error(
            "entries lost", shard=shard, count=count, was=was, after=after,
            hint="removed from the stream before they were decided: gone unless their writers submit them again",
        )  # fmt: skip


def _lost_since(before: _Account, now: Deliveries, undelivered: int) -> int:
    """How many were removed since the last look that nobody had read."""
    passed = now.added - undelivered
    if before.last is None:
        return _lost_unwatched(now, passed)
    if _is_another(before.last, now):
        return max(0, before.waiting - before.taken)  # another stream of that name: these were seen in the old one
    missing = passed - before.passed - before.taken
    removed = now.removed - before.last.removed - before.trimmed
    return max(0, min(missing, removed))


def _is_another(last: Deliveries, now: Deliveries) -> bool:
    """Whether another stream has the name: of one and the same, neither number ever falls."""
    return now.added < last.added or now.removed < last.removed


def _interference(before: _Account, now: Deliveries, *, held_back: int) -> Interference | None:
    last = before.last
    if last is not None and _is_another(last, now):
        return "replaced"
    expected = before.taken_to or (None if last is None else last.delivered_id)
    if expected is not None and expected != now.delivered_id:
        return "position"
    if last is not None:
        if last.delivered is not None and now.delivered is not None:
            if now.delivered - last.delivered > before.taken:
                return "position"  # and has been read from there on since
        elif last.delivered is not None:
            return "position"  # the server does not know any more how many were handed out
    return "pending" if now.pending < held_back else None


def _lost_unwatched(now: Deliveries, passed: int) -> int:
    """How many were lost while nobody counted: only where the entry that was handed out last has gone with them.

    Where it is there, what is missing by Redis's own count was missing before, and has been told.
    """
    if now.delivered_there or now.delivered is None or now.delivered_id == FIRST_ID:
        return 0
    return max(0, passed - now.delivered)
