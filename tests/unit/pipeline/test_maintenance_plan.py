"""What maintenance a table needs follows from its health and its thresholds, each decision with its reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.errors import InvalidMetadata
from firn.model.limits import Limits
from firn.model.table_properties import check_properties
from firn.pipeline.forgotten_files import METADATA_GRACE_MS, Removing
from firn.pipeline.maintenance_plan import plan_maintenance
from firn.pipeline.orphan_files import HOUR_MS
from firn.pipeline.table_health import TableHealth, health_of
from tests.strategies.quiet_upkeep import QuietUpkeep
from tests.strategies.small_tables import START_MS
from tests.strategies.table_histories import History

NOW_MS = START_MS + 30 * 24 * HOUR_MS

WELL = TableHealth(
    table="db.t", now_ms=NOW_MS, snapshots=5, data_files=10, data_bytes=10**9, delete_files=0, delete_ratio=0.0,
    compactable_files=0, compactable_bytes=0, compaction_groups=0, compaction_reasons={}, position_delete_files=0,
    rewritable_delete_files=0, rewritable_deletes_for=0, rewritable_delete_reads=0, dangling_delete_files=0,
    manifests=3, rewritable_manifests=0, expirable_snapshots=0, forgotten_snapshots=0, partition_statistics_age=3,
    distinct_values_age=3, is_partitioned=True, may_remove_files=True, orphans_searched_ms=NOW_MS - HOUR_MS,
)  # fmt: skip


def wanted(properties: dict[str, str] | None = None, **changes: Any) -> dict[str, str]:
    plan = plan_maintenance(msgspec.structs.replace(WELL, **changes), properties or {})
    assert len(plan.decisions) == 8
    assert all(one.reason for one in plan.decisions)
    return {one.action: one.reason for one in plan.decisions if one.wanted}


def deletes(rewritable: int) -> dict[str, int]:
    """So many files of deleted positions worth rewriting, of all that there are."""
    return {
        "delete_files": rewritable, "position_delete_files": rewritable, "rewritable_delete_files": rewritable,
        "rewritable_deletes_for": 2, "rewritable_delete_reads": rewritable,
    }  # fmt: skip


def test_a_table_that_is_well_needs_nothing():
    assert wanted() == {}


@pytest.mark.parametrize(
    ("changes", "properties", "expected"),
    [
        ({"compaction_groups": 1, "compactable_files": 8, "compaction_reasons": {"small": 8}}, {}, "compact"),
        (deletes(10), {}, "rewrite-deletes"),
        (deletes(1), {"firn.maintain.delete-files-min": "1"}, "rewrite-deletes"),
        ({"dangling_delete_files": 1, "delete_files": 9}, {}, "remove-dangling-deletes"),
        ({"rewritable_manifests": 20, "manifests": 30}, {}, "rewrite-manifests"),
        ({"rewritable_manifests": 2}, {"firn.maintain.manifests-min": "2"}, "rewrite-manifests"),
        ({"partition_statistics_age": None}, {}, "partition-statistics"),
        ({"partition_statistics_age": 100}, {}, "partition-statistics"),
        ({"distinct_values_age": None}, {"firn.maintain.statistics": "all"}, "distinct-values"),
        ({"expirable_snapshots": 1}, {}, "expire"),
        ({"forgotten_snapshots": 1}, {}, "expire"),
        ({"replaced_metadata": 100}, {}, "expire"),
        ({"orphans_searched_ms": None}, {}, "remove-orphans"),
        ({"orphans_searched_ms": NOW_MS - 168 * HOUR_MS}, {}, "remove-orphans"),
    ],
)
def test_each_action_has_its_reason(changes, properties, expected):
    assert list(wanted(properties, **changes)) == [expected]


@pytest.mark.parametrize(
    ("changes", "properties"),
    [
        (deletes(9), {}),
        (deletes(10), {"firn.maintain.delete-files-min": "11"}),
        ({"delete_files": 9, "position_delete_files": 9}, {}),
        ({"rewritable_manifests": 19}, {}),
        ({"partition_statistics_age": None}, {"firn.maintain.statistics": "none"}),
        ({"partition_statistics_age": None, "is_partitioned": False}, {}),
        ({"partition_statistics_age": None, "data_files": 0}, {}),
        ({"distinct_values_age": None}, {}),
        ({"expirable_snapshots": 9}, {"firn.maintain.snapshots-min": "10"}),
        ({"forgotten_snapshots": 9, "expirable_snapshots": 9, "may_remove_files": False}, {}),
        ({"replaced_metadata": 99}, {}),
        ({"replaced_metadata": 1_000, "may_remove_files": False}, {}),
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
    for name, value in (
        ("manifests-min", "1"),
        ("delete-files-min", "0"),
        ("statistics", "some"),
        ("orphans-older-than-hours", "23"),
    ):
        with pytest.raises(InvalidMetadata, match=name):
            check_properties({f"firn.maintain.{name}": value})


def test_rewrites_come_before_statistics_and_files_go_last():
    everything = wanted(
        {"firn.maintain.statistics": "all"}, compaction_groups=1, compactable_files=2, rewritable_manifests=50,
        partition_statistics_age=None, distinct_values_age=None, expirable_snapshots=1, orphans_searched_ms=None,
        dangling_delete_files=1, **deletes(25),
    )  # fmt: skip
    assert list(everything) == [
        "compact", "rewrite-deletes", "remove-dangling-deletes", "rewrite-manifests", "partition-statistics",
        "distinct-values", "expire", "remove-orphans",
    ]  # fmt: skip


def test_the_reason_to_rewrite_deletes_says_what_a_reader_opens():
    found = {**deletes(30), "position_delete_files": 40, "rewritable_deletes_for": 8, "rewritable_delete_reads": 36}
    told = "30 of 40 files of deleted positions are for 8 data files, 4.5 to read for each"
    assert wanted(None, **found) == {"rewrite-deletes": told}
    both = wanted(None, **found, compaction_groups=1, compactable_files=2)
    assert both["rewrite-deletes"] == f"{told}, after compaction"


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


def deleted_from() -> History:
    """Of three data files the older two share a file of positions and have one each besides; the third has one.

    Another is older than any data file. Rules of compaction leave small files alone.
    """
    history = History()
    first, second, third = (history.table.data([{1: at}, {1: 10}, {1: 20}, {1: 30}]) for at in (1, 2, 3))
    positions = history.table.positions
    history.commit(positions({"memory://wh/t/data/gone.parquet": [0]}, like=first))
    history.commit(first, second)
    history.commit(
        positions({first.file_path: [0]}, like=first),
        positions({second.file_path: [1]}, like=second),
        positions({first.file_path: [2], second.file_path: [2]}, like=first),
    )
    history.commit(third)
    history.commit(positions({third.file_path: [0]}, like=third))
    change(history, {"firn.compaction.min-file-size-bytes": "1", "firn.compaction.delete-ratio-threshold": "1.0"})
    return history


def change(history: History, properties: dict[str, str], *, version: int = 2) -> None:
    metadata = history.metadata
    history.table.metadata = msgspec.structs.replace(
        metadata, properties={**metadata.properties, **properties}, format_version=version
    )


def deletes_of(history: History) -> dict[str, int]:
    health = health_of(QuietUpkeep(history), history.now, now_ms=NOW_MS)
    return {
        "delete files": health.delete_files,
        "of positions": health.position_delete_files,
        "rewritable": health.rewritable_delete_files,
        "for": health.rewritable_deletes_for,
        "reads": health.rewritable_delete_reads,
        "dangling": health.dangling_delete_files,
    }


def test_files_of_positions_are_worth_rewriting_where_a_data_file_has_several():
    assert deletes_of(deleted_from()) == {
        "delete files": 5, "of positions": 4, "rewritable": 3, "for": 2, "reads": 4, "dangling": 1,
    }  # fmt: skip


def test_deletes_that_compaction_applies_do_not_count():
    history = deleted_from()
    change(history, {"firn.compaction.delete-file-threshold": "2"})
    assert deletes_of(history) == {
        "delete files": 5, "of positions": 1, "rewritable": 0, "for": 0, "reads": 0, "dangling": 1,
    }  # fmt: skip


def test_deletes_of_data_files_that_are_gone_are_dangling():
    history = deleted_from()
    history.commit(removed=[file for file in history.live() if file.content == "data"])
    assert deletes_of(history)["dangling"] == 5


def test_in_a_table_that_was_upgraded_every_file_of_positions_counts():
    history = deleted_from()
    change(history, {}, version=3)
    found = deletes_of(history)
    assert (found["rewritable"], found["for"], found["reads"]) == (4, 3, 5)


def test_metadata_files_that_the_log_names_no_more_are_counted_until_they_are_gone():
    history = History()
    for _ in range(6):
        history.commit(history.file())
    upkeep, later_ms = QuietUpkeep(history), history.metadata.last_updated_ms + METADATA_GRACE_MS + 1
    beyond = 7 - len(history.metadata.metadata_log) - 1
    assert beyond > 0
    assert health_of(upkeep, history.now, now_ms=later_ms).replaced_metadata == beyond
    assert health_of(upkeep, history.now, now_ms=history.metadata.last_updated_ms).replaced_metadata == 0
    folders = [history.metadata.location]
    removing = Removing(
        history.now, history.files, limits=Limits(), folders=folders, look=lambda: (history.now, frozenset())
    )
    assert removing.run(later_ms).removed == {"metadata files": beyond}
    assert health_of(upkeep, history.now, now_ms=later_ms).replaced_metadata == 0
