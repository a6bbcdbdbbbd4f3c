"""Summaries count what a snapshot does, and totals are exact or absent."""

from __future__ import annotations

import math
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.datafile import DataFile
from firn.model.manifest import ManifestFile
from firn.model.snapshot import Snapshot
from firn.model.snapshot_summary import SummaryBuilder
from tests.strategies.examples import examples

DATA = DataFile(file_path="a", file_format="parquet", spec_id=0, record_count=10, file_size_in_bytes=100)
POSITIONS = DataFile(
    content="position-deletes", file_path="p", file_format="parquet", spec_id=0, record_count=3, file_size_in_bytes=30
)
EQUALITY = DataFile(
    content="equality-deletes", file_path="e", file_format="avro", spec_id=0, record_count=2, file_size_in_bytes=20
)
VECTOR = DataFile(
    content="position-deletes",
    file_path="v",
    file_format="puffin",
    spec_id=0,
    record_count=4,
    file_size_in_bytes=1000,
    content_offset=4,
    content_size_in_bytes=44,
    referenced_data_file="a",
)


def head(summary):
    return Snapshot(snapshot_id=1, timestamp_ms=1, manifest_list="m", summary=summary)


def test_a_first_append_starts_the_totals():
    builder = SummaryBuilder()
    builder.added(DATA)
    assert builder.build("append", previous=None, properties={"etl.run": "17", "added-records": "99"}) == {
        "operation": "append",
        "etl.run": "17",
        "added-data-files": "1",
        "added-records": "10",
        "added-files-size": "100",
        "changed-partition-count": "1",
        "total-records": "10",
        "total-files-size": "100",
        "total-data-files": "1",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_every_kind_of_file_is_counted_as_what_it_is():
    builder = SummaryBuilder()
    for file in (DATA, POSITIONS, EQUALITY, VECTOR):
        builder.added(file)
    first = builder.build("overwrite", previous=None)
    assert first["added-delete-files"] == "3"
    assert first["added-position-delete-files"] == "1"
    assert first["added-equality-delete-files"] == "1"
    assert first["added-dvs"] == "1"
    assert first["added-position-deletes"] == "7"
    assert first["added-equality-deletes"] == "2"
    assert first["added-files-size"] == str(100 + 30 + 20 + 44)
    builder = SummaryBuilder()
    for file in (DATA, POSITIONS, EQUALITY, VECTOR):
        builder.removed(file)
    second = builder.build("delete", previous=head(first))
    assert second["deleted-data-files"] == "1"
    assert second["removed-delete-files"] == "3"
    assert second["removed-dvs"] == "1"
    assert {name: value for name, value in second.items() if name.startswith("total-")} == {
        "total-records": "0", "total-files-size": "0", "total-data-files": "0", "total-delete-files": "0",
        "total-position-deletes": "0", "total-equality-deletes": "0",
    }  # fmt: skip


@pytest.mark.parametrize("total", [None, "", "x", "-1", "1.5", " 3", "٣", "9" * 30])
def test_a_total_is_not_started_from_nothing_or_nonsense(total):
    builder = SummaryBuilder()
    builder.added(DATA)
    previous = {"operation": "append", "total-data-files": "7"}
    if total is not None:
        previous["total-records"] = total
    summary = builder.build("append", previous=head(previous))
    assert "total-records" not in summary
    assert summary["total-data-files"] == "8"


def test_a_previous_snapshot_without_summary_has_no_totals():
    assert not [name for name in SummaryBuilder().build("append", previous=head(None)) if "total" in name]


def test_a_total_that_would_fall_below_zero_is_dropped():
    builder = SummaryBuilder()
    builder.removed(DATA)
    summary = builder.build("delete", previous=head({"operation": "append", "total-records": "9"}))
    assert "total-records" not in summary


def test_partitions_are_told_apart_by_value_and_spec():
    builder = SummaryBuilder(partition_limit=10, path_of=lambda file: f"p={file.partition[0]}")
    for spec_id, value in ((0, 1), (0, 1), (0, 2), (0, float("nan")), (0, float("nan")), (1, 1)):
        builder.added(
            DataFile(
                file_path="f",
                file_format="orc",
                spec_id=spec_id,
                partition=(value,),
                record_count=1,
                file_size_in_bytes=5,
            )
        )
    summary = builder.build("append", previous=None)
    assert summary["changed-partition-count"] == "4"
    assert summary["partition-summaries-included"] == "true"
    assert summary["partitions.p=2"] == "added-data-files=1,added-records=1,added-files-size=5"
    assert summary["partitions.p=1"] == "added-data-files=3,added-records=3,added-files-size=15"


@pytest.mark.parametrize("at_once", [False, True])
def test_partitions_of_floats_are_counted_as_java_counts_them(at_once):
    """-0.0 and 0.0 are two, all NaNs are one."""
    other_nan = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
    values = [0.0, -0.0, math.nan, other_nan, -math.inf, 0.0, None, -0.0]
    files = [msgspec.structs.replace(DATA, partition=(value,)) for value in values]
    builder = SummaryBuilder()
    if at_once:
        builder.added_all(files)
    for file in () if at_once else files:
        builder.added(file)
    assert builder.build("append", previous=None)["changed-partition-count"] == "5"


def test_too_many_partitions_are_only_counted():
    builder = SummaryBuilder(partition_limit=1, path_of=lambda file: str(file.partition))
    for value in (1, 2):
        builder.added(
            DataFile(
                file_path="f", file_format="orc", spec_id=0, partition=(value,), record_count=1, file_size_in_bytes=5
            )
        )
    summary = builder.build("append", previous=None)
    assert summary["changed-partition-count"] == "2"
    assert not [name for name in summary if name.startswith("partition")]


def manifest(content):
    return ManifestFile(
        manifest_path="m", manifest_length=9, partition_spec_id=0, content=content, added_snapshot_id=1,
        added_files_count=2, added_rows_count=20, existing_files_count=0, existing_rows_count=0,
        deleted_files_count=1, deleted_rows_count=5,
    )  # fmt: skip


def test_a_manifest_counts_by_its_counts_and_hides_what_they_do_not_tell():
    builder = SummaryBuilder()
    builder.added(DATA)
    builder.added_manifest(manifest("data"))
    summary = builder.build("append", previous=None)
    assert summary["added-data-files"] == "3"
    assert summary["added-records"] == "30"
    assert summary["deleted-data-files"] == "1"
    assert summary["total-records"] == "25"
    for unknown in ("total-files-size", "added-files-size", "changed-partition-count"):
        assert unknown not in summary
    builder = SummaryBuilder()
    builder.added_manifest(manifest("deletes"))
    summary = builder.build("delete", previous=None)
    assert summary["total-delete-files"] == "1"
    for unknown in ("total-position-deletes", "total-equality-deletes", "total-files-size"):
        assert unknown not in summary


def test_duplicates_are_counted():
    builder = SummaryBuilder()
    builder.removed_duplicate()
    assert builder.build("delete", previous=None)["deleted-duplicate-files"] == "1"


FILES = st.sampled_from([DATA, POSITIONS, EQUALITY, VECTOR])


@given(st.lists(st.lists(FILES, max_size=4), max_size=5))
@examples(50)
def test_totals_follow_the_files_through_any_history(commits):
    previous = None
    live: list[DataFile] = []
    for files in commits:
        builder = SummaryBuilder()
        gone = live[: len(live) // 2]
        for file in files:
            builder.added(file)
        for file in gone:
            builder.removed(file)
        live = live[len(gone) :] + files
        previous = head(builder.build("overwrite", previous=previous))
        assert previous.summary is not None
        assert previous.summary["total-records"] == str(sum(f.record_count for f in live if f.content == "data"))
        assert previous.summary["total-delete-files"] == str(sum(f.content != "data" for f in live))


PARTITIONS = st.sampled_from([(), (1,), (2,), (None,), (0.0,), (-0.0,)]) | st.builds(lambda: (float("nan"),))
PLACED = st.builds(
    lambda file, spec_id, partition: msgspec.structs.replace(file, spec_id=spec_id, partition=partition),
    st.just(DATA) | FILES, st.integers(0, 1), PARTITIONS,
)  # fmt: skip


@given(st.lists(PLACED, max_size=8), st.lists(FILES, max_size=2), st.integers(0, 3))
def test_files_may_be_counted_all_at_once(files, removed, limit):
    summaries = []
    for at_once in (True, False):
        builder = SummaryBuilder(partition_limit=limit, path_of=lambda file: f"{file.spec_id}{file.partition}")
        if at_once:
            builder.added_all(files)
        for file in () if at_once else files:
            builder.added(file)
        for file in removed:
            builder.removed(file)
        summaries.append(builder.build("overwrite", previous=None))
    assert summaries[0] == summaries[1]
