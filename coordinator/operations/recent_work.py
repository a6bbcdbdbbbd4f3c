"""How much a daemon has done in the last minute, and how long that took, where there is no Prometheus."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from firn.coordinator.operations.seconds_buckets import SECONDS_BUCKETS

if TYPE_CHECKING:  # read by commands, too
    from firn.coordinator.metrics import Metrics

WINDOW_S: Final = 60.0
"""How far back it goes."""

SAMPLE_S: Final = 5.0
"""How often the counters are read, and so the first answer comes after as long."""


class RecentWork(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Intents that were decided within `seconds`, `rejected` ones among them.

    `mistakes` are those of the rejected that only their writer can mend; another commit was in the way of the others.
    None where a daemon of an older version does not tell them apart.
    `durations` are how many took how long from being taken to their outcome: for each bound of `SECONDS_BUCKETS` those
    up to it and above the one before, then all longer ones.
    """

    seconds: float
    decided: int
    rejected: int
    mistakes: int | None = None
    durations: tuple[int, ...] = ()

    @property
    def per_second(self) -> float:
        """Intents committed a second."""
        return (self.decided - self.rejected) / self.seconds

    @property
    def conflict_share(self) -> float | None:
        """Which part was rejected because another commit was first; None where nothing was decided, or not known."""
        return None if self.mistakes is None or not self.decided else (self.rejected - self.mistakes) / self.decided

    @property
    def mistake_share(self) -> float | None:
        """Which part was rejected for what only its writer can mend; None as for conflicts."""
        return None if self.mistakes is None or not self.decided else self.mistakes / self.decided

    def quantile(self, share: float) -> float | None:
        """Return how long (seconds) that share of intents took at most, as exactly as the bounds tell.

        None where none was answered, or another version of firn has counted by other bounds.
        """
        count = sum(self.durations)
        if not count or len(self.durations) != len(SECONDS_BUCKETS) + 1:
            return None
        below, lower = 0, 0.0
        for bound, here in zip(SECONDS_BUCKETS, self.durations, strict=False):
            if here and below + here >= share * count:
                return lower + (bound - lower) * (share * count - below) / here
            below, lower = below + here, bound
        return lower


def together(works: Iterable[RecentWork | None]) -> RecentWork | None:
    """Return the work of several daemons; None where one of them does not say, or there is none."""
    known: list[RecentWork] = []
    for work in works:
        if work is None:
            return None
        known.append(work)
    if not known:
        return None
    seconds = max(work.seconds for work in known)
    is_alike = len({len(work.durations) for work in known}) == 1
    mistakes = [work.mistakes * seconds / work.seconds for work in known if work.mistakes is not None]
    return RecentWork(
        seconds=seconds,
        decided=round(sum(work.decided * seconds / work.seconds for work in known)),
        rejected=round(sum(work.rejected * seconds / work.seconds for work in known)),
        mistakes=round(sum(mistakes)) if len(mistakes) == len(known) else None,
        durations=tuple(map(sum, zip(*(work.durations for work in known), strict=True))) if is_alike else (),
    )


class _Sample(msgspec.Struct, frozen=True):
    at: float
    decided: int
    rejected: int
    mistakes: int
    durations: tuple[int, ...]


class WorkMeter:
    """Reads one daemon's counters now and then, and compares them with a minute ago."""

    def __init__(self, metrics: Metrics, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._samples: deque[_Sample] = deque([self._sample()])
        self._recent: RecentWork | None = None

    def recent(self) -> RecentWork | None:
        """Return the work of the last minute; None for the first seconds of a daemon."""
        now = self._clock()
        if now - self._samples[-1].at >= SAMPLE_S:
            newest = self._sample()
            self._samples.append(newest)
            while len(self._samples) > 2 and now - self._samples[1].at >= WINDOW_S:
                self._samples.popleft()
            self._recent = _between(self._samples[0], newest)
        return self._recent

    def _sample(self) -> _Sample:
        decided = rejected = 0
        for family in self._metrics.intents.collect():
            for sample in family.samples:
                if sample.name.endswith("_total"):
                    decided += int(sample.value)
                    rejected += int(sample.value) if sample.labels["outcome"] == "rejected" else 0
        mistakes = sum(
            int(sample.value)
            for family in self._metrics.conflicts.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["hint"] == "fix"
        )
        return _Sample(self._clock(), decided, rejected, mistakes, tuple(self._metrics.intent_seconds.counts))


def _between(first: _Sample, last: _Sample) -> RecentWork:
    return RecentWork(
        seconds=round(last.at - first.at, 1),
        decided=last.decided - first.decided,
        rejected=last.rejected - first.rejected,
        mistakes=last.mistakes - first.mistakes,
        durations=_differences(first.durations, last.durations),
    )


def _differences(first: Sequence[int], last: Sequence[int]) -> tuple[int, ...]:
    return tuple(after - before for before, after in zip(first, last, strict=True))
