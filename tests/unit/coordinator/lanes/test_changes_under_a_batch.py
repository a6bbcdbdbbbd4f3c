"""A table that is paused, dropped, renamed or taken away at each step of a batch, and intents that come twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from firn.coordinator.operations.pausing import pause_table, resume_table
from firn.model.intent import DropTable, RenameTable
from firn.model.outcome import Committed, Rejected
from firn.storage.pointers import PointerChange, Pointers
from tests.unit.coordinator.lanes.test_pauses import WHY
from tests.unit.coordinator.lanes.test_swap_faults import check_chain, until
from tests.unit.coordinator.row_model.faulty_bench import HELD_S, FaultyFiles
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id

OTHER = "db.moved"
STEPS = ("load", "write", "swap", "tell")


class Stepped:
    """A daemon whose batch stops at a step until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        self.there, self.goes_on = asyncio.Event(), asyncio.Event()
        self._monkeypatch = monkeypatch
        self._step = step

    def arm(self, daemon: Any) -> None:
        commits = daemon.lanes._lanes[TABLE]._commits
        if self._step == "tell":
            self._hold(daemon.publisher._streams, "settle")
        else:
            self._hold(commits, {"load": "_follow", "write": "_write", "swap": "_swap"}[self._step])

    def _hold(self, owner: Any, name: str) -> None:
        real: Callable[..., Awaitable[Any]] = getattr(owner, name)

        async def held(*arguments: Any, **named: Any) -> Any:
            if not self.there.is_set():
                self.there.set()
                await self.goes_on.wait()
            return await real(*arguments, **named)

        self._monkeypatch.setattr(owner, name, held)


@pytest.mark.parametrize("step", STEPS)
async def test_a_pause_at_any_step_decides_nothing_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    bench = Workbench()
    stepped, intents = Stepped(monkeypatch, step), [append("a"), append("b")]
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await bench.commit(append("first"))
        stepped.arm(daemon)
        await bench.send(*intents)
        await asyncio.wait_for(stepped.there.wait(), 10)
        operator = bench.zookeeper.connect()
        await pause_table(operator, TABLE, WHY, lock_wait_s=0.1)
        await until(lambda: TABLE in daemon.paused)
        stepped.goes_on.set()
        await asyncio.sleep(0.2)
        before = await bench.live()
        await resume_table(operator, TABLE)
        outcomes = [await bench.outcome(intent) for intent in intents]
        await until(lambda: not daemon.lanes.all_under_way())
    assert before == (["a", "b", "first"] if step == "tell" else ["first"])
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert await bench.live() == ["a", "b", "first"]
    await check_chain(bench)


@pytest.mark.parametrize("what", ["dropped", "renamed"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_table_that_goes_at_any_step_is_missed_by_those_behind_it_only(
    monkeypatch: pytest.MonkeyPatch, step: str, what: str
) -> None:
    """By another daemon, which the first has lost its session to, unheard, in the middle of a batch."""
    bench = Workbench(shards=1)
    stepped, intent = Stepped(monkeypatch, step), append("a")
    goes = (
        DropTable(intent_id=new_id(), table=TABLE)
        if what == "dropped"
        else RenameTable(intent_id=new_id(), table=TABLE, new_name=OTHER)
    )
    async with bench.daemon("a") as daemon:
        await bench.commit(create())
        await bench.commit(append("first"))
        stepped.arm(daemon)
        await bench.send(goes, intent)
        await asyncio.wait_for(stepped.there.wait(), 10)
        bench.zookeeper.expire(bench.sessions["a"], told=False)
        async with bench.daemon("b"):
            gone, missed = await bench.outcome(goes), await bench.outcome(intent)
            stepped.goes_on.set()
            await until(lambda: not daemon.lanes.all_under_way())
            assert [await bench.outcome(goes), await bench.outcome(intent)] == [gone, missed]
    assert isinstance(gone, Committed)
    assert isinstance(missed, Rejected)
    assert missed.rule == "unknown-table"
    if what == "renamed":
        assert await bench.live(OTHER) == ["first"]
        await check_chain(bench, OTHER)


@pytest.mark.parametrize("step", STEPS)
async def test_with_a_pointer_taken_away_by_hand_intents_wait_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    bench = Workbench()
    stepped, intent = Stepped(monkeypatch, step), append("a")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        stepped.arm(daemon)
        await bench.send(intent)
        await asyncio.wait_for(stepped.there.wait(), 10)
        pointers = Pointers(bench.zookeeper.connect())
        versioned = await pointers.read(TABLE)
        lost = versioned.pointer
        await pointers.swap([PointerChange(table=TABLE, pointer=None, expected=versioned.version)], leases=())
        stepped.goes_on.set()
        if step != "tell":
            await until(lambda: TABLE in daemon.lanes.stalled)
            assert "has no pointer" in daemon.lanes.stalled[TABLE]
            assert await pointers.list() == []
            await pointers.swap([PointerChange(table=TABLE, pointer=lost, expected=None)], leases=())
        assert isinstance(await bench.outcome(intent), Committed)
        await until(lambda: not daemon.lanes.all_under_way())
        assert not daemon.lanes.stalled


@pytest.mark.parametrize("order", ["gathered", "under way"])
async def test_an_id_with_other_content_while_the_first_is_in_the_batch_is_refused(order: str) -> None:
    files = FaultyFiles()
    bench = Workbench(files=files)
    first = append("a", reply_to="firn:replies:first")
    again = append("a", intent_id=first.intent_id, reply_to="firn:replies:again")
    second = append("b", intent_id=first.intent_id, reply_to="firn:replies:second")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        files.entered.clear()
        files.gate.clear()
        if order == "gathered":
            await bench.send(append("before"))
            assert await asyncio.to_thread(files.entered.wait, HELD_S)
            await bench.send(first, second, again)
        else:
            await bench.send(first)
            assert await asyncio.to_thread(files.entered.wait, HELD_S)
            await bench.send(second, again)
        await asyncio.sleep(0.05)
        files.gate.set()
        told = await bench.outcome(first)
        await until(lambda: not daemon.lanes.all_under_way())
        replies = {
            name: [m.data for m in await bench.streams.replies(f"firn:replies:{name}", block_ms=0)]
            for name in ("first", "second", "again")
        }
        assert await bench.outcome(first) == told
    assert isinstance(told, Committed)
    assert "b" not in await bench.live()
    assert len(replies["first"]) == len(replies["second"]) == len(replies["again"]) == 1
    assert replies["first"] == replies["again"]
    assert b"intent-id-reuse" in replies["second"][0]
    await check_chain(bench)
