"""Many tables made at once: they take turns within the daemon, and none waits for a queue that all of them read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.tables.table_locations import LOCATIONS_LOCK
from firn.storage.leases import Leases
from tests.unit.coordinator.workbench import Workbench, create

TABLES = 60


async def test_one_lane_of_a_daemon_at_a_time_queues_up_for_the_lock_over_all_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queued: list[str] = []
    most = 0
    acquire = Leases.acquire

    async def counted(self: Leases, table: str, **options: Any) -> Any:
        nonlocal most
        if table != LOCATIONS_LOCK:
            return await acquire(self, table, **options)
        queued.append(table)
        most = max(most, len(queued))
        try:
            await asyncio.sleep(0)
            return await acquire(self, table, **options)
        finally:
            queued.pop()

    monkeypatch.setattr(Leases, "acquire", counted)
    bench = Workbench()
    async with bench.daemon():
        outcomes = await bench.settle(*(create(f"db.t{n}") for n in range(TABLES)))
    assert len(outcomes) == TABLES
    assert most == 1


async def test_who_ends_while_it_waits_its_turn_leaves_the_turn_to_the_others() -> None:
    """A daemon that stops amid a crowd of creations: the rest is done by the next one, none is lost or done twice."""
    bench = Workbench()
    intents = [create(f"db.t{n}") for n in range(TABLES)]
    async with bench.daemon("a"):
        await bench.send(*intents)
        await bench.outcome(intents[0])
    async with bench.daemon("b"):
        outcomes = [await bench.outcome(intent, timeout_s=30) for intent in intents]
    assert {type(outcome).__name__ for outcome in outcomes} == {"Committed"}
