"""How long Redis keeps outcomes: a day, or as long as there are about as many as there may be."""

from __future__ import annotations

import time

import pytest

from firn.coordinator.outcomes.keeping_time import (
    LONGEST_S,
    SHORTEST_S,
    SLOT_S,
    SLOTS,
    KeepingTime,
    unjournaled_seconds,
)
from firn.model.errors import InvalidIntent
from firn.model.intent_codec import check_age
from firn.model.limits import Limits
from firn.storage.memory_streams import MemoryRedis
from tests.unit.coordinator.workbench import Workbench, append, create, new_id

WINDOW_S = SLOT_S * SLOTS
HOUR_MS = 3_600_000


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
        assert await known() == [False, True]
        now_ms += unjournaled_seconds(Limits()) * 1000
        assert await known() == [False, False]


@pytest.mark.parametrize(("hours", "skew_minutes", "kept_h"), [(1, 60, 24), (24, 60, 25), (72, 60, 73), (72, 240, 76)])
async def test_what_no_journal_keeps_is_known_while_its_id_is_accepted(hours, skew_minutes, kept_h):
    """The same id gets the same answer, also when the table was made meanwhile; after that it is too old."""
    bench = Workbench(
        limits=Limits(dedupe_window_hours=hours, clock_skew_minutes_max=skew_minutes, outcomes_kept_max=1)
    )
    real_ms = int(time.time() * 1000)
    now_ms = real_ms - kept_h * HOUR_MS
    bench.redis = MemoryRedis(now_ms=lambda: now_ms)
    bench.streams = bench.redis.connect(names=bench.names)
    refused = append("a", table="db.late", intent_id=new_id(now_ms + skew_minutes * 60_000))
    async with bench.daemon("a"):
        assert (await bench.refuse(refused)).rule == "unknown-table"
    now_ms = real_ms - 1
    async with bench.daemon("b"):
        await bench.commit(create("db.late"))
        assert (await bench.refuse(refused)).rule == "unknown-table"
    with pytest.raises(InvalidIntent, match="before it was queued"):
        check_age(refused.intent_id, entry_ms=real_ms + 1, limits=bench.limits)
