"""Prometheus metrics of the daemon: every name, its labels and buckets are here.

Labels are bounded: operations, outcomes, rules and stages are closed sets; of tables, only the largest have any.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Final, Literal, Protocol, get_args

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from firn.coordinator.durations import DurationHistogram
from firn.coordinator.operations.seconds_buckets import SECONDS_BUCKETS
from firn.model.trouble import Trouble
from firn.storage.compiled import IS_COMPILED
from firn.storage.journal import is_journal_file
from firn.storage.sessions import SessionState
from firn.storage.store_faults import CAUSES, ZOOKEEPER_CAUSES, StoreFault

COUNT_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
STAGES: Final = ("wait", "lock", "load", "replay", "write", "swap", "publish")
PHASES: Final = ("queued", "decision", "commit")
SERVERS: Final = ("redis", "zookeeper")
WAREHOUSE_BYTES: Final = (
    ("free", "Bytes that are free on the warehouse's file system; 0 for an object store."),
    ("size", "Bytes of the warehouse's file system; 0 for an object store."),
)
SESSION_STATES: Final[tuple[SessionState, ...]] = get_args(SessionState)

Kind = Literal["manifest", "manifest-list", "metadata", "journal", "other"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)

TABLES_SHOWN: Final = 20
"""Tables that have metrics of their own: the largest, and those where the most intents wait."""

QUEUED_SHOWN_MIN: Final = 10
"""Intents that must wait for a table before it is shown by name: a name is a series in Prometheus for hours."""


class Metrics:
    """The metrics of one daemon, in a registry of its own."""

    def __init__(self, *, version: str, daemon: str, commit: str = "unknown") -> None:
        self.registry = CollectorRegistry()
        self._owned_shards = _OwnedShards()
        self.registry.register(self._owned_shards)  # before the gauges by shard, which it clears
        self.intents = Counter(
            "firn_intents",
            "Intents decided, by operation and outcome.",
            ("operation", "outcome"),
            registry=self.registry,
        )
        self.conflicts = Counter(
            "firn_conflicts",
            "Intents rejected, by rule, hint (fix: a mistake of the writer; others: what came meanwhile), operation, "
            "and the operation of the commit that came first (none, or unknown).",
            ("rule", "hint", "operation", "against"),
            registry=self.registry,
        )
        self.rest_commits = Counter(
            "firn_rest_commits",
            "Requests of REST clients that were decided, by how (exact: as they were sent; lifted; refused) and the "
            "rule that refused them (none).",
            ("how", "rule"),
            registry=self.registry,
        )
        self.repeats = Counter(
            "firn_repeated_intents", "Intents that had been decided before and got their first outcome again.",
            registry=self.registry,
        )  # fmt: skip
        self.repeated_epochs = Counter(
            "firn_repeated_epochs",
            "Intents that repeated a streaming writer's epoch under another id, and changed nothing.",
            registry=self.registry,
        )
        self.outcomes_kept_seconds = Gauge(
            "firn_outcomes_kept_seconds",
            "How long Redis keeps the outcomes of commits that are told now: limits.outcomes-kept-max.",
            registry=self.registry,
        )
        self.dead_letters = Counter(
            "firn_dead_letters", "Stream entries set aside as unusable, by rule.", ("rule",), registry=self.registry
        )
        self._add_stream_counters()
        self.moved = Counter(
            "firn_moved_entries",
            "Entries found in another shard's stream and moved to their own.",
            registry=self.registry,
        )
        self.read_ahead = Counter(
            "firn_read_ahead_intents",
            "Intents that a process of its own has read, as their pages are large: from 256 kB on, from 8 kB on where "
            "no compiled code reads them; the daemon reads all others itself.", registry=self.registry,
        )  # fmt: skip
        self.merged_apart = Counter(
            "firn_merged_apart_manifests",
            "Large merged manifests that a process of its own has laid out; the daemon lays out all others itself.",
            registry=self.registry,
        )
        self.merges_failed = Counter(
            "firn_merges_failed",
            "Merges of manifests that were skipped, by cause: part (a manifest is unusable), merged (what they become "
            "is), store (it does not answer), internal (a bug). Commits go on.",
            ("cause",), registry=self.registry,
        )  # fmt: skip
        self.metadata_files_removed = Counter(
            "firn_metadata_files_removed",
            "Metadata files that the daemon has removed, a while after a commit had replaced them.",
            registry=self.registry,
        )
        self.batches = Counter("firn_batches", "Batches ended, by how.", ("result",), registry=self.registry)
        self.batch_intents = Histogram(
            "firn_batch_intents", "Intents per batch.", buckets=COUNT_BUCKETS, registry=self.registry
        )
        self.stage_seconds = DurationHistogram(
            "firn_stage_seconds", "Time of a batch by stage.", label="stage", bounds=SECONDS_BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self.intent_phase_seconds = DurationHistogram(
            "firn_intent_phase_seconds",
            "Time of an intent by phase: queued (in the stream, by Redis's clock), decision (from being taken to its "
            "decision), commit (files written, pointer swapped).",
            label="phase", bounds=SECONDS_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.intent_seconds = DurationHistogram(
            "firn_intent_seconds", "Time from taking an intent to its outcome being sent.", bounds=SECONDS_BUCKETS,
            registry=self.registry,
        ).unlabelled  # fmt: skip
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
            "firn_oldest_intent_age_seconds",
            "Age of the oldest intent that is not settled, but for paused tables, by shard; 0 when all are.",
            ("shard",), registry=self.registry,
        )  # fmt: skip
        self._owned_shards.measured = (self.lag, self.pending, self.oldest_age_seconds)
        self.shards = Gauge("firn_owned_shards", "Shards that this daemon owns.", registry=self.registry)
        self.lanes = Gauge("firn_lanes", "Tables with a lane in this daemon.", registry=self.registry)
        self.states_forgotten = Counter(
            "firn_table_states_forgotten", "Tables forgotten to make room in memory, until their next batch.",
            registry=self.registry,
        )  # fmt: skip
        self.buffered_bytes = Gauge(
            "firn_buffered_bytes", "Payload bytes of intents taken and not yet decided.", registry=self.registry
        )
        self.held_back_intents = Gauge(
            "firn_held_back_intents", "Entries of tables whose lanes are full, which wait in their streams.",
            registry=self.registry,
        )  # fmt: skip
        self.paused_intents, self.tables_paused = _metrics_of_pauses(self.registry)
        self.consumers, self.consumers_left = _metrics_of_consumers(self.registry)
        self.zookeeper_connected = Gauge(
            "firn_zookeeper_connected", "1 while the ZooKeeper session is connected.", registry=self.registry
        )
        self.session_state = Gauge(
            "firn_zookeeper_session_state", "1 for the state that the ZooKeeper session is in, 0 for the others.",
            ("state",), registry=self.registry,
        )  # fmt: skip
        self.reconnects = Counter(
            "firn_zookeeper_reconnects", "Times that the ZooKeeper session was connected again, itself or a new one.",
            registry=self.registry,
        )  # fmt: skip
        self.session_losses = Counter(
            "firn_zookeeper_session_losses", "Times that the ZooKeeper session ended by itself, with all its locks.",
            registry=self.registry,
        )  # fmt: skip
        self.written_bytes = Counter(
            "firn_written_bytes", "Bytes of files written, by kind.", ("kind",), registry=self.registry
        )
        self.written_files = Counter("firn_written_files", "Files written, by kind.", ("kind",), registry=self.registry)
        self._add_servers()
        ProcessCollector(registry=self.registry)
        self.registry.register(_BuildInfo(version=version, commit=commit, daemon=daemon))
        for histogram, values in ((self.stage_seconds, STAGES), (self.intent_phase_seconds, PHASES)):
            for value in values:
                histogram.labels(value)
        self._written = {kind: (self.written_bytes.labels(kind), self.written_files.labels(kind)) for kind in KINDS}
        """By kind; looking a label up takes as long as counting ten times."""
        for server in SERVERS:
            self.ping_seconds.labels(server)
        for counter, labels in (
            (self.ping_failures, SERVERS),
            (self.lost_entries, ("waiting", "taken")),
            (self.stream_interferences, ("replaced", "position", "pending", "type")),
            (self.merges_failed, ("part", "merged", "store", "internal")),
            (self.batches, ("won", "lost", "fenced", "unknown")),
        ):
            for label in labels:
                counter.labels(label)

    def _add_servers(self) -> None:
        """Make the metrics of the servers that the daemon depends on."""
        self.stores_fit = Gauge(
            "firn_stores_fit", "1 while ZooKeeper, Redis and the warehouse carry the marks of one deployment.",
            registry=self.registry,
        )  # fmt: skip
        self.redis_connected = Gauge("firn_redis_connected", "1 while Redis answers.", registry=self.registry)
        self.redis_memory_bytes = Gauge("firn_redis_memory_bytes", "Memory that Redis uses.", registry=self.registry)
        self.redis_memory_max_bytes = Gauge(
            "firn_redis_memory_max_bytes", "Memory that Redis may use; 0: it has no limit.", registry=self.registry
        )
        self.redis_persisting = Gauge(
            "firn_redis_persisting",
            "1 while Redis's last write to disk succeeded, by file; append-only is also 0 when there is no such file.",
            ("file",), registry=self.registry,
        )  # fmt: skip
        self.warehouse_free_bytes, self.warehouse_size_bytes = (
            Gauge(f"firn_warehouse_{name}_bytes", about, registry=self.registry) for name, about in WAREHOUSE_BYTES
        )
        self.ping_seconds = Histogram(
            "firn_server_ping_seconds", "Time of a small question to a server, asked every few seconds.", ("server",),
            buckets=SECONDS_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.ping_failures = Counter(
            "firn_server_ping_failures", "Such questions that got no answer.", ("server",), registry=self.registry
        )

    def _add_stream_counters(self) -> None:
        """What others did to the intent streams."""
        self.lost_entries, self.queue_emptied = _metrics_of_losses(self.registry)
        self.stream_interferences = Counter(
            "firn_stream_interferences",
            "Times that somebody else was found to have worked on an intent stream: replaced it, moved the group's "
            "position, took entries out of what is pending, or put another type under its key.",
            ("kind",), registry=self.registry,
        )  # fmt: skip
        self.reclaimed_entries = Counter(
            "firn_reclaimed_entries",
            "Entries that stood in a stream neither pending nor answered, and were read again.",
            registry=self.registry,
        )

    def count_written(self, files: Iterable[tuple[str, Sized]]) -> None:
        """Count the files of a batch by what they are."""
        for location, data in files:
            kind = kind_of(location)
            size, count = self._written[kind]
            size.inc(len(data))
            count.inc()

    def session_is(self, state: SessionState) -> None:
        """The ZooKeeper session has come into this state."""
        self.zookeeper_connected.set(state == "connected")
        for known in SESSION_STATES:
            self.session_state.labels(known).set(known == state)

    def watch_cache(self, cache: CacheCounts) -> None:
        """Show how often what was read before did not have to be read again."""
        self.registry.register(_Cache(cache))

    def watch_tables(self, sizes: Callable[[], Iterable[TableSize]], *, writers_max: int) -> None:
        """Show the largest tables of this daemon, and how many streaming writers each may have."""
        self.registry.register(_LargestTables(sizes))
        Gauge(
            "firn_streaming_writers_max", "Streaming writers that a table may have: limits.writers-max.",
            registry=self.registry,
        ).set(writers_max)  # fmt: skip

    def watch_troubles(self, troubles: Callable[[], Iterable[Trouble]]) -> None:
        """Show how many tables no commit can be made on, and some of them by name."""
        self.registry.register(_Troubles(troubles))

    def watch_stores(self, faults: Callable[[], Iterable[StoreFault]]) -> None:
        """Show why Redis or ZooKeeper refuses or does not answer, by cause."""
        self.registry.register(_StoreFaults(faults))

    def watch_lanes(self, depths: Callable[[], Mapping[str, int]]) -> None:
        """Show how many intents wait, and for which tables the most do. `depths` are the lanes', by table."""
        self.registry.register(_QueuedIntents(depths))

    def watch_shards(self, owned: Callable[[], Sequence[int]], *, configured: int) -> None:
        """Show how many shards there are, and which are this daemon's; nothing is shown of those that are not."""
        self._owned_shards.owned = owned
        Gauge("firn_configured_shards", "Shards that there are: daemon.shards.", registry=self.registry).set(configured)

    def watch_publishing(self, depth: Callable[[], int]) -> None:
        """Show how many decided batches wait to be told to Redis."""
        self.registry.register(_PublishQueue(depth))


def _metrics_of_losses(registry: CollectorRegistry) -> tuple[Counter, Counter]:
    lost = Counter(
        "firn_lost_entries",
        "Entries that somebody removed from a stream: waiting ones were never read, taken ones were under way.",
        ("was",), registry=registry,
    )  # fmt: skip
    emptied = Counter("firn_queue_emptied", "Times that Redis was found without what it had before.", registry=registry)
    return lost, emptied


def _metrics_of_pauses(registry: CollectorRegistry) -> tuple[Gauge, Gauge]:
    intents = Gauge("firn_paused_intents", "Entries of paused tables, which wait in their streams.", registry=registry)
    tables = Gauge(
        "firn_tables_paused",
        "Tables that an operator has paused, of all daemons; each tells the same number.",
        registry=registry,
    )
    return intents, tables


def _metrics_of_consumers(registry: CollectorRegistry) -> tuple[Gauge, Counter]:
    consumers = Gauge(
        "firn_consumers",
        "Named consumers of the changes of this daemon's tables, by state: current, behind, lapsed (expiry does not "
        "wait for it any longer), lost (what it has not read has expired).",
        ("state",), registry=registry,
    )  # fmt: skip
    left = Counter(
        "firn_consumers_left",
        "Consumers that expiry stopped waiting for (lapsed), or whose changes it took (lost).",
        ("state",), registry=registry,
    )  # fmt: skip
    for state in ("lapsed", "lost"):
        left.labels(state)
    return consumers, left


class CacheCounts(Protocol):
    """What counts its hits and misses."""

    hits: int
    misses: int


class TableSize(msgspec.Struct, frozen=True, kw_only=True):
    """How much a commit on a table has to carry: snapshots and manifests of ``main``, metadata file in bytes.

    `oldest_ms` and `whole_since_ms` are how far back it can be read (`firn.model.history.HistoryReach`).

    `streaming_writers` is how many of its streaming writers are known, of `limits.writers-max`.
    """

    table: str
    snapshots: int
    manifests: int
    metadata_bytes: int
    streaming_writers: int = 0
    oldest_ms: int | None = None
    whole_since_ms: int | None = None


def kind_of(location: str) -> Kind:
    """What a file is, by the name that firn gives it."""
    name = location.rpartition("/")[2]
    if name.endswith((".metadata.json", ".metadata.json.gz")):
        return "metadata"
    if is_journal_file(location):
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
        sizes = list(self._sizes())
        largest = sorted(sizes, key=lambda size: (-size.metadata_bytes, size.table))[:TABLES_SHOWN]
        for size in largest:
            for family, value in zip(families, (size.snapshots, size.manifests, size.metadata_bytes), strict=True):
                family.add_metric((size.table,), value)
        return [*families, _histories(largest, now_ms=time.time() * 1000), _streaming_writers(sizes)]


def _histories(sizes: Iterable[TableSize], *, now_ms: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "firn_table_history_seconds",
        "How far back the largest tables can be read: by snapshot, to the oldest one; by time, as far as no snapshot "
        "of main is missing.",
        labels=("table", "by"),
    )
    for size in sizes:
        for by, since_ms in (("snapshot", size.oldest_ms), ("time", size.whole_since_ms)):
            if since_ms is not None:
                family.add_metric((size.table, by), max(0.0, now_ms - since_ms) / 1000)
    return family


def _streaming_writers(sizes: Iterable[TableSize]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "firn_table_streaming_writers",
        "Streaming writers of a table, of the tables that have the most; a new one is refused at limits.writers-max.",
        labels=("table",),
    )
    most = sorted(sizes, key=lambda size: (-size.streaming_writers, size.table))[:TABLES_SHOWN]
    for size in most:
        if size.streaming_writers:
            family.add_metric((size.table,), size.streaming_writers)
    return family


class _QueuedIntents(Collector):
    def __init__(self, depths: Callable[[], Mapping[str, int]]) -> None:
        self._depths = depths

    def collect(self) -> list[Metric]:
        depths = self._depths()
        by_table = GaugeMetricFamily(
            "firn_table_queued_intents",
            f"Intents that wait in a table's lane, of the tables where the most and at least {QUEUED_SHOWN_MIN} do.",
            labels=("table",),
        )
        for table, depth in sorted(depths.items(), key=lambda item: (-item[1], item[0]))[:TABLES_SHOWN]:
            if depth >= QUEUED_SHOWN_MIN:
                by_table.add_metric((table,), depth)
        return [
            GaugeMetricFamily(
                "firn_queued_intents", "Intents that wait in the lanes of all tables.", value=sum(depths.values())
            ),
            GaugeMetricFamily(
                "firn_deepest_lane_intents", "Intents that wait in the lane where the most do.",
                value=max(depths.values(), default=0),
            ),
            by_table,
        ]  # fmt: skip


class _OwnedShards(Collector):
    """Which shards are owned; of a shard that was given up, the gauges by shard (`measured`) say nothing any more."""

    def __init__(self) -> None:
        self.owned: Callable[[], Sequence[int]] = tuple
        self.measured: Sequence[Gauge] = ()

    def collect(self) -> list[Metric]:
        family = GaugeMetricFamily(
            "firn_shard_owned", "1 for each shard that this daemon owns; over all daemons its sum is 1.",
            labels=("shard",),
        )  # fmt: skip
        shards = [str(shard) for shard in self.owned()]
        for shard in shards:
            family.add_metric((shard,), 1)
        for gauge in self.measured:
            known = {sample.labels["shard"] for metric in gauge.collect() for sample in metric.samples}
            for shard in known.difference(shards):
                gauge.remove(shard)
        return [family]


class _PublishQueue(Collector):
    def __init__(self, depth: Callable[[], int]) -> None:
        self._depth = depth

    def collect(self) -> list[Metric]:
        text = "Batches that are decided, and whose outcomes wait to be sent to Redis."
        return [GaugeMetricFamily("firn_publish_queue_batches", text, value=self._depth())]


class _Troubles(Collector):
    def __init__(self, troubles: Callable[[], Iterable[Trouble]]) -> None:
        self._troubles = troubles

    def collect(self) -> list[Metric]:
        found = sorted(self._troubles(), key=lambda one: (one.state, one.table))
        unreadable = sum(one.state == "unreadable" for one in found)
        named = GaugeMetricFamily(
            "firn_table_trouble", "1 for each table that is unreadable or stalled; a few by name.",
            labels=("table", "trouble"),
        )  # fmt: skip
        for one in found[:TABLES_SHOWN]:
            named.add_metric((one.table, one.state), 1)
        return [
            GaugeMetricFamily(
                "firn_unreadable_tables", "Tables whose stored files do not pass their checks.",
                value=unreadable,
            ),
            GaugeMetricFamily(
                "firn_stalled_tables", "Tables whose batch is tried again: a store or a server refuses what it needs.",
                value=len(found) - unreadable,
            ),
            named,
        ]  # fmt: skip


class _StoreFaults(Collector):
    def __init__(self, faults: Callable[[], Iterable[StoreFault]]) -> None:
        self._faults = faults

    def collect(self) -> list[Metric]:
        now = {(fault.store, fault.cause) for fault in self._faults()}
        family = GaugeMetricFamily(
            "firn_store_trouble", "1 while a store refuses this daemon or does not answer it, by cause; 0 otherwise.",
            labels=("store", "cause"),
        )  # fmt: skip
        for store in SERVERS:
            for cause in CAUSES:
                if store == "redis" or cause in ZOOKEEPER_CAUSES:
                    family.add_metric((store, cause), (store, cause) in now)
        return [family]


class _BuildInfo(Collector):
    def __init__(self, *, version: str, commit: str, daemon: str) -> None:
        self._labels = (version, commit, daemon, platform.python_version(), "yes" if IS_COMPILED else "no")

    def collect(self) -> list[Metric]:
        family = GaugeMetricFamily(
            "firn_build_info",
            "Version, commit, id and Python of the daemon; whether compiled code reads appends: yes or no.",
            labels=("version", "commit", "daemon", "python", "compiled"),
        )  # fmt: skip
        family.add_metric(self._labels, 1)
        return [family]
