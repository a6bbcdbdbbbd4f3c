"""Shards are measured in turns: an intent that comes meanwhile waits for one of them, not for all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.intake import intake as intake_module
from tests.unit.coordinator.workbench import Workbench, append, create

SHARDS = 8


async def test_each_shard_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MEASURE_S", 0.4)
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
                if all(sum(shard in some for some in rounds) > 3 for shard in range(SHARDS)):
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
