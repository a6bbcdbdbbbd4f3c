"""Looking after the named consumers of tables' changes: who has fallen behind, and whose table is gone.

Expiry waits for a consumer until its hold ends. From then on it may take what the consumer has not read, so the end of
a hold is reported, and again when that has happened: as events, in the metrics, and by ``firn consumer list``.
Consumers of a table that is gone for good are removed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, get_args

import msgspec

from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.operations.consumed_tables import pointer_at, pointer_of
from firn.model.consumer import Consumer, ConsumerState, ConsumerStatus, TableConsumers, status_with, unseen_by
from firn.model.errors import CorruptFile, FirnError, InvalidInput
from firn.model.event import consumer_event
from firn.model.pointer import Pointer
from firn.model.sharding import shard_of
from firn.storage.consumers import Consumers
from firn.storage.log import get_logger

ROUND_S: Final = 10.0
"""Between two rounds through the consumers of a daemon's tables."""

SEARCH_AGAIN_S: Final = 600.0
"""How long it is believed that no table has a uuid: looking for one reads all pointers."""

STATES: Final[tuple[ConsumerState, ...]] = get_args(ConsumerState)

Publish = Callable[[Sequence[bytes]], Awaitable[None]]


class ConsumerPatrol:
    """The rounds of one daemon through the consumers of tables in its shards."""

    def __init__(
        self,
        consumers: Consumers,
        shop: Workshop,
        *,
        publish: Publish,
        shards: int,
        owned: Callable[[], list[int]],
        round_s: float = ROUND_S,
    ) -> None:
        self._consumers = consumers
        self._shop = shop
        self._publish = publish
        self._shards = shards
        self._owned = owned
        self._round_s = round_s
        self._unseen: dict[str, tuple[str, TableConsumers, dict[str, list[int] | None]]] = {}
        """By table uuid: the metadata file and the consumers that were compared, and what each has not seen."""
        self._searched_at: dict[str, float] = {}
        self._log = get_logger()

    async def run(self) -> None:
        """Go round until cancelled. A server that does not answer is asked again in the next round."""
        while True:
            await asyncio.sleep(self._round_s)
            try:
                await self.look()
            except (FirnError, OSError) as error:
                self._log.debug("consumers not looked at", reason=str(error))

    async def look(self) -> None:
        """Look at all consumers once."""
        mine = self._owned()
        counts: Counter[ConsumerState] = Counter()
        seen: set[str] = set()
        for found in await self._consumers.all():
            if shard_of(found.table, shards=self._shards) in mine:
                seen.add(found.table_uuid)
                try:
                    counts.update(status.state for status in await self._look_at(found))
                except (CorruptFile, InvalidInput) as error:  # the table patrol reports damage
                    self._log.debug("consumers not looked at", table=found.table, reason=str(error))
        self._unseen = {uuid: kept for uuid, kept in self._unseen.items() if uuid in seen}
        self._searched_at = {uuid: at for uuid, at in self._searched_at.items() if uuid in seen}
        for state in STATES:
            self._shop.metrics.consumers.labels(state).set(counts[state])

    async def _look_at(self, found: TableConsumers) -> list[ConsumerStatus]:
        now_ms = self._shop.wall_ms()
        pointer = await self._pointer(found)
        if pointer is not None and pointer.table != found.table:
            name = pointer.table
            await self._consumers.change(
                found.table_uuid, lambda now: msgspec.structs.replace(now, table=name) if now.consumers else now
            )
            return []  # its daemon's, from the next round on
        if pointer is None or pointer.dropped:
            # Of a name that was given to another table they stay for a while, so that their readers hear of it.
            is_purged = pointer is None and await pointer_at(found.table, self._shop.pointers) is None
            if is_purged or all(now_ms > one.held_until_ms for one in found.consumers):
                self._log.info("consumers removed", table=found.table, table_uuid=found.table_uuid)
                await self._consumers.forget(found.table_uuid)
            return []
        pointer = (await self._shop.catalogs.read(found.table)).pointer
        unseen = await self._compared(found, pointer)
        statuses = [status_with(unseen[one.name], one, now_ms=now_ms) for one in found.consumers]
        for status in statuses:
            await self._report(found, status, now_ms=now_ms)
        return statuses

    async def _pointer(self, found: TableConsumers) -> Pointer | None:
        """Return the table's pointer; a table that was not found is not looked for again for a while."""
        searched_at = self._searched_at.get(found.table_uuid, float("-inf"))
        is_due = time.monotonic() - searched_at >= SEARCH_AGAIN_S
        pointer = await pointer_of(found, self._shop.pointers, anywhere=is_due)
        if pointer is None and is_due:
            self._searched_at[found.table_uuid] = time.monotonic()
        return pointer

    async def _compared(self, found: TableConsumers, pointer: Pointer) -> dict[str, list[int] | None]:
        kept = self._unseen.get(found.table_uuid)
        if kept is not None and kept[:2] == (pointer.metadata_location, found):
            return kept[2]
        metadata = await self._shop.threads.read(self._shop.reader.metadata, pointer.metadata_location)
        unseen = {one.name: unseen_by(one, metadata) for one in found.consumers}
        self._unseen[found.table_uuid] = pointer.metadata_location, found, unseen
        return unseen

    async def _report(self, found: TableConsumers, status: ConsumerStatus, *, now_ms: int) -> None:
        """Report once that a consumer is not waited for any longer, and once that it has lost changes."""
        consumer, state = status.consumer, status.state
        if state == "lost" and consumer.lost_ms is None:
            marked = msgspec.structs.replace(consumer, lost_ms=now_ms, lapsed_ms=consumer.lapsed_ms or now_ms)
        elif state == "lapsed" and consumer.lapsed_ms is None:
            marked = msgspec.structs.replace(consumer, lapsed_ms=now_ms)
        else:
            return
        event = consumer_event(found, status, daemon=self._shop.daemon, timestamp_ms=now_ms)
        await self._publish([msgspec.json.encode(event)])
        if await self._mark(found, consumer, marked):
            self._shop.metrics.consumers_left.labels(state).inc()
            self._log.warning(
                f"consumer {state}",
                table=found.table,
                consumer=consumer.name,
                behind=status.behind,
                lag_ms=status.lag_ms,
            )  # fmt: skip

    async def _mark(self, found: TableConsumers, consumer: Consumer, marked: Consumer) -> bool:
        """Note that it was reported, unless the consumer has moved meanwhile."""
        done = False

        def change(now: TableConsumers) -> TableConsumers:
            nonlocal done
            done = now.find(consumer.name) == consumer
            return now.with_consumer(marked) if done else now

        await self._consumers.change(found.table_uuid, change)
        return done
