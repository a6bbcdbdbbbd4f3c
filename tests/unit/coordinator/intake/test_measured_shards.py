"""Shards are measured in turns: an intent that comes meanwhile waits for one of them, not for all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.intake import intake as intake_module
from tests.unit.coordinator.workbench import Workbench, append, create

SHARDS = 8


async def test_each_shard_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MEASURE_S", 1.2)
    bench = Workbench(shards=SHARDS)
    async with bench.daemon() as daemon:
        intake = daemon.intake
        streams: Any = intake._streams
        lag, take = streams.lag, streams.take
        rounds: list[list[int]] = [[]]

        async def measured(shard: int) -> Any:
            rounds[-1].append(shard)
            return await lag(shard)

        async def taken(*args: Any, **options: Any) -> Any:
            rounds.append([])
            return await take(*args, **options)

        monkeypatch.setattr(streams, "lag", measured)
        monkeypatch.setattr(streams, "take", taken)
        await bench.commit(create())
        async with asyncio.timeout(20):
            for number in range(10_000):
                await bench.commit(append(f"f{number}"))
                if all(sum(shard in some for some in rounds) > 1 for shard in range(SHARDS)):
                    break
        assert len(intake._measured) == SHARDS
    # The first round may have measured all of them.
    assert max(map(len, rounds[1:])) < SHARDS / 2


async def test_after_redis_was_away_all_are_measured_before_anything_is_taken() -> None:
    bench = Workbench(shards=SHARDS)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        streams: Any = daemon.intake._streams
        take, calls = streams.take, list[str]()
        lag = streams.lag

        async def failing(*args: Any, **options: Any) -> Any:
            streams.take = watched
            raise OSError("gone")

        async def watched(*args: Any, **options: Any) -> Any:
            calls.append("take")
            return await take(*args, **options)

        async def measured(shard: int) -> Any:
            calls.append("lag")
            return await lag(shard)

        streams.take, streams.lag = failing, measured
        async with asyncio.timeout(20):
            while "take" not in calls:  # noqa: ASYNC110 - the twins tell nobody
                await asyncio.sleep(0.01)
        assert calls[:SHARDS] == ["lag"] * SHARDS


async def test_a_busy_shard_is_rid_of_what_is_settled_whenever_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MEASURE_S", 0.05)
    monkeypatch.setattr(intake_module, "TRIM_WORTH", 5)
    bench = Workbench(shards=1)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        daemon.intake._janitor_at = float("inf")
        entries = bench.redis.streams[bench.names.intents(0)].entries
        for number in range(8):
            await bench.commit(append(f"f{number}"))
        async with asyncio.timeout(20):
            while len(entries) > 5:  # noqa: ASYNC110 - the twins tell nobody
                await asyncio.sleep(0.01)
        assert len(entries) >= 1, "what was handed out last stays"
        lost = daemon.metrics.registry.get_sample_value("firn_lost_entries_total", {"was": "waiting"})
    assert not lost, "what a daemon removes itself is not lost"


async def test_a_few_settled_entries_are_left_to_the_round_of_every_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MEASURE_S", 0.02)
    bench = Workbench(shards=1)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        daemon.intake._janitor_at = float("inf")
        streams: Any = daemon.intake._streams
        lag, measured = streams.lag, asyncio.Event()

        async def watched(shard: int) -> Any:
            found = await lag(shard)
            if found.length >= 4 and not found.pending and not found.undelivered:
                measured.set()
            return found

        monkeypatch.setattr(streams, "lag", watched)
        for number in range(4):
            await bench.commit(append(f"f{number}"))
        async with asyncio.timeout(20):
            await measured.wait()
            await bench.commit(append("last"))
        assert len(bench.redis.streams[bench.names.intents(0)].entries) == 6


async def test_a_shard_that_is_given_up_during_a_look_is_not_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MEASURE_S", 0.02)
    monkeypatch.setattr(intake_module, "TRIM_WORTH", 1)
    bench = Workbench(shards=1)
    async with bench.daemon() as daemon:
        intake = daemon.intake
        intake._janitor_at = float("inf")
        streams: Any = intake._streams
        deliveries, trim = streams.deliveries, streams.trim
        looks, trims = list[bool](), list[bool]()

        async def given_up(shard: int) -> Any:
            found = await deliveries(shard)
            if len(looks) % 2:  # every second time: then it is taken over again
                intake.forget({shard})
            looks.append(shard in intake._backlogs)
            return found

        async def watched(shard: int) -> int:
            trims.append(looks[-1])
            return int(await trim(shard))

        monkeypatch.setattr(streams, "deliveries", given_up)
        monkeypatch.setattr(streams, "trim", watched)
        await bench.commit(create())
        async with asyncio.timeout(20):
            for number in range(10_000):
                await bench.commit(append(f"f{number}"))
                if len(trims) >= 3 and looks.count(False) >= 3:
                    break
        assert all(trims), "whoever has the shard then would count what goes as lost"
