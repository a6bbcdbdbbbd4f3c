"""Every change of table metadata keeps what readers and later writers rely on."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidMetadata, Unsupported
from firn.model.metadata_changes import (
    add_encryption_key,
    add_snapshot,
    assign_uuid,
    dropped_metadata_files,
    next_timestamp_ms,
    remove_encryption_key,
    remove_properties,
    remove_ref,
    remove_snapshots,
    remove_statistics,
    set_location,
    set_properties,
    set_statistics,
    upgrade,
    with_metadata_log,
    with_ref,
    without_intermediate_snapshots,
)
from firn.model.metadata_check import check_metadata
from firn.model.snapshot import SnapshotRef
from tests.strategies.examples import examples
from tests.strategies.metadata import LOCATION, START_MS, UUID, appended, snapshot, table

NOW = START_MS + 10**6
STATISTICS = {
    "snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 9, "file-footer-size-in-bytes": 3,
    "blob-metadata": [],
}  # fmt: skip
PARTITION_STATISTICS = {"snapshot-id": 1, "statistics-path": "q", "file-size-in-bytes": 9}


def log_ids(metadata):
    return [entry.snapshot_id for entry in metadata.snapshot_log]


def test_a_snapshot_becomes_the_head_of_its_branch():
    metadata = appended(table(), 1, 2)
    assert metadata.head() == metadata.snapshots[1]
    assert metadata.current_snapshot_id == 2
    assert metadata.last_sequence_number == 2
    assert log_ids(metadata) == [1, 2]
    assert metadata.snapshot_log[1].timestamp_ms == metadata.snapshots[1].timestamp_ms


def test_a_snapshot_of_a_new_branch_leaves_an_empty_main_empty():
    metadata = appended(table(), 1, branch="audit")
    assert metadata.current_snapshot is None
    assert metadata.head("audit") == metadata.snapshots[0]
    assert metadata.snapshot_log == ()
    check_metadata(metadata)


def test_branches_share_the_sequence_numbers():
    metadata = appended(appended(appended(table(), 1), 2, branch="b"), 3)
    assert [one.sequence_number for one in metadata.snapshots] == [1, 2, 3]
    assert metadata.snapshots[2].parent_snapshot_id == 1


def test_a_staged_snapshot_moves_no_branch_and_the_sequence_number():
    metadata = appended(appended(table(), 1), 2, branch=None)
    assert metadata.current_snapshot_id == 1
    assert metadata.last_sequence_number == 2
    assert set(metadata.refs) == {"main"}


def test_retention_settings_stay_with_a_moving_branch():
    metadata = appended(table(), 1)
    kept = SnapshotRef(snapshot_id=1, type="branch", min_snapshots_to_keep=7, extra={"x": 1})
    moved = appended(with_ref(metadata, "main", kept), 2)
    assert moved.ref("main") == msgspec.structs.replace(kept, snapshot_id=2)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"snapshot_id": 1}, "snapshot-id"),
        ({"parent_snapshot_id": None}, "parent-snapshot-id"),
        ({"parent_snapshot_id": 1}, "parent-snapshot-id"),
        ({"sequence_number": 2}, "sequence-number"),
        ({"first_row_id": None}, "first-row-id"),
        ({"first_row_id": 19}, "first-row-id"),
        ({"first_row_id": -1}, "first-row-id"),
        ({"added_rows": None}, "added-rows"),
        ({"added_rows": -1}, "added-rows"),
    ],
)
def test_a_snapshot_that_does_not_follow_is_refused(fields, where):
    metadata = appended(table(format_version=3), 1, 2)
    new = msgspec.structs.replace(snapshot(metadata, 3, parent=2), **fields)
    with pytest.raises(InvalidMetadata) as caught:
        add_snapshot(metadata, new, branch="main", now_ms=NOW)
    assert caught.value.where == where


def test_v1_and_v2_have_no_row_lineage_and_v1_no_sequence():
    for version in (1, 2):
        metadata = table(format_version=version)
        with pytest.raises(InvalidMetadata, match="row lineage needs format v3"):
            add_snapshot(metadata, snapshot(metadata, 1, first_row_id=0, added_rows=1), branch="main", now_ms=NOW)
    v1 = table(format_version=1)
    with pytest.raises(InvalidMetadata, match="must be 0 in format v1"):
        add_snapshot(v1, snapshot(v1, 1, sequence_number=1), branch="main", now_ms=NOW)
    assert appended(v1, 1, 2).last_sequence_number == 0


def test_row_ids_of_a_snapshot_that_left_a_gap_are_never_given_again():
    metadata = table(format_version=3)
    metadata = add_snapshot(metadata, snapshot(metadata, 1, first_row_id=100, added_rows=5), branch="main", now_ms=NOW)
    assert metadata.next_row_id == 105


def test_a_tag_cannot_be_committed_to():
    metadata = appended(table(), 1)
    metadata = with_ref(metadata, "v1", SnapshotRef(snapshot_id=1, type="tag"))
    with pytest.raises(InvalidMetadata, match="v1 is a tag"):
        add_snapshot(metadata, snapshot(metadata, 2, parent=1), branch="v1", now_ms=NOW)


@given(st.lists(st.integers(0, 2**42), min_size=1, max_size=6))
@examples(60)
def test_timestamps_never_fall_whatever_the_clock_does(clock):
    metadata = table()
    times = [metadata.last_updated_ms]
    for i, now_ms in enumerate(clock):
        head = metadata.head()
        new = snapshot(metadata, i + 1, parent=head.snapshot_id if head else None)
        new = msgspec.structs.replace(new, timestamp_ms=next_timestamp_ms(metadata, now_ms))
        metadata = with_metadata_log(metadata, f"{LOCATION}/metadata/{i}.json")
        metadata = add_snapshot(metadata, new, branch="main", now_ms=now_ms)
        times.append(metadata.last_updated_ms)
    assert all(later > earlier for earlier, later in pairwise(times))
    check_metadata(metadata)


def test_a_snapshot_published_late_does_not_turn_the_log_back():
    metadata = appended(table(), 5)
    late = snapshot(metadata, 6, parent=5, at=-(10**7))
    metadata = add_snapshot(metadata, late, branch="main", now_ms=NOW)
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    assert times == sorted(times)
    check_metadata(metadata)


def test_the_metadata_log_keeps_the_newest_files():
    metadata = set_properties(table(), {"write.metadata.previous-versions-max": "3"}, now_ms=NOW)
    for i in range(5):
        base, metadata = metadata, with_metadata_log(metadata, f"{i}.metadata.json")
    assert dropped_metadata_files(metadata, base=base) == ("1.metadata.json",)
    assert [entry.metadata_file for entry in metadata.metadata_log] == [f"{i}.metadata.json" for i in (2, 3, 4)]
    assert metadata.metadata_log[0].timestamp_ms == metadata.last_updated_ms


@pytest.mark.parametrize("count", ["0", "-5"])
def test_the_metadata_log_always_keeps_the_file_before(count):
    metadata = set_properties(table(), {"write.metadata.previous-versions-max": count}, now_ms=NOW)
    metadata = with_metadata_log(with_metadata_log(metadata, "1"), "2", previous_updated_ms=NOW + 5)
    assert [(entry.metadata_file, entry.timestamp_ms) for entry in metadata.metadata_log] == [("2", NOW + 5)]


def test_snapshots_that_were_never_current_leave_the_log():
    base = appended(table(), 1)
    metadata = appended(base, 2, 3, 4)
    assert log_ids(metadata) == [1, 2, 3, 4]
    assert log_ids(without_intermediate_snapshots(metadata, base=base)) == [1, 4]
    assert without_intermediate_snapshots(base, base=base) is base


def test_history_before_a_gap_is_dropped():
    metadata = appended(table(), 1, 2, 3)
    assert log_ids(remove_snapshots(metadata, [2], now_ms=NOW)) == [3]
    assert log_ids(remove_snapshots(metadata, [1], now_ms=NOW)) == [2, 3]


def test_removed_snapshots_take_their_statistics_with_them():
    metadata = appended(table(), 1, 2)
    metadata = set_statistics(metadata, STATISTICS, now_ms=NOW)
    metadata = set_statistics(metadata, PARTITION_STATISTICS, partition=True, now_ms=NOW)
    removed = remove_snapshots(metadata, [1, 77], now_ms=NOW)
    assert [one.snapshot_id for one in removed.snapshots] == [2]
    assert (removed.statistics, removed.partition_statistics) == ((), ())
    check_metadata(removed)


def test_a_referenced_snapshot_is_not_removed():
    with pytest.raises(InvalidMetadata, match="cannot remove snapshot 2"):
        remove_snapshots(appended(table(), 1, 2), [2], now_ms=NOW)


def test_without_main_there_is_no_current_snapshot_but_the_log_stays():
    metadata = remove_ref(appended(table(), 1), "main", now_ms=NOW)
    assert metadata.current_snapshot_id is None
    assert log_ids(metadata) == [1]
    check_metadata(metadata)


def test_statistics_belong_to_a_snapshot_that_exists():
    metadata = appended(table(), 1)
    for partition, first in ((False, STATISTICS), (True, PARTITION_STATISTICS)):
        with pytest.raises(InvalidMetadata, match="snapshot 2 does not exist"):
            set_statistics(metadata, {**first, "snapshot-id": 2}, partition=partition, now_ms=NOW)
        once = set_statistics(metadata, first, partition=partition, now_ms=NOW)
        twice = set_statistics(once, {**first, "statistics-path": "new"}, partition=partition, now_ms=NOW)
        listed = twice.partition_statistics if partition else twice.statistics
        assert [item["statistics-path"] for item in listed] == ["new"]
        gone = remove_statistics(twice, 1, partition=partition, now_ms=NOW)
        assert (gone.statistics, gone.partition_statistics) == ((), ())


def test_a_format_is_upgraded_step_by_step_and_never_down():
    v1 = appended(table(format_version=1), 1)
    v2 = upgrade(v1, 2, now_ms=NOW)
    assert (v2.format_version, v2.last_sequence_number, v2.next_row_id) == (2, 0, None)
    v3 = upgrade(appended(v2, 2), 3, now_ms=NOW)
    assert (v3.format_version, v3.last_sequence_number, v3.next_row_id) == (3, 1, 0)
    assert [one.first_row_id for one in v3.snapshots] == [None, None]
    check_metadata(appended(v3, 3))
    with pytest.raises(InvalidMetadata, match="cannot downgrade v3 table to v2"):
        upgrade(v3, 2, now_ms=NOW)
    with pytest.raises(Unsupported, match="v4"):
        upgrade(v3, 4, now_ms=NOW)


def test_v2_needs_the_uuid_that_v1_may_lack():
    anonymous = msgspec.structs.replace(table(format_version=1), table_uuid="")
    with pytest.raises(InvalidMetadata, match="table-uuid"):
        upgrade(anonymous, 2, now_ms=NOW)
    named = assign_uuid(anonymous, UUID, now_ms=NOW)
    assert upgrade(named, 2, now_ms=NOW).table_uuid == UUID
    with pytest.raises(InvalidMetadata, match="cannot be reassigned"):
        assign_uuid(named, UUID.replace("9", "8"), now_ms=NOW)
    with pytest.raises(InvalidMetadata, match="must be a UUID"):
        assign_uuid(anonymous, "table-1", now_ms=NOW)


def test_the_format_version_property_upgrades_and_is_not_stored():
    metadata = set_properties(table(format_version=1), {"format-version": "2", "a": "b"}, now_ms=NOW)
    assert metadata.format_version == 2
    assert metadata.properties["a"] == "b"
    assert "format-version" not in metadata.properties


@pytest.mark.parametrize(
    "updates",
    [
        {"uuid": "x"},
        {"current-snapshot-id": "1"},
        {"format-version": "x"},
        {"write.metadata.previous-versions-max": "many"},
        {"history.expire.min-snapshots-to-keep": "none"},
        {"write.metadata.compression-codec": "lzma"},
    ],
)
def test_properties_that_would_break_later_commits_are_refused(updates):
    with pytest.raises(InvalidMetadata) as caught:
        set_properties(table(), updates, now_ms=NOW)
    assert "properties" in str(caught.value)


def test_what_changes_nothing_is_the_same_metadata():
    metadata = appended(table(format_version=3), 1)
    for same in (
        upgrade(metadata, 3, now_ms=NOW),
        set_location(metadata, f"{metadata.location}/", now_ms=NOW),
        set_properties(metadata, dict(metadata.properties), now_ms=NOW),
        remove_properties(metadata, ["nothing"], now_ms=NOW),
        remove_snapshots(metadata, [5], now_ms=NOW),
        remove_ref(metadata, "nothing", now_ms=NOW),
        remove_statistics(metadata, 1, now_ms=NOW),
        remove_encryption_key(metadata, "k", now_ms=NOW),
        assign_uuid(metadata, metadata.table_uuid, now_ms=NOW),
    ):
        assert same is metadata


def test_encryption_keys_are_for_v3():
    key = {"key-id": "k", "encrypted-key-metadata": "eA=="}
    with pytest.raises(InvalidMetadata, match="need format v3"):
        add_encryption_key(table(), key, now_ms=NOW)
    metadata = add_encryption_key(table(format_version=3), key, now_ms=NOW)
    assert add_encryption_key(metadata, key, now_ms=NOW) is metadata
    assert remove_encryption_key(metadata, "k", now_ms=NOW).encryption_keys == ()
