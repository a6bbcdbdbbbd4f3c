"""The same metadata planned by firn and by PyIceberg: the same files, the same deletes, the same question left."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable

from firn.model.datafile import DataFile
from firn.model.expressions.filter_text import filter_from_text
from firn.model.expressions.predicates import TRUE
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import DATE, DOUBLE, LONG, STRING, NestedField, StructType
from firn.storage.incremental_scan import SnapshotRange, plan_appends
from firn.storage.local_files import LocalFiles
from firn.storage.table_scan import plan_scan
from tests.strategies.small_tables import SmallTable

SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            NestedField(field_id=1, name="id", type=LONG, required=True),
            NestedField(field_id=2, name="region", type=STRING, required=False),
            NestedField(field_id=3, name="score", type=DOUBLE, required=False),
            NestedField(field_id=4, name="day", type=DATE, required=False),
        )
    ),
)
SPECS = {
    "unpartitioned": (),
    "region": ((2, "identity"),),
    "month-bucket": ((4, "month"), (1, "bucket[4]")),
    "truncated": ((2, "truncate[1]"),),
}
REGIONS = ("eu-north", "eu-west", "us", None)
FILTERS = [
    "id >= 0",
    "id > 30",
    "id = 17",
    "id in (3, 59)",
    "region = 'us'",
    "region is null",
    "region is not null and id < 10",
    "region = 'eu-north' or id = 58",
    "not (id < 20 or id = 33) and region = 'us'",
    "day >= '2024-02-15' and day < '2024-04-01'",
    "day = '2024-01-05'",
    "score > 100.0",
    "region = 'nowhere'",
]


def rows(start: int, stop: int) -> list[dict]:
    return [
        {1: id, 2: REGIONS[id % 4], 3: None if id % 7 == 0 else id / 2, 4: 19723 + id * 2} for id in range(start, stop)
    ]


def built(folder: Path, version: int, fields: tuple[tuple[int, str], ...]) -> SmallTable:
    """Three appends; in between, deletes of single rows, by one file for several data files, and a removed file."""
    parts = [
        PartitionField(source_ids=(source,), field_id=1000 + at, name=f"part{at}", transform=transform)
        for at, (source, transform) in enumerate(fields)
    ]
    spec = PartitionSpec(spec_id=0, fields=tuple(parts))
    table = SmallTable(SCHEMA, spec, version=version, files=LocalFiles(), location=f"file://{folder}/t")
    first = table.data_by_partition(rows(0, 20))
    table.commit(*first)
    second = table.data_by_partition(rows(20, 40))
    table.commit(*second)
    if version == 2:
        table.commit(table.positions({first[0].file_path: [0]}, like=first[0]), operation="delete")
        by_partition: dict = {}
        for file in (*first, *second):
            by_partition.setdefault(file.partition, []).append(file)
        several = [
            table.positions({file.file_path: [0] for file in files}, like=files[0])
            for files in by_partition.values()
            if len(files) > 1
        ]
        table.commit(*several, operation="delete")
    elif version == 3:
        table.commit(table.vector(first[0], [0]), table.vector(second[-1], [0, 1]), operation="delete")
    table.commit(*table.data_by_partition(rows(40, 60)))
    table.commit(removed=[second[0]], operation="delete")
    return table


@pytest.fixture(scope="module", params=[(v, s) for v in (1, 2, 3) for s in SPECS], ids=lambda p: f"v{p[0]}-{p[1]}")
def tables(request, tmp_path_factory) -> tuple[SmallTable, StaticTable]:
    version, spec = request.param
    table = built(tmp_path_factory.mktemp("scan"), version, SPECS[spec])
    return table, StaticTable.from_metadata(table.written())


def firn_plan(table: SmallTable, text: str | None, **scan) -> dict[str, set[str]]:
    filter = TRUE if text is None else filter_from_text(text)
    plan = plan_scan(table.metadata, files=table.reader, filter=filter, **scan)
    return {task.file.file_path: {delete.file_path for delete in task.deletes} for task in plan.tasks}


def peer_plan(table: StaticTable, text: str | None, **scan) -> dict[str, set[str]]:
    planned = table.scan(**scan) if text is None else table.scan(row_filter=text, **scan)
    return {task.file.file_path: {delete.file_path for delete in task.delete_files} for task in planned.plan_files()}


@pytest.mark.parametrize("text", [None, *FILTERS])
def test_the_same_files_with_the_same_deletes(tables, text):
    table, peer = tables
    mine, theirs = firn_plan(table, text), peer_plan(peer, text)
    assert mine.keys() == theirs.keys()
    if table.metadata.format_version < 3:
        assert mine == theirs
        return
    # PyIceberg pairs a deletion vector with every file of its partition, and finds out when it reads it.
    assert all(mine[path] <= theirs[path] for path in mine)


def test_files_of_a_single_value_are_left_out_where_the_peer_reads_them(tables):
    table, peer = tables
    # As in SQL != alone leaves nulls out, in PyIceberg's filters it does not.
    text = "region != 'us' or region is null"
    mine, theirs = firn_plan(table, text), peer_plan(peer, text)
    us = {task.file.file_path for task in plan_scan(table.metadata, files=table.reader).tasks if only_us(task.file)}
    assert mine.keys() <= theirs.keys()
    assert theirs.keys() - mine.keys() <= us
    assert not us & mine.keys()


def only_us(file: DataFile) -> bool:
    lower, upper, nulls = file.lower_bounds or {}, file.upper_bounds or {}, file.null_value_counts or {}
    return lower.get(2) == upper.get(2) == b"us" and nulls.get(2) == 0


def test_the_deletes_that_are_compared_are_there(tables):
    table, _ = tables
    paired = [path for path, deletes in firn_plan(table, None).items() if deletes]
    assert bool(paired) is (table.metadata.format_version > 1)


@pytest.mark.parametrize("text", FILTERS)
def test_rows_of_the_same_files_need_no_more_filtering(tables, text):
    table, peer = tables
    plan = plan_scan(table.metadata, files=table.reader, filter=filter_from_text(text))
    mine = {task.file.file_path for task in plan.tasks if task.residual == TRUE}
    planned = peer.scan(row_filter=text).plan_files()
    theirs = {task.file.file_path for task in planned if task.residual == AlwaysTrue()}
    assert mine >= theirs


@pytest.mark.parametrize("snapshot_id", [1, 2, 3])
def test_the_same_files_of_an_older_snapshot(tables, snapshot_id):
    table, peer = tables
    mine = firn_plan(table, "id > 10", snapshot_id=snapshot_id)
    theirs = peer_plan(peer, "id > 10", snapshot_id=snapshot_id)
    assert mine.keys() == theirs.keys()


def test_the_same_files_appended_since(tables):
    table, peer = tables
    head = table.metadata.current_snapshot_id
    assert head is not None
    for start in (1, 2):
        plan = plan_appends(table.metadata, files=table.reader, snapshots=SnapshotRange(from_snapshot_id=start))
        scan = peer.incremental_append_scan(from_snapshot_id_exclusive=start, to_snapshot_id_inclusive=head)
        assert {task.file.file_path for task in plan.tasks} == {task.file.file_path for task in scan.plan_files()}
