"""Prometheus metrics of the daemon: every name, its labels and buckets are here.

Labels are bounded: operations, outcomes, rules and stages are closed sets; of tables, only the largest have any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, Protocol, get_args

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
COUNT_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
STAGES: Final = ("wait", "lock", "load", "replay", "write", "swap", "publish")

Kind = Literal["manifest", "manifest-list", "metadata", "journal", "other"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)

TABLES_SHOWN: Final = 20
"""Tables that have metrics of their own: the largest."""


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
            "firn_conflicts",
            "Intents rejected, by rule, operation, and the operation of the commit that came first (none, or unknown).",
            ("rule", "operation", "against"),
            registry=self.registry,
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
        self.lock_hold_seconds = Histogram(
            "firn_lock_hold_seconds", "Time that a table's lock was held, from taking it to giving it up.",
            buckets=(*SECONDS_BUCKETS, 60, 300, 1_800), registry=self.registry,
        )  # fmt: skip
        self.lock_losses = Counter(
            "firn_lock_losses", "Locks that were lost with their session instead of being given up.",
            registry=self.registry,
        )  # fmt: skip
        self.transaction_tables = Histogram(
            "firn_transaction_tables",
            "Tables that a committed transaction or rename moved together.",
            buckets=(2, 3, 5, 10, 20, 50),
            registry=self.registry,
        )
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
        self.oldest_age_seconds = Gauge(
            "firn_oldest_intent_age_seconds", "Age of the oldest intent that is not settled, by shard; 0 when all are.",
            ("shard",), registry=self.registry,
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
        self.session_losses = Counter(
            "firn_zookeeper_session_losses", "Times that the ZooKeeper session ended by itself, with all its locks.",
            registry=self.registry,
        )  # fmt: skip
        self.written_bytes = Counter(
            "firn_written_bytes", "Bytes of files written, by kind.", ("kind",), registry=self.registry
        )
        self.redis_connected = Gauge("firn_redis_connected", "1 while Redis answers.", registry=self.registry)
        ProcessCollector(registry=self.registry)
        self.registry.register(_BuildInfo(version=version, daemon=daemon))
        for stage in STAGES:
            self.stage_seconds.labels(stage)
        for kind in KINDS:
            self.written_bytes.labels(kind)
        for result in ("won", "lost", "fenced", "unknown"):
            self.batches.labels(result)

    def count_written(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Count the files of a batch by what they are."""
        for location, data in files:
            self.written_bytes.labels(kind_of(location)).inc(len(data))

    def watch_cache(self, cache: CacheCounts) -> None:
        """Show how often what was read before did not have to be read again."""
        self.registry.register(_Cache(cache))

    def watch_tables(self, sizes: Callable[[], Iterable[TableSize]]) -> None:
        """Show the largest tables of this daemon, so that labels stay bounded."""
        self.registry.register(_LargestTables(sizes))


class CacheCounts(Protocol):
    """What counts its hits and misses."""

    hits: int
    misses: int


class TableSize(msgspec.Struct, frozen=True, kw_only=True):
    """How much a commit on a table has to carry: snapshots and manifests of ``main``, metadata file in bytes."""

    table: str
    snapshots: int
    manifests: int
    metadata_bytes: int


def kind_of(location: str) -> Kind:
    """What a file is, by the name that firn gives it."""
    name = location.rpartition("/")[2]
    if name.endswith((".metadata.json", ".metadata.json.gz")):
        return "metadata"
    if "/journal/" in location:
        return "journal"
    if name.startswith("snap-"):
        return "manifest-list"
    return "manifest" if name.endswith(".avro") else "other"


class _Cache(Collector):
    def __init__(self, cache: CacheCounts) -> None:
        self._cache = cache

    def collect(self) -> list[Metric]:
        hits, misses = self._cache.hits, self._cache.misses
        return [
            CounterMetricFamily("firn_cache_hits", "Manifests that were in memory when they were needed.", value=hits),
            CounterMetricFamily("firn_cache_misses", "Manifests that had to be read.", value=misses),
        ]


class _LargestTables(Collector):
    def __init__(self, sizes: Callable[[], Iterable[TableSize]]) -> None:
        self._sizes = sizes

    def collect(self) -> list[Metric]:
        families: list[GaugeMetricFamily] = [
            GaugeMetricFamily("firn_table_snapshots", "Snapshots of the largest tables.", labels=("table",)),
            GaugeMetricFamily("firn_table_manifests", "Manifests of main, of the largest tables.", labels=("table",)),
            GaugeMetricFamily("firn_table_metadata_bytes", "Metadata file of the largest tables.", labels=("table",)),
        ]
        largest = sorted(self._sizes(), key=lambda size: (-size.metadata_bytes, size.table))[:TABLES_SHOWN]
        for size in largest:
            for family, value in zip(families, (size.snapshots, size.manifests, size.metadata_bytes), strict=True):
                family.add_metric((size.table,), value)
        return [*families]


class _BuildInfo(Collector):
    def __init__(self, *, version: str, daemon: str) -> None:
        self._labels = (version, daemon)

    def collect(self) -> list[Metric]:
        family = GaugeMetricFamily("firn_build_info", "Version and id of the daemon.", labels=("version", "daemon"))
        family.add_metric(self._labels, 1)
        return [family]
