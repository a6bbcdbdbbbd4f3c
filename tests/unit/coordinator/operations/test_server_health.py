"""What a daemon says of the servers that it depends on."""

from __future__ import annotations

import asyncio
import gc
import shutil
from pathlib import Path

import pytest

from firn.coordinator.metrics import Metrics
from firn.coordinator.operations.server_health import ServerHealth
from firn.storage.intent_streams import IntentStreams
from firn.storage.memory_coordination import MemoryZooKeeper
from firn.storage.memory_streams import MemoryRedis
from firn.storage.redis_vitals import RedisVitals, vitals_of

# What a Redis answers to INFO, as redis-py reads it; cut to what matters here and a little beside it.
INFO = {
    "used_memory": 1_200_000,
    "maxmemory": 4_000_000,
    "maxmemory_policy": "noeviction",
    "loading": 0,
    "rdb_last_bgsave_status": "ok",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
}


def counted(metrics: Metrics, name: str) -> dict[str, float]:
    """A metric's values by its label."""
    return {
        next(iter(sample.labels.values()), ""): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


class Telling:
    """Streams of a Redis that says how it is."""

    def __init__(self, streams: IntentStreams, vitals: RedisVitals | None) -> None:
        self._streams = streams
        self._vitals = vitals

    def __getattr__(self, name: str) -> object:
        return getattr(self._streams, name)

    async def vitals(self) -> RedisVitals | None:
        return self._vitals


async def test_each_server_is_asked_and_one_that_fails_does_not_hide_the_other() -> None:
    session, metrics = MemoryZooKeeper().connect(), Metrics(version="1", daemon="d")
    health = ServerHealth(session, MemoryRedis().connect(), metrics=metrics)
    await health.look()
    session.suspend()
    await health.look()
    assert counted(metrics, "firn_server_ping_seconds_count") == {"redis": 2, "zookeeper": 1}
    assert counted(metrics, "firn_server_ping_failures_total") == {"redis": 0, "zookeeper": 1}


async def test_a_daemon_that_ends_at_once_leaves_no_question_behind(recwarn: pytest.WarningsRecorder) -> None:
    health = ServerHealth(
        MemoryZooKeeper().connect(), MemoryRedis().connect(), metrics=Metrics(version="1", daemon="d")
    )
    looking = asyncio.create_task(health.look())
    await asyncio.sleep(0)  # the questions are to be asked next
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize(
    ("changes", "persisting"),
    [
        ({}, {"append-only": 1, "snapshot": 1}),
        ({"aof_last_write_status": "err"}, {"append-only": 0, "snapshot": 1}),
        ({"aof_enabled": 0}, {"append-only": 0, "snapshot": 1}),
        ({"rdb_last_bgsave_status": "err"}, {"append-only": 1, "snapshot": 0}),
    ],
)
async def test_a_redis_that_keeps_nothing_on_disk_is_told(changes: dict[str, object], persisting: object) -> None:
    metrics = Metrics(version="1", daemon="d")
    streams = Telling(MemoryRedis().connect(), vitals_of({**INFO, **changes}))
    await ServerHealth(MemoryZooKeeper().connect(), streams, metrics=metrics).look()  # type: ignore[arg-type]
    assert counted(metrics, "firn_redis_persisting") == persisting
    assert counted(metrics, "firn_redis_memory_bytes") == {"": 1_200_000}
    assert counted(metrics, "firn_redis_memory_max_bytes") == {"": 4_000_000}


def test_a_server_that_hides_itself_has_no_vitals() -> None:
    assert vitals_of({"used_memory": 1}) is None
    assert vitals_of({}) is None


@pytest.mark.parametrize("folder", ["", "not/made/yet"])
async def test_the_free_space_of_a_local_warehouse_is_told(tmp_path: Path, folder: str) -> None:
    metrics = Metrics(version="1", daemon="d")
    health = ServerHealth(MemoryZooKeeper().connect(), MemoryRedis().connect(), metrics=metrics)
    await health.look_at_disk(str(tmp_path / folder))
    (free,), (size,) = (counted(metrics, f"firn_warehouse_{name}_bytes").values() for name in ("free", "size"))
    assert size == pytest.approx(shutil.disk_usage(tmp_path).total)
    assert 0 < free <= size


async def test_an_object_store_has_no_disk() -> None:
    metrics = Metrics(version="1", daemon="d")
    health = ServerHealth(MemoryZooKeeper().connect(), MemoryRedis().connect(), metrics=metrics)
    await health.look_at_disk("s3://bucket/wh")
    assert counted(metrics, "firn_warehouse_size_bytes") == {"": 0}


async def test_the_disk_is_watched_beside_the_servers(tmp_path: Path) -> None:
    metrics = Metrics(version="1", daemon="d")
    health = ServerHealth(
        MemoryZooKeeper().connect(), MemoryRedis().connect(), metrics=metrics, warehouse=f"file://{tmp_path}"
    )
    watching = asyncio.create_task(health.run())
    async with asyncio.timeout(5):
        while counted(metrics, "firn_warehouse_size_bytes") == {"": 0}:  # noqa: ASYNC110 - a metric tells nobody
            await asyncio.sleep(0.01)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
