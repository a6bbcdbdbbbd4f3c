"""How all tables are: from their pointers, locks, streams and the events of the last hour; from metadata if asked.

Reads only. Without a deep look nothing is read of the tables' files, so a thousand tables take a second or so.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from firn.coordinator.insight.queue_look import waiting_by_table
from firn.coordinator.operations.fleet import notices, troubles_in
from firn.model.errors import CorruptFile, FirnError, NotFound
from firn.model.event import Event
from firn.model.history import HistoryReach, reach_of
from firn.model.metadata import TableMetadata
from firn.model.pause import Pause
from firn.model.table_properties import unusable_properties
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams
from firn.storage.leases import Leases
from firn.storage.membership import Membership
from firn.storage.metadata_files import version_of
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointer, Pointers
from firn.storage.sessions import Session

if TYPE_CHECKING:  # who reads no manifest does not load it
    from firn.coordinator.tables.table_reader import TableReader


READS_AT_ONCE: Final = 64
DEEP_READS_AT_ONCE: Final = 4
EVENTS_MAX: Final = 20_000
"""Newest events in which conflicts are counted: on a fleet that rejects more in an hour, the counts are too low."""

CONFLICTS_MS: Final = 3_600_000

_EVENT: Final = msgspec.json.Decoder(Event)

State = Literal["good", "paused", "stalled", "unreadable", "dropped"]


class Content(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a table's metadata says of its size; totals are those of the current snapshot's summary, None if absent.

    `history` is how far back it can be read.
    `unusable_properties` have a line for each stored property whose value cannot be used: commits take its default.
    """

    format_version: int
    metadata_bytes: int
    snapshots: int
    manifests: int
    data_files: int | None = None
    delete_files: int | None = None
    records: int | None = None
    bytes: int | None = None
    last_snapshot_ms: int | None = None
    history: HistoryReach | None = None
    unusable_properties: tuple[str, ...] = ()


class TableHealth(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One table or view.

    `moved_ms` is when its pointer moved last, by ZooKeeper's clock: with its last batch, or when it was paused or
    resumed. `waiting` intents are not settled, `conflicts` were rejected within the hour; both None while Redis does
    not answer. `content` only after a deep look. `unmerged` is why some manifests are not merged; commits go on.
    """

    table: str
    state: State
    kind: str = "?"
    catalog: str = "?"
    version: int | None = None
    moved_ms: int | None = None
    waiting: int | None = None
    conflicts: int | None = None
    lock: str | None = None
    paused: Pause | None = None
    trouble: str | None = None
    unmerged: str | None = None
    content: Content | None = None


async def health_of_tables(
    session: Session, *, wanted: Sequence[str] = (), dropped: bool = False
) -> list[tuple[TableHealth, Pointer | None]]:
    """All tables and views by name, or those `wanted`, with their pointers; dropped ones only if asked for.

    One that a daemon is stuck on is in trouble, whatever it looks like from here.

    What the queue says of them is added by `with_queue`, what their files say by `with_content`.
    """
    pointers, leases = Pointers(session), Leases(session, member="operator (firn tables)")
    names = list(wanted) if wanted else await pointers.list()
    pauses = await Pauses(session).all()
    membership = Membership(session)
    told = await notices(membership)
    troubles = troubles_in(told)
    unmerged = {table: why for notice in told.values() for table, why in notice.unmerged.items()}
    turn = asyncio.Semaphore(READS_AT_ONCE)

    async def look(name: str) -> tuple[TableHealth, Pointer | None] | None:
        async with turn:
            try:
                pointer, moved_ms = await pointers.read_dated(name)
            except NotFound:
                return None
            except CorruptFile as error:
                return TableHealth(table=name, state="unreadable", paused=pauses.get(name), trouble=str(error)), None
            holder = await leases.holder(name)
        paused = pauses.get(name, pointer.paused)
        if pointer.dropped and not dropped:
            return None
        trouble = troubles.get(name)
        state: State = "good" if trouble is None else trouble.state
        if state == "good" and paused is not None:
            state = "paused"
        if pointer.dropped:
            state = "dropped"
        health = TableHealth(
            table=name, state=state, kind=pointer.kind, catalog=pointer.catalog, moved_ms=moved_ms,
            version=version_of(pointer.metadata_location), paused=paused,
            lock=None if holder is None else holder.member,
            trouble=None if trouble is None or pointer.dropped else trouble.why,
            unmerged=None if pointer.dropped else unmerged.get(name),
        )  # fmt: skip
        return health, pointer

    try:
        looked_at = await asyncio.gather(*(look(name) for name in names))
    finally:
        await membership.close()
        await leases.close()
    return [one for one in looked_at if one is not None]


async def with_queue(
    tables: Sequence[TableHealth], streams: IntentStreams, *, shards: int, now_ms: int
) -> list[TableHealth]:
    """The tables with what waits for them, and how many conflicts there were. Raises as the streams do."""
    waiting = await waiting_by_table(streams, shards=shards)
    conflicts = conflicts_since(
        [message.data for message in await streams.newest_events(count=EVENTS_MAX)], now_ms - CONFLICTS_MS
    )
    return [
        msgspec.structs.replace(one, waiting=waiting[one.table], conflicts=conflicts[one.table]) for one in tables
    ]  # fmt: skip


def conflicts_since(events: Sequence[bytes], since_ms: int) -> Counter[str]:
    """Rejections that were announced since then, by table."""
    counts: Counter[str] = Counter()
    for data in events:
        try:
            event = _EVENT.decode(data)
        except msgspec.DecodeError:
            continue  # somebody else's
        if event.type in {"firn.intent.rejected", "firn.intent.dead-lettered"} and (event.time_ms or 0) >= since_ms:
            counts[event.subject] += 1
    return counts


async def with_content(
    tables: Sequence[tuple[TableHealth, Pointer | None]], reader: TableReader, files: FileStore
) -> list[tuple[TableHealth, Pointer | None]]:
    """The tables with what their metadata and manifest lists say; one that cannot be read says why."""
    turn = asyncio.Semaphore(DEEP_READS_AT_ONCE)

    async def look(health: TableHealth, pointer: Pointer | None) -> tuple[TableHealth, Pointer | None]:
        if pointer is None or pointer.dropped:
            return health, pointer
        async with turn:
            try:
                content = await asyncio.to_thread(_content, pointer, reader, files)
            except (FirnError, OSError) as error:
                return msgspec.structs.replace(health, state="unreadable", trouble=str(error)), pointer
        return msgspec.structs.replace(health, content=content), pointer

    return list(await asyncio.gather(*(look(*one) for one in tables)))


def _content(pointer: Pointer, reader: TableReader, files: FileStore) -> Content | None:
    if pointer.kind == "view":
        reader.view(pointer.metadata_location, digest=pointer.digest)
        return None
    location, digest = _newest(pointer, files)
    metadata = reader.metadata(location, digest=digest)
    current = metadata.current_snapshot
    manifests = () if current is None else reader.manifests(metadata, current)
    return Content(
        format_version=metadata.format_version,
        metadata_bytes=files.size(location),
        snapshots=len(metadata.snapshots),
        manifests=len(manifests),
        data_files=_total(metadata, "total-data-files"),
        delete_files=_total(metadata, "total-delete-files"),
        records=_total(metadata, "total-records"),
        bytes=_total(metadata, "total-files-size"),
        last_snapshot_ms=None if current is None else current.timestamp_ms,
        history=reach_of(metadata),
        unusable_properties=unusable_properties(metadata.properties),
    )


def _newest(pointer: Pointer, files: FileStore) -> tuple[str, str | None]:
    """A table's metadata file and its digest: of a file-system table the file is ahead of the pointer at times."""
    if pointer.catalog == "file-system":
        at_least = version_of(pointer.metadata_location)
        newest = FileSystemTables(files).newest(pointer.location, at_least=at_least)
        if newest is not None and newest != pointer.metadata_location:
            return newest, None
    return pointer.metadata_location, pointer.digest


def _total(metadata: TableMetadata, name: str) -> int | None:
    current = metadata.current_snapshot
    if current is None:
        return 0
    value = (current.summary or {}).get(name, "")
    return int(value) if value.isascii() and value.isdecimal() else None
