"""Transactions and the lanes of their tables, in one daemon and in several: nobody waits for ever, nobody starves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from firn.coordinator.daemon import Daemon
from firn.model.outcome import Committed
from firn.model.sharding import shard_of
from firn.storage.leases import Leases
from tests.unit.coordinator.test_takeover import until
from tests.unit.coordinator.transactions.ledger import A, B, C, fsck, transaction, unchanged, with_tables
from tests.unit.coordinator.workbench import Workbench, append


@asynccontextmanager
async def two_daemons(bench: Workbench, **settings: Any) -> AsyncIterator[tuple[Daemon, Daemon]]:
    """Two daemons that share the shards evenly."""
    async with bench.daemon("a", **settings) as first, bench.daemon("b", **settings) as second:
        half = bench.shards // 2
        await until(lambda: len(first.ownership.owned()) == half and len(second.ownership.owned()) == half)
        yield first, second


def table_of(bench: Workbench, daemon: Daemon, prefix: str) -> str:
    """A table whose intents this daemon takes."""
    owned = daemon.ownership.owned()
    names = (f"db.{prefix}{number}" for number in itertools.count())
    return next(name for name in names if shard_of(name, shards=bench.shards) in owned)


class Flood:
    """Appends to a table without a pause, so that its lane never comes to rest."""

    def __init__(self, bench: Workbench, table: str) -> None:
        self.table = table
        self.committed = 0
        self._bench = bench
        self._tasks = [asyncio.create_task(self._run(number)) for number in range(4)]

    async def _run(self, number: int) -> None:
        for count in itertools.count():
            await self._bench.commit(append(f"flood-{number}-{count}", table=self.table))
            self.committed += 1

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_crossing_transactions_of_two_daemons_are_all_committed() -> None:
    bench = Workbench()
    async with two_daemons(bench) as (first, second):
        one, other = table_of(bench, first, "x"), table_of(bench, second, "y")
        third = table_of(bench, second, "a")
        await with_tables(bench, one, other, third)
        orders = [(one, other), (other, one), (third, other, one), (one, third), (other, third)]
        intents = [
            transaction(*(append(f"{number}", table=table) for table in tables))
            for number, tables in enumerate(orders * 6)
        ]
        async with asyncio.timeout(60):
            outcomes = await asyncio.gather(*(bench.commit(intent) for intent in intents))
        expected = {
            t: sorted(str(n) for n, tables in enumerate(orders * 6) if t in tables) for t in (one, other, third)
        }
        assert {t: await bench.live(t) for t in expected} == expected
        await fsck(bench, *expected)
    assert all(isinstance(outcome, Committed) for outcome in outcomes)


async def test_crossing_transactions_of_lanes_in_one_daemon_are_all_committed() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B, C)
        orders = list(itertools.permutations((A, B, C))) * 3
        intents = [transaction(*(append(f"{n}", table=table) for table in tables)) for n, tables in enumerate(orders)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(bench.commit(intent) for intent in intents))
        for table in (A, B, C):
            assert await bench.live(table) == sorted(str(n) for n in range(len(orders)))
        await fsck(bench, A, B, C)


async def test_a_lane_that_is_never_idle_gives_its_lock_to_a_transaction_of_the_same_daemon() -> None:
    bench = Workbench()
    async with bench.daemon(lease_idle_s=600) as daemon:
        await with_tables(bench, A, B)
        flood = Flood(bench, B)
        await until(lambda: flood.committed > 20)
        try:
            for number in range(5):
                before = flood.committed
                await bench.commit(transaction(append(f"{number}", table=A), append(f"{number}", table=B)))
                await until(lambda before=before: flood.committed > before + 5)
        finally:
            await flood.stop()
        assert daemon.metrics.lock_yields._value.get() >= 5
        await fsck(bench, A, B)


async def test_a_lane_of_another_daemon_that_is_never_idle_gives_way_too() -> None:
    bench = Workbench()
    async with two_daemons(bench, lease_idle_s=600) as (first, second):
        mine, busy = table_of(bench, first, "x"), table_of(bench, second, "b")
        await with_tables(bench, mine, busy)
        flood = Flood(bench, busy)
        await until(lambda: flood.committed > 20)
        try:
            async with asyncio.timeout(20):
                for number in range(5):
                    read = await unchanged(bench, mine, snapshot_id=(await bench.metadata(mine)).current_snapshot_id)
                    await bench.commit(transaction(append(f"{number}", table=mine), append(f"{number}", table=busy)))
                    await bench.refuse(transaction(append(f"no-{number}", table=busy), unchanged=(read,)))
        finally:
            await flood.stop()
        assert second.metrics.lock_yields._value.get() >= 5
        assert [name for name in await bench.live(busy) if not name.startswith("flood")] == list("01234")
        await fsck(bench, mine, busy)


async def test_an_idle_lane_gives_its_lock_up_as_soon_as_another_wants_it() -> None:
    bench = Workbench()
    async with bench.daemon(lease_idle_s=600):
        await with_tables(bench, A)
        other = Leases(bench.zookeeper.connect(), member="another")
        lease = await other.acquire(A, timeout_s=5)
        assert lease is not None
        await bench.send(late := append("x", table=A))
        await asyncio.sleep(0.2)
        assert await bench.live(A) == []
        await other.release(lease)
        assert isinstance(await bench.outcome(late), Committed)


async def test_a_lock_that_another_keeps_holds_up_the_transaction_and_nothing_else() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B, C)
        other = Leases(bench.zookeeper.connect(), member="another")
        lease = await other.acquire(B, timeout_s=5)
        assert lease is not None
        waiting = transaction(append("x", table=A), append("x", table=B))
        await bench.send(waiting)
        await asyncio.sleep(0.1)
        await bench.commit(append("c", table=C))
        assert await bench.live(A) == []
        await other.release(lease)
        assert isinstance(await bench.outcome(waiting), Committed)
        assert [await bench.live(t) for t in (A, B)] == [["x"], ["x"]]
