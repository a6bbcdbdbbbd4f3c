"""A table may say how often it wants to be swapped."""

from __future__ import annotations

import time

from firn.model.outcome import Committed
from tests.unit.coordinator.workbench import Workbench, append, create


async def test_intents_gather_while_a_table_rests() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"firn.max-swaps-per-second": "4"}))
        await bench.commit(append("first"))
        started = time.monotonic()
        intents = [append(f"f{number}") for number in range(10)]
        for intent in intents:
            await bench.send(intent)
        outcomes = [await bench.outcome(intent) for intent in intents]
        took_s = time.monotonic() - started
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        assert len(await bench.journal()) <= 4
    assert took_s >= 0.2


async def test_a_retired_lane_does_not_rest() -> None:
    bench = Workbench()
    started = time.monotonic()
    async with bench.daemon() as daemon:
        await bench.commit(create(properties={"firn.max-swaps-per-second": "1"}))
        await bench.commit(append("a"))
        await daemon.lanes.retire()
        await bench.commit(append("b"))
        assert await bench.live() == ["a", "b"]
    assert time.monotonic() - started < 30
