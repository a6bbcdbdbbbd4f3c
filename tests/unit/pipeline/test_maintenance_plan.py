"""What maintenance a table needs follows from its health and its thresholds, each decision with its reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.errors import InvalidMetadata
from firn.model.table_properties import check_properties
from firn.pipeline.maintenance_plan import plan_maintenance
from firn.pipeline.orphan_files import HOUR_MS
from firn.pipeline.table_health import TableHealth, health_of
from tests.strategies.quiet_upkeep import QuietUpkeep
from tests.strategies.small_tables import START_MS
from tests.strategies.table_histories import History

NOW_MS = START_MS + 30 * 24 * HOUR_MS

WELL = TableHealth(
    table="db.t", now_ms=NOW_MS, snapshots=5, data_files=10, data_bytes=10**9, delete_files=0, delete_ratio=0.0,
    compactable_files=0, compactable_bytes=0, compaction_groups=0, compaction_reasons={}, manifests=3,
    rewritable_manifests=0, expirable_snapshots=0, forgotten_snapshots=0, partition_statistics_age=3,
    distinct_values_age=3, is_partitioned=True, may_remove_files=True, orphans_searched_ms=NOW_MS - HOUR_MS,
)  # fmt: skip


def wanted(properties: dict[str, str] | None = None, **changes: Any) -> dict[str, str]:
    plan = plan_maintenance(msgspec.structs.replace(WELL, **changes), properties or {})
    assert len(plan.decisions) == 6
    assert all(one.reason for one in plan.decisions)
    return {one.action: one.reason for one in plan.decisions if one.wanted}


def test_a_table_that_is_well_needs_nothing():
    assert wanted() == {}


@pytest.mark.parametrize(
    ("changes", "properties", "expected"),
    [
        ({"compaction_groups": 1, "compactable_files": 8, "compaction_reasons": {"small": 8}}, {}, "compact"),
        ({"rewritable_manifests": 20, "manifests": 30}, {}, "rewrite-manifests"),
        ({"rewritable_manifests": 2}, {"firn.maintain.manifests-min": "2"}, "rewrite-manifests"),
        ({"partition_statistics_age": None}, {}, "partition-statistics"),
        ({"partition_statistics_age": 100}, {}, "partition-statistics"),
        ({"distinct_values_age": None}, {"firn.maintain.statistics": "all"}, "distinct-values"),
        ({"expirable_snapshots": 1}, {}, "expire"),
        ({"forgotten_snapshots": 1}, {}, "expire"),
        ({"orphans_searched_ms": None}, {}, "remove-orphans"),
        ({"orphans_searched_ms": NOW_MS - 168 * HOUR_MS}, {}, "remove-orphans"),
    ],
)
def test_each_action_has_its_reason(changes, properties, expected):
    assert list(wanted(properties, **changes)) == [expected]


@pytest.mark.parametrize(
    ("changes", "properties"),
    [
        ({"rewritable_manifests": 19}, {}),
        ({"partition_statistics_age": None}, {"firn.maintain.statistics": "none"}),
        ({"partition_statistics_age": None, "is_partitioned": False}, {}),
        ({"partition_statistics_age": None, "data_files": 0}, {}),
        ({"distinct_values_age": None}, {}),
        ({"expirable_snapshots": 9}, {"firn.maintain.snapshots-min": "10"}),
        ({"forgotten_snapshots": 9, "expirable_snapshots": 9, "may_remove_files": False}, {}),
        ({"orphans_searched_ms": None, "may_remove_files": False}, {}),
        ({"orphans_searched_ms": None}, {"firn.maintain.orphans-every-hours": "0"}),
        ({"orphans_searched_ms": None, "expirable_snapshots": 9}, {"firn.maintain.enabled": "false"}),
    ],
)
def test_below_its_threshold_nothing_is_done(changes, properties):
    assert wanted(properties, **changes) == {}


def test_a_property_that_cannot_be_read_counts_as_not_set_and_cannot_be_set():
    assert wanted({"firn.maintain.manifests-min": "many"}, rewritable_manifests=19) == {}
    assert wanted({"firn.maintain.statistics": "some"}, distinct_values_age=None) == {}
    for name, value in (("manifests-min", "1"), ("statistics", "some"), ("orphans-older-than-hours", "23")):
        with pytest.raises(InvalidMetadata, match=name):
            check_properties({f"firn.maintain.{name}": value})


def test_rewrites_come_before_statistics_and_files_go_last():
    everything = wanted(
        {"firn.maintain.statistics": "all"}, compaction_groups=1, compactable_files=2, rewritable_manifests=50,
        partition_statistics_age=None, distinct_values_age=None, expirable_snapshots=1, orphans_searched_ms=None,
    )  # fmt: skip
    assert list(everything) == [
        "compact", "rewrite-manifests", "partition-statistics", "distinct-values", "expire", "remove-orphans",
    ]  # fmt: skip


def test_the_health_of_a_table_is_what_its_manifests_say():
    history = History()
    for _ in range(6):
        history.commit(history.file())
    history.commit(removed=history.live()[:1])
    history.expire([1, 2])
    upkeep = QuietUpkeep(history)
    health = health_of(upkeep, history.now, now_ms=NOW_MS)
    assert (health.data_files, health.compactable_files, health.compaction_groups) == (5, 5, 1)
    assert (health.snapshots, health.expirable_snapshots, health.forgotten_snapshots) == (5, 4, 2)
    assert (health.manifests, health.rewritable_manifests) == (6, 6)
    assert health.partition_statistics_age is None
    assert not health.is_partitioned
