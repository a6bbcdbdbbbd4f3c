"""All lanes of one daemon: an intent finds its table's, a lane with nothing to do goes away."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from firn.coordinator.cancellation import cancel_all
from firn.coordinator.journal.lookups import find_decision
from firn.coordinator.lanes.lane import AtWork, Lane
from firn.coordinator.lanes.looks import Looks
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.metrics import TableSize
from firn.coordinator.pending import Pending
from firn.coordinator.tables.readability import read_whole
from firn.model.errors import FirnError, NotFound, Unavailable
from firn.model.outcome import Outcome, from_journal
from firn.model.trouble import Trouble
from firn.storage.intent_streams import Entry, id_order
from firn.storage.log import get_logger
from firn.storage.malloc_settings import give_holes_back

IDLE_SWEEP_S = 30.0
"""How often idle lanes are dropped; what they know of their tables is put away."""


Due = tuple[str | None, Entry]
"""An entry that goes to a lane, with its table; None when it is none of its shard, or none at all."""


class _Held(msgspec.Struct):
    """What a lane has under way: queued, being committed or being published."""

    intents: int = 0
    bytes: int = 0


_NOTHING: Final = _Held()


def lane_name(table: str) -> str:
    """What the task of a table's lane is called, and every thread while it works for that."""
    return f"lane {table}"


class Lanes:
    """Lanes by table, and which stream entries are under way in them."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self._lanes: dict[str, Lane] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: dict[asyncio.Task[None], Lane] = {}
        """Lanes that are retired and still at their last batch."""
        self._under_way: defaultdict[int, dict[str, Due]] = defaultdict(dict)
        """By shard and entry id."""
        self._held: dict[str, _Held] = {}
        self._bytes = 0
        self._coming: Counter[str | None] = Counter()
        """By table: intents that are being read by another process."""
        self._given_up: set[int] = set()
        self._unreadable: dict[str, str] = {}
        """Tables that have no lane here, and could not be read when they had one, or when they were looked at."""
        self._looks = Looks()
        shop.paused.on_change(self._on_pauses)
        shop.metrics.buffered_bytes.set_function(lambda: self._bytes)
        self._log = get_logger()

    def put(self, pending: Pending) -> None:
        """Queue an intent, whose entry was admitted, in its table's lane."""
        table = pending.decoded.intent.table
        lane = self._lanes.get(table)
        if lane is None:
            lane = self._start(table)
        lane.put(pending)

    @contextlib.contextmanager
    def awaiting(self, tables: Counter[str | None]) -> Iterator[None]:
        """So many intents of each table are being read meanwhile: a batch that would begin without them waits for them.

        For the event loop: what is put before it goes on is in its lane when the lane looks.
        """
        self._coming += tables
        try:
            yield
        finally:
            self._coming -= tables

    async def decided_before(self, table: str, intent_id: str) -> Outcome | None:
        """What the table's journal has of an intent. Raises what reading it raises; for whoever has no lane for it."""
        shop = self._shop
        try:
            head = (await shop.pointers.read(table)).pointer.journal_head
        except NotFound:
            await shop.stores.confirm_now()
            await shop.ages.check_absent(table)
            return None
        skew_ms = shop.limits.clock_skew_minutes_max * 60_000
        found = await shop.threads.read(find_decision, shop.journal, head, intent_id, skew_ms=skew_ms)
        return None if found is None else from_journal(found[1].outcome, digest=found[1].digest)

    def has_room(self, table: str) -> bool:
        """Whether a table's lane may take another intent: it may hold as many bytes as are free, so there are always
        some for a lane that holds none. One of a paused table takes nothing: its intents wait in their stream.
        """
        if table in self._shop.paused:
            return False
        held, free = self._held.get(table, _NOTHING), self._shop.limits.buffered_bytes_max - self._bytes
        return held.intents < self._shop.limits.lane_intents_max and held.bytes < free

    def has_drained(self, table: str) -> bool:
        """Whether a lane that was full has room for so much that it is worth reading."""
        if table in self._shop.paused:
            return False
        held, free = self._held.get(table, _NOTHING), self._shop.limits.buffered_bytes_max - self._bytes
        return 2 * held.intents <= self._shop.limits.lane_intents_max and 2 * held.bytes < free

    def is_paused(self, table: str) -> bool:
        """Whether an operator has paused the table: nothing is to be taken for it."""
        return table in self._shop.paused

    def admit(self, entries: Sequence[Entry], *, table: str | None) -> list[Due]:
        """Count entries of a shard as under way, until `settled`: as many of them as the table's lane has room for, in
        order. `table` None: they will be in no lane, and all are counted.
        """
        due: list[Due] = []
        if table is not None and not self.has_room(table):
            return due
        limits, under_way = self._shop.limits, self._under_way[entries[0].shard]
        held = _Held() if table is None else self._held.setdefault(table, _Held())
        for entry in entries:
            if (
                table is not None
                and due
                and (held.intents >= limits.lane_intents_max or held.bytes >= limits.buffered_bytes_max - self._bytes)
            ):  # as `has_room` would say, which would take as long as the rest
                break
            one = under_way[entry.entry_id] = table, entry
            due.append(one)
            size = len(entry.payload or b"")
            self._bytes += size
            held.intents += 1
            held.bytes += size
        return due

    def under_way(self, shard: int, entry_id: str) -> bool:
        """Whether the entry is queued, being committed or being published here."""
        return entry_id in self._under_way[shard]

    def any_under_way(self, entries: Sequence[Entry]) -> bool:
        """Whether that is so of one of these entries of a shard."""
        return not self._under_way[entries[0].shard].keys().isdisjoint([entry.entry_id for entry in entries])

    def has_another(self, entry: Entry) -> bool:
        """Whether an entry of the same id and with other content is under way.

        A Redis that lost the end of a stream, and whose clock went back, hands ids out again.
        """
        known = self._under_way[entry.shard].get(entry.entry_id)
        return known is not None and (known[1].payload, known[1].fields) != (entry.payload, entry.fields)

    def count_under_way(self, shard: int) -> int:
        """How many entries of a shard are under way."""
        return len(self._under_way[shard])

    def oldest_under_way_ms(self, shard: int) -> int | None:
        """Return when the oldest entry of a shard that is under way was added, by Redis's clock."""
        return min((id_order(entry_id)[0] for entry_id in self._under_way[shard]), default=None)

    def all_under_way(self) -> int:
        """How many entries are under way."""
        return sum(map(len, self._under_way.values()))

    def settled(self, entries: Sequence[tuple[int, str]]) -> None:
        """These entries have been told and acknowledged, or are given up here."""
        for shard, entry_id in entries:
            known = self._under_way[shard].pop(entry_id, None)
            if known is None:
                continue
            table, entry = known
            size = len(entry.payload or b"")
            self._bytes -= size
            if table is not None:
                held = self._held[table]
                held.intents -= 1
                held.bytes -= size
                if not held.intents:
                    del self._held[table]

    def new_epoch(self) -> None:
        """Redis was emptied: its entry ids begin anew, so those under way say nothing about the ones to come.

        The intents themselves go on; should one come again under a new entry, it gets the same outcome.
        """
        self.settled([(shard, entry_id) for shard, known in self._under_way.items() for entry_id in known])

    @property
    def unreadable(self) -> dict[str, str]:
        """Tables whose stored state does not pass its checks, with the reason."""
        of_lanes = {table: lane.unreadable for table, lane in self._lanes.items() if lane.unreadable is not None}
        return {**self._unreadable, **of_lanes}

    @property
    def stalled(self) -> dict[str, str]:
        """Tables whose batch cannot get on, with what is in the way: a server, a store, the lock."""
        return {table: lane.stalled for table, lane in self._lanes.items() if lane.stalled is not None}

    @property
    def unmerged(self) -> dict[str, str]:
        """Return why some manifests of tables are not merged, by table."""
        return self._shop.merges.unmergeable

    @property
    def troubles(self) -> list[Trouble]:
        """Both, a table at most once."""
        unreadable = self.unreadable
        stalled = ((table, why) for table, why in self.stalled.items() if table not in unreadable)
        return [
            *(Trouble(table=table, state="unreadable", why=why) for table, why in unreadable.items()),
            *(Trouble(table=table, state="stalled", why=why) for table, why in stalled),
        ]

    def takes_care_of(self, table: str) -> bool:
        """Whether what is wrong with a table is found without looking for it: it has a lane, or is known not to do."""
        return table in self._lanes or table in self._unreadable

    def found_unreadable(self, table: str, why: str) -> None:
        """Somebody looked at a table that has no lane, and it does not pass its checks."""
        if not self.takes_care_of(table):
            self._unreadable[table] = why
            self._log.error("table unreadable", table=table, reason=why)

    @property
    def depths(self) -> dict[str, int]:
        """Intents waiting, by table."""
        return {table: lane.depth for table, lane in self._lanes.items()}

    def sizes(self) -> list[TableSize]:
        """How large the tables are that were committed to lately."""
        return [lane.size for lane in self._lanes.values() if lane.size is not None]

    async def retire(self, tables: set[str] | None = None) -> None:
        """End these lanes (None: all) after the batch under way; what they had queued stays pending in the streams.

        That may take for ever, where a store hangs: `abandon` ends it then. They are out of the registry at once: an
        intent that comes meanwhile starts a new lane, which waits for the old one's lock.
        """
        ending = [] if tables is not None else list(self._ending)
        for table in [table for table in self._lanes if tables is None or table in tables]:
            lane = self._lanes.pop(table)
            if lane.unreadable is not None:
                self._unreadable[table] = lane.unreadable
            ending.append(self._tasks.pop(table))
            self._ending[ending[-1]] = lane
            self._give_up(lane.retire())
        self._shop.metrics.lanes.set(len(self._lanes))
        await asyncio.gather(*(self._end(task) for task in ending))

    async def abandon(self, tables: set[str] | None = None) -> None:
        """End retired lanes (None: all) wherever they are in their batch, and give their locks up.

        What becomes of the batch is found out by whoever takes its entries up: they stay pending. A swap that is on its
        way may come off; a call of a store that returns later finds nobody who would go on.
        """
        left = [task for task, lane in self._ending.items() if tables is None or lane.table in tables]
        await cancel_all(left)
        await asyncio.gather(*(self._end(task) for task in left))

    def at_work(self) -> list[AtWork]:
        """Batches without an outcome, those that are taking the longest first."""
        lanes = (*self._lanes.values(), *self._ending.values())
        found = [at_work for lane in lanes if (at_work := lane.at_work) is not None]
        return sorted(found, key=lambda one: -one.seconds)

    async def _end(self, task: asyncio.Task[None]) -> None:
        await asyncio.wait([task])
        lane = self._ending.pop(task, None)  # another may have waited for it, too
        if lane is not None:
            self._give_up(lane.given_up)

    def _give_up(self, pendings: Sequence[Pending]) -> None:
        """These are undecided, and in no lane any more: whoever has their shards is to look for them."""
        self.settled([(p.entry.shard, p.entry.entry_id) for p in pendings])
        self._given_up |= {p.entry.shard for p in pendings}

    def given_up(self) -> set[int]:
        """Shards of which lanes have given entries up since this was asked the last time."""
        shards, self._given_up = self._given_up, set()
        return shards

    def tables(self) -> list[str]:
        """Tables that have a lane."""
        return list(self._lanes)

    async def sweep(self) -> None:
        """Drop lanes that have nothing to do, until cancelled. What cannot be read is not forgotten, but looked at.

        And give memory back that is free between what is not.
        """
        try:
            while True:
                await asyncio.sleep(IDLE_SWEEP_S)
                await asyncio.to_thread(give_holes_back)
                idle = {table: lane for table, lane in self._lanes.items() if lane.idle}
                await self.retire(set(idle))
                for table, lane in idle.items():
                    if table not in self._lanes:
                        lane.put_away()
                for table in list(self._unreadable):
                    await self._looks.at(table, partial(self._look_again, table))
        finally:
            await self._looks.close()

    async def _look_again(self, table: str) -> None:
        """See whether a table that could not be read can be now: writers who gave up will not tell."""
        try:
            versioned = await self._shop.catalogs.read(table)
        except NotFound:  # it was dropped
            self._unreadable.pop(table, None)
            return
        except (FirnError, OSError):
            return
        try:
            await self._shop.threads.read(read_whole, versioned.pointer, self._shop.reader)
        except Unavailable:
            return
        except Exception as error:  # noqa: BLE001 - whatever damage does to a decoder must not end the sweep
            if table in self._unreadable:
                self._unreadable[table] = str(error) or repr(error)
        else:
            self._unreadable.pop(table, None)
            self._log.info("table readable again", table=table)

    def _start(self, table: str) -> Lane:
        lane = self._lanes[table] = Lane(table, self._shop, coming=lambda: self._coming[table], give_back=self._give_up)
        lane.unreadable = self._unreadable.pop(table, None)
        task = self._tasks[table] = asyncio.create_task(lane.run(), name=lane_name(table))
        task.add_done_callback(lambda done: self._ended(table, lane, done))
        self._shop.metrics.lanes.set(len(self._lanes))
        return lane

    def _on_pauses(self) -> None:
        for lane in self._lanes.values():
            lane.look_at_pauses()

    def _ended(self, table: str, lane: Lane, task: asyncio.Task[None]) -> None:
        """A lane must not die; when one does, its entries stay pending, and are read again."""
        if task.cancelled() or task.exception() is None:
            return
        self._log.error("lane died", table=table, error=repr(task.exception()))
        self._give_up([*lane.retire(), *lane.given_up])
        if self._lanes.get(table) is lane:
            del self._lanes[table], self._tasks[table]
