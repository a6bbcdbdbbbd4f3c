"""Which groups are committed together, which of them a rejection is about, and that no row goes missing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile
from firn.model.expressions.predicates import TRUE
from firn.model.intent import ContentFile
from firn.model.outcome import Rejected
from firn.model.partitioning import UNPARTITIONED
from firn.model.scan_plan import FileScanTask
from firn.pipeline.compaction import INTENT_FILES_MAX, commits_of, concerned
from firn.pipeline.compaction_job import WrittenGroup, require_all_rows
from firn.pipeline.compaction_plan import FileGroup


def task(path: str, *deletes: DataFile) -> FileScanTask:
    file = DataFile(file_path=path, file_format="parquet", spec_id=0, record_count=10, file_size_in_bytes=1)
    return FileScanTask(file=file, sequence_number=1, snapshot_id=1, deletes=deletes, residual=TRUE, spec=UNPARTITIONED)


def deletes(rows: int, *, vector: bool) -> DataFile:
    return DataFile(
        content="position-deletes",
        file_path="d",
        file_format="puffin" if vector else "parquet",
        spec_id=0,
        record_count=rows,
        file_size_in_bytes=1,
        referenced_data_file="a",
    )


def group(number: int, *paths: str, old: bool = False) -> FileGroup:
    return FileGroup(
        number=number, partition="p", of_old_specs=old, tasks=tuple(map(task, paths)), reasons={}, outputs=1
    )


def new_file(rows: int) -> ContentFile:
    return ContentFile(file_path="n", file_format="parquet", spec_id=0, record_count=rows, file_size_in_bytes=1)


def rejected(*files: str) -> Rejected:
    members: dict[str, Any] = {"rule": "new-deletes", "message": "", "hint": "replan", "files": files}
    return Rejected(intent_id="i", table="t", **members)


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 12))
def test_every_group_is_in_one_commit_and_old_specs_are_apart(olds: list[bool], most: int) -> None:
    groups = [group(at, f"f{at}", old=old) for at, old in enumerate(olds, 1)]
    commits = list(commits_of(groups, max_commits=most))
    assert sorted(one.number for part in commits for one in part) == [one.number for one in groups]
    assert all(len({one.of_old_specs for one in part}) == 1 for part in commits)
    assert len(commits) <= most + 1


def test_an_intent_names_only_so_many_files() -> None:
    large = [group(at, *(f"{at}-{file}" for file in range(INTENT_FILES_MAX // 2 + 1))) for at in (1, 2)]
    assert [len(part) for part in commits_of(large, max_commits=1)] == [1, 1]


def test_a_rejection_is_about_the_groups_whose_files_it_names() -> None:
    written = [WrittenGroup(group=group(at, f"{at}-a", f"{at}-b"), files=()) for at in (1, 2, 3)]
    assert concerned(rejected("2-b", "3-a", "others"), written) == written[1:]
    assert concerned(rejected("others"), written) == written
    assert concerned(rejected(), written) == written


@pytest.mark.parametrize(
    ("tasks", "rows", "right"),
    [
        ([task("a"), task("b")], 20, True),
        ([task("a"), task("b")], 19, False),
        ([task("a"), task("b")], 21, False),
        ([task("a", deletes(4, vector=True)), task("b")], 16, True),
        ([task("a", deletes(4, vector=True)), task("b")], 17, False),
        ([task("a", deletes(10, vector=True))], 0, True),
        ([task("a", deletes(4, vector=False))], 8, True),  # who knows whether they repeat each other
        ([task("a", deletes(4, vector=False))], 11, False),
    ],
)
def test_rows_are_counted(tasks: list[FileScanTask], rows: int, right: bool) -> None:
    if right:
        require_all_rows(tasks, [new_file(rows)] if rows else [])
        return
    with pytest.raises(CorruptFile, match=f"{rows} written"):
        require_all_rows(tasks, [new_file(rows)])
