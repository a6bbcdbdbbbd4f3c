"""A table that is flooded holds up no other, takes no more than its share of memory, and loses nothing of the flood."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from firn.coordinator.daemon import Daemon
from firn.model.errors import Unavailable
from firn.model.intent import Append, encode_intent
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from firn.storage.intent_streams import StreamNames
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.workbench import Workbench, append, create

FLOODED = "db.flooded"
QUIET = "db.quiet"
SOON_S = 12
BUFFER = 20_000
"""Bytes; an append takes about 250."""


def buffered_bytes(daemon: Daemon) -> float:
    """What the daemon says of its memory."""
    return daemon.metrics.registry.get_sample_value("firn_buffered_bytes") or 0.0


class SlowTable(MemoryFiles):
    """Files that cannot be written for one table while the gate is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        if any("/flooded/" in location for location, _ in files):
            assert self.gate.wait(60)
        super().create_all(files)


class FloodBench(Workbench):
    """All tables on one shard, and little memory."""

    def __init__(self, **limits: int) -> None:
        self.slow = SlowTable()
        super().__init__(files=self.slow, shards=1, limits=Limits(**{"buffered_bytes_max": BUFFER, **limits}))

    async def flood(self, count: int, *, table: str = FLOODED, start: int = 0) -> list[Append]:
        """Queue many appends to a table at once."""
        intents = [append(f"f{start + number:05}", table=table) for number in range(count)]
        for intent in intents:
            self.redis.add(StreamNames().intents(0), {b"intent": encode_intent(intent)})
        return intents

    async def decided(self, table: str = FLOODED) -> list[str]:
        """Ids of the decided intents in the order of their decisions, the one that made the table left out."""
        return [d.intent_id for segment in await self.journal(table) for d in segment.decided][1:]


def held(daemon: Daemon, table: str = FLOODED) -> int:
    """Intents of a table in memory."""
    found = daemon.lanes._held.get(table)
    return 0 if found is None else found.intents


async def until(condition: Any) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - the twins tell nobody
            await asyncio.sleep(0.005)


async def committed(bench: Workbench, intents: Sequence[Append]) -> None:
    outcomes = [await bench.outcome(intent, timeout_s=60) for intent in intents]
    assert all(isinstance(outcome, Committed) for outcome in outcomes)


async def test_a_table_on_the_same_shard_is_not_held_up_by_a_flood_that_does_not_move_at_all() -> None:
    bench = FloodBench()
    async with bench.daemon() as daemon:
        await bench.commit(create(FLOODED))
        await bench.commit(create(QUIET))
        bench.slow.gate.clear()
        flood = await bench.flood(1_000)  # more than ten times what memory takes
        for number in range(5):
            await bench.commit(append(f"q{number}", table=QUIET))
        assert buffered_bytes(daemon) <= BUFFER
        assert 0 < held(daemon) < 100
        (backlog,) = daemon.intake._backlogs.values()
        assert (backlog.tables, backlog.entries) == (1, 1_000 - held(daemon))
        bench.slow.gate.set()
        await committed(bench, flood)
        await bench.commit(append("after", table=FLOODED))
        assert (backlog.tables, backlog.entries) == (0, 0)
        assert (await bench.decided())[:-1] == [intent.intent_id for intent in flood]
        assert len(await bench.live(FLOODED)) == 1_001


async def test_several_floods_leave_room_for_a_table_that_has_nothing() -> None:
    bench = FloodBench()
    others = [f"db.flooded.t{number}" for number in range(3)]
    async with bench.daemon() as daemon:
        for table in (QUIET, *others):
            await bench.commit(create(table))
        bench.slow.gate.clear()
        floods = [intent for table in others for intent in await bench.flood(300, table=table)]
        await until(lambda: all(held(daemon, table) for table in others))
        for number in range(5):
            await bench.commit(append(f"q{number}", table=QUIET))
        assert buffered_bytes(daemon) < BUFFER
        bench.slow.gate.set()
        await committed(bench, floods)


async def test_no_more_intents_of_a_table_are_in_memory_than_the_limit_says() -> None:
    bench = FloodBench(buffered_bytes_max=10**9, lane_intents_max=7)
    async with bench.daemon() as daemon:
        await bench.commit(create(FLOODED))
        bench.slow.gate.clear()
        flood = await bench.flood(50)
        await until(lambda: held(daemon) == 7)
        await asyncio.sleep(0.1)
        assert held(daemon) == 7
        bench.slow.gate.set()
        await committed(bench, flood)
        assert await bench.decided() == [intent.intent_id for intent in flood]


@pytest.mark.parametrize("gone", ["stopped", "shard-lost", "reply-lost"])
async def test_what_is_held_back_is_neither_lost_nor_doubled_nor_out_of_order(gone: str) -> None:
    bench = FloodBench(lane_intents_max=20)
    async with bench.daemon("a") as first:
        await bench.commit(create(FLOODED))
        bench.slow.gate.clear()
        flood = await bench.flood(200)
        await until(lambda: held(first) == 20)
        backlog = first.intake._backlogs[0]
        if gone == "shard-lost":
            bench.zookeeper.expire(bench.sessions["a"])
            await until(lambda: first.intake._backlogs.get(0) is not backlog)
        elif gone == "reply-lost":
            take = first.intake._streams.take

            async def broken(*_arguments: Any, **_options: Any) -> Any:
                first.intake._streams.take = take  # type: ignore[method-assign]
                raise Unavailable("the connection broke")

            first.intake._streams.take = broken  # type: ignore[method-assign]
            await asyncio.sleep(1)
        else:
            asyncio.get_running_loop().call_later(0.3, bench.slow.gate.set)
            await first.stop()
        bench.slow.gate.set()
        if gone != "stopped":
            await committed(bench, flood)
    async with bench.daemon("b"):
        await committed(bench, flood)
        later = await bench.flood(30, start=1_000)
        await committed(bench, later)
    decided = await bench.decided()
    assert decided == [intent.intent_id for intent in (*flood, *later)]
    assert len(await bench.live(FLOODED)) == 230


async def test_a_backlog_that_sees_daemons_come_and_go_does_not_become_poison() -> None:
    bench = FloodBench(lane_intents_max=10, deliveries_max=4)
    async with bench.daemon():
        await bench.commit(create(FLOODED))
    bench.slow.gate.clear()
    flood = await bench.flood(100)
    for life in range(6):
        async with bench.daemon(f"life-{life}", drain_s=0.01) as daemon:
            await until(lambda: held(daemon) > 0)
            await asyncio.sleep(0.05)
    bench.slow.gate.set()
    async with bench.daemon("last"):
        outcomes = [await bench.outcome(intent, timeout_s=SOON_S) for intent in flood]
    assert [o.rule for o in outcomes if isinstance(o, Rejected)] == ["poison"]  # that which was tried in every life
    assert isinstance(outcomes[0], Rejected)


async def test_what_is_no_intent_is_set_aside_at_once_in_a_flood() -> None:
    bench = FloodBench()
    async with bench.daemon():
        await bench.commit(create(FLOODED))
        bench.slow.gate.clear()
        await bench.flood(500)
        for payload in (b"no json", b'{"table": "db.flooded"', b"[" * 100_000):
            await bench.streams.submit(0, payload)
        await until(lambda: len(bench.redis.after(StreamNames().dead_letters, "0-0", count=9, field="")) == 3)
        bench.slow.gate.set()


async def test_an_entry_that_got_lost_in_a_flood_is_found_and_the_flood_goes_on() -> None:
    bench = FloodBench(lane_intents_max=20)
    async with bench.daemon() as daemon:
        await bench.commit(create(FLOODED))
        bench.slow.gate.clear()
        lost = await bench.flood(1)
        await bench.streams.take([0], consumer="somebody else", count=10, block_ms=0)
        flood = await bench.flood(100, start=1)
        await until(lambda: held(daemon) == 20)
        (backlog,) = daemon.intake._backlogs.values()
        backlog.look_for_lost(min_idle_ms=0)
        bench.slow.gate.set()
        await committed(bench, [*lost, *flood])
    assert len(await bench.live(FLOODED)) == 101


async def test_more_tables_than_can_be_held_back_make_the_daemon_wait() -> None:
    bench = FloodBench(lane_intents_max=1, held_back_tables_max=2)
    tables = [f"db.flooded.t{number}" for number in range(5)]
    async with bench.daemon() as daemon:
        for table in tables:
            await bench.commit(create(table))
        bench.slow.gate.clear()
        floods = [intent for table in tables for intent in await bench.flood(3, table=table)]
        (backlog,) = daemon.intake._backlogs.values()
        await until(lambda: backlog.tables >= 2)
        bench.slow.gate.set()
        await committed(bench, floods)
        assert backlog.tables == 0
