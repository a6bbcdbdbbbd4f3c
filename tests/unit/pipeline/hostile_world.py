"""Two tables under a daemon whose writers call any file anything, and maintenance beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar, cast

import msgspec

from firn.coordinator.client.sync_client import Client
from firn.coordinator.outcomes.reservations import Board, Reservations
from firn.model.errors import FirnError
from firn.model.intent import Append, ContentFile, DeleteFiles, DropTable, Intent, RegisterTable
from firn.model.metadata import TableMetadata
from firn.model.operations.refs import CreateBranch, CreateTag, RemoveRef, SetCurrentSnapshot
from firn.model.operations.upkeep import (
    ExpireSnapshots,
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
    UpdateProperties,
)
from firn.model.outcome import Committed
from firn.model.snapshot import MetadataLogEntry
from firn.pipeline.orphan_files import remove_orphans
from firn.pipeline.snapshot_expiry import remove_unreachable
from firn.pipeline.upkeep import TableNow, Upkeep
from firn.storage.intent_streams import IntentStreams
from firn.storage.journal import JournalFiles
from firn.storage.locations import canonical
from firn.storage.manifest_reader import StoredManifests
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import encode_metadata
from firn.storage.pointers import Pointer, Pointers
from firn.storage.sessions import Session
from tests.strategies.statistics_files import partition_statistics, write_statistics
from tests.unit.coordinator.workbench import WAREHOUSE, Workbench, create, new_id

TABLES = ("db.a", "db.b")
OLD_MS = 10**15
"""A time when every file is old."""

Step = tuple[str, int, int, int]
"""What is done, to which table, and two numbers that choose among what there is."""

_Result = TypeVar("_Result")


class _Board:
    """As much of a client as the removal of files asks for."""

    def __init__(self, upkeep: LoopUpkeep) -> None:
        self._upkeep = upkeep

    def reserved(self, table: str) -> Board:
        return self._upkeep.with_streams(lambda streams: Reservations(streams).of(table))


class LoopUpkeep(Upkeep):
    """Upkeep in a worker thread, whose questions are answered in the loop of the servers' twins.

    `also_at` are places that tables were given before places were checked.
    """

    def __init__(self, bench: Workbench, also_at: Mapping[str, str]) -> None:
        unused: Any = None
        super().__init__(
            client=cast("Client", _Board(self)), files=bench.files, session=unused, streams=unused, limits=bench.limits
        )
        self._loop = asyncio.get_running_loop()
        self._bench = bench
        self._also_at = also_at

    def table(self, name: str) -> TableNow:
        now = super().table(name)
        places = (*now.pointer.also_at, *(one for table, one in self._also_at.items() if table == name))
        return msgspec.structs.replace(now, pointer=msgspec.structs.replace(now.pointer, also_at=places))

    def with_streams(self, work: Callable[[IntentStreams], Awaitable[_Result]]) -> _Result:
        return self._run(work, self._bench.streams)

    def with_session(self, work: Callable[[Session], Awaitable[_Result]]) -> _Result:
        return self._run(work, self._bench.zookeeper.connect())

    def _run(self, work: Callable[[Any], Awaitable[_Result]], server: Any) -> _Result:
        async def run() -> _Result:
            return await work(server)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)


class World:
    """The tables; every step is tried, and what firn refuses has no effect."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.bench = Workbench(files=self.files)
        self._old_places: dict[str, str] = {}
        self._stack = AsyncExitStack()
        self._names = 0

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[World]:
        world = cls()
        async with world._stack:
            await world._start()
            for table in TABLES:
                properties = {"write.metadata.previous-versions-max": "2", "commit.manifest.min-count-to-merge": "3"}
                await world.bench.commit(create(table, properties=properties))
            yield world

    async def take(self, step: Step) -> None:
        """Do one step."""
        kind, table, first, second = step
        await getattr(self, kind.replace("-", "_"))(TABLES[table], first, second)

    # -----------------------------------------------------------------------------------------------------------------
    # What writers do

    async def append(self, table: str, first: int, second: int) -> None:
        await self._settle(self._append(table, self._written(table), branch=("main", "main", "audit")[first % 3]))

    async def stage(self, table: str, first: int, second: int) -> None:
        await self._settle(self._append(table, self._written(table), stage=True))

    async def append_anything(self, table: str, first: int, second: int) -> None:
        """Call a file that is there data, in some spelling."""
        path = await self._any_file(table, first)
        if path is not None:
            await self._settle(self._append(table, _respelled(path, second)))

    async def delete(self, table: str, first: int, second: int) -> None:
        live = await self.live(table)
        if live:
            removed = (live[first % len(live)],)
            await self._settle(DeleteFiles(intent_id=new_id(), table=table, removed_data_files=removed))

    async def delete_all(self, table: str, first: int, second: int) -> None:
        live = await self.live(table)
        if live:
            await self._settle(DeleteFiles(intent_id=new_id(), table=table, removed_data_files=tuple(live)))

    async def ref(self, table: str, first: int, second: int) -> None:
        snapshot = await self._snapshot(table, first)
        if snapshot is None:
            return
        name, common = ("audit", "tag")[second % 2], dict[str, Any](intent_id=new_id(), table=table)
        ref = (await self.metadata(table)).refs.get(name)
        if ref is not None:
            await self._settle(RemoveRef(**common, ref_name=name, expected_snapshot_id=ref.snapshot_id))
        elif name == "tag":
            await self._settle(CreateTag(**common, ref_name=name, snapshot_id=snapshot))
        else:
            await self._settle(CreateBranch(**common, ref_name=name, snapshot_id=snapshot))

    async def go_back(self, table: str, first: int, second: int) -> None:
        snapshot = await self._snapshot(table, first)
        if snapshot is not None:
            await self._settle(SetCurrentSnapshot(intent_id=new_id(), table=table, snapshot_id=snapshot))

    async def statistics(self, table: str, first: int, second: int) -> None:
        """Attach statistics that are right."""
        snapshot = await self._snapshot(table, first)
        if snapshot is None:
            return
        path = self._new_path(table, "metadata", "stats" if second % 2 else "parquet")
        if second % 2:
            await self._attach(table, write_statistics(self.files, path, snapshot), partition=False)
            return
        data = partition_statistics("parquet")
        self.files.create(path, data)
        members = {"snapshot-id": snapshot, "statistics-path": path, "file-size-in-bytes": len(data)}
        await self._attach(table, members, partition=True)

    async def call_statistics(self, table: str, first: int, second: int) -> None:
        """Call a file that is there statistics, in some spelling."""
        path, snapshot = await self._any_file(table, first), await self._snapshot(table, second)
        if path is None or snapshot is None:
            return
        members = {"snapshot-id": snapshot, "statistics-path": _respelled(path, second)}
        members |= {"file-size-in-bytes": self.files.size(path), "file-footer-size-in-bytes": 0, "blob-metadata": []}
        await self._attach(table, members, partition=bool(first % 2))

    async def drop_statistics(self, table: str, first: int, second: int) -> None:
        snapshot = await self._snapshot(table, first)
        if snapshot is not None:
            kind = RemoveStatistics if second % 2 else RemovePartitionStatistics
            await self._settle(kind(intent_id=new_id(), table=table, snapshot_id=snapshot))

    async def place(self, table: str, first: int, second: int) -> None:
        """Put files somewhere: beside the table, into the other's folder, over everything, nowhere."""
        places = (
            f"{WAREHOUSE}/beside/{table}", f"{WAREHOUSE}/db", WAREHOUSE, f"{WAREHOUSE}/db/a", f"{WAREHOUSE}/db/b/data",
            "memory://else", "/etc",
        )  # fmt: skip
        updates = {"write.data.path": _respelled(places[first % len(places)], second)}
        await self._settle(UpdateProperties(intent_id=new_id(), table=table, updates=updates))

    async def register(self, table: str, first: int, second: int) -> None:
        """Drop a table, and register it from metadata that names what another writer likes."""
        before = await self.metadata(table)
        path = await self._any_file(TABLES[first % 2], second)
        if path is None:
            return
        at = f"{before.location}/metadata/{new_id()}.metadata.json"
        changed = _changed(before, path, kind=first // 2 % 5)
        self.files.create(at, encode_metadata(changed))
        await self._settle(DropTable(intent_id=new_id(), table=table))
        for location in (at, (await self._pointer(table)).metadata_location):
            register = RegisterTable(intent_id=new_id(), table=table, metadata_location=location)
            if await self._settle(register):
                return
        raise AssertionError("firn refuses a table of its own")

    async def old_place(self, table: str, first: int, second: int) -> None:
        """Let a table have a place that it would not be given now, or take it away again."""
        other = TABLES[1 - TABLES.index(table)]
        places = (
            WAREHOUSE,
            f"{WAREHOUSE}/db",
            f"{WAREHOUSE}/db/{other[-1]}",
            f"{WAREHOUSE}/db/{other[-1]}/data",
            "/etc",
        )
        if first % 2 or self._old_places.pop(table, None) is None:
            self._old_places[table] = places[second % len(places)]

    async def copy(self, table: str, first: int, second: int) -> None:
        """Register the other table's metadata for a while: all its files are expired here, and none may go."""
        own, (other,) = await self._pointer(table), (one for one in TABLES if one != table)
        before = await self.metadata(table)
        copied = msgspec.structs.replace(
            await self.metadata(other), location=before.location, table_uuid=before.table_uuid, properties={}
        )
        at = self._new_path(table, "metadata", "metadata.json")
        self.files.create(at, encode_metadata(copied))
        await self._settle(DropTable(intent_id=new_id(), table=table))
        if await self._settle(RegisterTable(intent_id=new_id(), table=table, metadata_location=at)):
            await self.delete_all(table, 0, 0)
            await self.append(table, 0, 0)
            await self.expire(table, 0, 0)
            await self.maintain(table, 1, 0)
            await self._settle(DropTable(intent_id=new_id(), table=table))
        register = RegisterTable(intent_id=new_id(), table=table, metadata_location=own.metadata_location)
        assert await self._settle(register)

    async def wait(self, table: str, first: int, second: int) -> None:
        """Have an intent wait that adds a removed file again, while maintenance goes on."""
        await self._stack.aclose()
        gone = sorted(set(self.data_files(table)) - set(await self.live(table)))
        waiting = self._append(table, gone[first % len(gone)] if gone else self._written(table))
        await self.bench.send(waiting)
        await self.maintain(table, first, second)
        await self._start()
        outcome = await self.bench.outcome(waiting)
        if isinstance(outcome, Committed):
            for file in waiting.data_files:
                assert self.files.size(file.file_path)

    async def expire(self, table: str, first: int, second: int) -> None:
        retained = 1 + first % 2
        await self._settle(
            ExpireSnapshots(
                intent_id=new_id(), table=table, older_than_ms=2**62, retain_last=retained,
                clean_expired_metadata=bool(second % 2),
            )
        )  # fmt: skip

    # -----------------------------------------------------------------------------------------------------------------
    # Maintenance, and the reader

    async def maintain(self, table: str, first: int, second: int) -> None:
        """Remove what nothing needs, and have a reader look at both tables."""
        upkeep, before = LoopUpkeep(self.bench, self._old_places), self.stored()
        named = {one: await self.named(one) for one in TABLES}
        removals: tuple[Callable[..., Any], ...] = (remove_unreachable, remove_orphans)
        for remove in removals if first % 3 == 0 else (removals[first % 3 - 1],):
            try:
                await asyncio.to_thread(_removed, remove, upkeep, table)
            except FirnError:
                continue  # nothing goes where anything cannot be told
        gone = before - self.stored()
        for one in TABLES:
            lost = {path for path in gone & named[one] if one == table or not _is_of(path, await self._places(table))}
            assert lost == set(), f"maintenance of {table} removed files that {one} names"
            await self._walk(one)
        outside = {path for path in gone if not _is_of(path, await self._places(table))}
        assert outside == set(), f"maintenance of {table} removed files outside of its folders"

    async def named(self, table: str) -> set[str]:
        """Every file that a table names, in its canonical spelling, as far as it can be read."""
        metadata, pointer = await self.metadata(table), await self._pointer(table)
        found = {pointer.metadata_location, *(one.metadata_file for one in metadata.metadata_log)}
        found |= {one["statistics-path"] for one in (*metadata.statistics, *metadata.partition_statistics)}
        for snapshot in metadata.snapshots:
            found |= set(self._named_by(metadata, snapshot))
        journal = JournalFiles(self.files, bytes_max=self.bench.limits.journal_bytes_max)
        head = pointer.journal_head
        while head is not None:
            found.add(head)
            head = journal.read(head).batch.previous_segment
        return {canonical(one) for one in found}

    def _named_by(self, metadata: TableMetadata, snapshot: Any) -> Iterator[str]:
        reader = StoredManifests(self.files)
        yield snapshot.manifest_list or ""
        try:
            for manifest in reader.manifests(metadata, snapshot):
                yield manifest.manifest_path
                for entry in reader.entries(metadata, manifest):
                    if entry.is_live:
                        yield entry.data_file.file_path
        except FirnError:
            return

    async def _walk(self, table: str) -> None:
        """Read the journal to its beginning."""
        journal = JournalFiles(self.files, bytes_max=self.bench.limits.journal_bytes_max)
        for segment in journal.walk((await self._pointer(table)).journal_head):
            assert segment.batch.sequence >= 0

    def stored(self) -> set[str]:
        """Every file that is there."""
        return {canonical(one.location) for one in self.files.list(WAREHOUSE)}

    def data_files(self, table: str) -> list[str]:
        """The data files that are there, whether live or not."""
        return sorted(one for one in self.stored() if f"/db/{table[-1]}/data/" in one)

    # -----------------------------------------------------------------------------------------------------------------

    async def metadata(self, table: str) -> TableMetadata:
        """The table as a reader finds it."""
        return await self.bench.metadata(table)

    async def live(self, table: str) -> list[str]:
        """The data files of main, in the spelling that they are listed in."""
        metadata = await self.metadata(table)
        snapshot, reader = metadata.current_snapshot, StoredManifests(self.files)
        manifests = () if snapshot is None else reader.manifests(metadata, snapshot)
        entries = [entry for manifest in manifests for entry in reader.entries(metadata, manifest)]
        return [entry.data_file.file_path for entry in entries if entry.is_live]

    async def _start(self) -> None:
        await self._stack.enter_async_context(self.bench.daemon())

    async def _settle(self, intent: Intent) -> bool:
        (outcome,) = await self.bench.settle(intent)
        return isinstance(outcome, Committed)

    async def _attach(self, table: str, members: dict[str, Any], *, partition: bool) -> None:
        common: dict[str, Any] = {"intent_id": new_id(), "table": table}
        if partition:
            await self._settle(SetPartitionStatistics(**common, partition_statistics=members))
        else:
            await self._settle(SetStatistics(**common, statistics=members))

    async def _pointer(self, table: str) -> Pointer:
        return (await Pointers(self.bench.zookeeper.connect()).read(table)).pointer

    async def _places(self, table: str) -> tuple[str, ...]:
        """The folders that firn let a table have, all of which are its own."""
        pointer = await self._pointer(table)
        return (pointer.location, *pointer.also_at)

    async def _snapshot(self, table: str, number: int) -> int | None:
        snapshots = (await self.metadata(table)).snapshots
        return snapshots[number % len(snapshots)].snapshot_id if snapshots else None

    async def _any_file(self, table: str, number: int) -> str | None:
        """A file that a table names, or another that is in its folder."""
        choices = sorted(await self.named(table) | {one for one in self.stored() if f"/db/{table[-1]}/" in one})
        there = [one for one in choices if one in self.stored()]
        return there[number % len(there)] if there else None

    def _new_path(self, table: str, folder: str, suffix: str) -> str:
        self._names += 1
        return f"{WAREHOUSE}/db/{table[-1]}/{folder}/n{self._names}.{suffix}"

    def _written(self, table: str) -> str:
        path = self._new_path(table, "data", "parquet")
        self.files.create(path, b"rows")
        return path

    def _append(self, table: str, path: str, **members: Any) -> Append:
        file = ContentFile(file_path=path, file_format="parquet", spec_id=0, record_count=1, file_size_in_bytes=4)
        return Append(intent_id=new_id(), table=table, data_files=(file,), **members)


def _removed(remove: Callable[..., Any], upkeep: Upkeep, table: str) -> None:
    remove(upkeep, table, now_ms=OLD_MS, dry_run=False)


def _is_of(path: str, places: Collection[str]) -> bool:
    return any(path.startswith(f"{place}/") for place in places)


def _respelled(path: str, number: int) -> str:
    """The same location, as others may write it."""
    return (path, path.replace("memory://wh", "MEMORY://wh"), path.replace("memory://wh", "memory://WH"))[number % 3]


def _changed(metadata: TableMetadata, path: str, *, kind: int) -> TableMetadata:
    """Metadata that names a file as what it need not be."""
    snapshot = metadata.current_snapshot_id or -1
    entry = {"snapshot-id": snapshot, "statistics-path": path, "file-size-in-bytes": 4}
    log = MetadataLogEntry(metadata_file=path, timestamp_ms=0)
    changes: tuple[dict[str, Any], ...] = (
        {"partition_statistics": (entry,)},
        {"statistics": ({**entry, "file-footer-size-in-bytes": 4, "blob-metadata": []},)},
        {"metadata_log": (log,)},
        {"metadata_log": (log, *metadata.metadata_log)},
        {"properties": {**metadata.properties, "write.data.path": path.rpartition("/")[0]}},
    )
    return msgspec.structs.replace(metadata, **changes[kind])
