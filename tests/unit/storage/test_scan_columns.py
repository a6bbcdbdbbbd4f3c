"""Which columns a scan gives, of which snapshot, under which schema."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema, NotFound
from firn.model.expressions.predicates import (
    Not,
    eq,
    gt,
    is_null,
    lt,
)
from firn.model.metadata_changes import with_ref
from firn.model.name_mapping import NAME_MAPPING_PROPERTY
from firn.model.scan_plan import ScanPlan
from firn.model.schema import Schema
from firn.model.snapshot import Snapshot, SnapshotRef
from firn.model.types import INT, LONG, STRING, ListType, StructType
from tests.strategies.small_tables import START_MS, SmallTable
from tests.unit.storage.scanned_tables import (
    BY_REGION,
    ID,
    NESTED,
    SCHEMA,
    SCORE,
    column,
    plan,
    row,
)

# ---------------------------------------------------------------------------------------------------------------------
# Columns


def test_rows_come_in_the_columns_asked_for_whatever_the_filter_needs():
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(1, x=1), row(2, x=2), row(3)]))
    assert table.rows(columns=["id"], filter=gt("s.x", 1)) == [{1: 2}]
    assert table.rows(columns=["s.y"], filter=gt("s.x", 1)) == [{4: {6: "y2"}}]
    assert table.rows(columns=["s.y"], filter=is_null("s")) == [{4: None}]
    assert table.rows(columns=["s"], filter=eq("region", "eu") & gt("s.x", 1)) == [{4: {5: 2, 6: "y2"}}]
    assert table.rows(columns=[], filter=eq("id", 1)) == [{}]
    assert table.rows(columns=["*"], filter=eq("id", 1)) == table.rows(filter=eq("id", 1))


def test_lists_are_cut_to_the_fields_asked_for():
    inner = StructType((column(11, "a", INT), column(12, "b", INT)))
    items = column(9, "items", ListType(element_id=10, element=inner, element_required=False))
    outer = column(8, "outer", StructType((items, column(13, "c", INT))))
    table = SmallTable(Schema(schema_id=0, struct=StructType((ID, outer))))
    table.commit(table.data([{1: 1, 8: {9: ({11: 1, 12: 2}, None), 13: 3}}, {1: 2, 8: None}]))
    wanted = ["outer.items.element.a"]
    assert table.rows(columns=wanted) == [{8: {9: ({11: 1}, None)}}, {8: None}]
    assert table.rows(columns=wanted, filter=Not(is_null("outer"))) == [{8: {9: ({11: 1}, None)}}]


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_columns_tell_where_rows_are_and_what_they_descend_from(version):
    table = SmallTable(SCHEMA, version=version)
    first, second = table.data([row(1), row(2)]), table.data([row(3)])
    table.commit(first)
    table.commit(second)
    names = ["id", "_file", "_pos", "_spec_id", "_row_id", "_last_updated_sequence_number"]
    found = plan(table, columns=names, filter=gt("id", 1))
    ids = {found.projection.column_name(i): i for i in found.projection.fields_by_id}
    rows = {one[1]: {name: one[i] for name, i in ids.items()} for one in table.rows(columns=names, filter=gt("id", 1))}
    lineage = [(0, 1, 1), (2, 0, 2)]
    for id, file, (start, position, number) in zip((2, 3), (first, second), lineage, strict=True):
        assert rows[id] == {
            "id": id,
            "_file": file.file_path,
            "_pos": position,
            "_spec_id": 0,
            "_row_id": start + position if version > 2 else None,
            "_last_updated_sequence_number": number if version > 2 else None,
        }


def test_a_column_called_like_a_metadata_column_is_the_tables():
    table = SmallTable(Schema(schema_id=0, struct=StructType((ID, column(2, "_pos", STRING)))))
    table.commit(table.data([{1: 1, 2: "mine"}]))
    assert table.rows(columns=["_pos"]) == [{2: "mine"}]


def test_names_may_differ_in_case_when_asked():
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(1), row(2)]))
    assert table.rows(columns=["ID"], filter=eq("Id", 1), case_sensitive=False) == [{1: 1}]
    with pytest.raises(InvalidInput, match="Id"):
        plan(table, filter=eq("Id", 1))
    with pytest.raises(InvalidSchema, match="ID"):
        plan(table, columns=["ID"])


def test_files_without_ids_are_read_through_the_name_mapping():
    table = SmallTable(SCHEMA)
    sink = io.BytesIO()
    pq.write_table(pa.table({"number": [1, 2], "where": ["eu", "us"], "id": [8, 9]}), sink)
    foreign = DataFile(
        file_path="memory://wh/t/data/foreign.parquet",
        file_format="parquet",
        spec_id=0,
        record_count=2,
        file_size_in_bytes=sink.tell(),
    )
    table.files.create(foreign.file_path, sink.getvalue())
    table.commit(foreign, table.data([row(3)]))
    mapping = '[{"names": ["number"], "field-id": 1}, {"names": ["where"], "field-id": 2}]'
    table.metadata = msgspec.structs.replace(table.metadata, properties={NAME_MAPPING_PROPERTY: mapping})
    assert [(one[1], one[2]) for one in table.rows(filter=lt("id", 4))] == [(1, "eu"), (2, "us"), (3, "eu")]


# ---------------------------------------------------------------------------------------------------------------------
# Which snapshot, and which schema


@pytest.fixture
def evolved() -> SmallTable:
    """Two snapshots on main, with a column renamed between them and another added after both."""
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(1)]))
    renamed = column(2, "area", STRING)
    table.with_schema(ID, renamed, SCORE, NESTED)
    table.commit(table.data([row(2)]))
    table.with_schema(ID, renamed, column(7, "extra", LONG))
    return table


def names(found: ScanPlan) -> list[str]:
    return [field.name for field in found.schema.fields]


def test_main_is_read_with_the_current_schema(evolved):
    for scan in ({}, {"ref": "main"}):
        found = plan(evolved, **scan)
        assert (found.snapshot_id, names(found)) == (2, ["id", "area", "extra"])
    assert sorted(map(repr, evolved.rows())) == ["{1: 1, 2: 'eu', 7: None}", "{1: 2, 2: 'eu', 7: None}"]


@pytest.mark.parametrize("scan", [{"snapshot_id": 1}, {"as_of_ms": START_MS + 1999}, {"ref": "first"}])
def test_a_snapshot_a_time_and_a_tag_are_read_with_the_schema_of_their_time(evolved, scan):
    evolved.metadata = with_ref(evolved.metadata, "first", SnapshotRef(snapshot_id=1, type="tag"))
    found = plan(evolved, filter=eq("region", "eu"), **scan)
    assert (found.snapshot_id, names(found)) == (1, ["id", "region", "score", "s"])
    assert [one[1] for one in evolved.rows(filter=eq("region", "eu"), **scan)] == [1]


def test_a_branch_is_read_with_the_current_schema(evolved):
    evolved.metadata = with_ref(evolved.metadata, "audit", SnapshotRef(snapshot_id=1, type="branch"))
    found = plan(evolved, ref="audit")
    assert (found.snapshot_id, names(found)) == (1, ["id", "area", "extra"])
    assert evolved.rows(ref="audit") == [{1: 1, 2: "eu", 7: None}]


def test_an_empty_table_has_nothing_to_read():
    found = plan(SmallTable(SCHEMA), filter=eq("id", 1), columns=["id"])
    assert (found.snapshot_id, found.tasks, found.rows_max) == (None, (), 0)


@pytest.mark.parametrize("scan", [{"snapshot_id": 9}, {"ref": "nowhere"}, {"as_of_ms": START_MS}])
def test_what_is_not_there_cannot_be_read(evolved, scan):
    with pytest.raises(NotFound):
        plan(evolved, **scan)


# ---------------------------------------------------------------------------------------------------------------------
# v1 tables that name their manifests


def embedded(table: SmallTable, **changes: Any) -> Snapshot:
    """The head of a v1 table as an old writer would have left it: with the manifests themselves, without a list."""
    head = table.metadata.current_snapshot
    assert head is not None
    paths = tuple(one.manifest_path for one in table.reader.manifests(table.metadata, head))
    given = {"manifest_list": None, "manifests": paths, **changes}
    table.metadata = msgspec.structs.replace(
        table.metadata, snapshots=(*table.metadata.snapshots[:-1], msgspec.structs.replace(head, **given))
    )
    return table.metadata.snapshots[-1]


def test_manifests_that_a_v1_snapshot_names_itself_are_read():
    table = SmallTable(SCHEMA, BY_REGION, version=1)
    gone, *rest = table.data_by_partition([row(1), row(2, "us"), row(3, None)])
    table.commit(gone, *rest)
    table.commit(table.data([row(4)]))
    table.commit(removed=[gone], operation="delete")
    embedded(table)
    assert sorted(one[1] for one in table.rows()) == [2, 3, 4]
    assert sorted(one[1] for one in table.rows(filter=eq("region", "eu"))) == [4]
    found = plan(table, filter=eq("region", "eu"))
    assert [task.sequence_number for task in found.tasks] == [0]


def test_a_manifest_named_twice_is_corrupt():
    table = SmallTable(SCHEMA, version=1)
    table.commit(table.data([row(1)]))
    named = embedded(table).manifests
    assert named is not None
    embedded_twice = (*named, *named)
    table.metadata = msgspec.structs.replace(
        table.metadata,
        snapshots=(msgspec.structs.replace(table.metadata.snapshots[0], manifests=embedded_twice),),
    )
    with pytest.raises(CorruptFile, match="twice"):
        plan(table)
