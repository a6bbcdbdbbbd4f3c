"""When the next batch begins: after those who were just answered have come back, or soon."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from firn.coordinator.lanes.gathering import ENOUGH, LOOK_S, MOST, PART, PASSES_MAX, WAIT_S_MAX, Gathering
from firn.model.outcome import Committed
from tests.unit.coordinator.calculators import until
from tests.unit.coordinator.workbench import Workbench, append, create


def ended(
    gathering: Gathering, *, answered: int = 8, queued: int = 8, took_s: float = 0.010, now: float = 100.0
) -> None:
    gathering.batch_ended(began_at=now - took_s, now=now, answered=answered, queued=queued)


def test_those_who_were_answered_are_waited_for_a_part_of_what_the_batch_took():
    gathering = Gathering()
    ended(gathering)
    assert gathering.wait_s(queued=8, now=100.0) == pytest.approx(PART * 0.010)
    assert gathering.wait_s(queued=15, now=100.001) == pytest.approx(PART * 0.010 - 0.001)
    assert gathering.wait_s(queued=15, now=100.0 + PART * 0.010) == 0


def test_nobody_is_waited_for_when_all_are_back_or_there_are_enough():
    gathering = Gathering()
    ended(gathering)
    assert gathering.wait_s(queued=16, now=100.0) == 0
    ended(gathering, answered=1000, queued=ENOUGH)
    assert gathering.wait_s(queued=ENOUGH, now=100.0) == 0


def test_one_writer_alone_and_a_first_batch_wait_for_nobody():
    gathering = Gathering()
    assert gathering.wait_s(queued=1, now=100.0) == 0
    ended(gathering, answered=1, queued=0)
    assert gathering.wait_s(queued=1, now=100.0) == 0


def test_a_long_batch_is_no_reason_to_wait_long():
    gathering = Gathering()
    ended(gathering, took_s=5.0)
    assert gathering.wait_s(queued=8, now=100.0) == pytest.approx(WAIT_S_MAX)


def test_the_few_who_are_not_back_yet_are_not_waited_for():
    gathering = Gathering()
    ended(gathering, answered=1, queued=63)
    assert gathering.wait_s(queued=63, now=100.0) == 0
    ended(gathering, answered=64 - int(64 * MOST), queued=int(64 * MOST))
    assert gathering.wait_s(queued=int(64 * MOST), now=100.0) > 0


def test_the_first_of_many_is_no_batch_before_it_was_looked_for_the_others():
    gathering = Gathering()
    assert gathering.look_s(queued=1) == 0
    ended(gathering, answered=64, queued=0)
    assert gathering.look_s(queued=1) == LOOK_S
    assert gathering.look_s(queued=16) == 0
    ended(gathering, answered=10 * ENOUGH, queued=0)
    assert gathering.look_s(queued=ENOUGH // 2) == 0
    ended(gathering, answered=1, queued=0)
    assert gathering.look_s(queued=1) == 0


async def test_a_batch_waits_for_what_is_being_read(monkeypatch):
    monkeypatch.setattr("firn.coordinator.lanes.lane.READING_S_MAX", 60.0)
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        decided = len(await bench.journal())
        first, second = append("a"), append("b")
        with daemon.lanes.awaiting(Counter({first.table: 1})):
            await bench.send(first)
            await until(lambda: daemon.lanes.depths.get(first.table) == 1)
            await asyncio.sleep(0.05)
            assert daemon.lanes.depths[first.table] == 1
        await bench.send(second)
        assert isinstance(await bench.outcome(first), Committed)
        assert isinstance(await bench.outcome(second), Committed)
        assert len(await bench.journal()) == decided + 1


async def test_a_batch_does_not_wait_for_those_whose_reading_begins_later(monkeypatch):
    monkeypatch.setattr("firn.coordinator.lanes.lane.READING_S_MAX", 60.0)
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        first, second, third = append("a"), append("b"), append("c")
        with daemon.lanes.awaiting(Counter({first.table: 1})):
            await bench.send(first)
            await until(lambda: daemon.lanes.depths.get(first.table) == 1)
        with daemon.lanes.awaiting(Counter({first.table: 1})):
            await bench.send(second)
            async with asyncio.timeout(30):
                assert isinstance(await bench.outcome(first), Committed)
                assert isinstance(await bench.outcome(second), Committed)
        assert isinstance(await bench.commit(third), Committed)


def passes_after(gathering: Gathering, *, found: int, queued: int) -> int:
    """How many batches after a wait are begun without one."""
    ended(gathering)
    assert gathering.wait_s(queued=found, now=100.0) > 0
    gathering.waited(found=found, queued=queued)
    for passes in range(2 * PASSES_MAX):
        ended(gathering)
        if gathering.wait_s(queued=found, now=100.0) > 0:
            return passes
    raise AssertionError("nobody waits any more")


def test_whoever_waited_in_vain_again_and_again_does_without_for_longer():
    gathering = Gathering()
    found = [passes_after(gathering, found=8, queued=queued) for queued in (8, 13, 8, 8, 8, 8)]
    assert found == [1, 2, 4, 8, PASSES_MAX, PASSES_MAX], "five of eight who were expected are too few"
    assert passes_after(gathering, found=8, queued=14) == 0
    assert passes_after(gathering, found=8, queued=8) == 1
