"""What lanes know of their tables is bounded over all of them; what is forgotten is read again, and nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TypeVar

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.lanes import lanes
from firn.coordinator.lanes.kept_states import KeptStates
from firn.coordinator.replay.live_files import FILE_BYTES
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.limits import Limits
from firn.storage.journal import JournalFiles
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete

T = TypeVar("T")


class Table:
    """A keeper of so many bytes, of which some stay."""

    def __init__(self, size: int, *, stays: int = 0) -> None:
        self.memory = size
        self._stays = stays
        self.forgot = 0

    def make_small(self) -> None:
        self.memory = self._stays
        self.forgot += 1


def first(some: Sequence[T], /) -> T:
    return some[0]


def use(kept: KeptStates, *tables: Table) -> None:
    for table in tables:
        with kept.using(table):
            pass


def test_nothing_is_forgotten_within_the_limit():
    kept = KeptStates(bytes_max=300)
    tables = [Table(100) for _ in range(3)]
    use(kept, *tables, *tables)
    assert kept.memory == 300
    assert not any(table.forgot for table in tables)


def test_as_many_forget_as_have_to():
    forgotten: list[None] = []
    kept = KeptStates(bytes_max=300, choose=first, on_forgotten=lambda: forgotten.append(None))
    tables = [Table(100, stays=10) for _ in range(4)]
    use(kept, *tables)
    assert [table.forgot for table in tables] == [1, 1, 0, 0]
    assert kept.memory == 220
    assert len(forgotten) == 2


def test_what_is_in_use_is_not_touched():
    kept = KeptStates(bytes_max=150, choose=first)
    busy, other = Table(100), Table(100)
    use(kept, busy)
    with kept.using(busy):
        use(kept, other)
        assert not busy.forgot
        assert other.forgot  # there is nobody else
    assert kept.memory == 100


def test_a_table_that_failed_is_weighed_too():
    kept = KeptStates(bytes_max=150, choose=first)
    table = Table(10)
    with contextlib.suppress(OSError), kept.using(table):
        table.memory = 100
        raise OSError("away")
    assert kept.memory == 100


def test_a_lone_table_is_kept_however_large():
    kept = KeptStates(bytes_max=150)
    table = Table(1_000)
    use(kept, table, table)
    assert not table.forgot


def test_what_stays_of_many_ends_the_search():
    kept = KeptStates(bytes_max=10, choose=first)
    tables = [Table(100, stays=50) for _ in range(5)]
    use(kept, *tables, *tables)
    assert kept.memory == 250
    kept.remove(tables[0])
    kept.remove(Table(1))  # it never had a batch
    assert kept.memory == 200


def test_a_lane_that_ends_leaves_its_room():
    kept = KeptStates(bytes_max=100)
    tables = [Table(100) for _ in range(2)]
    use(kept, tables[0])
    kept.remove(tables[0])
    use(kept, tables[1])
    assert kept.memory == 100
    assert not tables[1].forgot


@pytest.mark.parametrize("bytes_max", [1, 10**9])
async def test_tables_that_are_forgotten_after_each_batch_go_on_as_they_were(monkeypatch, bytes_max):
    """Deletes find their files, and nothing is decided twice."""
    forgotten: list[str] = []
    make_small = TableState.make_small

    def counted(state: TableState) -> None:
        forgotten.append(state.table)
        make_small(state)
        assert state.metadata is None
        assert not state.heads

    monkeypatch.setattr(TableState, "make_small", counted)
    bench = Workbench(limits=Limits(table_states_bytes_max=bytes_max))
    names = [f"db.t{number}" for number in range(3)]
    async with bench.daemon():
        sent = {name: append("a", "b", table=name) for name in names}
        for name in names:
            await bench.commit(create(table=name))
        for name in names:
            await bench.commit(sent[name])
        for name in names:
            await bench.commit(append("c", table=name))
            await bench.commit(delete("a", table=name))
            assert (await bench.refuse(append("b", table=name))).rule == "duplicate-file"
        for name in names:
            await bench.send(sent[name])
            await bench.commit(append("d", table=name))
            assert await bench.live(name) == ["b", "c", "d"]
            decided = [one.intent_id for segment in await bench.journal(name) for one in segment.decided]
            assert decided.count(sent[name].intent_id) == 1
    assert bool(forgotten) == (bytes_max == 1)


async def test_a_table_that_is_forgotten_is_swapped_as_often_as_it_wants():
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create(properties={"firn.max-swaps-per-second": "7"}))
        commits = daemon.lanes._lanes[TABLE]._commits
        commits.make_small()
        assert commits.swaps_per_second_max == 7
        assert commits.memory < 1_000
        await bench.commit(append("a"))
        assert commits.swaps_per_second_max == 7
        assert commits.memory > 1_000


async def test_a_table_whose_live_files_take_long_to_find_is_not_forgotten(monkeypatch):
    monkeypatch.setattr("firn.coordinator.tables.table_state.LIVE_BYTES_FORGOTTEN_MAX", 2 * FILE_BYTES)
    bench = Workbench(limits=Limits(table_states_bytes_max=1))
    async with bench.daemon() as daemon:
        for name, files in (("db.large", "abc"), ("db.small", "ab")):
            await bench.commit(create(table=name))
            await bench.commit(append(*files, table=name))
        await bench.commit(create(table="db.last"))
        states = {name: daemon.lanes._lanes[name]._commits._state for name in ("db.large", "db.small")}
        assert states["db.small"].metadata is None
        assert states["db.large"].metadata is not None
        assert states["db.large"].memory == states["db.large"].decisions.memory  # the rest does not weigh
        assert (await bench.refuse(append("a", table="db.large"))).rule == "duplicate-file"


class Counting(MemoryFiles):
    """A store that counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, location: str, *, bytes_max: int) -> bytes:
        self.reads.append(location)
        return super().read(location, bytes_max=bytes_max)


async def ended_lane(daemon: Daemon) -> None:
    """Wait until the table's lane has ended, and what it knew is put away."""
    kept = daemon.lanes._shop.kept
    async with asyncio.timeout(10):
        while daemon.lanes.tables() or not kept._away:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)


async def test_a_table_that_is_idle_between_commits_is_not_read_again(monkeypatch):
    monkeypatch.setattr(lanes, "IDLE_SWEEP_S", 0.05)
    files = Counting()
    bench = Workbench(files=files)
    sent = append("a")
    async with bench.daemon(lease_idle_s=0.0) as daemon:
        await bench.commit(create())
        await bench.commit(sent)
        for name in ("b", "c"):
            await ended_lane(daemon)
            files.reads.clear()
            await bench.commit(append(name))
            assert files.reads == []
        await bench.send(sent)
        assert (await bench.refuse(append("a"))).rule == "duplicate-file"
        assert await bench.live() == ["a", "b", "c"]


async def test_what_was_put_away_follows_what_others_did_meanwhile(monkeypatch):
    monkeypatch.setattr(lanes, "IDLE_SWEEP_S", 0.05)
    bench = Workbench()
    async with bench.daemon("a", lease_idle_s=0.0) as daemon:
        await bench.commit(create())
        await bench.commit(append("a"))
        await ended_lane(daemon)
        kept = daemon.lanes._shop.kept
        state = kept.take(TABLE)
        assert state is not None
    async with bench.daemon("b"):
        await bench.commit(append("b"))
        await bench.commit(delete("a"))
    async with bench.daemon("c", lease_idle_s=0.0) as daemon:
        daemon.lanes._shop.kept.put_away(state)
        assert (await bench.refuse(append("b"))).rule == "duplicate-file"
        await bench.commit(append("a"))
        assert await bench.live() == ["a", "b"]


async def test_what_was_put_away_and_fits_no_more_is_read_anew(monkeypatch):
    """A journal that does not go on from what is known is damage, but not if that was known long ago."""
    monkeypatch.setattr(lanes, "IDLE_SWEEP_S", 0.05)
    bench = Workbench()
    async with bench.daemon("a", lease_idle_s=0.0) as daemon:
        await bench.commit(create())
        await bench.commit(append("a"))
        await ended_lane(daemon)
        state = daemon.lanes._shop.kept.take(TABLE)
        assert state is not None
        state.decisions.head = f"{state.decisions.head}.of-another-life"
        daemon.lanes._shop.kept.put_away(state)
        await bench.commit(append("b"))
        assert (await bench.refuse(append("a"))).rule == "duplicate-file"
        assert await bench.live() == ["a", "b"]


def state_of(table: str, size: int, monkeypatch: pytest.MonkeyPatch) -> TableState:
    """A state that says that it takes so much."""
    reader = TableReader(MemoryFiles(), limits=Limits())
    state = TableState(table, reader=reader, journal=JournalFiles(MemoryFiles(), bytes_max=1), limits=Limits())
    monkeypatch.setattr(TableState, "whole_memory", property(lambda self: int(self.table.partition("-")[2])))
    assert state.whole_memory == size
    return state


def test_what_is_put_away_makes_room_for_what_is_used(monkeypatch):
    forgotten: list[None] = []
    kept = KeptStates(bytes_max=300, choose=first, on_forgotten=lambda: forgotten.append(None))
    for name in ("a-100", "b-100", "c-100"):
        kept.put_away(state_of(name, 100, monkeypatch))
    assert kept.memory == 300
    busy = Table(150)
    use(kept, busy)
    assert not busy.forgot
    assert kept.memory == 250
    assert len(forgotten) == 2
    assert kept.take("a-100") is None
    assert kept.take("c-100") is not None
    assert kept.take("c-100") is None
    assert kept.memory == 150


def test_what_has_no_room_is_not_put_away(monkeypatch):
    kept = KeptStates(bytes_max=300, choose=first)
    use(kept, Table(250))
    kept.put_away(state_of("small-40", 40, monkeypatch))
    kept.put_away(state_of("large-60", 60, monkeypatch))
    assert kept.take("large-60") is None
    assert kept.take("small-40") is not None
    assert kept.memory == 250
