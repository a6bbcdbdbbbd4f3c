from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.model.deletion_vector import DeletionVector
from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.reserved import (
    DELETE_FILE_PATH_ID,
    DELETE_FILE_POS_ID,
    DELETE_FILE_ROW_ID,
    POSITION_DELETES,
    position_deletes_with_rows,
)
from firn.model.schema import Schema
from firn.model.types import LONG, STRING, NestedField, StructType
from firn.storage import position_deletes
from firn.storage.data_files import NewFile, decode_rows
from firn.storage.position_deletes import DeletedRows, decode_position_deletes, encode_position_deletes

A, B = "s3://bucket/table/data/a-file-with-a-long-name-0.parquet", "s3://bucket/table/data/b.parquet"
LOCATION = "s3://bucket/table/data/deletes"
SPEC = PartitionSpec(
    spec_id=2, fields=(PartitionField(source_ids=(1,), field_id=1000, name="p", transform="identity"),)
)
FORMATS = ["parquet", "avro", "orc"]


def new(file_format="parquet") -> NewFile:
    return NewFile(location=LOCATION, file_format=file_format, spec=SPEC, partition=(7,))


@pytest.mark.parametrize("file_format", FORMATS)
def test_deletes_read_as_they_were_written(file_format):
    deletes = {B: DeletionVector.of([5, 1]), A: DeletionVector.of_range(start=10, stop=20_000)}
    data, entry = encode_position_deletes(deletes, new(file_format))
    assert decode_position_deletes(data, file_format=file_format, location=LOCATION) == deletes
    only = decode_position_deletes(data, file_format=file_format, location=LOCATION, data_file=B)
    assert only == {B: deletes[B]}
    assert (entry.content, entry.file_format, entry.record_count) == ("position-deletes", file_format, 19_992)
    assert (entry.spec_id, entry.partition, entry.file_size_in_bytes) == (2, (7,), len(data))
    assert entry.sort_order_id is None


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_are_sorted_by_path_then_position(file_format):
    deletes = {B: DeletionVector.of([5, 1]), A: DeletionVector.of([9, 3])}
    data, _ = encode_position_deletes(deletes, new(file_format))
    schema = Schema(schema_id=0, struct=POSITION_DELETES)
    parts = decode_rows(data, file_format=file_format, location=LOCATION, schema=schema)
    assert [tuple(row.values()) for part in parts for row in part] == [(A, 3), (A, 9), (B, 1), (B, 5)]


def test_the_columns_have_the_reserved_names_and_ids():
    data, _ = encode_position_deletes({A: DeletionVector.of([1])}, new())
    text = str(pq.read_metadata(io.BytesIO(data)).schema)
    assert "required binary field_id=2147483546 file_path (String)" in text
    assert "required int64 field_id=2147483545 pos" in text


@pytest.mark.parametrize("file_format", FORMATS)
def test_deletes_of_one_data_file_name_it_in_full(file_format):
    _, entry = encode_position_deletes({A: DeletionVector.of([2, 7]), B: DeletionVector.of([])}, new(file_format))
    assert entry.referenced_data_file == A
    assert entry.lower_bounds == {DELETE_FILE_PATH_ID: A.encode(), DELETE_FILE_POS_ID: (2).to_bytes(8, "little")}
    assert entry.upper_bounds == {DELETE_FILE_PATH_ID: A.encode(), DELETE_FILE_POS_ID: (7).to_bytes(8, "little")}
    assert entry.value_counts is None


def test_deletes_of_several_data_files_have_no_bounds():
    _, entry = encode_position_deletes({A: DeletionVector.of([2]), B: DeletionVector.of([7])}, new())
    assert (entry.referenced_data_file, entry.lower_bounds, entry.upper_bounds) == (None, None, None)


@pytest.mark.parametrize("file_format", FORMATS)
def test_deleted_rows_are_kept_when_asked_for(file_format):
    columns = StructType(
        (
            NestedField(field_id=1, name="id", type=LONG, required=True),
            NestedField(field_id=2, name="name", type=STRING, required=False),
        )
    )
    rows: DeletedRows = {(A, 1): {1: 10, 2: "x"}, (A, 2): {1: 11, 2: None}}
    data, entry = encode_position_deletes(
        {A: DeletionVector.of([1, 2])}, new(file_format), row_schema=Schema(schema_id=0, struct=columns), rows=rows
    )
    schema = Schema(schema_id=0, struct=position_deletes_with_rows(columns))
    (part,) = decode_rows(data, file_format=file_format, location=LOCATION, schema=schema)
    assert [row[DELETE_FILE_ROW_ID] for row in part] == [{1: 10, 2: "x"}, {1: 11, 2: None}]
    assert entry.value_counts == {1: 2, 2: 2}
    assert entry.null_value_counts == {1: 0, 2: 1}
    assert decode_position_deletes(data, file_format=file_format, location=LOCATION) == {A: DeletionVector.of([1, 2])}
    with pytest.raises(InvalidInput, match="no deleted row for position 3"):
        encode_position_deletes(
            {A: DeletionVector.of([3])}, new(file_format), row_schema=Schema(schema_id=0, struct=columns), rows=rows
        )


def test_no_deletes_are_no_file():
    with pytest.raises(InvalidInput, match="needs deletes"):
        encode_position_deletes({A: DeletionVector.of([])}, new())


def test_deletes_are_not_written_to_puffin():
    with pytest.raises(Unsupported, match="puffin"):
        encode_position_deletes({A: DeletionVector.of([1])}, new("puffin"))


def foreign(paths, positions) -> bytes:
    sink = io.BytesIO()
    schema = pa.schema(
        [
            pa.field("p", pa.string(), metadata={"PARQUET:field_id": str(DELETE_FILE_PATH_ID)}),
            pa.field("o", pa.int64(), metadata={"PARQUET:field_id": str(DELETE_FILE_POS_ID)}),
        ]
    )
    pq.write_table(pa.table([paths, positions], schema=schema), sink)
    return sink.getvalue()


def test_unsorted_and_repeated_deletes_of_another_writer_are_read():
    data = foreign([B, A, B, A, A], [3, 2, 1, 2, 0])
    assert decode_position_deletes(data, file_format="parquet", location=LOCATION) == {
        A: DeletionVector.of([0, 2]),
        B: DeletionVector.of([1, 3]),
    }


@pytest.mark.parametrize(
    ("paths", "positions", "check"), [([A], [-1], "position"), ([A], [None], "null"), ([None], [1], "null")]
)
def test_impossible_deletes_are_a_corrupt_file(paths, positions, check):
    with pytest.raises(CorruptFile, match=check):
        decode_position_deletes(foreign(paths, positions), file_format="parquet", location=LOCATION)


def test_too_many_deletes_are_refused(monkeypatch):
    monkeypatch.setattr(position_deletes, "POSITIONS_MAX", 2)
    with pytest.raises(CorruptFile, match="more than 2"):
        decode_position_deletes(foreign([A] * 3, [1, 2, 3]), file_format="parquet", location=LOCATION)
