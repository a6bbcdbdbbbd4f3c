"""What a daemon did in the last minute, and what all of them did together: unknown where one does not say."""

from __future__ import annotations

import msgspec
import pytest

from firn.coordinator.metrics import Metrics
from firn.coordinator.operations.recent_work import SAMPLE_S, WINDOW_S, RecentWork, WorkMeter, together
from firn.coordinator.operations.seconds_buckets import SECONDS_BUCKETS


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def durations(**counts: int) -> tuple[int, ...]:
    """Counts by the place of their bucket: ``b3=10``."""
    return tuple(counts.get(f"b{place}", 0) for place in range(len(SECONDS_BUCKETS) + 1))


def test_nothing_is_known_before_the_first_sample_and_a_minute_is_what_is_kept() -> None:
    metrics, clock = Metrics(version="1", daemon="d"), Clock()
    meter = WorkMeter(metrics, clock=clock)
    assert meter.recent() is None
    metrics.intents.labels("append", "committed").inc(30)
    metrics.intents.labels("append", "rejected").inc(10)
    metrics.conflicts.labels("missing-file", "replan", "append", "delete").inc(6)
    metrics.conflicts.labels("unknown-column", "fix", "append", "none").inc(4)
    metrics.intent_seconds.observe_all([0.004] * 40)
    clock.now += SAMPLE_S - 1
    assert meter.recent() is None
    clock.now += 1
    work = meter.recent()
    assert work is not None
    assert (work.seconds, work.decided, work.rejected, work.per_second) == (SAMPLE_S, 40, 10, 30 / SAMPLE_S)
    assert (work.mistakes, work.conflict_share, work.mistake_share) == (4, 0.15, 0.1)
    p99 = work.quantile(0.99)
    assert p99 is not None
    assert 0.0025 < p99 <= 0.005
    for _ in range(round(2 * WINDOW_S / SAMPLE_S)):
        clock.now += SAMPLE_S
        work = meter.recent()
    assert work is not None
    assert (work.seconds, work.decided, work.mistakes, work.quantile(0.99)) == (WINDOW_S, 0, 0, None)
    assert (work.conflict_share, work.mistake_share) == (None, None)


@pytest.mark.parametrize(
    ("counts", "share", "least", "most"),
    [
        ({"b0": 100}, 0.99, 0.0, SECONDS_BUCKETS[0]),
        ({"b0": 98, "b6": 2}, 0.99, SECONDS_BUCKETS[5], SECONDS_BUCKETS[6]),
        ({"b0": 99, "b6": 1}, 0.5, 0.0, SECONDS_BUCKETS[0]),
        ({"b15": 3}, 0.99, SECONDS_BUCKETS[-1], SECONDS_BUCKETS[-1]),
    ],
)
def test_a_quantile_is_within_its_bucket(counts: dict[str, int], share: float, least: float, most: float) -> None:
    work = RecentWork(seconds=60, decided=100, rejected=0, durations=durations(**counts))
    found = work.quantile(share)
    assert found is not None
    assert least <= found <= most


def test_of_several_daemons_rates_are_added_whatever_their_age() -> None:
    old = RecentWork(seconds=60, decided=600, rejected=60, durations=durations(b0=600))
    young = RecentWork(seconds=10, decided=100, rejected=0, durations=durations(b3=100))
    both = together([old, young])
    assert both is not None
    assert both.per_second == pytest.approx(old.per_second + young.per_second)
    assert sum(both.durations) == 700


@pytest.mark.parametrize(
    "works", [[], [None], [RecentWork(seconds=60, decided=1, rejected=0), None]], ids=["nobody", "silent", "one silent"]
)
def test_what_one_daemon_does_not_say_is_not_known(works: list[RecentWork | None]) -> None:
    assert together(works) is None


@pytest.mark.parametrize(("mistakes", "together_are"), [((6, 2), 18), ((6, None), None), ((None, None), None)])
def test_mistakes_are_known_where_every_daemon_counts_them(
    mistakes: tuple[int | None, ...], together_are: int | None
) -> None:
    """An older one tells how many it rejected, and no more."""
    old = RecentWork(seconds=60, decided=100, rejected=10, mistakes=mistakes[0])
    young = RecentWork(seconds=10, decided=10, rejected=2, mistakes=mistakes[1])
    both = together([old, young])
    assert both is not None
    assert (both.decided, both.rejected, both.mistakes) == (160, 22, together_are)
    assert (both.conflict_share is None) == (both.mistake_share is None) == (together_are is None)


def test_an_older_daemons_notice_has_no_mistakes() -> None:
    said = msgspec.json.decode(b'{"seconds":60,"decided":10,"rejected":2}', type=RecentWork)
    assert (said.rejected, said.mistakes, said.conflict_share) == (2, None, None)


def test_other_bounds_give_no_quantile_and_still_a_rate() -> None:
    ours = RecentWork(seconds=60, decided=60, rejected=0, durations=durations(b0=60))
    theirs = RecentWork(seconds=60, decided=60, rejected=0, durations=(60,))
    both = together([ours, theirs])
    assert both is not None
    assert (both.per_second, both.quantile(0.99)) == (2.0, None)
    assert theirs.quantile(0.99) is None
