"""Whatever step of a transaction a daemon dies at, all of its tables have it or none; the next one finishes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.table_state import TableState
from firn.model.errors import Unavailable
from firn.model.outcome import Committed, Outcome
from firn.storage.memory_files import MemoryFiles
from firn.storage.pointers import Pointer
from tests.unit.coordinator.test_takeover import until
from tests.unit.coordinator.transactions.ledger import A, B, C, fsck, transaction, unchanged, with_tables
from tests.unit.coordinator.workbench import Workbench, append, delete

Moment = Literal["before", "after"]
STEPS_MAX = 60


class Guillotine:
    """Counts the steps of one daemon (files and znodes it writes), and cuts it off from everything at one of them."""

    def __init__(self, bench: Workbench, daemon: Daemon, *, at: int | None, moment: Moment) -> None:
        self.steps = 0
        self.fallen = False
        self._bench, self._daemon = bench, daemon
        self._at, self._moment = at, moment
        self._loop = asyncio.get_running_loop()
        session = bench.sessions["a"]
        write, turn = session._write, session._turn

        async def written(path: str, effect: Callable[[], Any]) -> Any:
            self.refuse_if_fallen()
            now = self.step()
            if now and self._moment == "before":
                self.fall()
            result = await write(path, effect)
            if now:
                self.fall()
            return result

        async def turned(kind: Any) -> None:
            self.refuse_if_fallen()
            await turn(kind)

        session._write, session._turn = written, turned

    def step(self) -> bool:
        """Count one; whether it is the one."""
        self.steps += 1
        return self.steps == self._at

    def fall(self) -> None:
        self.fallen = True
        self._loop.call_soon_threadsafe(self._end)
        raise Unavailable("the daemon is dead")

    def _end(self) -> None:
        for task in (*self._daemon._tasks, *self._daemon.lanes._tasks.values()):
            task.cancel()
        self._bench.zookeeper.end(self._bench.sessions["a"].session_id)

    def refuse_if_fallen(self) -> None:
        if self.fallen:
            raise Unavailable("the daemon is dead")


class CutFiles(MemoryFiles):
    """Files of a daemon under a guillotine."""

    guillotine: Guillotine | None = None

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        for location, data in files:
            if self.guillotine is not None:
                self.guillotine.refuse_if_fallen()
                if self.guillotine.step():
                    if self.guillotine._moment == "after":
                        super().create_all([(location, data)])
                    self.guillotine.fall()
            super().create_all([(location, data)])


async def has_it(bench: Workbench, tables: Iterable[str]) -> set[bool]:
    return {"x" in await bench.live(table) for table in tables}


async def run(*, at: int | None, moment: Moment) -> tuple[int, Outcome, bool]:
    """One transaction of a daemon that dies at a step, and what the next one makes of it.

    How many steps there were, the outcome, and whether it was committed when the daemon died.
    """
    files = CutFiles()
    bench = Workbench(files=files)
    async with bench.daemon("a") as daemon:
        await with_tables(bench, A, B, C)
        await bench.commit(append("old", table=B))
        same = await unchanged(bench, C, snapshot_id=None)
        await until(lambda: daemon.publisher.depth == 0)
        intent = transaction(append("x", table=B), delete("old", table=B), append("x", table=A), unchanged=(same,))
        files.guillotine = Guillotine(bench, daemon, at=at, moment=moment)
        await bench.send(intent)
        if at is None:
            outcome = await bench.outcome(intent)
            await until(lambda: daemon.publisher.depth == 0)
            return files.guillotine.steps, outcome, True
        guillotine = files.guillotine
        await until(lambda: guillotine.fallen)
        await asyncio.sleep(0.01)
        at_death = await has_it(bench, (A, B))
        assert len(at_death) == 1, "one table has it, the other has not"
        files.guillotine = None
        async with bench.daemon("b"):
            heir = await bench.outcome(intent)
            assert await has_it(bench, (A, B)) == {True}
            assert [await bench.live(t) for t in (A, B, C)] == [["x"], ["x"], []]
            if at_death == {True}:
                assert isinstance(heir, Committed)
                assert heir.replays == 0
            await bench.commit(append("after", table=A))
            await fsck(bench, A, B, C)
        return at, heir, at_death == {True}


@pytest.mark.timeout(300)
async def test_nothing_or_all_at_every_step() -> None:
    steps, outcome, _ = await run(at=None, moment="before")
    assert isinstance(outcome, Committed)
    assert 10 < steps < STEPS_MAX
    dead = []
    deaths: list[tuple[int, Moment]] = [(1, "before"), *((at, "after") for at in range(1, steps + 1))]
    for at, moment in deaths:  # after one step is before the next
        _, outcome, committed = await run(at=at, moment=moment)
        assert isinstance(outcome, Committed), (at, moment, outcome)
        dead.append(committed)
    assert dead == sorted(dead), "committed at one step, and not any more at a later one"
    assert set(dead) == {False, True}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", range(8))
async def test_an_unanswered_write_of_any_kind_is_neither_lost_nor_done_twice(write: int, when: Moment) -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await with_tables(bench, A, B)
        await bench.commit(append("old", table=B))
        session = bench.sessions["a"]
        intent = transaction(append("x", table=B), delete("old", table=B), append("x", table=A))
        real, count = session._write, iter(range(1000))

        async def written(path: str, effect: Callable[[], Any]) -> Any:
            if next(count) == write:
                session.drop_next_write(when)
            return await real(path, effect)

        session._write = written
        outcome = await bench.commit(intent)
        assert [await bench.live(t) for t in (A, B)] == [["x"], ["x"]]
        await bench.send(intent)
        await bench.commit(append("after", table=B))
        assert await bench.outcome(intent) == outcome
        assert [len((await bench.metadata(t)).snapshots) for t in (A, B)] == [1, 4]
        await fsck(bench, A, B)


async def test_a_session_that_ends_in_the_middle_leaves_nothing_half_done() -> None:
    bench = Workbench()
    async with bench.daemon("a") as daemon:
        await with_tables(bench, A, B)
        create_all, expiries = bench.files.create_all, iter(range(2))
        loop = asyncio.get_running_loop()

        def expiring(files: Any) -> None:
            create_all(files)
            if next(expiries, None) is not None:
                asyncio.run_coroutine_threadsafe(_expire(bench), loop).result(5)

        bench.files.create_all = expiring  # type: ignore[method-assign]
        outcome = await bench.commit(transaction(append("x", table=B), append("x", table=A)))
        assert [await bench.live(t) for t in (A, B)] == [["x"], ["x"]]
        assert daemon.metrics.fenced_swaps._value.get() == 2
        await fsck(bench, A, B)
    assert outcome.replays == 2


async def test_a_mistake_of_ours_right_after_the_swap_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    advance, mistakes = TableState.advance, iter(range(1))

    def half(self: TableState, pointer: Pointer, version: int | None, working: Working) -> None:
        if self.table == A and next(mistakes, None) is not None:
            self.version, self.pointer = version, pointer  # and nothing else: what it says now does not fit together
            raise AssertionError("a mistake of ours")
        advance(self, pointer, version, working)

    bench = Workbench()
    async with bench.daemon("a"):
        await with_tables(bench, A, B)
        monkeypatch.setattr(TableState, "advance", half)
        unlucky = transaction(append("x", table=B), append("x", table=A))
        await bench.send(unlucky)
        assert isinstance(await bench.outcome(unlucky, timeout_s=90), Committed)  # telling of the mistake takes seconds
        await bench.commit(transaction(append("y", table=B), append("y", table=A)))
        await bench.commit(append("z", table=A))
        assert [await bench.live(t) for t in (A, B)] == [["x", "y", "z"], ["x", "y"]]
        await fsck(bench, A, B)


async def _expire(bench: Workbench) -> None:
    bench.zookeeper.expire(bench.sessions["a"])
