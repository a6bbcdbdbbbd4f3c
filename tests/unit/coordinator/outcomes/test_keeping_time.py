"""How long Redis keeps outcomes: a day, or as long as there are about as many as there may be."""

from __future__ import annotations

import time

import pytest

from firn.coordinator.outcomes.keeping_time import LONGEST_S, SHORTEST_S, SLOT_S, SLOTS, KeepingTime
from firn.model.limits import Limits
from firn.storage.memory_streams import MemoryRedis
from tests.unit.coordinator.workbench import Workbench, append, create

WINDOW_S = SLOT_S * SLOTS


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def at_rate(per_second: int, *, most: int, minutes: int = 60) -> KeepingTime:
    """After so many minutes of so many outcomes a second."""
    clock = Clock()
    keeping = KeepingTime(most=most, clock=clock)
    for _ in range(minutes):
        keeping.count(60 * per_second)
        clock.now += 60
    clock.now -= 1
    return keeping


def test_few_outcomes_are_kept_for_a_day():
    assert KeepingTime(most=1).seconds == LONGEST_S
    assert at_rate(46, most=4_000_000).seconds == LONGEST_S


@pytest.mark.parametrize("per_second", [100, 1_000, 4_000])
def test_as_many_are_kept_as_there_may_be(per_second):
    seconds = at_rate(per_second, most=4_000_000).seconds
    assert per_second * seconds == pytest.approx(4_000_000, rel=0.01)
    assert SHORTEST_S <= seconds < LONGEST_S


def test_none_is_forgotten_while_its_client_may_still_look_for_it():
    assert at_rate(100_000, most=1_000).seconds == SHORTEST_S


def test_a_backlog_is_no_day_of_them():
    clock = Clock()
    keeping = KeepingTime(most=4_000_000, clock=clock)
    keeping.count(60_000)
    assert keeping.seconds == 4_000_000 * WINDOW_S // 60_000
    clock.now = WINDOW_S - 1
    assert keeping.seconds < LONGEST_S
    clock.now = WINDOW_S
    assert keeping.seconds == LONGEST_S


def test_without_a_limit_all_are_kept_for_a_day():
    assert at_rate(100_000, most=0).seconds == LONGEST_S


@pytest.mark.parametrize(("most", "kept_s"), [(1, SHORTEST_S), (0, LONGEST_S)])
async def test_commits_are_forgotten_sooner_than_what_no_journal_keeps(most, kept_s):
    bench = Workbench(limits=Limits(outcomes_kept_max=most))
    now_ms = int(time.time() * 1000)
    bench.redis = MemoryRedis(now_ms=lambda: now_ms)
    bench.streams = bench.redis.connect(names=bench.names)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        committed, refused = append("a"), append("b", table="db.unknown")
        await bench.settle(committed, refused)

        async def known() -> list[bool]:
            return [await bench.streams.outcome(one.intent_id) is not None for one in (committed, refused)]

        assert daemon.metrics.registry.get_sample_value("firn_outcomes_kept_seconds") == kept_s
        now_ms += kept_s * 1000 - 1
        assert await known() == [True, True]
        now_ms += 1
        assert await known() == [False, kept_s < LONGEST_S]
        now_ms += LONGEST_S * 1000
        assert await known() == [False, False]
