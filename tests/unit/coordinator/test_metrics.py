"""Metrics keep Prometheus's conventions, and docs/metrics.md lists them.

``python -m tests.unit.coordinator.test_metrics`` writes that page anew.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from firn.coordinator import metrics as module
from firn.coordinator.durations import DurationHistogram
from firn.coordinator.intake.intent_reader import WORTH_BYTES
from firn.coordinator.metrics import QUEUED_SHOWN_MIN, TABLES_SHOWN, Metrics, TableSize, kind_of
from firn.coordinator.operations.seconds_buckets import SECONDS_BUCKETS
from firn.coordinator.tables.merges_beside import Cause
from firn.model.intent import OPERATIONS
from firn.model.trouble import Trouble

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
HEAD = """\
# Metrics

What `/metrics` serves, one daemon at a time; add daemons up with `sum`. Generated from the code
(`python -m tests.unit.coordinator.test_metrics`), compared by a test. Counters end in `_total`, times are seconds,
sizes bytes. Labels are closed sets, but for `table`, which only the largest tables of a daemon have, and `shard`.

The dashboards in `grafana/` and the alerts in `deploy/prometheus/rules/` are made of these; `docs/runbooks/` says what
to do about them. Beside them there are the process's own (`process_…`): memory, processor, open files.

| metric | type | labels | what |
|---|---|---|---|
"""


class _Counts:
    hits = 1
    misses = 1


def everything() -> Metrics:
    metrics = Metrics(version="1", daemon="d")
    metrics.watch_cache(_Counts())
    metrics.watch_tables(
        lambda: [TableSize(table="t", snapshots=1, manifests=1, metadata_bytes=1, streaming_writers=1, oldest_ms=1)],
        writers_max=10,
    )
    metrics.watch_troubles(lambda: [Trouble(table="t", state="stalled", why="no room")])
    metrics.watch_lanes(lambda: {"t": QUEUED_SHOWN_MIN})
    metrics.watch_publishing(lambda: 1)
    metrics.watch_shards(lambda: [0], configured=1)
    metrics.watch_stores(tuple)
    return metrics


def rows() -> list[tuple[str, str, str, str]]:
    """Name, type, labels, help of every metric of firn's."""
    found = []
    metrics = everything()
    labels = {c._name: c._labelnames for c in vars(metrics).values() if hasattr(c, "_labelnames")}
    for family in metrics.registry.collect():
        if not family.name.startswith("firn_"):
            continue
        own = labels.get(family.name)
        if own is None:
            own = tuple(label for label in family.samples[0].labels if label != "le") if family.samples else ()
        name = family.name + ("_total" if family.type == "counter" else "")
        found.append((name, family.type, ", ".join(own), family.documentation))
    return sorted(found)


def page() -> str:
    """What docs/metrics.md has to say."""
    return HEAD + "".join(f"| `{name}` | {kind} | {labels} | {text} |\n" for name, kind, labels, text in rows())


def test_the_page_lists_every_metric() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize(("name", "kind", "labels", "text"), rows())
def test_names_keep_the_conventions(name: str, kind: str, labels: str, text: str) -> None:
    assert re.fullmatch(r"firn_[a-z0-9_]+", name)
    assert text.endswith(".")
    assert not name.endswith(("_ms", "_mb", "_count", "_milliseconds"))
    if kind == "counter":
        assert name.endswith("_total")


@pytest.mark.parametrize(("compiled", "said"), [(True, "yes"), (False, "no")])
def test_a_daemon_says_whether_it_runs_compiled_code(
    monkeypatch: pytest.MonkeyPatch, compiled: bool, said: str
) -> None:
    monkeypatch.setattr(module, "IS_COMPILED", compiled)
    found = generate_latest(Metrics(version="1", commit="c", daemon="d").registry).decode()
    assert re.search(rf'^firn_build_info{{commit="c",compiled="{said}",.*}} 1.0$', found, re.MULTILINE)


def test_the_pages_that_are_large_are_those_that_are_read_apart() -> None:
    (text,) = [text for name, _, _, text in rows() if name == "firn_read_ahead_intents_total"]
    assert f"from {WORTH_BYTES // 1024} kB on" in text


def test_tables_are_labels_of_the_largest_only() -> None:
    metrics = Metrics(version="1", daemon="d")
    sizes = [TableSize(table=f"t{n}", snapshots=n, manifests=n, metadata_bytes=n) for n in range(1_000)]
    metrics.watch_tables(lambda: sizes, writers_max=10)
    (family,) = [f for f in metrics.registry.collect() if f.name == "firn_table_snapshots"]
    assert {sample.labels["table"] for sample in family.samples} == {
        f"t{n}" for n in range(1_000 - TABLES_SHOWN, 1_000)
    }


def test_how_far_back_the_largest_tables_can_be_read_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    metrics = Metrics(version="1", daemon="d")
    a = TableSize(table="a", snapshots=9, manifests=1, metadata_bytes=9, oldest_ms=100_000, whole_since_ms=990_000)
    b = TableSize(table="b", snapshots=9, manifests=1, metadata_bytes=9, oldest_ms=1_500_000)
    metrics.watch_tables(
        lambda: [a, b, TableSize(table="c", snapshots=0, manifests=0, metadata_bytes=1)], writers_max=1
    )
    (family,) = [f for f in metrics.registry.collect() if f.name == "firn_table_history_seconds"]
    found = {(sample.labels["table"], sample.labels["by"]): sample.value for sample in family.samples}
    assert found == {("a", "snapshot"): 900, ("a", "time"): 10, ("b", "snapshot"): 0}, "no time before it began"


def test_streaming_writers_are_shown_of_the_tables_that_have_the_most() -> None:
    metrics = Metrics(version="1", daemon="d")
    sizes = [
        TableSize(table=f"t{n}", snapshots=1, manifests=1, metadata_bytes=1_000 - n, streaming_writers=n)
        for n in range(1_000)
    ]
    metrics.watch_tables(lambda: sizes, writers_max=10)
    shown = samples(metrics, "firn_table_streaming_writers")
    assert shown == {f"t{n}": n for n in range(1_000 - TABLES_SHOWN, 1_000)}
    few = Metrics(version="1", daemon="d")
    few.watch_tables(lambda: sizes[:2], writers_max=10)
    assert samples(few, "firn_table_streaming_writers") == {"t1": 1}
    assert few.registry.get_sample_value("firn_streaming_writers_max") == 10


def samples(metrics: Metrics, name: str) -> dict[str, float]:
    """The values of a metric by its one label."""
    (family,) = [f for f in metrics.registry.collect() if f.name == name]
    told = [sample for sample in family.samples if not sample.name.endswith("_created")]
    return {next(iter(sample.labels.values()), ""): sample.value for sample in told}


def test_tables_that_wait_are_labels_where_the_most_do() -> None:
    metrics = Metrics(version="1", daemon="d")
    metrics.watch_lanes(lambda: {f"t{n}": n for n in range(1_000)})
    assert samples(metrics, "firn_table_queued_intents") == {f"t{n}": n for n in range(1_000 - TABLES_SHOWN, 1_000)}
    assert samples(metrics, "firn_queued_intents") == {"": sum(range(1_000))}
    assert samples(metrics, "firn_deepest_lane_intents") == {"": 999}


def test_a_table_for_which_little_waits_is_no_label() -> None:
    metrics = Metrics(version="1", daemon="d")
    metrics.watch_lanes(lambda: {"busy": QUEUED_SHOWN_MIN, "quiet": QUEUED_SHOWN_MIN - 1})
    assert samples(metrics, "firn_table_queued_intents") == {"busy": QUEUED_SHOWN_MIN}


def test_of_a_shard_that_was_given_up_no_old_number_stays() -> None:
    """An age that was measured last and is told for ever would raise an alert about another daemon's shard."""
    metrics = Metrics(version="1", daemon="d")
    owned = [0, 1]
    metrics.watch_shards(lambda: owned, configured=2)
    for shard in ("0", "1"):
        metrics.oldest_age_seconds.labels(shard).set(100)
    assert samples(metrics, "firn_oldest_intent_age_seconds") == {"0": 100, "1": 100}
    owned.remove(1)
    assert samples(metrics, "firn_shard_owned") == {"0": 1}
    assert samples(metrics, "firn_oldest_intent_age_seconds") == {"0": 100}


def test_the_session_is_in_one_state() -> None:
    metrics = Metrics(version="1", daemon="d")
    metrics.session_is("suspended")
    assert samples(metrics, "firn_zookeeper_session_state") == {"connected": 0, "suspended": 1, "lost": 0}
    assert samples(metrics, "firn_zookeeper_connected") == {"": 0}


def test_files_and_their_bytes_are_counted_by_kind() -> None:
    metrics = Metrics(version="1", daemon="d")
    metrics.count_written([("/t/metadata/snap-1-0-x.avro", b"123"), ("/t/metadata/snap-2-0-x.avro", b"4")])
    assert samples(metrics, "firn_written_bytes")["manifest-list"] == 4
    assert samples(metrics, "firn_written_files")["manifest-list"] == 2


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("/w/t/metadata/00001-x.metadata.json", "metadata"),
        ("/w/t/metadata/v3.metadata.json", "metadata"),
        ("/w/t/metadata/00001-x.gz.metadata.json", "metadata"),
        ("/w/t/metadata/snap-1-0-x.avro", "manifest-list"),
        ("/w/t/metadata/x-m0.avro", "manifest"),
        ("/w/t/metadata/_journal/0000001-x.jsonl.gz", "journal"),
        ("/w/t/metadata/journal/0000001-x.jsonl.gz", "journal"),
        ("/w/t/data/x.puffin", "other"),
    ],
)
def test_what_was_written_is_told_by_its_name(location: str, kind: str) -> None:
    assert kind_of(location) == kind


def test_every_cause_of_failed_merges_is_there_from_the_start() -> None:
    """An alert on their increase would miss the first failure of a cause whose series begins with it."""
    shown = generate_latest(Metrics(version="1", daemon="d").registry).decode()
    assert set(re.findall(r'firn_merges_failed_total{cause="(\w+)"} 0\.0', shown)) == set(get_args(Cause))


def test_operations_are_a_closed_set() -> None:
    """A label with values from outside would be a way to fill Prometheus's memory."""
    assert all(re.fullmatch(r"[a-z-]+", name) for name in OPERATIONS.values())


def test_durations_are_shown_as_a_histogram_of_prometheus_client_shows_them() -> None:
    seconds = [0.0, 0.0005, 0.00051, 0.3, 30.0, 31.0]
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    DurationHistogram("x_seconds", "Some.", label="stage", bounds=SECONDS_BUCKETS, registry=ours).labels(
        "swap"
    ).observe_all(seconds)
    histogram = Histogram("x_seconds", "Some.", ("stage",), buckets=SECONDS_BUCKETS, registry=theirs)
    for one in seconds:
        histogram.labels("swap").observe(one)
    assert without_times(generate_latest(ours)) == without_times(generate_latest(theirs))


def without_times(page: bytes) -> list[str]:
    """A metrics page without when each histogram was begun."""
    return [line for line in page.decode().splitlines() if not line.startswith("x_seconds_created")]


if __name__ == "__main__":
    PAGE.write_text(page())
