"""The backlog of one shard: entries that were handed out and are in no lane.

Daemons that died leave them behind, a lost reply does, and so does a lane that is full, or whose table is paused: its
entries are *held back*, and all that is kept of them is, per table, from which entry on the stream is to be read again.
An entry is to be looked at if it is pending in its stream and not under way here, nothing else; so a mark that is too
low is never wrong. See docs/decisions/0008-fairness.md.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal

import msgspec

from firn.coordinator.intake.page_size import PageSize
from firn.coordinator.intake.quarantine import Quarantine
from firn.coordinator.lanes.lanes import Due, Lanes
from firn.model.intent_codec import DecodedIntent
from firn.model.sharding import shard_of
from firn.storage.intent_streams import FIRST_ID, Delivered, Entry, IntentStreams, ShardLag, id_after, id_order

PAGE: Final = 512
"""Entries that one step looks at, at most."""

SUSPECTS_READ: Final = 64
"""Of entries that may take a daemon down, which are handed over a few at a time, one step reads no more."""


class _Addressed(msgspec.Struct):
    table: str


_ADDRESS: Final = msgspec.json.Decoder(_Addressed)
_OWN_ADDRESS: Final = re.compile(rb'\{"operation":"append","intent-id":"[0-9a-f-]{36}","table":"([A-Za-z0-9._-]+)",')
"""How an append begins that firn's own clients have encoded; whatever else it may say, its lane's room is counted."""


class _Mark(msgspec.Struct):
    """A table is held back from the entry `start` on; `count` entries of it were seen.

    `suspect`: not for want of room, but until another suspect of it is settled.
    """

    start: str
    count: int = 0
    suspect: bool = False


class _Sweep(msgspec.Struct):
    """A pass over what is pending, at the entry id `at`. `tables` None: over what is left behind, of every table.

    `stopped_by` is how often a suspect was delivered that had to wait there.
    """

    at: str
    tables: set[str] | None = None
    min_idle_ms: int = 0
    stopped_by: int | None = None


Progress = Literal["went on", "waits", "came to its end"]


class Backlog:
    """One owned shard's backlog, taken up page by page.

    `distribute` reads admitted entries and calls `hand_over` with what it has made of them, in the order in which it
    was called. `accept` hands an entry, which counts as under way, to its lane, or sets it aside; what it returns, if
    anything, is to be awaited. Entries that were delivered often and never decided are suspects: a pass stops at them
    until the `quarantine`, which is the same for all shards, has room for them.
    """

    def __init__(
        self,
        shard: int,
        *,
        shards: int,
        streams: IntentStreams,
        lanes: Lanes,
        consumer: str,
        distribute: Callable[[Backlog, list[Due]], Awaitable[None]],
        accept: Callable[[Entry, DecodedIntent | None], Awaitable[None] | None],
        quarantine: Quarantine,
    ) -> None:
        self.shard = shard
        self.caught_up = False
        """Whether all that was left behind has been looked at: until then nothing new is taken."""
        self.given_up = False
        """Whether the shard is this daemon's no more."""
        self._shards = shards
        self._streams = streams
        self._lanes = lanes
        self._consumer = consumer
        self._distribute = distribute
        self._accept = accept
        self._quarantine = quarantine
        self._page_size = PageSize(PAGE)
        self._marks: dict[str, _Mark] = {}
        self._everything: _Sweep | None = None
        self._refill: _Sweep | None = None
        self._inherited_to = FIRST_ID
        """Up to here entries were handed out before this shard was taken over: to hand them to a lane counts."""
        self.start_over()

    @property
    def at_rest(self) -> bool:
        """Whether there is nothing to look at and nothing held back, as nearly always."""
        return self._everything is None and self._refill is None and not self._marks

    @property
    def tables(self) -> int:
        """Tables of which entries are held back until there is room for them: those that are paused do not count."""
        return sum(not self._lanes.is_paused(table) for table in self._marks)

    @property
    def entries(self) -> int:
        """Entries that are held back."""
        return sum(mark.count for mark in self._marks.values())

    @property
    def paused_entries(self) -> int:
        """Those of them that are held back because their tables are paused."""
        return sum(mark.count for table, mark in self._marks.items() if self._lanes.is_paused(table))

    def waiting_since_ms(self, lag: ShardLag) -> int | None:
        """Return when the oldest intent of a table that is not paused was added, by Redis's clock; None without any."""
        if not self.paused_entries:
            return lag.oldest_entry_ms
        held = [id_order(mark.start)[0] for table, mark in self._marks.items() if not self._lanes.is_paused(table)]
        known = (lag.oldest_undelivered_ms, self._lanes.oldest_under_way_ms(self.shard))
        return min((*held, *(since_ms for since_ms in known if since_ms is not None)), default=None)

    def start_over(self) -> None:
        """Look at all that is pending, before anything new: the shard was taken over, or a reply got lost."""
        self.caught_up = False
        self._everything = _Sweep(FIRST_ID)
        for mark in self._marks.values():
            mark.count = 0

    def look_for_lost(self, *, min_idle_ms: int) -> None:
        """Look, by and by, for entries that got lost on the way and were handed out at least so long ago."""
        if self._everything is None:
            self._everything = _Sweep(FIRST_ID, min_idle_ms=min_idle_ms)

    def admit(self, entries: Sequence[Entry]) -> list[Due]:
        """Of entries that were handed out for the first time, those that go to their lanes now: they count as under
        way. The others are held back.
        """
        if self._lanes.any_under_way(entries):
            entries = [entry for entry in entries if not self._lanes.under_way(self.shard, entry.entry_id)]
        due: list[Due] = []
        for table, group in groupby(entries, key=self._table_of):
            some = list(group)
            admitted = [] if table in self._marks else self._lanes.admit(some, table=table)
            due += admitted
            if table is not None:
                for entry in some[len(admitted) :]:
                    self._hold_back(table, entry.entry_id)
        if due:
            self._quarantine.others_admitted()
        return due

    async def hand_over(self, due: list[Due], read: Sequence[DecodedIntent | None]) -> list[Entry]:
        """Hand admitted entries to their lanes; `read` is what they say, None where `accept` is to find out.

        Those that are left, because the shard was given up meanwhile; they do not count as under way any more, and
        neither does what is left after an error.
        """
        done = 0
        try:
            for (_, entry), intent in zip(due, read, strict=True):
                if self.given_up:
                    break
                rest = self._accept(entry, intent)
                if rest is not None:
                    await rest
                done += 1
        finally:
            self.let_go(due[done:])
        return [entry for _, entry in due[done:]]

    def let_go(self, due: Sequence[Due]) -> None:
        """These admitted entries will not be handed over."""
        self._lanes.settled([(self.shard, entry.entry_id) for _, entry in due])

    async def step(self) -> bool:
        """Look at one page of each pass that is under way.

        False when there is none, nothing that has room, or all of them wait for suspects.
        """
        stepped = False
        if self._everything is not None:
            progress = await self._page(self._everything)
            stepped = progress != "waits"
            if progress == "came to its end":
                self._everything = None
                self.caught_up = True
        if self._refill is None:
            self._refill = self._next_refill()
        if self._refill is not None:
            progress = await self._page(self._refill)
            stepped |= progress != "waits"
            if progress == "came to its end":
                for table in self._refill.tables or ():
                    del self._marks[table]
                self._refill = None
            elif not self._refill.tables:
                self._refill = None
        return stepped

    def _next_refill(self) -> _Sweep | None:
        """A pass for the tables whose lanes have drained, from where the first of them is held back."""
        tables = {
            table
            for table, mark in self._marks.items()
            if (not self._quarantine.keeps(table) if mark.suspect else self._lanes.has_drained(table))
        }
        if not tables:
            return None
        return _Sweep(min((self._marks[table].start for table in tables), key=id_order), tables)

    async def _page(self, sweep: _Sweep) -> Progress:
        """Look at the next page, or at the part of it that may be handed over now."""
        stopped_by = sweep.stopped_by
        if self._quarantine.others_wait() if stopped_by is None else not self._quarantine.has_room(stopped_by):
            return "waits"
        if sweep.tables:  # those that are held back further behind need not be looked for here
            first = min((self._marks[table].start for table in sweep.tables), key=id_order)
            sweep.at = max(sweep.at, first, key=id_order)
        page = await self._streams.pending(self.shard, start=sweep.at, count=PAGE, min_idle_ms=sweep.min_idle_ms)
        if not page:
            return "came to its end"
        if sweep.tables is None and sweep.min_idle_ms == 0:
            self._inherited_to = max(self._inherited_to, page[-1].entry_id, key=id_order)
        found = [one for one in page if not self._lanes.under_way(self.shard, one.entry_id)]
        now, later = self._first_of_a_kind(found)
        stopped_at: Delivered | Entry | None = await self._look_at(now, sweep) if now else None
        if stopped_at is None and later:
            stopped_at = later[0]
        sweep.at, sweep.stopped_by = id_after(page[-1].entry_id), None
        if stopped_at is not None:
            sweep.at = stopped_at.entry_id
            if self._quarantine.is_suspect(stopped_at.deliveries):
                sweep.stopped_by = stopped_at.deliveries
        return "went on"

    def _first_of_a_kind(self, found: list[Delivered]) -> tuple[list[Delivered], list[Delivered]]:
        """Entries before the first suspect, or the first suspects, as many as are to be read at once; and the rest."""
        is_suspect = self._quarantine.is_suspect
        kind = bool(found) and is_suspect(found[0].deliveries)
        most = min(self._page_size.count(), SUSPECTS_READ if kind else PAGE)
        end = next((n for n, one in enumerate(found[:most]) if is_suspect(one.deliveries) != kind), most)
        return found[:end], found[end:]

    async def _look_at(self, found: list[Delivered], sweep: _Sweep) -> Entry | None:
        """Hand over what is due of entries of a kind; the first one that has to wait, if there is one."""
        suspects, stopped_at = self._quarantine.is_suspect(found[0].deliveries), None
        due: list[Due] = []
        try:
            entries = await self._streams.read_again(self.shard, found, consumer=self._consumer)
            self._page_size.saw(entries)
            for entry in entries:
                table = self._table_of(entry)
                if table is not None and not self._is_due(table, entry, sweep):
                    continue
                if suspects and not self._quarantine.has_room(entry.deliveries):
                    stopped_at = entry
                    break
                due += self._lanes.admit([entry], table=table)
                if suspects:
                    self._quarantine.admit(self.shard, entry.entry_id, table=table, deliveries=entry.deliveries)
            if due and not suspects:
                self._quarantine.others_admitted()
            inherited = [entry for _, entry in due if id_order(entry.entry_id) <= id_order(self._inherited_to)]
            counted = await self._streams.count_delivery(self.shard, inherited, consumer=self._consumer)
            due[: len(counted)] = [(table, entry) for (table, _), entry in zip(due, counted, strict=False)]
        except BaseException:
            self.let_go(due)
            raise
        if sweep.tables is not None:  # also where the last of them has no more room since
            for table, _ in due:
                if table in self._marks:
                    self._marks[table].count = max(0, self._marks[table].count - 1)
        await self._distribute(self, due)
        return stopped_at

    def _is_due(self, table: str, entry: Entry, sweep: _Sweep) -> bool:
        """Whether an entry that is in no lane goes into its lane now; it is remembered if it does not."""
        mark = self._marks.get(table)
        waits = self._quarantine.is_suspect(entry.deliveries) and self._quarantine.keeps(table)
        if sweep.tables is not None:
            if mark is None or table not in sweep.tables:
                return False
            if self._lanes.has_room(table) and not waits:
                return True
            mark.start, mark.suspect = entry.entry_id, waits
            sweep.tables.discard(table)
            return False
        if mark is not None and id_order(entry.entry_id) >= id_order(mark.start):
            if sweep.min_idle_ms == 0:  # else it has been counted
                mark.count += 1
            return False
        if self._lanes.has_room(table) and not waits:
            return True
        self._hold_back(table, entry.entry_id, suspect=waits)
        return False

    def _hold_back(self, table: str, entry_id: str, *, suspect: bool = False) -> None:
        """Remember that this entry, and all of its table that come behind it, are to be read again."""
        mark = self._marks.setdefault(table, _Mark(entry_id))
        mark.count += 1
        if id_order(entry_id) <= id_order(mark.start):
            mark.start, mark.suspect = entry_id, suspect

    def _table_of(self, entry: Entry) -> str | None:
        """The table whose lane an entry belongs to; None when it is none of this shard, or none at all."""
        payload = entry.payload or b""
        found = _OWN_ADDRESS.match(payload)
        if found is not None:
            return _own_table(found[1], self.shard, self._shards)
        try:
            table = _ADDRESS.decode(payload).table
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        return table if shard_of(table, shards=self._shards) == self.shard else None


@lru_cache(maxsize=10_000)
def _own_table(name: bytes, shard: int, shards: int) -> str | None:
    """The table of this name in ASCII, if its intents travel on this shard."""
    table = name.decode()
    return table if shard_of(table, shards=shards) == shard else None
