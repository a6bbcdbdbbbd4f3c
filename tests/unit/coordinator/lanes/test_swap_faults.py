"""What becomes of a batch whatever is lost, stopped or broken around its swap: one outcome, told or waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise, product
from typing import Any

import pytest

from firn.model.errors import AlreadyExists, NotFound
from firn.model.outcome import Committed
from tests.unit.coordinator.row_model.faulty_bench import HELD_S, FaultyFiles
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create


async def until(is_so: Callable[[], object], within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 - twins tell nobody
            await asyncio.sleep(0.005)


async def check_chain(bench: Workbench, table: str = TABLE) -> None:
    """The journal names each intent once, and each segment the one before."""
    segments = await bench.journal(table)
    decided = [d.intent_id for segment in segments for d in segment.decided]
    assert len(decided) == len(set(decided))
    for before, after in pairwise(segments):
        assert after.batch.previous_segment == before.location
        assert after.batch.base_metadata == before.batch.new_metadata


def hold_telling(daemon: Any) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold a daemon up between a swap and its telling: set when it is there, and to be set to let it go on."""
    there, goes_on = asyncio.Event(), asyncio.Event()
    settle: Callable[..., Awaitable[None]] = daemon.publisher._streams.settle

    async def later(*told: Any, **more: Any) -> None:
        there.set()
        await goes_on.wait()
        await settle(*told, **more)

    daemon.publisher._streams.settle = later
    return there, goes_on


@pytest.mark.parametrize("lost", list(product(("before", "after"), repeat=3)), ids="-".join)
async def test_answers_that_are_lost_in_a_row_cost_no_intent_and_double_none(lost: Sequence[Any]) -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(append("first"))
        for when in lost:
            bench.sessions["a"].drop_next_write(when)
        intents = [append(f"f{n}") for n in range(6)]
        for intent in intents:
            await bench.commit(intent)
    assert await bench.live() == ["f0", "f1", "f2", "f3", "f4", "f5", "first"]
    await check_chain(bench)


@pytest.mark.parametrize("writes", range(12))
async def test_a_session_that_ends_unheard_at_any_write_costs_nothing(writes: int) -> None:
    """Every request to ZooKeeper that a batch makes, one after the other, finds the session gone."""
    bench = Workbench()
    async with bench.daemon("a"), bench.daemon("b"):
        await bench.commit(create())
        await bench.commit(append("first"))
        sessions = list(bench.sessions.values())
        left = {id(session): writes for session in sessions}
        for session in sessions:
            turn = session._turn

            async def expires(kind: Any, *, session: Any = session, turn: Any = turn) -> None:
                left[id(session)] -= 1
                if left[id(session)] == 0:
                    bench.zookeeper.expire(session, told=False)
                await turn(kind)

            session._turn = expires
        outcomes = await bench.settle(*(append(f"f{n}") for n in range(3)))
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert await bench.live() == ["f0", "f1", "f2", "first"]
    await check_chain(bench)


async def test_who_was_stopped_between_swap_and_telling_says_what_the_other_said() -> None:
    bench = Workbench(shards=1)
    intent, other = append("a", reply_to="firn:replies:w"), append("b")
    async with bench.daemon("a") as zombie:
        await bench.commit(create())
        there, goes_on = hold_telling(zombie)
        await bench.send(intent)
        await asyncio.wait_for(there.wait(), 10)
        bench.zookeeper.expire(bench.sessions["a"], told=False)
        async with bench.daemon("b"):
            first = await bench.outcome(intent)
            assert isinstance(await bench.outcome(await send(bench, other)), Committed)
            goes_on.set()
            await until(lambda: not zombie.lanes.all_under_way())
            assert await bench.outcome(intent) == first
            replies = await bench.streams.replies("firn:replies:w", block_ms=100)
            assert len({reply.data for reply in replies}) == 1
    assert await bench.live() == ["a", "b"]
    await check_chain(bench)


async def send(bench: Workbench, intent: Any) -> Any:
    await bench.send(intent)
    return intent


async def test_who_was_stopped_before_its_swap_finds_the_work_done() -> None:
    files = FaultyFiles()
    bench = Workbench(files=files, shards=1)
    intent, other = append("a"), append("b")
    async with bench.daemon("a") as zombie:
        await bench.commit(create())
        files.entered.clear()
        files.gate.clear()
        await bench.send(intent)
        assert await asyncio.to_thread(files.entered.wait, HELD_S)
        bench.zookeeper.expire(bench.sessions["a"], told=False)
        gate, files.gate = files.gate, type(files.gate)()
        files.gate.set()  # for the other daemon; the zombie waits at the first
        async with bench.daemon("b"):
            first = await bench.outcome(intent)
            await bench.commit(other)
            gate.set()
            await until(lambda: not zombie.lanes.all_under_way())
            assert await bench.outcome(intent) == first
    assert await bench.live() == ["a", "b"]
    await check_chain(bench)


@pytest.mark.parametrize("error", [MemoryError, RecursionError, RuntimeError])
async def test_what_may_have_been_swapped_is_not_refused_for_a_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Its swap took effect, its answer was lost, and then the table cannot be read for want of memory."""
    bench = Workbench()
    intent = append("a")
    async with bench.daemon("a") as daemon:
        await bench.commit(create())
        state = daemon.lanes._lanes[TABLE]._commits._state
        load, broken = type(state).load, True

        def fails(self: Any, versioned: Any) -> None:
            if broken and versioned is not None and versioned.version > 0:
                raise error("cannot go on")
            load(self, versioned)

        monkeypatch.setattr(type(state), "load", fails)
        bench.sessions["a"].drop_next_write("after")
        await bench.send(intent)
        await asyncio.sleep(0.5)
        assert await bench.streams.outcome(intent.intent_id) is None, "it was told what nobody can know"
        assert daemon.lanes.stalled
        broken = False
        assert isinstance(await bench.outcome(intent), Committed)
        await bench.commit(append("b"))
        assert not daemon.lanes.stalled
    assert await bench.live() == ["a", "b"]
    await check_chain(bench)


@pytest.mark.parametrize("error", [AlreadyExists("taken"), NotFound("there is no folder")])
async def test_what_a_store_says_of_new_files_is_no_fault_of_the_intents(error: Exception) -> None:
    """A store that repeats a request by itself may say "exists"; a folder may be swept away at the wrong moment."""
    bench = Workbench()
    create_all, failures = bench.files.create_all, [error, error]

    def fails(files: Any) -> None:
        if failures:
            raise failures.pop()
        create_all(files)

    async with bench.daemon() as daemon:
        await bench.commit(create())
        bench.files.create_all = fails  # type: ignore[method-assign]
        await bench.commit(append("a"))
        assert not daemon.lanes.unreadable
    assert await bench.live() == ["a"]
