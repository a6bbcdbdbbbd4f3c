"""What landed is not kept for long: with many busy tables their reservations are asked for together."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from firn.coordinator.outcomes.disturbances import Disturbances
from firn.coordinator.outcomes.reservations import Board, Reservations
from firn.coordinator.replay.working import Working
from tests.unit.coordinator.workbench import Workbench, append, create

TABLES = [f"db.t{number}" for number in range(8)]


class Slow:
    """Reservations that are told once all tables have been asked for."""

    def __init__(self) -> None:
        self._asked = 0
        self.all_asked = asyncio.Event()

    async def any_of(self, tables: Sequence[str]) -> bool:
        return set(tables) == set(TABLES)

    async def of(self, _table: str) -> Board:
        self._asked += 1
        if self._asked == len(TABLES):
            self.all_asked.set()
        await self.all_asked.wait()  # whoever asks for one after the other waits for ever
        return Board(now_ms=0, standings=())


async def test_reservations_of_many_tables_are_asked_for_together():
    slow = Slow()
    disturbances = Disturbances(cast("Any", slow), cast("Any", None), daemon="a", wall_ms=lambda: 0)
    for table in TABLES:
        working = SimpleNamespace(table=table, metadata=None, snapshots=["a snapshot"])
        disturbances.landed(cast("Any", working), cast("Any", None), [])
    looking = asyncio.create_task(disturbances.run())
    async with asyncio.timeout(10):
        await slow.all_asked.wait()
    looking.cancel()


async def test_what_a_batch_was_replayed_on_is_let_go_of(monkeypatch):
    """Also while nobody can say what is reserved."""
    waiting = asyncio.Event()

    async def never(self: Reservations, tables: Sequence[str]) -> bool:
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Reservations, "any_of", never)
    bench = Workbench()
    before = len(_workings())  # what other tests have left behind
    async with bench.daemon():
        await bench.commit(create())
        for number in range(5):
            await bench.commit(append(f"f{number}"))
        await waiting.wait()
        await asyncio.sleep(0)
        assert len(_workings()) <= before + 1


def _workings():
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Working)]
