"""Prometheus metrics of the daemon: every name, its labels and buckets are here.

Labels are bounded: operations, outcomes, rules and stages are closed sets; tables are never labels.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
COUNT_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
STAGES: Final = ("wait", "lock", "load", "replay", "write", "swap", "publish")


class Metrics:
    """The metrics of one daemon, in a registry of its own."""

    def __init__(self, *, version: str, daemon: str) -> None:
        self.registry = CollectorRegistry()
        self.intents = Counter(
            "firn_intents",
            "Intents decided, by operation and outcome.",
            ("operation", "outcome"),
            registry=self.registry,
        )
        self.conflicts = Counter(
            "firn_conflicts", "Intents rejected, by rule and operation.", ("rule", "operation"), registry=self.registry
        )
        self.repeats = Counter(
            "firn_repeated_intents", "Intents that had been decided before and got their first outcome again.",
            registry=self.registry,
        )  # fmt: skip
        self.dead_letters = Counter(
            "firn_dead_letters", "Stream entries set aside as unusable, by rule.", ("rule",), registry=self.registry
        )
        self.moved = Counter(
            "firn_moved_entries",
            "Entries found in another shard's stream and moved to their own.",
            registry=self.registry,
        )
        self.batches = Counter("firn_batches", "Batches ended, by how.", ("result",), registry=self.registry)
        self.batch_intents = Histogram(
            "firn_batch_intents", "Intents per batch.", buckets=COUNT_BUCKETS, registry=self.registry
        )
        self.stage_seconds = Histogram(
            "firn_stage_seconds",
            "Time of a batch by stage.",
            ("stage",),
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.intent_seconds = Histogram(
            "firn_intent_seconds", "Time from taking an intent to its outcome being sent.", buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self.lock_wait_seconds = Histogram(
            "firn_lock_wait_seconds", "Time waited for a table's lock.", buckets=SECONDS_BUCKETS, registry=self.registry
        )
        self.maintenance_wait_seconds = Histogram(
            "firn_maintenance_wait_seconds", "Time that intents of priority maintenance waited for a batch.",
            buckets=(*SECONDS_BUCKETS, 60, 300), registry=self.registry,
        )  # fmt: skip
        self.lock_yields = Counter(
            "firn_lock_yields", "Locks given up because another waited for them.", registry=self.registry
        )
        self.replays = Counter(
            "firn_replays", "Batches replayed because another commit came first.", registry=self.registry
        )
        self.unknown_swaps = Counter(
            "firn_unknown_swaps", "Swaps whose answer was lost, each resolved by reading the pointer.",
            registry=self.registry,
        )  # fmt: skip
        self.fenced_swaps = Counter(
            "firn_fenced_swaps", "Swaps refused because the lock was lost.", registry=self.registry
        )
        self.lag = Gauge(
            "firn_lag_intents", "Entries not yet delivered to a daemon, by shard.", ("shard",), registry=self.registry
        )
        self.pending = Gauge(
            "firn_pending_intents", "Entries delivered and not acknowledged, by shard.", ("shard",),
            registry=self.registry,
        )  # fmt: skip
        self.shards = Gauge("firn_owned_shards", "Shards that this daemon owns.", registry=self.registry)
        self.lanes = Gauge("firn_lanes", "Tables with a lane in this daemon.", registry=self.registry)
        self.buffered_bytes = Gauge(
            "firn_buffered_bytes", "Payload bytes of intents taken and not yet decided.", registry=self.registry
        )
        self.held_back_intents = Gauge(
            "firn_held_back_intents", "Entries of tables whose lanes are full, which wait in their streams.",
            registry=self.registry,
        )  # fmt: skip
        self.unreadable_tables = Gauge(
            "firn_unreadable_tables", "Tables whose stored files do not pass their checks.", registry=self.registry
        )
        self.zookeeper_connected = Gauge(
            "firn_zookeeper_connected", "1 while the ZooKeeper session is connected.", registry=self.registry
        )
        self.redis_connected = Gauge("firn_redis_connected", "1 while Redis answers.", registry=self.registry)
        self.registry.register(_BuildInfo(version=version, daemon=daemon))
        for stage in STAGES:
            self.stage_seconds.labels(stage)


class _BuildInfo(Collector):
    def __init__(self, *, version: str, daemon: str) -> None:
        self._labels = (version, daemon)

    def collect(self) -> list[Metric]:
        family = GaugeMetricFamily("firn_build_info", "Version and id of the daemon.", labels=("version", "daemon"))
        family.add_metric(self._labels, 1)
        return [family]
