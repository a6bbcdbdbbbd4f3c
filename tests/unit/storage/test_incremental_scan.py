from typing import Any

import msgspec
import pytest

from firn.model.errors import ChangesUnavailableError, InvalidInput, NotFound, Unsupported
from firn.model.expressions.predicates import eq, gt, lt
from firn.model.metadata_changes import with_ref
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.snapshot import SnapshotRef
from firn.model.types import LONG, STRING, NestedField, StructType
from firn.storage.incremental_scan import SnapshotRange, plan_appends, plan_changes
from firn.storage.scan_rows import scan_rows
from tests.strategies.small_tables import SmallTable

SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            NestedField(field_id=1, name="id", type=LONG, required=True),
            NestedField(field_id=2, name="region", type=STRING, required=False),
        )
    ),
)
BY_REGION = PartitionSpec(
    spec_id=0, fields=(PartitionField(source_ids=(2,), field_id=1000, name="region", transform="identity"),)
)


def rows(*ids: int, region: str = "eu") -> list[dict[int, Any]]:
    return [{1: id, 2: region} for id in ids]


def appended(table: SmallTable, *, filter: Any = None, columns: Any = None, **scope: Any) -> list[int]:
    """The ids of the rows that a range of snapshots appended."""
    options = {} if filter is None else {"filter": filter}
    plan = plan_appends(
        table.metadata, files=table.reader, snapshots=SnapshotRange(**scope), columns=columns, **options
    )
    return sorted(row[1] for part in scan_rows(plan, table.metadata, files=table.files) for row in part)


def changes(table: SmallTable, *, filter: Any = None, **scope: Any) -> list[tuple[str, int, int, str]]:
    options = {} if filter is None else {"filter": filter}
    plan = plan_changes(table.metadata, files=table.reader, snapshots=SnapshotRange(**scope), **options)
    return [(one.change, one.ordinal, one.snapshot_id, one.task.file.file_path) for one in plan.tasks]


@pytest.fixture
def table() -> SmallTable:
    """Rows 1 and 2 appended, row 1 deleted by position, row 3 appended, row 4 put in for row 2, row 5 appended."""
    table = SmallTable(SCHEMA, BY_REGION)
    first, second = table.data(rows(1)), table.data(rows(2, region="us"))
    table.commit(first, second)
    table.commit(table.positions({first.file_path: [0]}, like=first), operation="delete")
    table.commit(table.data(rows(3)))
    table.commit(table.data(rows(4)), removed=[second], operation="overwrite")
    table.commit(table.data(rows(5)))
    return table


@pytest.mark.parametrize(
    ("scope", "ids"),
    [
        ({}, [1, 2, 3, 5]),
        ({"from_snapshot_id": 1}, [3, 5]),
        ({"from_snapshot_id": 1, "from_inclusive": True}, [1, 2, 3, 5]),
        ({"from_snapshot_id": 3}, [5]),
        ({"from_snapshot_id": 1, "to_snapshot_id": 3}, [3]),
        ({"to_snapshot_id": 4}, [1, 2, 3]),
        ({"from_snapshot_id": 4, "to_snapshot_id": 4}, []),
        ({"from_snapshot_id": 5}, []),
    ],
)
def test_a_range_has_the_rows_that_its_appends_added_and_nothing_else(table, scope, ids):
    assert appended(table, **scope) == ids


def test_appends_are_filtered_and_cut_to_columns(table):
    assert appended(table, filter=gt("id", 1) & eq("region", "eu"), columns=["id"]) == [3, 5]
    found = plan_appends(table.metadata, files=table.reader, filter=eq("region", "us"))
    assert (found.snapshot_id, found.metrics.scanned_data_manifests, found.metrics.result_data_files) == (5, 1, 1)
    assert found.metrics.skipped_data_files == 1
    assert found.tasks[0].snapshot_id == 1


def test_rewritten_manifests_do_not_bring_files_twice(table):
    # Snapshot 4 rewrote the manifest of snapshot 1, whose other file is existing there, not added.
    assert appended(table, from_snapshot_id=3, from_inclusive=True) == [3, 5]


def test_appends_of_a_branch_are_its_own():
    table = SmallTable(SCHEMA)
    table.commit(table.data(rows(1)))
    table.commit(table.data(rows(2)), branch="audit")
    table.commit(table.data(rows(3)))
    assert appended(table) == [1, 3]
    assert appended(table, branch="audit") == [1, 2]
    assert appended(table, from_snapshot_id=1, branch="audit") == [2]
    assert appended(table, from_snapshot_id=1, to_snapshot_id=2) == [2]
    with pytest.raises(InvalidInput, match="snapshot 3 is not on branch 'audit'"):
        appended(table, to_snapshot_id=3, branch="audit")
    with pytest.raises(InvalidInput, match="snapshot 2 is not an ancestor of 3"):
        appended(table, from_snapshot_id=2)
    with pytest.raises(NotFound, match="branch 'nowhere'"):
        appended(table, branch="nowhere")
    table.metadata = with_ref(table.metadata, "v1", SnapshotRef(snapshot_id=1, type="tag"))
    with pytest.raises(NotFound, match="branch 'v1'"):
        appended(table, branch="v1")


def test_a_range_may_begin_after_a_snapshot_that_expired(table):
    table.metadata = msgspec.structs.replace(table.metadata, snapshots=table.metadata.snapshots[2:])
    assert appended(table, from_snapshot_id=2) == [3, 5]
    assert appended(table) == [3, 5]
    with pytest.raises(InvalidInput, match="snapshot 1 is not an ancestor of 5"):
        appended(table, from_snapshot_id=1)
    with pytest.raises(InvalidInput, match="snapshot 2 is not an ancestor of 5"):
        appended(table, from_snapshot_id=2, from_inclusive=True)


def test_an_empty_table_has_no_appends_and_no_snapshot_to_begin_after():
    table = SmallTable(SCHEMA)
    assert appended(table) == []
    assert changes(table) == []
    with pytest.raises(ChangesUnavailableError, match="the table is empty"):
        appended(table, from_snapshot_id=1)
    with pytest.raises(ChangesUnavailableError, match="no snapshot 1"):
        appended(table, to_snapshot_id=1)


def test_appends_are_read_with_the_current_schema(table):
    table.with_schema(
        SCHEMA.fields[0],
        NestedField(field_id=2, name="area", type=STRING, required=False),
        NestedField(field_id=3, name="extra", type=LONG, required=False),
    )
    assert appended(table, filter=eq("area", "us")) == [2]


def test_changes_are_files_added_and_deleted_in_the_order_of_their_snapshots():
    table = SmallTable(SCHEMA)
    one, two = table.data(rows(1)), table.data(rows(2))
    table.commit(one, two)
    three = table.data(rows(3))
    table.commit(three, removed=[one], operation="overwrite")
    table.commit(table.data(rows(2, 3)), removed=[two, three], operation="replace")
    four = table.data(rows(4))
    table.commit(four)
    assert sorted(changes(table)) == sorted(
        [
            ("insert", 0, 1, one.file_path),
            ("insert", 0, 1, two.file_path),
            ("delete", 1, 2, one.file_path),
            ("insert", 1, 2, three.file_path),
            ("insert", 2, 4, four.file_path),
        ]
    )
    assert [ordinal for _, ordinal, _, _ in changes(table)] == [0, 0, 1, 1, 2]
    assert changes(table, from_snapshot_id=2) == [("insert", 0, 4, four.file_path)]
    assert changes(table, from_snapshot_id=2, from_inclusive=True, to_snapshot_id=2, filter=lt("id", 3)) == [
        ("delete", 0, 2, one.file_path)
    ]


def test_changes_by_delete_files_are_not_guessed(table):
    with pytest.raises(Unsupported, match="snapshot 2 has delete files"):
        changes(table)
    assert [change for change, *_ in changes(table, to_snapshot_id=1)] == ["insert", "insert"]
