"""A history that is thinned out keeps its bound, reaches far back, and does not depend on when it was thinned out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.history_thinning import DAY_MS, HOUR_MS, MINUTE_MS, Pace, kept_of, of_steps
from firn.model.snapshot import Snapshot

DEFAULT = Pace(per_minute=2, per_hour=4, per_day=2)
START_MS = 1_700_000_000_123

paces = st.builds(Pace, per_minute=st.integers(0, 7), per_hour=st.integers(0, 7), per_day=st.integers(0, 7))
"""Also counts that are no divisors of each other."""

gaps_ms = st.lists(
    st.integers(0, 500) | st.integers(0, 5 * MINUTE_MS) | st.integers(0, 5 * HOUR_MS) | st.integers(0, 2 * DAY_MS),
    min_size=1, max_size=120,
)  # fmt: skip


def history_of(gaps: Iterable[int]) -> list[Snapshot]:
    """Snapshots that were made so far apart from each other, newest first; their ids tell their order."""
    found, at_ms = [], START_MS
    for number, gap in enumerate(gaps):
        at_ms += gap
        found.append(Snapshot(snapshot_id=number, sequence_number=number, timestamp_ms=at_ms, manifest_list="l"))
    return found[::-1]


def thinned(history: Sequence[Snapshot], *, now_ms: int, pace: Pace, count_max: int) -> list[Snapshot]:
    kept = kept_of(history, now_ms=now_ms, pace=pace, count_max=count_max)
    return [one for one in history if one.snapshot_id in kept]


@given(gaps_ms, paces, st.integers(0, 40), st.integers(-HOUR_MS, 3 * DAY_MS))
def test_so_many_stay_as_may_and_the_newest_are_among_them(
    gaps: list[int], pace: Pace, count_max: int, later_ms: int
) -> None:
    history = history_of(gaps)
    kept = thinned(history, now_ms=history[0].timestamp_ms + later_ms, pace=pace, count_max=count_max)
    assert len(kept) == min(count_max, len(history))
    newest = count_max - count_max // 2
    assert kept[:newest] == history[:newest]


@given(gaps_ms, paces, st.integers(1, 40), st.integers(0, 3 * DAY_MS))
def test_thinning_out_again_changes_nothing(gaps: list[int], pace: Pace, count_max: int, later_ms: int) -> None:
    history = history_of(gaps)
    now_ms = history[0].timestamp_ms + later_ms
    once = thinned(history, now_ms=now_ms, pace=pace, count_max=count_max)
    assert thinned(once, now_ms=now_ms, pace=pace, count_max=count_max) == once


@given(gaps_ms, paces, st.sets(st.integers(0, 119)))
def test_it_does_not_matter_how_often_a_history_is_thinned_out_while_it_grows(
    gaps: list[int], pace: Pace, cuts: set[int]
) -> None:
    """What stays for its minute, hour or day when it is all thinned out at the end was never taken before."""
    whole = history_of(gaps)
    room = len(whole)  # enough for all that the steps keep, so that only they decide
    growing: list[Snapshot] = []
    for number, one in enumerate(reversed(whole)):
        growing.insert(0, one)
        if number in cuts:
            growing = _only_steps(growing, now_ms=one.timestamp_ms, pace=pace, room=room)
    now_ms = whole[0].timestamp_ms
    at_the_end = _only_steps(whole, now_ms=now_ms, pace=pace, room=room)
    assert _only_steps(growing, now_ms=now_ms, pace=pace, room=room) == at_the_end


def _only_steps(history: Sequence[Snapshot], *, now_ms: int, pace: Pace, room: int) -> list[Snapshot]:
    """Thin out as hard as can be: the head, and what the steps keep; none to fill up with."""
    found = {one.snapshot_id for one in of_steps(history, now_ms=now_ms, pace=pace, room=room)}
    return [one for one in history if one.snapshot_id in found or one is history[0]]


@pytest.mark.parametrize(
    ("every_ms", "count", "whole_min", "reach_min_ms"),
    [
        (500, 20_000, 500, 2 * HOUR_MS),  # two a second for three hours
        (MINUTE_MS, 20_000, 500, 13 * DAY_MS),
        (HOUR_MS, 20_000, 500, 100 * DAY_MS),
    ],
)
def test_a_history_reaches_far_back_at_any_rate(every_ms: int, count: int, whole_min: int, reach_min_ms: int) -> None:
    kept: list[Snapshot] = []
    for one in reversed(history_of([every_ms] * count)):
        kept.insert(0, one)
        if len(kept) > 1_250:
            kept = thinned(kept, now_ms=one.timestamp_ms, pace=DEFAULT, count_max=1_000)
    newest = kept[0].timestamp_ms
    assert newest - kept[-1].timestamp_ms >= reach_min_ms
    assert [one.snapshot_id for one in kept[:whole_min]] == list(range(count - 1, count - 1 - whole_min, -1))
    gaps = [(newest - older.timestamp_ms, one.timestamp_ms - older.timestamp_ms) for one, older in pairwise(kept)]
    for younger_than_ms, gap_max_ms in ((HOUR_MS, MINUTE_MS), (DAY_MS, HOUR_MS)):
        longest = max((gap for age_ms, gap in gaps if age_ms < younger_than_ms), default=0)
        assert longest <= max(every_ms, gap_max_ms)


def test_a_step_that_is_left_out_leaves_its_time_to_the_next() -> None:
    history = history_of([10 * MINUTE_MS] * 600)  # 100 hours
    now_ms = history[0].timestamp_ms
    no_days = thinned(history, now_ms=now_ms, pace=Pace(per_minute=0, per_hour=1, per_day=0), count_max=60)
    assert all(now_ms - one.timestamp_ms < DAY_MS for one in no_days)
    only_days = thinned(history, now_ms=now_ms, pace=Pace(per_minute=0, per_hour=0, per_day=1), count_max=60)
    days = {one.timestamp_ms // DAY_MS for one in history}
    assert {one.timestamp_ms // DAY_MS for one in only_days} == days
    none = thinned(history, now_ms=now_ms, pace=Pace(per_minute=0, per_hour=0, per_day=0), count_max=60)
    assert none == history[:60], "as if only their number counted"
