"""A Redis that lost the last entries of its streams, or whose streams somebody cut by hand."""

from __future__ import annotations

import asyncio

import pytest

from firn.coordinator.daemon import Daemon, wall_clock_ms
from firn.model.intent import encode_intent
from firn.model.outcome import Committed
from firn.storage.memory_streams import MemoryRedis
from tests.unit.coordinator.row_model.faulty_bench import HELD_S, FaultyFiles
from tests.unit.coordinator.workbench import Workbench, append, create, decision

STREAM = "firn:intents:0"


class Held:
    """A daemon whose batch has been written but not swapped yet, on a Redis whose clock stands still."""

    def __init__(self) -> None:
        self.files = FaultyFiles()
        self.bench = Workbench(files=self.files, shards=1)
        now_ms = wall_clock_ms()
        self.bench.redis = MemoryRedis(now_ms=lambda: now_ms)
        self.bench.streams = self.bench.redis.connect(names=self.bench.names)

    async def under_way(self, *intents: object) -> None:
        """Send these, and wait until the first of them is being written."""
        self.files.entered.clear()
        self.files.gate.clear()
        await self.bench.send(*intents)  # type: ignore[arg-type]
        assert await asyncio.to_thread(self.files.entered.wait, HELD_S)

    def go_on(self) -> None:
        self.files.gate.set()

    async def is_empty(self, daemon: Daemon) -> None:
        """Wait until nothing is under way, here or as Redis sees it."""
        group = self.bench.redis.streams[STREAM].group
        assert group is not None
        async with asyncio.timeout(5):
            while daemon.lanes.all_under_way() or group.pending:  # noqa: ASYNC110 - twins tell nobody
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("moment", ["before the swap", "before it is told"])
async def test_an_entry_id_that_is_handed_out_again_is_another_intents(moment: str) -> None:
    """A clock that went back and a torn tail: the next entry gets the id of one that is under way."""
    held = Held()
    bench = held.bench
    lost, next_one = append("lost"), append("next")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await held.under_way(lost)
        if moment == "before it is told":
            telling, goes_on = asyncio.Event(), asyncio.Event()
            settle = daemon.publisher._streams.settle

            async def later(*told: object, **more: object) -> None:
                telling.set()
                await goes_on.wait()
                await settle(*told, **more)  # type: ignore[arg-type]

            daemon.publisher._streams.settle = later  # type: ignore[method-assign]
            held.go_on()
            await asyncio.wait_for(telling.wait(), 5)
        entry_id = bench.redis.streams[STREAM].last
        bench.redis.lose_tail(STREAM, 1)
        await bench.streams.submit(0, encode_intent(next_one))
        assert bench.redis.streams[STREAM].last == entry_id, "the id was not handed out again"
        await asyncio.sleep(0.05)
        if moment == "before it is told":
            goes_on.set()
        held.go_on()
        assert isinstance(await bench.outcome(lost), Committed)
        assert isinstance(await bench.outcome(next_one, timeout_s=3), Committed)
        await held.is_empty(daemon)
    assert await bench.live() == ["lost", "next"]


async def test_an_intent_that_comes_again_under_its_own_id_is_one() -> None:
    held = Held()
    bench = held.bench
    intent = append("a")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await held.under_way(intent)
        bench.redis.lose_tail(STREAM, 1)
        await bench.streams.submit(0, encode_intent(intent))
        await asyncio.sleep(0.05)
        held.go_on()
        assert isinstance(await bench.outcome(intent), Committed)
        await held.is_empty(daemon)
    assert await bench.live() == ["a"]


async def test_outcomes_that_went_with_the_tail_are_told_again_when_asked() -> None:
    """Fail-over to a copy that is a second behind: entry and outcome are gone, the commit is not."""
    held = Held()
    bench = held.bench
    intent = append("a")
    async with bench.daemon():
        await bench.commit(create())
        first = await bench.commit(intent)
        bench.redis.lose_tail(STREAM, 1)
        bench.redis.keys.pop(f"firn:outcome:{intent.intent_id}")
        assert decision(await bench.commit(intent)) == decision(first)
    assert await bench.live() == ["a"]


async def test_a_stream_that_is_cut_by_hand_loses_what_was_cut_and_stops_nothing() -> None:
    held = Held()
    bench = held.bench
    under_way, waiting, after = append("under-way"), append("waiting"), append("after")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await held.under_way(under_way, waiting)
        for entry_id in list(bench.redis.streams[STREAM].entries):
            bench.redis.delete_entry(STREAM, f"{entry_id[0]}-{entry_id[1]}")
        held.go_on()
        assert isinstance(await bench.outcome(under_way), Committed)
        assert isinstance(await bench.outcome(waiting), Committed), "it was in the daemon's memory already"
        await bench.commit(after)
        assert not daemon.lanes.all_under_way()
    assert await bench.live() == ["after", "under-way", "waiting"]


@pytest.mark.parametrize("what", ["group", "stream"])
async def test_a_group_or_a_stream_that_is_deleted_under_a_batch_costs_what_was_in_it_at_most(what: str) -> None:
    held = Held()
    bench = held.bench
    under_way, waiting, after = append("under-way"), append("waiting"), append("after")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        before = await bench.commit(append("before"))
        await held.under_way(under_way, waiting)
        if what == "group":
            bench.redis.lose_groups()
        else:
            del bench.redis.streams[STREAM]
        await bench.send(after)
        await asyncio.sleep(0.1)
        held.go_on()
        outcomes = [await bench.outcome(intent) for intent in (under_way, waiting, after)]
        await held.is_empty(daemon)
        assert daemon.health().ready
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert await bench.live() == ["after", "before", "under-way", "waiting"]
    decided = [d.intent_id for segment in await bench.journal() for d in segment.decided]
    assert len(decided) == len(set(decided)) == 5
    assert before.intent_id in decided
