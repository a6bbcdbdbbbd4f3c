"""Columns get a dictionary if their values repeat, and none if that would make them larger."""

from __future__ import annotations

import decimal
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.model.schema import Schema
from firn.model.types import DOUBLE, LONG, STRING, ListType, MapType, NestedField, StructType, Type
from firn.storage.parquet_dictionaries import SAMPLE_VALUES, dictionary_columns
from firn.storage.parquet_files import ParquetFileWriter
from firn.storage.parquet_schema import arrow_schema

MANY = 200_000


@pytest.mark.parametrize(
    ("values", "type", "repeats"),
    [
        (range(1_000), pa.int64(), False),
        ([at % 100 for at in range(1_000)], pa.int64(), True),
        ([at / 3 for at in range(1_000)], pa.float64(), False),
        ([f"{at:020}" for at in range(1_000)], pa.string(), False),
        ([f"{at % 7:020}" for at in range(1_000)], pa.string(), True),
        (["", None] * 500, pa.string(), True),
        ([None] * 1_000, pa.int64(), True),
        ([], pa.int64(), True),
        (range(100), pa.int64(), True),  # too few to matter
        ([True, False] * 500, pa.bool_(), False),
        ([decimal.Decimal(at) for at in range(1_000)], pa.decimal128(20, 0), False),
        ([at.to_bytes(16, "big") for at in range(1_000)], pa.binary(16), False),
        ([at.to_bytes(16, "big") for at in range(1_000)], pa.uuid(), False),
        ([bytes(16)] * 1_000, pa.uuid(), True),
    ],
)
def test_a_column_is_judged_by_its_values(values: Any, type: pa.DataType, repeats: bool) -> None:
    if type == pa.uuid():
        column = pa.ExtensionArray.from_storage(type, pa.array(values, pa.binary(16)))
    else:
        column = pa.array(values, type)
    assert dictionary_columns(pa.table({"a.b": column})) == (["a.b"] if repeats else [])


def test_a_column_can_be_named_to_have_one() -> None:
    rows = pa.table({"a": range(1_000), "b": range(1_000)})
    assert dictionary_columns(rows, always={"b"}) == ["b"]


def test_a_large_row_group_is_judged_by_several_places() -> None:
    """Rows that begin with one value for long say nothing about the rest."""
    begins_alike = [0] * SAMPLE_VALUES + list(range(1, MANY))
    ends_alike = [at // 1_000 for at in range(MANY)]
    assert dictionary_columns(pa.table({"unique": begins_alike})) == []
    assert dictionary_columns(pa.table({"sorted": ends_alike})) == ["sorted"]


def field(field_id: int, name: str, type: Type) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=False)


SCHEMA = Schema(
    schema_id=0,
    struct=StructType((
        field(1, "id", LONG),
        field(2, "kind", STRING),
        field(3, "place", StructType((field(4, "x", DOUBLE),))),
        field(5, "tags", ListType(element_id=6, element=STRING, element_required=False)),
        field(7, "more", MapType(key_id=8, key=STRING, value_id=9, value=LONG, value_required=False)),
    )),
)  # fmt: skip


def test_a_file_is_written_so() -> None:
    rows = pa.Table.from_pylist(
        [
            {"id": at, "kind": f"kind-{at % 3}", "place": {"x": 1.0}, "tags": ["a"], "more": [("k", 1)]}
            for at in range(1_000)
        ],
        schema=arrow_schema(SCHEMA),
    )
    sink = io.BytesIO()
    writer = ParquetFileWriter(sink, SCHEMA)
    writer.write(rows)
    writer.close()
    group = pq.ParquetFile(sink).metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    assert {column.path_in_schema: column.has_dictionary_page for column in columns} == {
        "id": False,
        "kind": True,
        "place.x": True,
        "tags.list.element": True,
        "more.key_value.key": True,
        "more.key_value.value": True,
    }
    assert pq.read_table(sink).column("id").to_pylist() == list(range(1_000))
