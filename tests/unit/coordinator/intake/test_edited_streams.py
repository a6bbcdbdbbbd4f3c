"""Whatever somebody does to a stream under a daemon: what stands in it is committed, what is gone is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.intake import intake as intake_module
from firn.coordinator.intake import lost_entries
from firn.model.sharding import shard_of
from firn.storage.intent_streams import StreamNames
from firn.storage.memory_streams import MemoryRedis
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create

SHARDS = 2
SHARD = shard_of(TABLE, shards=SHARDS)
OTHER = next(name for name in (f"db.t{n}" for n in range(20)) if shard_of(name, shards=SHARDS) != SHARD)
STREAM = StreamNames().intents(SHARD)

CONSUMER = "foreign"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MEASURE_S", 0.05)
    monkeypatch.setattr("firn.coordinator.intake.lost_entries.SETTLES_S", 0.0)


def counted(daemon: Daemon, name: str, **labels: str) -> float:
    return daemon.metrics.registry.get_sample_value(name, labels) or 0.0


async def read_by_another(redis: MemoryRedis) -> None:
    streams = redis.connect()
    for entry in await streams.take([SHARD], consumer=CONSUMER, count=100, block_ms=0):
        redis.acknowledge(STREAM, entry.entry_id)


async def skipped(redis: MemoryRedis) -> None:
    redis.set_position(STREAM, f"{redis.streams[STREAM].last[0]}-{redis.streams[STREAM].last[1]}")


async def stop_reading(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have a daemon read nothing until what is returned is called; no call of Redis is under way then."""
    intake: Any = daemon.intake
    go_on, stands = asyncio.Event(), asyncio.Event()
    follow = intake._check_epoch

    async def waiting() -> None:
        stands.set()
        await go_on.wait()
        await follow()

    monkeypatch.setattr(intake, "_check_epoch", waiting)
    async with asyncio.timeout(10):
        await stands.wait()
    return go_on.set


@pytest.mark.parametrize("edit", [read_by_another, skipped])
async def test_what_was_taken_past_a_daemon_is_committed(edit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Workbench(shards=SHARDS)
    intents = [append(f"f{number}") for number in range(3)]
    async with bench.daemon() as daemon:
        await bench.commit(create())
        go_on = await stop_reading(daemon, monkeypatch)
        await bench.send(*intents)
        await edit(bench.redis)
        go_on()
        async with asyncio.timeout(20):
            outcomes = [await bench.outcome(one) for one in intents]
        assert counted(daemon, "firn_stream_interferences_total", kind="position") == 1
        assert counted(daemon, "firn_reclaimed_entries_total") == 3
    assert {type(outcome).__name__ for outcome in outcomes} == {"Committed"}
    assert await bench.live() == ["f0", "f1", "f2"]


async def test_what_was_acknowledged_or_skipped_while_no_daemon_ran_is_committed() -> None:
    bench = Workbench(shards=SHARDS)
    intents = [append(f"f{number}") for number in range(3)]
    async with bench.daemon():
        await bench.commit(create())
    await bench.send(*intents)
    await read_by_another(bench.redis)
    async with bench.daemon("b") as daemon:
        async with asyncio.timeout(20):
            for one in intents:
                await bench.outcome(one)
        assert counted(daemon, "firn_reclaimed_entries_total") == 3
    assert await bench.live() == ["f0", "f1", "f2"]
    async with bench.daemon("c") as daemon:
        await bench.commit(append("g"))
        assert counted(daemon, "firn_reclaimed_entries_total") == 0, "what has an outcome is not read again"


@pytest.mark.parametrize("kind", ["position", "replaced"])
async def test_a_group_that_is_gone_is_noticed_before_its_successor_is_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MEASURE_S", 3600.0)  # no look by the clock comes between
    monkeypatch.setattr(lost_entries, "SETTLES_S", 0.0)
    bench = Workbench(shards=SHARDS)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        daemon.intake._measured[SHARD] = 0.0
        daemon.intake._measure_at = 0.0
        await bench.commit(append("f"))
        go_on = await stop_reading(daemon, monkeypatch)
        if kind == "replaced":
            del bench.redis.streams[STREAM]
        else:
            bench.redis.streams[STREAM].group = None
        go_on()
        async with asyncio.timeout(20):
            await bench.commit(append("g"))
        assert counted(daemon, "firn_stream_interferences_total", kind=kind) == 1
        assert counted(daemon, "firn_queue_emptied_total") == 0
    assert await bench.live() == ["f", "g"]


async def test_a_key_of_another_type_holds_its_shard_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "RETRY_S", 0.05)
    bench = Workbench(shards=SHARDS)
    async with bench.daemon() as daemon:
        await bench.settle(create(), create(OTHER))
        bench.redis.replace_by_text(STREAM)
        async with asyncio.timeout(20):
            await bench.commit(append("f", table=OTHER))
        assert counted(daemon, "firn_stream_interferences_total", kind="type") == 1
        bench.redis.keys.pop(STREAM)
        async with asyncio.timeout(20):
            await bench.commit(append("g"))
    assert await bench.live() == ["g"]


async def test_consumers_of_former_lives_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "CONSUMER_IDLE_S", 0.0)
    bench = Workbench(shards=1)
    for life in range(3):
        async with bench.daemon(f"life-{life}") as daemon:
            await bench.commit(create() if life == 0 else append(f"f{life}"))
            if life:
                daemon.intake._janitor_at = 0.0
                group = bench.redis.streams[StreamNames().intents(0)].group
                assert group is not None
                async with asyncio.timeout(10):
                    while len(group.seen_ms) > 1:  # noqa: ASYNC110 - the twins tell nobody
                        await asyncio.sleep(0.01)
