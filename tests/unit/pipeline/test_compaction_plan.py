"""Only files that need it are rewritten, each once, in groups of a bounded size; the thresholds decide nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput, InvalidMetadata
from firn.model.expressions.predicates import TRUE
from firn.model.metadata import TableMetadata
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import UNPARTITIONED, PartitionSpec
from firn.model.scan_plan import FileScanTask
from firn.model.sorting import UNSORTED
from firn.model.types import LONG, STRING
from firn.pipeline.compaction_plan import CompactionPlan, FileGroup, group_files, plan_compaction
from firn.pipeline.compaction_rules import CompactionRules, rules_of
from firn.storage.local_files import LocalFiles
from firn.storage.manifest_reader import StoredManifests
from tests.unit.pipeline.sink_table import schema_of, spec_of

SCHEMA = schema_of(id=LONG, region=STRING)
BY_REGION = spec_of((2, "identity"))
RULES = rules_of({}, target_file_size_bytes=100)


def table(spec: PartitionSpec = BY_REGION) -> TableMetadata:
    return new_table_metadata(
        SCHEMA,
        spec,
        UNSORTED,
        location="/t",
        table_uuid="0192f0c1-0000-7000-8000-000000000000",
        now_ms=0,
        properties={},
        format_version=2,
    )


def task(
    path: str, size: int, *, partition: tuple[Any, ...] = ("eu",), age: int = 1, deletes: Any = (), spec_id: int = 0
):
    file = DataFile(
        file_path=path,
        file_format="parquet",
        spec_id=spec_id,
        partition=partition,
        record_count=10,
        file_size_in_bytes=size,
    )
    spec = BY_REGION if spec_id == 0 else UNPARTITIONED
    return FileScanTask(file=file, sequence_number=age, snapshot_id=1, deletes=tuple(deletes), residual=TRUE, spec=spec)


def position_deletes(path: str | None, rows: int, name: str = "d") -> DataFile:
    return DataFile(
        content="position-deletes",
        file_path=name,
        file_format="parquet",
        spec_id=0,
        partition=("eu",),
        record_count=rows,
        file_size_in_bytes=10,
        referenced_data_file=path,
    )


def groups(*tasks: FileScanTask, rules: CompactionRules = RULES) -> list[FileGroup]:
    return list(group_files(tasks, metadata=table(), rules=rules))


def paths(found: list[FileGroup]) -> list[list[str]]:
    return [list(group.paths) for group in found]


def test_small_files_of_one_partition_are_rewritten_when_there_are_enough() -> None:
    small = [task(f"f{at}", 10) for at in range(5)]
    assert paths(groups(*small)) == [[f"f{at}" for at in range(5)]]
    assert groups(*small[:4]) == []
    elsewhere = [task(f"g{at}", 10, partition=("us",)) for at in range(2)]
    assert groups(*small[:3], *elsewhere) == []


def test_fewer_files_are_enough_when_they_fill_one() -> None:
    assert paths(groups(task("a", 60), task("b", 60))) == [["a", "b"]]
    assert groups(task("a", 60), task("b", 40)) == []


def test_a_file_of_the_right_size_is_left_alone() -> None:
    small = [task(f"f{at}", 10) for at in range(5)]
    assert paths(groups(*small, task("good", 75), task("large", 180))) == [[f"f{at}" for at in range(5)]]


def test_a_file_that_is_too_large_is_cut() -> None:
    (group,) = groups(task("a", 450))
    assert (group.reasons, group.outputs) == ({"too-large": 1}, 5)


@pytest.mark.parametrize(
    ("deletes", "reason"),
    [
        ([position_deletes("a", 3)], "deleted-rows"),
        ([position_deletes("a", 2)], None),
        ([position_deletes(None, 9)], None),  # nobody knows how many of them are of this file
        ([position_deletes("a", 1, name) for name in "xyz"], "many-deletes"),
    ],
)
def test_a_good_file_is_rewritten_for_its_deletes(deletes: list[DataFile], reason: str | None) -> None:
    found = groups(
        task("a", 100, deletes=deletes), rules=rules_of({}, target_file_size_bytes=100, delete_file_threshold=3)
    )
    assert [group.reasons for group in found] == ([] if reason is None else [{reason: 1}])


def test_files_of_an_older_spec_are_rewritten_together_unless_that_is_not_wanted() -> None:
    old = [task("a", 100, spec_id=7, partition=()), task("b", 100, spec_id=8, partition=())]
    (group,) = groups(*old)
    assert (group.of_old_specs, group.reasons) == (True, {"old-spec": 2})
    assert groups(*old, rules=rules_of({}, target_file_size_bytes=100, rewrite_old_specs=False)) == []


def test_everything_is_rewritten_when_asked() -> None:
    found = groups(task("a", 100), task("b", 100, partition=("us",)), rules=rules_of({}, rewrite_all=True))
    assert [(group.partition, group.reasons) for group in found] == [("p0=eu", {"asked": 1}), ("p0=us", {"asked": 1})]


def test_old_files_are_with_old_files() -> None:
    tasks = [task(f"f{at}", 10, age=9 - at) for at in range(6)]
    rules = rules_of({}, target_file_size_bytes=100, max_file_group_input_files=3, min_input_files=3)
    assert paths(groups(*tasks, rules=rules)) == [["f5", "f4", "f3"], ["f2", "f1", "f0"]]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["eu", "us", None]), st.integers(1, 4)), max_size=40),
    group_bytes=st.integers(1, 600),
    group_files_max=st.integers(1, 10),
    min_input=st.integers(1, 6),
    everything=st.booleans(),
)
def test_groups_part_the_candidates_within_their_limits(
    sizes: list[tuple[int, str | None, int]],
    group_bytes: int,
    group_files_max: int,
    min_input: int,
    everything: bool,
) -> None:
    tasks = [task(f"f{at}", size, partition=(where,), age=age) for at, (size, where, age) in enumerate(sizes)]
    rules = rules_of(
        {},
        target_file_size_bytes=100,
        max_file_group_size_bytes=group_bytes,
        max_file_group_input_files=group_files_max,
        min_input_files=min_input,
        rewrite_all=everything,
    )
    found = groups(*tasks, rules=rules)
    named = [path for group in found for path in group.paths]
    assert len(named) == len(set(named))
    assert [group.number for group in found] == list(range(1, len(found) + 1))
    if everything:
        assert len(named) == len(tasks)
    for group in found:
        assert len({one.file.partition for one in group.tasks}) == 1
        assert group.files <= group_files_max
        assert group.bytes <= group_bytes or group.files == 1
        if not everything:
            assert all(not 75 <= one.file.file_size_in_bytes <= 180 for one in group.tasks)
            assert group.files >= min(2, min_input) or group.bytes > 180
        # New files come out in a size that is not touched again, if there is enough for one.
        each = group.bytes / group.outputs
        assert each <= 110 + 1e-9 or group.outputs == 1
        assert group.bytes < 100 or each > 37


@given(size=st.integers(0, 10**12), target=st.integers(1_000, 10**10))
def test_files_come_out_near_the_target(size: int, target: int) -> None:
    rules = rules_of({}, target_file_size_bytes=target)
    count = rules.output_files(size)
    assert size / count <= 1.1 * target
    assert count == 1 or size / count > target / 2


def test_properties_set_thresholds_and_arguments_come_first() -> None:
    properties = {
        "write.target-file-size-bytes": "1000",
        "firn.compaction.min-input-files": "3",
        "firn.compaction.delete-ratio-threshold": "0.5",
        "firn.compaction.min-file-size-bytes": "10",
    }
    rules = rules_of(properties, min_input_files=4)
    assert (rules.target_file_size_bytes, rules.min_file_size_bytes, rules.max_file_size_bytes) == (1000, 10, 1800)
    assert (rules.min_input_files, rules.delete_ratio_threshold) == (4, 0.5)
    assert rules_of(properties, target_file_size_bytes=None).target_file_size_bytes == 1000


@pytest.mark.parametrize(
    ("properties", "asked", "named"),
    [
        ({}, {"min_file_size_bytes": 10**9}, "must rise"),
        ({}, {"max_file_size_bytes": 1}, "must rise"),
        ({}, {"delete_ratio_threshold": 0.0}, "delete-ratio-threshold"),
        ({}, {"min_input_files": 0}, "min-input-files"),
        ({"firn.compaction.delete-ratio-threshold": "half"}, {}, "delete-ratio-threshold"),
        ({"firn.compaction.min-input-files": "many"}, {}, "min-input-files"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(properties: dict, asked: dict, named: str) -> None:
    with pytest.raises((InvalidInput, InvalidMetadata), match=named):
        rules_of(properties, **asked)


def test_a_plan_is_for_people_and_for_programs() -> None:
    deletes = [position_deletes("a", 4)]
    tasks = [task("a", 60, deletes=deletes), *(task(f"f{at}", 10) for at in range(5))]
    plan = CompactionPlan(
        branch="main", snapshot_id=4, rules=RULES, groups=group_files(tasks, metadata=table(), rules=RULES),
        files_looked_at=9, bytes_looked_at=5000,
    )  # fmt: skip
    assert str(plan) == (
        "6 of 9 files (110 B of 4.9 KiB) to be rewritten, in 1 group\n"
        "  1. p0=eu: 6 files of 110 B → about 1, 1 delete file applied (1 deleted-rows, 5 too-small)"
    )
    told = json.loads(json.dumps(plan.as_json()))
    assert told["groups"][0]["paths"] == ["a", *(f"f{at}" for at in range(5))]
    assert told["rules"]["min-input-files"] == 5


def test_a_table_without_a_snapshot_needs_nothing() -> None:
    plan = plan_compaction(table(), files=StoredManifests(LocalFiles()))
    assert (plan.snapshot_id, plan.groups) == (None, ())
    assert str(plan) == "nothing to compact of 0 files, 0 B"
