"""Changes of tables row by row in Spark: whoever wrote them, whatever expired, and for a named consumer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firn.coordinator.client import TableView
from firn.model.errors import ChangesUnavailableError, ConsumerMovedError, NotFound
from firn.model.metadata_changes import remove_snapshots
from firn.model.schema import Schema
from firn.model.types import LONG, STRING, NestedField, StructType
from firn.pipeline.change_feed import read_changes
from firn.pipeline.consumed_changes import ConsumedChanges, changes_for
from firn.pipeline.row_level import update
from firn.pipeline.writes import append
from firn.storage.incremental_scan import SnapshotRange
from firn.storage.local_files import LocalFiles
from tests.spark.lake import Lake, committed
from tests.strategies.small_tables import START_MS, SmallTable

SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            NestedField(field_id=1, name="id", type=LONG, required=True),
            NestedField(field_id=2, name="region", type=STRING, required=False),
        )
    ),
)


def told(rows: Any) -> list[tuple[int, str, int]]:
    return sorted((row["_commit_snapshot_id"], row["_change_type"], row.id) for row in rows.collect())


def test_deletes_of_every_kind_are_told_though_the_base_expired_and_so_are_rows_that_come_back(
    lake: Lake, tmp_path: Path
) -> None:
    table = SmallTable(SCHEMA, files=LocalFiles(), location=str(tmp_path / "t"))
    file, other = table.data([{1: n, 2: "eu"} for n in (1, 2, 3, 4)]), table.data([{1: 9, 2: "us"}])
    table.commit(file, other)
    positions = table.positions({file.file_path: [0]}, like=file)
    table.commit(positions, operation="delete")
    table.commit(table.equality([{1: 2}], (1,)), operation="delete")
    table.rewrite_manifests()
    table.commit(table.data([{1: 9, 2: "us"}, {1: 10, 2: "us"}]), removed=[other], operation="overwrite")
    table.commit(removed=[positions], operation="overwrite")
    expected = [(2, "delete", 1), (3, "delete", 2), (5, "insert", 10), (6, "insert", 1)]
    for gone in ([], [1]):
        table.metadata = remove_snapshots(table.metadata, gone, now_ms=START_MS)
        view = TableView.from_metadata(table.written(), table.files, name="t")
        found = read_changes(lake.spark, view, snapshots=SnapshotRange(from_snapshot_id=1))
        assert told(found) == expected
    chosen = read_changes(
        lake.spark, view, snapshots=SnapshotRange(from_snapshot_id=1), columns=["_pos", "id"], filter="region = 'eu'"
    )
    assert sorted((row["_pos"], row.id) for row in chosen.collect()) == [(0, 1), (0, 1), (1, 2)]


def test_a_consumer_reads_what_came_since_it_moved_on(lake: Lake) -> None:
    table = lake.create()
    with pytest.raises(NotFound, match="no consumer 'etl'"):
        changes_for(lake.spark, table, consumer="etl")
    consumers = lake.client.consumers
    consumers.set(table, "etl")
    assert changes_for(lake.spark, table, consumer="etl").advance() is None, "there is no snapshot yet"
    committed(append(lake.events(0, 3).coalesce(1), table))
    first = changes_for(lake.spark, table, consumer="etl")
    assert (first.from_snapshot_id, sorted(row.id for row in first.rows.collect())) == (None, [0, 1, 2])
    committed(update(lake.spark, table, {"region": "'x'"}, "id = 1"))
    again = changes_for(lake.spark, table, consumer="etl", columns=["id"], filter="region = 'x'")
    first.advance()
    with pytest.raises(ConsumerMovedError):
        again.advance()
    second = changes_for(lake.spark, table, consumer="etl")
    assert [(kind, id) for _, kind, id in told(second.rows)] == [("delete", 1), ("insert", 1)]
    second.advance()
    appended = changes_for(lake.spark, table, consumer="etl", appends_only=True)
    assert (appended.is_empty, appended.rows.count()) == (True, 0)
    assert isinstance(appended, ConsumedChanges)
    assert appended.advance() is not None
    committed(lake.client.rollback(table, snapshot_id=first.to_snapshot_id).result(60))
    with pytest.raises(ChangesUnavailableError) as refused:
        changes_for(lake.spark, table, consumer="etl")
    assert refused.value.reason == "history-rewritten"
