"""A whole daemon on in-memory twins, and intents to feed it: for tests that need no servers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from firn.coordinator.calculating.calculator import Calculator
from firn.coordinator.config import DaemonSettings, HttpSettings, Settings, WarehouseSettings
from firn.coordinator.daemon import Daemon, wall_clock_ms
from firn.coordinator.store_identity import StoreIdentity
from firn.coordinator.tables.table_reader import TableReader
from firn.model.identifiers import uuid7
from firn.model.intent import Append, ContentFile, CreateTable, DeleteFiles, Intent, Replace, encode_intent
from firn.model.journal import Segment
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.outcome import Committed, Outcome, Rejected, decode_outcome
from firn.model.sharding import shard_of
from firn.storage.dropped_snapshots import is_record
from firn.storage.files import FileStore
from firn.storage.intent_streams import StreamNames
from firn.storage.journal import JournalFiles
from firn.storage.memory_coordination import MemoryZooKeeper
from firn.storage.memory_files import MemoryFiles
from firn.storage.memory_streams import MemoryRedis
from firn.storage.pointers import Pointers

WAREHOUSE = "memory://wh"
TABLE = "db.events"
SHARDS = 4
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "ts", "type": "timestamptz", "required": False},
        {"id": 3, "name": "name", "type": "string", "required": False},
    ],
}


def new_id(now_ms: int | None = None) -> str:
    """A fresh intent id."""
    return uuid7(now_ms=wall_clock_ms() if now_ms is None else now_ms, entropy=secrets.token_bytes(10))


def content_file(name: str, *, table: str = TABLE, rows: int = 10) -> ContentFile:
    """A data file inside the table's default location."""
    namespace, _, short = table.rpartition(".")
    return ContentFile(
        file_path=f"{WAREHOUSE}/{namespace}/{short}/data/{name}.parquet",
        file_format="parquet",
        spec_id=0,
        record_count=rows,
        file_size_in_bytes=rows * 100,
    )


def path_of(name: str, *, table: str = TABLE) -> str:
    """Where `content_file` puts a file."""
    return content_file(name, table=table).file_path


def create(table: str = TABLE, **changes: Any) -> CreateTable:
    """A create intent for an unpartitioned v2 table."""
    return CreateTable(**{"intent_id": new_id(), "table": table, "schema": SCHEMA, **changes})


def append(*names: str, table: str = TABLE, rows: int = 10, **changes: Any) -> Append:
    """An append of files by name."""
    files = tuple(content_file(name, table=table, rows=rows) for name in names)
    return Append(**{"intent_id": new_id(), "table": table, "data_files": files, **changes})


def delete(*names: str, table: str = TABLE, **changes: Any) -> DeleteFiles:
    """A delete of files by name."""
    return DeleteFiles(**{
        "intent_id": new_id(), "table": table, "removed_data_files": tuple(path_of(n, table=table) for n in names),
        **changes,
    })  # fmt: skip


def replace(
    removed: Sequence[str], added: Sequence[str], *, base: int, rows: int = 10, table: str = TABLE, **changes: Any
) -> Replace:
    """A rewrite of files by name, planned on snapshot `base`."""
    return Replace(**{
        "intent_id": new_id(), "table": table, "base_snapshot_id": base,
        "removed_data_files": tuple(path_of(n, table=table) for n in removed),
        "data_files": tuple(content_file(n, table=table, rows=rows) for n in added),
        **changes,
    })  # fmt: skip


def decision(outcome: Outcome) -> Outcome:
    """What was decided: the outcome without how long it took, and without the digest, which a journal has beside it."""
    return msgspec.structs.replace(
        outcome, latency_ms=0.0, queued_ms=None, decision_ms=None, commit_ms=None, digest=None
    )


class Workbench:
    """Twins of every server, daemons on them, and what a test wants to know of the result."""

    def __init__(
        self,
        *,
        files: FileStore | None = None,
        limits: Limits | None = None,
        shards: int = SHARDS,
        prefix: str = "firn",
        warehouse: str = WAREHOUSE,
        http_port: int = -1,
        prometheus_url: str | None = None,
        trace_url: str | None = None,
        is_marked: bool = False,
    ) -> None:
        self.is_marked = is_marked
        self.warehouse = warehouse
        self.http_port = http_port
        self.prometheus_url = prometheus_url
        self.trace_url = trace_url
        self.url: str | None = None
        self.names = StreamNames(prefix)
        self.zookeeper = MemoryZooKeeper(now_ms=wall_clock_ms)
        self.redis = MemoryRedis()
        self.files = MemoryFiles() if files is None else files
        self.limits = limits or Limits()
        self.shards = shards
        self.streams = self.redis.connect(names=self.names)
        self.daemons: list[Daemon] = []
        self.sessions: dict[str, Any] = {}

    @asynccontextmanager
    async def daemon(
        self, name: str = "a", *, calculator: Calculator | None = None, **daemon_settings: Any
    ) -> AsyncIterator[Daemon]:
        """A running daemon."""
        settings = Settings(
            warehouse=WarehouseSettings(location=self.warehouse),
            daemon=DaemonSettings(**{"id": name, "shards": self.shards, "drain_s": 5, **daemon_settings}),
            http=HttpSettings(port=self.http_port, prometheus_url=self.prometheus_url, trace_url=self.trace_url),
            limits=self.limits,
        )
        session = self.sessions[name] = self.zookeeper.connect()
        streams = self.redis.connect(names=self.names)
        stores = None
        if self.is_marked:
            stores = StoreIdentity(settings, session=session, streams=streams, files=self.files)
            await stores.at_start()
        daemon = Daemon(
            settings, session=session, streams=streams, files=self.files, calculator=calculator, stores=stores
        )
        self.url = await daemon.start()
        self.daemons.append(daemon)
        try:
            yield daemon
        finally:
            await daemon.stop()
            await session.close()
            self.daemons.remove(daemon)

    async def send(self, *intents: Intent) -> None:
        """Queue intents in order."""
        for intent in intents:
            await self.streams.submit(shard_of(intent.table, shards=self.shards), encode_intent(intent))

    async def outcome(self, intent: Intent, *, timeout_s: float = 10) -> Outcome:
        """Wait for an intent's outcome."""
        async with asyncio.timeout(timeout_s):
            while True:
                data = await self.streams.outcome(intent.intent_id)
                if data is not None:
                    return decode_outcome(data)
                await asyncio.sleep(0.005)

    async def settle(self, *intents: Intent) -> list[Outcome]:
        """Queue intents and wait for all outcomes."""
        await self.send(*intents)
        return [await self.outcome(intent) for intent in intents]

    async def commit(self, intent: Intent) -> Committed:
        """Queue an intent that must be committed."""
        (outcome,) = await self.settle(intent)
        assert isinstance(outcome, Committed), outcome
        return outcome

    async def refuse(self, intent: Intent) -> Rejected:
        """Queue an intent that must be rejected."""
        (outcome,) = await self.settle(intent)
        assert isinstance(outcome, Rejected), outcome
        return outcome

    async def merged(self) -> None:
        """Wait until every daemon has written the merged manifests that its commits so far began."""
        for lanes in [daemon.lanes for daemon in self.daemons]:
            while lanes.at_work() or lanes._shop.merges.under_way:  # noqa: ASYNC110 - nothing tells of either
                await asyncio.sleep(0.001)

    async def metadata(self, table: str = TABLE) -> TableMetadata:
        """The table's metadata, read from the pointer on."""
        versioned = await Pointers(self.zookeeper.connect()).read(table)
        return TableReader(self.files, limits=self.limits).metadata(versioned.pointer.metadata_location)

    async def live(self, table: str = TABLE) -> list[str]:
        """Names of the live data files, sorted; read from storage, twice the same file is listed twice."""
        metadata = await self.metadata(table)
        snapshot = metadata.current_snapshot
        if snapshot is None:
            return []
        reader = TableReader(self.files, limits=self.limits)
        entries = [e for m in reader.manifests(metadata, snapshot) for e in reader.entries(metadata, m)]
        paths = (e.data_file.file_path for e in entries if e.is_live)
        return sorted(p.rpartition("/")[2].removesuffix(".parquet") for p in paths)

    async def journal(self, table: str = TABLE) -> list[Segment]:
        """The table's journal, oldest first."""
        versioned = await Pointers(self.zookeeper.connect()).read(table)
        files = JournalFiles(self.files, bytes_max=self.limits.journal_bytes_max)
        return list(files.walk(versioned.pointer.journal_head))[::-1]

    def lose_dropped_snapshots(self) -> None:
        """Remove the records of what tables have dropped, as another engine that expires snapshots writes none."""
        for info in list(self.files.list(self.warehouse)):
            if is_record(info.location):
                self.files.delete(info.location)

    async def events(self) -> list[dict[str, Any]]:
        """All events so far."""
        return [msgspec.json.decode(m.data) for m in await self.streams.events(block_ms=0)]
