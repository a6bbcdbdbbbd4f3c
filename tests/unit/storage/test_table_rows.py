from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector
from firn.model.errors import CorruptFile, Unsupported
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.reserved import DELETED, FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.types import LONG, STRING, NestedField, StructType
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.equality_deletes import encode_equality_deletes
from firn.storage.memory_files import MemoryFiles
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.puffin import deletion_vector_blob, encode_puffin
from firn.storage.table_rows import RowReader

FORMATS = ["parquet", "avro", "orc"]
SPEC = PartitionSpec(
    spec_id=1,
    fields=(
        PartitionField(source_ids=(5,), field_id=1000, name="region", transform="identity"),
        PartitionField(source_ids=(1,), field_id=1001, name="b", transform="bucket[4]"),
    ),
)
UNPARTITIONED = PartitionSpec(spec_id=0)


def field(field_id, name, type) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=False)


TABLE = Schema(
    schema_id=0,
    struct=StructType(
        (
            field(1, "id", LONG),
            field(2, "name", STRING),
            field(3, "s", StructType((field(4, "x", LONG), field(6, "y", LONG)))),
            field(5, "region", STRING),
        )
    ),
)
COUNT = 4200
ROWS: list[dict[int, Any]] = [
    {1: i, 2: f"n{i % 7}", 3: {4: i * 2, 6: i * 3} if i % 10 else None, 5: "eu"} for i in range(COUNT)
]


class Table:
    """A few files in memory."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.count = 0

    def location(self) -> str:
        self.count += 1
        return f"memory://t/data/{self.count}"

    def add(self, encoded: tuple[bytes, DataFile]) -> DataFile:
        data, entry = encoded
        self.files.create(entry.file_path, data)
        return entry

    def data(self, rows=None, *, file_format="parquet", schema=TABLE, spec=UNPARTITIONED, partition=()) -> DataFile:
        new = NewFile(location=self.location(), file_format=file_format, spec=spec, partition=partition)
        return self.add(encode_rows(ROWS if rows is None else rows, schema, new))

    def positions(self, deletes, *, file_format="parquet") -> DataFile:
        new = NewFile(location=self.location(), file_format=file_format)
        return self.add(encode_position_deletes(deletes, new))

    def equality(self, rows, ids, *, file_format="parquet") -> DataFile:
        new = NewFile(location=self.location(), file_format=file_format)
        return self.add(encode_equality_deletes(rows, project(TABLE, ids), new, equality_ids=ids))

    def vector(self, data_file: DataFile, positions) -> DataFile:
        vector = DeletionVector.of(positions)
        data, metadata = encode_puffin([deletion_vector_blob(vector, data_file=data_file.file_path)])
        location = self.location()
        self.files.create(location, data)
        return DataFile(
            content="position-deletes",
            file_path=location,
            file_format="puffin",
            spec_id=0,
            record_count=vector.cardinality,
            file_size_in_bytes=len(data),
            referenced_data_file=data_file.file_path,
            content_offset=metadata.blobs[0].offset,
            content_size_in_bytes=metadata.blobs[0].length,
        )

    def read(self, data_file: DataFile, *deletes: DataFile, schema=TABLE, sequence_number=None):
        reader = RowReader(files=self.files, schema=schema, table_schema=TABLE, specs={0: UNPARTITIONED, 1: SPEC})
        parts = reader.rows(data_file, deletes=deletes, data_sequence_number=sequence_number)
        return [row for part in parts for row in part]


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_without_deletes_are_all_there(table, file_format):
    assert table.read(table.data(file_format=file_format)) == ROWS


@pytest.mark.parametrize("deletes_in", FORMATS)
@pytest.mark.parametrize("data_in", FORMATS)
def test_deletes_of_every_kind_are_applied_together(table, data_in, deletes_in):
    file = table.data(file_format=data_in)
    first = table.positions({file.file_path: DeletionVector.of([0, 4096, COUNT - 1])}, file_format=deletes_in)
    second = table.positions({file.file_path: DeletionVector.of([1, 4096]), "other": DeletionVector.of([2])})
    named = table.equality([{2: "n3"}, {2: "n4"}], (2,), file_format=deletes_in)
    nested = table.equality([{3: {4: 4}}], (4,), file_format=deletes_in)
    survivors = [
        row
        for at, row in enumerate(ROWS)
        if at not in (0, 1, 4096, COUNT - 1) and row[2] not in ("n3", "n4") and (row[3] is None or row[3][4] != 4)
    ]
    assert table.read(file, first, second, named, nested) == survivors


def test_a_deletion_vector_replaces_position_deletes(table):
    file = table.data()
    old = table.positions({file.file_path: DeletionVector.of([7])})
    vector = table.vector(file, [1, 2, COUNT - 2])
    assert table.read(file, old, vector) == [row for at, row in enumerate(ROWS) if at not in (1, 2, COUNT - 2)]


def test_columns_that_only_deletes_need_are_not_returned(table):
    file = table.data()
    wanted = project(TABLE, {6})
    nested = table.equality([{3: {4: 4}}], (4,))
    named = table.equality([{2: "n3"}], (2,))
    rows = table.read(file, nested, named, schema=wanted)
    assert rows == [
        {3: None if row[3] is None else {6: row[3][6]}}
        for row in ROWS
        if row[2] != "n3" and (row[3] is None or row[3][4] != 4)
    ]


def test_everything_may_be_deleted(table):
    file = table.data()
    assert table.read(file, table.vector(file, range(COUNT))) == []


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_column_that_a_migrated_file_lacks_is_its_partition_value(table, file_format):
    schema = project(TABLE, {1})
    file = table.data([{1: 1}], file_format=file_format, schema=schema, spec=SPEC, partition=("eu", 3))
    assert table.read(file) == [{1: 1, 2: None, 3: None, 5: "eu"}]


def test_rows_know_where_they_are(table):
    file = table.data()
    schema = Schema(schema_id=0, struct=StructType((POS, TABLE.fields[0], FILE)))
    rows = table.read(file, table.vector(file, [0]), schema=schema)
    assert rows[0] == {POS.field_id: 1, 1: 1, FILE.field_id: file.file_path}
    assert rows[-1][POS.field_id] == COUNT - 1


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_inherit_their_lineage_unless_they_have_their_own(table, file_format):
    lineage = StructType((TABLE.fields[0], ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER))
    schema = Schema(schema_id=0, struct=lineage)
    row_id, updated = ROW_ID.field_id, LAST_UPDATED_SEQUENCE_NUMBER.field_id
    rows = [{1: 1, row_id: 50, updated: 2}, {1: 2}, {1: 3, row_id: None, updated: 4}]
    with_own = msgspec.structs.replace(table.data(rows, schema=schema, file_format=file_format), first_row_id=100)
    assert table.read(with_own, schema=schema, sequence_number=9) == [
        {1: 1, row_id: 50, updated: 2},
        {1: 2, row_id: 101, updated: 9},
        {1: 3, row_id: 102, updated: 4},
    ]
    without = table.data([{1: 1}], schema=project(TABLE, {1}), file_format=file_format)
    assert table.read(without, schema=schema, sequence_number=9) == [{1: 1, row_id: None, updated: None}]


def test_files_that_are_not_what_their_entries_say_are_refused(table):
    file = table.data(ROWS[:5])
    with pytest.raises(CorruptFile, match="bytes, its entry says"):
        table.read(msgspec.structs.replace(file, file_size_in_bytes=file.file_size_in_bytes + 1))
    with pytest.raises(CorruptFile, match="has 5 rows, its entry says 6"):
        table.read(msgspec.structs.replace(file, record_count=6))
    with pytest.raises(CorruptFile, match="1 partition value"):
        table.read(msgspec.structs.replace(file, partition=(1,)))
    with pytest.raises(Unsupported, match="partition spec 9"):
        table.read(msgspec.structs.replace(file, spec_id=9))


def test_deletes_that_are_not_what_their_entries_say_are_refused(table):
    file, other = table.data(ROWS[:5]), table.data(ROWS[:5])
    vector = table.vector(file, [1])
    replace = msgspec.structs.replace
    with pytest.raises(CorruptFile, match="2 deletion vectors"):
        table.read(file, vector, table.vector(file, [2]))
    with pytest.raises(CorruptFile, match="is not that of"):
        table.read(other, vector)
    with pytest.raises(CorruptFile, match="where it is"):
        table.read(file, replace(vector, content_offset=None))
    with pytest.raises(CorruptFile, match=r"length|CRC|magic"):
        table.read(file, replace(vector, content_offset=5))
    with pytest.raises(CorruptFile, match="holds 1 positions, expected 2"):
        table.read(file, replace(vector, record_count=2))
    with pytest.raises(CorruptFile, match="names no columns"):
        table.read(file, replace(table.equality([{1: 1}], (1,)), equality_ids=None))


def test_metadata_columns_that_are_not_provided_are_refused(table):
    file = table.data(ROWS[:5])
    with pytest.raises(Unsupported, match="_deleted"):
        table.read(file, schema=Schema(schema_id=0, struct=StructType((DELETED,))))
