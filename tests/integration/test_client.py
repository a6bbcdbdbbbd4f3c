"""The client on real Redis and ZooKeeper, and a real daemon."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from firn import AsyncClient, Client, Committed, Rejected, TableView, Unknown, data_files_from_parquet
from firn.coordinator.config import (
    DaemonSettings,
    HttpSettings,
    RedisSettings,
    Settings,
    WarehouseSettings,
    ZooKeeperSettings,
)
from firn.coordinator.connections import connect
from firn.coordinator.daemon import Daemon
from firn.coordinator.embedded import RedisServer
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import Misconfigured, NotFound
from firn.model.limits import Limits
from firn.storage.local_files import LocalFiles
from firn.storage.parquet_schema import arrow_schema

TABLE = "db.events"
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "customer_id", "type": "long", "required": False},
    ],
}


@pytest.fixture
def settings(redis_url: str, zk_hosts: str, tmp_path: Path) -> Settings:
    hosts, _, root = zk_hosts.partition("/")
    return Settings(
        redis=RedisSettings(url=redis_url),
        zookeeper=ZooKeeperSettings(hosts=hosts, root=f"/{root}"),
        warehouse=WarehouseSettings(location=str(tmp_path / "warehouse")),
        daemon=DaemonSettings(id="a", shards=4, drain_s=5),
        http=HttpSettings(port=-1),
    )


@asynccontextmanager
async def daemon(settings: Settings) -> AsyncIterator[Daemon]:
    async with connect(settings) as connections:
        one = Daemon(settings, session=connections.session, streams=connections.streams, files=connections.files)
        await one.start()
        try:
            yield one
        finally:
            await one.stop()


def written(view: TableView, *, rows: int = 3) -> Path:
    path = Path(view.location, "data", f"{uuid.uuid4()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"id": list(range(rows)), "customer_id": [7] * rows}
    pq.write_table(pa.table(data, schema=arrow_schema(view.schema)), path)
    return path


def live(view: TableView) -> list[str]:
    snapshot = view.metadata.current_snapshot
    assert snapshot is not None
    reader = TableReader(LocalFiles(), limits=Limits())
    entries = [e for m in reader.manifests(view.metadata, snapshot) for e in reader.entries(view.metadata, m)]
    return sorted(e.data_file.file_path for e in entries if e.is_live)


async def test_files_that_are_described_are_committed_and_found_again(settings: Settings, zk_hosts: str) -> None:
    async with daemon(settings), AsyncClient(settings.redis.url, zookeeper=zk_hosts) as client:
        spec = {
            "spec-id": 0,
            "fields": [{"source-id": 2, "field-id": 1000, "name": "bucket", "transform": "bucket[16]"}],
        }
        await (await client.create_table(TABLE, SCHEMA, partition_spec=spec)).committed(20)
        view = await client.table(TABLE)
        paths = [written(view) for _ in range(5)]
        ticket = await client.append(TABLE, data_files_from_parquet(paths, view))
        committed = await ticket.committed(20)
        head = await client.table(TABLE)
        assert head.snapshot_id == committed.snapshot_id
        assert live(head) == sorted(map(str, paths))

        with redis.Redis.from_url(settings.redis.url) as admin:
            admin.flushall()
        assert (await client.table(TABLE)).metadata_location == head.metadata_location  # from ZooKeeper
        with pytest.raises(NotFound):
            await client.table("db.none")
        async with AsyncClient(settings.redis.url) as other:
            with pytest.raises(NotFound, match="zookeeper="):
                await other.table(TABLE)


async def test_an_emptied_redis_loses_no_intent(settings: Settings) -> None:
    async with daemon(settings), AsyncClient(settings.redis.url, resubmit_after_s=0.3) as client:
        await (await client.create_table(TABLE, SCHEMA)).committed(20)
        view = await client.table(TABLE)
        paths = [written(view) for _ in range(60)]
        files = await asyncio.to_thread(data_files_from_parquet, paths, view)
        tickets = []
        with redis.Redis.from_url(settings.redis.url) as admin:
            for number, file in enumerate(files):
                tickets.append(await client.append(TABLE, [file]))
                if number % 20 == 10:
                    admin.flushall()
        outcomes = await asyncio.gather(*(ticket.result(30) for ticket in tickets))
        assert [type(outcome) for outcome in outcomes] == [Committed] * 60
        assert live(await client.table(TABLE)) == sorted(map(str, paths))


async def test_a_redis_that_was_away_loses_no_intent(settings: Settings, redis_server: RedisServer) -> None:
    async with daemon(settings), AsyncClient(settings.redis.url, resubmit_after_s=0.3) as client:
        await (await client.create_table(TABLE, SCHEMA)).committed(20)
        view = await client.table(TABLE)
        paths = [written(view) for _ in range(20)]
        files = await asyncio.to_thread(data_files_from_parquet, paths, view)
        tickets = [await client.append(TABLE, [file]) for file in files[:10]]
        await asyncio.to_thread(redis_server.kill)
        started = time.monotonic()
        tickets += [await client.append(TABLE, [file]) for file in files[10:]]
        assert time.monotonic() - started < 5, "submitting must not wait for a Redis that is not there"
        assert isinstance(await tickets[-1].result(0.5), Unknown)
        await asyncio.to_thread(redis_server.start)
        outcomes = await asyncio.gather(*(ticket.result(30) for ticket in tickets))
        assert [type(outcome) for outcome in outcomes] == [Committed] * 20
        assert live(await client.table(TABLE)) == sorted(map(str, paths))


async def test_intents_wait_for_a_daemon(settings: Settings) -> None:
    async with AsyncClient(settings.redis.url, resubmit_after_s=0.5) as client:
        created = await client.create_table(TABLE, SCHEMA)
        assert isinstance(await created.result(0.2), Unknown)
        async with daemon(settings):
            await created.committed(20)
            lost = await client.delete_files(TABLE, ["/nowhere/a.parquet"])
            assert isinstance(await lost.result(20), Rejected)


async def in_thread(work: Callable[[], list[str]]) -> list[str]:
    """Do it in a thread of its own: a child forked from an executor's worker cannot end in good order."""
    result: Future[list[str]] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(result)


def work_in_process(client: Client, path: str, results: Any) -> None:
    """What a child does with the client that it was given; runs in a forked or spawned process."""
    with client:
        files = data_files_from_parquet([path], client.table(TABLE))
        results.put(type(client.append(TABLE, files).result(20)).__name__)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_client_works_in_child_processes(settings: Settings, method: str) -> None:
    context: Any = multiprocessing.get_context(method)

    def script() -> list[str]:
        with Client(settings.redis.url, resubmit_after_s=0.5) as client:
            client.create_table(TABLE, SCHEMA).committed(20)
            view = client.table(TABLE)
            results = context.Queue()
            children = [
                context.Process(target=work_in_process, args=(client, str(written(view)), results)) for _ in range(2)
            ]
            for child in children:
                child.start()
            own = client.append(TABLE, data_files_from_parquet([written(view)], view)).result(20)
            told = [results.get(timeout=30) for _ in children]
            for child in children:
                child.join(10)
                assert child.exitcode == 0
            after = client.append(TABLE, data_files_from_parquet([written(view)], view)).result(20)
            assert len(live(client.table(TABLE))) == 4
            return [*told, type(own).__name__, type(after).__name__]

    async with daemon(settings):
        assert await in_thread(script) == ["Committed"] * 4


async def test_wrong_addresses_are_named() -> None:
    with pytest.raises(Misconfigured, match="URL of Redis"):
        AsyncClient("127.0.0.1:6379")
