"""Parquet files read as a schema that they were not written by: an older one of the table, or another writer's."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from firn.model.errors import CorruptFile, InvalidSchema, Unsupported
from firn.model.name_mapping import MappedField, NameMapping
from firn.model.schema_projection import project
from firn.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    ListType,
    MapType,
    StructType,
)
from firn.model.variant import Variant
from tests.unit.storage.parquet_rows import plain, read, written
from tests.unit.storage.parquet_tables import field, schema_of

MILLENNIUM = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
LONGS = ListType(element_id=2, element=LONG, element_required=False)
OLD = schema_of(
    field(1, "a", INT),
    field(2, "b", FLOAT),
    field(3, "c", DecimalType(5, 2)),
    field(4, "d", DATE),
    field(5, "s", StructType((field(6, "x", INT), field(7, "y", STRING)))),
)
OLD_ROWS = [
    {1: 1, 2: 0.5, 3: Decimal("1.25"), 4: 10, 5: {6: 1, 7: "y"}},
    {1: None, 2: None, 3: None, 4: None, 5: None},
    {1: 3, 2: 1.5, 3: Decimal("-9.00"), 4: -1, 5: {6: None, 7: None}},
]


def test_columns_are_found_by_id_after_rename_reorder_and_promotion():
    _, data = written(OLD_ROWS, OLD)
    new = schema_of(
        field(4, "moment", TIMESTAMP),
        field(5, "struct", StructType((field(7, "why", STRING), field(8, "new", STRING), field(6, "ex", LONG)))),
        field(3, "c", DecimalType(20, 2)),
        field(2, "a", DOUBLE),
        field(1, "b", LONG),
    )
    assert read(data, new) == [
        {4: 864_000_000_000, 5: {7: "y", 8: None, 6: 1}, 3: Decimal("1.25"), 2: 0.5, 1: 1},
        {4: None, 5: None, 3: None, 2: None, 1: None},
        {4: -86_400_000_000, 5: {7: None, 8: None, 6: None}, 3: Decimal("-9.00"), 2: 1.5, 1: 3},
    ]


def test_a_date_becomes_a_timestamp_in_nanoseconds():
    _, data = written([{4: 10}], project(OLD, {4}))
    assert read(data, schema_of(field(4, "d", TIMESTAMP_NS))) == [{4: 864_000_000_000_000}]


def test_missing_columns_are_constants_defaults_or_null():
    _, data = written([{1: 1}, {1: 2}], project(OLD, {1}))
    new = schema_of(
        field(1, "a", INT),
        field(10, "partition", STRING),
        field(11, "with_default", LONG, required=True, default=7),
        field(12, "none", ListType(element_id=13, element=INT, element_required=False)),
        field(14, "ids", UUID, default=uuid.UUID(int=3)),
        field(15, "struct", StructType((field(16, "x", LONG),)), default={16: 5}),
    )
    row = {10: "p", 11: 7, 12: None, 14: uuid.UUID(int=3), 15: {16: 5}}
    assert read(data, new, constants={10: "p"}) == [{1: 1, **row}, {1: 2, **row}]


def test_a_missing_required_column_without_default_is_refused():
    _, data = written([{1: 1}], project(OLD, {1}))
    with pytest.raises(InvalidSchema, match="no required column 'z'"):
        read(data, schema_of(field(9, "z", LONG, required=True)))


def test_a_struct_without_any_of_its_old_fields_keeps_its_nulls():
    _, data = written(OLD_ROWS, OLD)
    new = schema_of(field(5, "s", StructType((field(8, "new", STRING, default="d"),))))
    assert read(data, new) == [{5: {8: "d"}}, {5: None}, {5: {8: "d"}}]


def test_a_default_inside_lists_and_maps_of_structs():
    element = StructType((field(3, "x", INT),))
    schema = schema_of(
        field(1, "l", ListType(element_id=2, element=element, element_required=False)),
        field(4, "m", MapType(key_id=5, key=STRING, value_id=6, value=LONG, value_required=False)),
    )
    rows = [{1: ({3: 1}, None), 4: (("k", 1),)}, {1: None, 4: None}, {1: (), 4: ()}]
    _, data = written(rows, schema)
    changed = StructType((field(7, "added", STRING, default="+"), field(3, "x", LONG)))
    new = schema_of(
        field(4, "m", MapType(key_id=5, key=STRING, value_id=6, value=LONG, value_required=False)),
        field(1, "l", ListType(element_id=2, element=changed, element_required=False)),
    )
    assert read(data, new) == [
        {4: (("k", 1),), 1: ({7: "+", 3: 1}, None)},
        {4: None, 1: None},
        {4: (), 1: ()},
    ]


def test_no_columns_still_count_the_rows():
    _, data = written(OLD_ROWS, OLD)
    assert read(data, schema_of()) == [{}, {}, {}]
    assert read(data, schema_of(field(99, "later", LONG))) == [{99: None}] * 3


def test_a_column_that_became_unknown_reads_as_null():
    _, data = written([{1: 1}], project(OLD, {1}))
    assert read(data, schema_of(field(1, "a", UNKNOWN))) == [{1: None}]


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (LONG, pa.array(["x"])),
        (INT, pa.array([2**40])),
        (DATE, pa.array([1])),
        (TIMESTAMP, pa.array([1], pa.timestamp("ns"))),
        (TIMESTAMP, pa.array([1], pa.timestamp("us", tz="UTC"))),
        (StructType((field(2, "x", LONG),)), pa.array([1])),
        (LONG, pa.array([{"x": 1}])),
        (DecimalType(9, 1), pa.array([Decimal("1.23")])),
        (VARIANT, pa.array([{"x": 1}])),
    ],
    ids=str,
)
def test_a_column_of_another_type_is_refused(type, values):
    with pytest.raises(InvalidSchema, match="column 'c'"):
        read(plain(pa.table({"c": values})), schema_of(field(1, "c", type)))


def test_nulls_in_a_required_column_are_a_corrupt_file():
    data = plain(pa.table({"c": pa.array([1, None])}))
    with pytest.raises(CorruptFile, match="required column 'c' holds 1 null"):
        read(data, schema_of(field(1, "c", LONG, required=True)))


def test_a_file_without_ids_is_read_by_name_mapping():
    data = plain(pa.table({"old": [1], "a.b": [2], "s": [{"x": 3, "y": 4}]}))
    mapping = NameMapping(
        (
            MappedField(names=("old", "older"), field_id=1),
            MappedField(names=("a.b",), field_id=2),
            MappedField(names=("s",), field_id=3, fields=(MappedField(names=("y",), field_id=4),)),
        )
    )
    schema = schema_of(field(1, "new", LONG), field(2, "ab", LONG), field(3, "s", StructType((field(4, "z", LONG),))))
    assert read(data, schema, name_mapping=mapping) == [{1: 1, 2: 2, 3: {4: 4}}]


def test_a_file_without_ids_or_mapping_is_read_by_the_tables_names():
    data = plain(pa.table({"a": [1], "b": [2.0]}))
    assert read(data, schema_of(field(2, "b", DOUBLE)), table_schema=schema_of(field(2, "b", DOUBLE))) == [{2: 2.0}]


@pytest.mark.parametrize(
    ("type", "values", "expected"),
    [
        (TIMESTAMPTZ, pa.array([MILLENNIUM], pa.timestamp("ms", tz="UTC")), 946684800000000),
        (LONG, pa.array([3], pa.uint32()), 3),
        (STRING, pa.array(["x"]).dictionary_encode(), "x"),
        (STRING, pa.array(["x"], pa.large_string()), "x"),
        (STRING, pa.array(["x"], pa.string_view()), "x"),
        (STRING, pa.array([b"x"], pa.binary()), "x"),
        (UUID, pa.array([b"\1" * 16], pa.binary(16)), uuid.UUID(bytes=b"\1" * 16)),
        (TIME, pa.array([5], pa.time32("ms")), 5000),
        (LONGS, pa.array([[1, 2]], pa.large_list(pa.int32())), (1, 2)),
        (LONGS, pa.array([[1, 2]], pa.list_(pa.int32(), 2)), (1, 2)),
        (DecimalType(20, 2), pa.array([Decimal("1.20")], pa.decimal256(15, 2)), Decimal("1.20")),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("store_schema", [True, False])
def test_what_other_writers_wrote_is_read(type, values, expected, store_schema):
    data = plain(pa.table({"c": values}), store_schema=store_schema)
    assert read(data, schema_of(field(1, "c", type))) == [{1: expected}]


@pytest.mark.parametrize(("type", "expected"), [(TIMESTAMP, 1_000), (TIMESTAMPTZ, 1_000), (TIMESTAMP_NS, 1_000_000)])
def test_int96_timestamps_are_read(type, expected):
    table = pa.table({"c": pa.array([1], pa.timestamp("ms"))})
    data = plain(table, use_deprecated_int96_timestamps=True)
    assert read(data, schema_of(field(1, "c", type))) == [{1: expected}]


def test_an_unshredded_variant_is_read():
    parts = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())])
    values = pa.array([{"metadata": b"\1\0\0", "value": b"\0"}, None], parts)
    data = plain(pa.table({"v": values}))
    assert read(data, schema_of(field(1, "v", VARIANT))) == [{1: Variant(b"\1\0\0", b"\0")}, {1: None}]


@pytest.mark.parametrize("with_value", [True, False])
def test_a_shredded_variant_is_unsupported_and_not_a_mistake_in_the_schema(with_value):
    value = [pa.field("value", pa.binary())] if with_value else []
    parts = pa.struct([pa.field("metadata", pa.binary(), nullable=False), *value, pa.field("typed_value", pa.int64())])
    data = plain(pa.table({"v": pa.array([{"metadata": b"\1\0\0", "typed_value": 5}], parts)}))
    with pytest.raises(Unsupported, match="'v' is a shredded variant"):
        read(data, schema_of(field(1, "v", VARIANT)))
