"""A store that hangs under some tables, and the others: whole daemons on in-memory twins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from firn.coordinator.lanes import lane_threads
from firn.coordinator.lanes.lane_threads import COMPUTING_MAX, READING_MAX, LaneThreads
from firn.model.intent import Intent
from firn.model.outcome import Committed
from firn.storage.locations import normalize
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, create, delete


def hung(number: int) -> str:
    """The name of a table under which the store hangs."""
    return f"hung.t{number}"


class Hanging(Workbench):
    """A workbench whose store does not answer to reads of some tables until it is told to."""

    @contextmanager
    def hangs(self, wanted: Callable[[str], bool]) -> Iterator[list[str]]:
        """Reads of files that are `wanted` hang; the tables' folders of those that do."""
        goes_on, reading, read = threading.Event(), list[str](), self.files.read

        def hang(location: str, **options: Any) -> bytes:
            if normalize(location).startswith(f"{WAREHOUSE}/hung/") and wanted(location):
                reading.append(location.removeprefix(f"{WAREHOUSE}/hung/").partition("/")[0])
                assert goes_on.wait(60)
            return read(location, **options)

        self.files.read = hang  # type: ignore[method-assign]
        try:
            yield reading
        finally:
            goes_on.set()
            del self.files.read

    async def with_tables(self, count: int) -> None:
        """`count` tables that will hang and one that will not, each with the file ``a``."""
        for name in (TABLE, *map(hung, range(count))):
            await self.send(create(name))
        first = [append("a", table=name) for name in (TABLE, *map(hung, range(count)))]
        assert all(isinstance(outcome, Committed) for outcome in await self.settle(*first))

    async def all_hang(self, reading: list[str], count: int) -> None:
        """Wait until a read of each hangs."""
        async with asyncio.timeout(20):
            while len(set(reading)) < count:  # noqa: ASYNC110 - threads have no event for it
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("wanted", "intent", "count"),
    [
        (lambda location: location.endswith(".metadata.json"), append, READING_MAX + 4),
        (lambda location: location.endswith(".jsonl.gz"), append, READING_MAX + 4),
        (lambda location: location.endswith(".avro"), delete, COMPUTING_MAX + 4),
    ],
    ids=["metadata", "journals", "manifests"],
)
async def test_a_store_that_hangs_under_many_tables_does_not_stop_another(
    monkeypatch: pytest.MonkeyPatch, wanted: Callable[[str], bool], intent: Callable[..., Intent], count: int
) -> None:
    monkeypatch.setattr(lane_threads, "PATIENCE_S", 0.1)
    bench = Hanging()
    async with bench.daemon("a"):
        await bench.with_tables(count)
    name = "a" if intent is delete else "b"
    async with bench.daemon("b"):  # knows nothing of the tables yet
        with bench.hangs(wanted) as reading:
            stuck = [intent(name, table=hung(number)) for number in range(count)]
            await bench.send(*stuck)
            await bench.all_hang(reading, count)
            await bench.commit(intent(name))
            assert [await bench.streams.outcome(one.intent_id) for one in stuck] == [None] * count
        for one in stuck:
            assert isinstance(await bench.outcome(one), Committed)


async def test_a_daemon_gives_shards_up_although_a_store_hangs_under_some_of_their_tables() -> None:
    bench = Hanging()
    async with bench.daemon("a"):
        await bench.with_tables(16)
    async with bench.daemon("b", drain_s=0.2) as first:
        with bench.hangs(lambda location: True) as reading:
            stuck = [append("b", table=hung(number)) for number in range(16)]
            await bench.send(*stuck)
            await bench.all_hang(reading, 16)
            async with bench.daemon("c", drain_s=0.2) as second, asyncio.timeout(10):
                while len(second.ownership.owned()) < bench.shards / 2:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
                await bench.commit(append("b"))
                assert len(first.lanes.at_work()) < 16  # those of the shards that it has kept
                goes_on = asyncio.create_task(bench.outcome(stuck[0]))
                await asyncio.sleep(0.05)
                assert not goes_on.done()
                goes_on.cancel()
        outcomes = [await bench.outcome(one) for one in stuck]
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    for number in range(16):
        assert await bench.live(hung(number)) == ["a", "b"]


async def test_those_that_do_not_hang_run_a_few_at_a_time() -> None:
    threads, lock = LaneThreads(), threading.Lock()
    now, most = 0, 0

    def work() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.01)
        with lock:
            now -= 1

    await asyncio.gather(*(threads.compute(work) for _ in range(5 * COMPUTING_MAX)))
    assert 1 < most <= COMPUTING_MAX


async def test_a_turn_is_given_back_once_whatever_becomes_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_threads, "PATIENCE_S", 0.02)
    threads = LaneThreads()

    def fails(seconds: float) -> None:
        threading.Event().wait(seconds)
        raise ValueError("as it was to")

    for seconds in (0.0, 0.05):
        with pytest.raises(ValueError, match="as it was to"):
            await threads.compute(fails, seconds)
    waits = asyncio.create_task(threads.compute(fails, 0.05))
    await asyncio.sleep(0.01)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    await asyncio.sleep(0.1)
    assert threads._computing._value == COMPUTING_MAX
