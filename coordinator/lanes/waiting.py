"""What waits in a table's stream beyond its lane: work that an expiry must not cut off from what it was planned on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from firn.coordinator.replay.holds import Hold, holds_of_payload
from firn.model.limits import Limits
from firn.model.sharding import shard_of
from firn.storage.intent_streams import FIRST_ID, IntentStreams, id_order

PAGE: Final = 512
SHARDS_AT_ONCE: Final = 8
HOUR_MS: Final = 3_600_000


class WaitingIntents:
    """The undecided intents of the streams; nothing is taken, and what cannot be read needs nothing.

    `under_way` tells entries (by shard and id) that are in a lane of this daemon: those the lane itself knows.
    """

    def __init__(
        self, streams: IntentStreams, *, shards: int, limits: Limits, under_way: Callable[[int, str], bool]
    ) -> None:
        self._streams = streams
        self._shards = shards
        self._limits = limits
        self._under_way = under_way

    async def holds(self, table: str, *, besides: Collection[tuple[int, str]] | None = None) -> tuple[Hold, ...]:
        """What they need of a table, each need once.

        The table's own lane asks without `besides`, and those under way here are left to it. Whoever else asks names
        the entries (shard and id) of the batch that it asks for: all others count, in whatever lane they are.

        The streams of other tables are looked at, too: for transactions. At most `Limits.waiting_scan_entries_max`
        entries are looked at in each stream; of those behind them it is taken for granted that they were planned no
        earlier than `Limits.dedupe_window_hours` before they were queued.
        """
        home = shard_of(table, shards=self._shards)
        found: dict[Hold, Hold] = {}
        for start in range(0, self._shards, SHARDS_AT_ONCE):
            shards = range(start, min(start + SHARDS_AT_ONCE, self._shards))
            for held in await asyncio.gather(*(self._held(table, shard, home, besides) for shard in shards)):
                found = {**held, **found}
        return tuple(found.values())

    async def _held(
        self, table: str, shard: int, home: int, besides: Collection[tuple[int, str]] | None
    ) -> dict[Hold, Hold]:
        """What the entries of one stream need of a table, by the need itself, whoever has it."""
        oldest_ms = (await self._streams.lag(shard)).oldest_entry_ms
        found: dict[Hold, Hold] = {}
        if oldest_ms is None:
            return found
        after, seen = (f"{oldest_ms - 1}-{2**63}" if oldest_ms else FIRST_ID), 0
        while page := await self._streams.standing(shard, after=after, count=PAGE):
            for standing in page:
                entry_id = standing.entry_id
                if standing.state != "settled" and (besides is None or (shard, entry_id) not in besides):
                    elsewhere = shard != home or (besides is None and self._under_way(shard, entry_id))
                    for hold in holds_of_payload(standing.payload or b"", table=table, elsewhere=elsewhere):
                        found.setdefault(msgspec.structs.replace(hold, who=""), hold)
            after, seen = page[-1].entry_id, seen + len(page)
            if seen >= self._limits.waiting_scan_entries_max:
                unseen = self._unseen(after)
                return {unseen: unseen, **found}
        return found

    def _unseen(self, entry_id: str) -> Hold:
        queued_ms, _ = id_order(entry_id)
        return Hold(
            who=f"work that waits behind the {self._limits.waiting_scan_entries_max} intents that were looked at",
            since_ms=queued_ms - self._limits.dedupe_window_hours * HOUR_MS,
        )
