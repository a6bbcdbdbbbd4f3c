"""Histograms of durations that take many at once: one intent at a time, prometheus_client takes as long as its parsing.

For Prometheus they are what its own histograms are.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


class Durations:
    """How many durations (seconds) fell into each bucket. `bounds` are the upper ones, in order, without infinity."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self.began_at = time.time()
        """Unix seconds."""

    @property
    def sum(self) -> float:
        """All durations together."""
        return self._sum

    @property
    def counts(self) -> list[int]:
        """How many fell into each bucket; those above all bounds are last."""
        return list(self._counts)

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.observe_all((seconds,))

    def observe_all(self, durations: Iterable[float]) -> None:
        """Count each of them."""
        bounds, counts, total = self._bounds, self._counts, 0.0
        for seconds in durations:
            counts[bisect_left(bounds, seconds)] += 1
            total += seconds
        self._sum += total

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bounds as Prometheus writes them, each with how many were no longer."""
        found: list[tuple[str, float]] = []
        count = 0
        for bound, here in zip((*map(str, map(float, self._bounds)), "+Inf"), self._counts, strict=True):
            count += here
            found.append((bound, count))
        return found


class DurationHistogram(Collector):
    """A histogram of durations (seconds) in `registry`; with the name of a `label`, one for each of its values."""

    def __init__(
        self, name: str, text: str, *, bounds: Sequence[float], registry: CollectorRegistry, label: str | None = None
    ) -> None:
        self._name = name
        self._text = text
        self._bounds = bounds
        self._label = label
        self._by_value: dict[str, Durations] = {}
        registry.register(self)

    def labels(self, value: str) -> Durations:
        """The durations of one value of the label."""
        durations = self._by_value.get(value)
        if durations is None:
            durations = self._by_value[value] = Durations(self._bounds)
        return durations

    @property
    def unlabelled(self) -> Durations:
        """The durations of a histogram that has no label."""
        return self.labels("")

    def collect(self) -> list[Metric]:
        names = () if self._label is None else (self._label,)
        family = HistogramMetricFamily(self._name, self._text, labels=names)
        for value, durations in self._by_value.items():
            values = (value,) if names else ()
            family.add_metric(values, durations.buckets(), durations.sum)
            labelled = dict(zip(names, values, strict=True))
            family.add_sample(f"{self._name}_created", labelled, durations.began_at)
        return [family]
