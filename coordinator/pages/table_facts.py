"""What a table's metadata says of it in a list of many: its size, its rate, its history. Kept while it is true enough.

A list is looked at again and again, and its tables move all the time. So a table's file is read at most every
`FRESH_S`, few are read at a time, and a request waits `PATIENCE_S` for them: what is not there by then is not known.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from firn.coordinator.pages.store_reads import StoreReads
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import FirnError
from firn.model.history import SUMMARY_INTENTS, reach_of
from firn.model.metadata import TableMetadata
from firn.model.pointer import Pointer
from firn.model.snapshot import Snapshot

FRESH_S: Final = 10.0
PATIENCE_S: Final = 2.0
READS_AT_ONCE: Final = 4
KEPT_MAX: Final = 5_000
"""Tables whose facts are kept, some 500 bytes each."""

RATE_MS: Final = 300_000
"""Over which time the rate is."""


class TableFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of the current snapshot, as far as its summary has them; None: not known.

    `commits_per_s` are intents of the last five minutes, as far as snapshots that are still there tell. History reaches
    back to `oldest_ms`; None where there is no snapshot.
    """

    bytes: int | None = None
    files: int | None = None
    records: int | None = None
    commits_per_s: float | None = None
    snapshots: int | None = None
    oldest_ms: int | None = None
    unread: str | None = None
    """Why nothing is known."""


NOT_YET: Final = TableFacts(unread="its metadata is still being read")


class _Kept(msgspec.Struct, frozen=True):
    location: str
    at: float
    facts: TableFacts


class TableFactsCache:
    """The facts of tables, read when somebody looks at a list."""

    def __init__(self, reader: TableReader, reads: StoreReads) -> None:
        self._reader = reader
        self._reads = reads
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(READS_AT_ONCE)

    async def of(self, pointers: Sequence[Pointer]) -> Mapping[str, TableFacts]:
        """Return the facts of tables by name, those that are known within `PATIENCE_S`."""
        due = [pointer for pointer in pointers if not self._is_fresh(pointer)]
        for pointer in due:
            if pointer.table not in self._reading:
                reading = asyncio.create_task(self._read(pointer), name=f"facts of {pointer.table}")
                self._reading[pointer.table] = reading
                reading.add_done_callback(partial(self._has_read, pointer.table))
        waited_for = [self._reading[pointer.table] for pointer in due if pointer.table in self._reading]
        if waited_for:
            await asyncio.wait(waited_for, timeout=PATIENCE_S)
        kept = {pointer.table: self._kept.get(pointer.table) for pointer in pointers}
        return {name: NOT_YET if one is None else one.facts for name, one in kept.items()}

    async def close(self) -> None:
        """Wait for no store any longer."""
        reading = list(self._reading.values())
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)

    def _is_fresh(self, pointer: Pointer) -> bool:
        kept = self._kept.get(pointer.table)
        return kept is not None and (
            kept.location == pointer.metadata_location or time.monotonic() - kept.at < FRESH_S
        )  # fmt: skip

    async def _read(self, pointer: Pointer) -> None:
        location = pointer.metadata_location
        async with self._turn:
            try:
                facts = await self._reads.read(pointer.table, partial(self._facts, location, pointer.digest))
            except FirnError as error:
                location, facts = "", TableFacts(unread=str(error))
        self._kept[pointer.table] = _Kept(location, time.monotonic(), facts)
        self._kept.move_to_end(pointer.table)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    def _has_read(self, table: str, reading: asyncio.Task[None]) -> None:
        self._reading.pop(table, None)
        if not reading.cancelled():
            reading.exception()

    def _facts(self, location: str, digest: str | None) -> TableFacts:
        return facts_of(self._reader.metadata(location, digest=digest), now_ms=time.time_ns() // 1_000_000)


def facts_of(metadata: TableMetadata, *, now_ms: int) -> TableFacts:
    """Return what the metadata of a table says of it now."""
    current, reach = metadata.current_snapshot, reach_of(metadata)
    return TableFacts(
        bytes=_total(current, "total-files-size"),
        files=_total(current, "total-data-files"),
        records=_total(current, "total-records"),
        commits_per_s=_rate(metadata, now_ms=now_ms),
        snapshots=reach.snapshots,
        oldest_ms=reach.oldest_ms,
    )


def _rate(metadata: TableMetadata, *, now_ms: int) -> float:
    since_ms = now_ms - RATE_MS
    recent = [snapshot for snapshot in metadata.snapshots if snapshot.timestamp_ms >= since_ms]
    if not recent:
        return 0.0
    if len(recent) == len(metadata.snapshots) and all(one.parent_snapshot_id is not None for one in recent):
        since_ms = min(one.timestamp_ms for one in recent)  # older ones have expired
    return sum(map(_intents, recent)) / max(1.0, (now_ms - since_ms) / 1000)


def _intents(snapshot: Snapshot) -> int:
    """How many intents a snapshot was made of; one, where another writer made it."""
    stated = (snapshot.summary or {}).get(SUMMARY_INTENTS, "")
    return int(stated) if stated.isascii() and stated.isdecimal() and len(stated) < 10 else 1


def _total(current: Snapshot | None, name: str) -> int | None:
    if current is None:
        return 0
    stated = (current.summary or {}).get(name, "")
    return int(stated) if stated.isascii() and stated.isdecimal() and len(stated) < 20 else None
