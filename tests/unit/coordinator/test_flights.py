"""Batches that overlap: the next is prepared and written while the one before is swapped in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from firn.model.errors import Unavailable
from firn.model.intent import Append
from firn.model.outcome import Committed, Rejected
from firn.storage.journal import JOURNAL_FOLDER
from firn.storage.memory_files import MemoryFiles
from firn.storage.pointers import TABLES
from tests.unit.coordinator.workbench import WAREHOUSE, Workbench, append, create, delete

WAIT_S = 10.0


class CountedFiles(MemoryFiles):
    """Files that count the batches written, and fail when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = 0
        self.fails = 0

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        if self.fails:
            self.fails -= 1
            raise Unavailable("the disk does not answer (injected)")
        super().create_all(files)
        self.batches += 1


class HeldSwaps:
    """A session whose swaps wait at a gate. `before` is run once when the first of them passes."""

    def __init__(self, session: Any) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = 0
        self.before: Callable[[], Awaitable[None]] | None = None
        self._multi = session.multi
        session.multi = self.multi

    async def multi(self, ops: Sequence[Any]) -> Any:
        self.entered += 1
        await self.gate.wait()
        before, self.before = self.before, None
        if before is not None:
            await before()
        return await self._multi(ops)


class Scene:
    """A daemon with two batches in flight: A, whose swap is held up, and B, which is written behind it."""

    def __init__(self, bench: Workbench, files: CountedFiles, swaps: HeldSwaps) -> None:
        self.bench, self.files, self.swaps = bench, files, swaps
        self.a = append("a")
        self.b = append("b")

    async def launch(self, *, b: Append | None = None) -> None:
        """Both are sent; returns when B's files are there and A's swap is still held up."""
        self.b = self.b if b is None else b
        written, entered = self.files.batches, self.swaps.entered
        self.swaps.gate.clear()
        await self.bench.send(self.a)
        await until(lambda: self.swaps.entered == entered + 1)
        await self.bench.send(self.b)
        await until(lambda: self.files.batches == written + 2)

    async def outcomes(self) -> tuple[Committed, Committed]:
        """The gate is opened; both must have been committed, once."""
        self.swaps.gate.set()
        found = [await self.bench.outcome(self.a), await self.bench.outcome(self.b)]
        a, b = found
        assert isinstance(a, Committed), a
        assert isinstance(b, Committed), b
        assert await self.bench.live() == ["a", "b", "first"]
        decided = [d.intent_id for segment in await self.bench.journal() for d in segment.decided]
        assert sorted(decided[-2:]) == sorted([self.a.intent_id, self.b.intent_id])
        return a, b


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    files = CountedFiles()
    bench = Workbench(files=files)
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("first"))
        yield Scene(bench, files, HeldSwaps(bench.sessions["a"]))


def segments(files: CountedFiles) -> set[str]:
    return {info.location for info in files.list(WAREHOUSE) if f"/{JOURNAL_FOLDER}/" in info.location}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.002)


async def test_the_next_batch_is_written_while_the_one_before_is_swapped_in():
    async with scene() as at:
        await at.launch()
        assert await at.bench.streams.outcome(at.a.intent_id) is None
        assert await at.bench.streams.outcome(at.b.intent_id) is None
        a, b = await at.outcomes()
        assert (a.replays, b.replays) == (0, 0)
        assert a.sequence_number is not None
        assert b.sequence_number == a.sequence_number + 1
        metadata = await at.bench.metadata()
        assert b.snapshot_id is not None
        snapshot = metadata.snapshot_by_id(b.snapshot_id)
        assert snapshot is not None
        assert snapshot.parent_snapshot_id == a.snapshot_id
        log = [entry.metadata_file for entry in metadata.metadata_log]
        assert a.metadata_location in log


async def test_what_is_not_an_append_waits_for_those_in_flight_and_sees_what_they_made():
    async with scene() as at:
        await at.launch()
        gone = delete("a", "b")
        await at.bench.send(gone)
        await asyncio.sleep(0.05)
        assert at.files.batches == 4  # create, first, a, b: nothing was written for it yet
        at.swaps.gate.set()
        outcome = await at.bench.outcome(gone)
        assert isinstance(outcome, Committed), outcome
        assert await at.bench.live() == ["first"]


async def test_no_third_batch_goes_into_flight():
    async with scene() as at:
        await at.launch()
        more = [append("c"), append("d")]
        await at.bench.send(*more)
        await asyncio.sleep(0.05)
        assert at.files.batches == 4
        at.swaps.gate.set()
        for one in more:
            assert isinstance(await at.bench.outcome(one), Committed)
        assert await at.bench.live() == ["a", "b", "c", "d", "first"]


async def test_a_lost_swap_takes_those_behind_it_along_and_all_are_replayed():
    async with scene() as at:
        await at.launch()
        path = next(name for name in at.bench.zookeeper.names_below(TABLES))
        other = at.bench.zookeeper.connect()

        async def meddle() -> None:
            data, stat = await other.get(f"{TABLES}/{path}")
            await other.set(f"{TABLES}/{path}", data, version=stat.version)

        at.swaps.before = meddle
        a, b = await at.outcomes()
        assert (a.replays, b.replays) == (1, 0)
        (retried,) = [s.retried for s in await at.bench.journal() if at.a.intent_id in {d.intent_id for d in s.decided}]
        assert [one.reason for one in retried] == ["lost"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_swap_without_an_answer_is_looked_up_and_nothing_is_committed_twice(when):
    async with scene() as at:
        await at.launch()

        async def drop() -> None:
            at.bench.sessions["a"].drop_next_write(when)

        at.swaps.before = drop
        await at.outcomes()


async def test_a_session_that_ends_fences_both_and_both_are_committed_under_a_new_lock():
    async with scene() as at:
        await at.launch()

        async def expire() -> None:
            at.bench.zookeeper.expire(at.bench.sessions["a"])

        at.swaps.before = expire
        await at.outcomes()


async def test_files_that_cannot_be_written_are_written_anew():
    async with scene() as at:
        at.swaps.gate.clear()
        at.files.fails = 1
        await at.bench.send(at.a, at.b)
        await at.outcomes()


async def test_a_repeat_of_what_is_in_flight_gets_its_outcome():
    async with scene() as at:
        entered = at.swaps.entered
        at.swaps.gate.clear()
        await at.bench.send(at.a)
        await until(lambda: at.swaps.entered == entered + 1)
        await at.bench.send(at.a, at.b)
        a, _ = await at.outcomes()
        events = [e for e in await at.bench.events() if e["type"] == "commit"]
        assert sum(at.a.intent_id in str(event) for event in events) <= 1
        assert a.replays == 0


async def test_a_file_that_is_in_flight_is_live_for_what_follows():
    async with scene() as at:
        await at.launch()
        again = append("a")
        await at.bench.send(again)
        at.swaps.gate.set()
        outcome = await at.bench.outcome(again)
        assert isinstance(outcome, Rejected)
        assert outcome.rule == "duplicate-file"
        assert await at.bench.live() == ["a", "b", "first"]


async def test_a_daemon_that_stops_brings_what_is_in_flight_to_its_end():
    files = CountedFiles()
    bench = Workbench(files=files)
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("first"))
        at = Scene(bench, files, HeldSwaps(bench.sessions["a"]))
        await at.launch()
        asyncio.get_running_loop().call_later(0.1, at.swaps.gate.set)
    await at.outcomes()


async def test_what_a_daemon_could_not_bring_down_is_taken_up_by_the_next():
    files = CountedFiles()
    bench = Workbench(files=files)
    async with bench.daemon(drain_s=0.1):
        await bench.commit(create())
        await bench.commit(append("first"))
        at = Scene(bench, files, HeldSwaps(bench.sessions["a"]))
        await at.launch()
    assert await bench.streams.outcome(at.a.intent_id) is None
    async with bench.daemon("b"):
        await at.outcomes()


async def test_a_table_of_its_own_kind_is_not_foreseen():
    files = CountedFiles()
    bench = Workbench(files=files)
    async with bench.daemon():
        await bench.commit(create(catalog="file-system"))
        await bench.commit(append("first"))
        swaps = HeldSwaps(bench.sessions["a"])
        at = Scene(bench, files, swaps)
        entered, written = swaps.entered, files.batches
        swaps.gate.clear()
        await bench.send(at.a)
        await until(lambda: swaps.entered == entered + 1)
        await bench.send(at.b)
        await asyncio.sleep(0.05)
        assert files.batches == written + 1
        await at.outcomes()


async def test_a_journal_segment_is_written_when_the_one_it_follows_was_committed():
    async with scene() as at:
        before = segments(at.files)
        await at.launch()
        (of_a,) = segments(at.files) - before
        assert (await at.bench.journal())[-1].location in before
        await at.outcomes()
        a, b = (await at.bench.journal())[-2:]
        assert a.location == of_a
        assert b.batch.previous_segment == of_a
