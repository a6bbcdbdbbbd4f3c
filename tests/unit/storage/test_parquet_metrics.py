"""What firn says of Parquet files: counts, sizes and bounds of their columns, or why it cannot say."""

from __future__ import annotations

import io
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.model.errors import InvalidInput, InvalidSchema
from firn.model.name_mapping import MappedField, NameMapping
from firn.model.types import (
    BINARY,
    BOOLEAN,
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
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
)
from firn.model.values import from_bytes
from firn.storage.arrow_rows import batch_of_rows
from firn.storage.parquet_metrics import count_nans, parquet_data_file
from firn.storage.parquet_values import lower_of, upper_of
from tests.unit.storage.parquet_tables import (
    FULL,
    LOCATION,
    UNPARTITIONED,
    data_file,
    field,
    parquet,
    schema_of,
    with_id,
)

VALUES = [
    (BOOLEAN, pa.array([True, False, None]), False, True),
    (INT, pa.array([3, -5, None], pa.int32()), -5, 3),
    (INT, pa.array([3, 200, None], pa.uint8()), 3, 200),
    (LONG, pa.array([3, -5, None], pa.int64()), -5, 3),
    (LONG, pa.array([3, -5, None], pa.int32()), -5, 3),
    (LONG, pa.array([2**32 - 1, 1, None], pa.uint32()), 1, 2**32 - 1),
    (FLOAT, pa.array([1.5, -2.0, None], pa.float32()), -2.0, 1.5),
    (DOUBLE, pa.array([1.5, -2.0, None], pa.float64()), -2.0, 1.5),
    (DOUBLE, pa.array([1.5, -2.0, None], pa.float32()), -2.0, 1.5),
    (DATE, pa.array([1, -1, None], pa.date32()), -1, 1),
    (TIME, pa.array([5, 1, None], pa.time64("us")), 1, 5),
    (TIME, pa.array([5, 1, None], pa.time32("ms")), 1_000, 5_000),
    (TIMESTAMP, pa.array([5, -1, None], pa.timestamp("us")), -1, 5),
    (TIMESTAMP, pa.array([5, -1, None], pa.timestamp("ms")), -1_000, 5_000),
    (TIMESTAMP, pa.array([1, -1, None], pa.date32()), -86_400_000_000, 86_400_000_000),
    (TIMESTAMPTZ, pa.array([5, -1, None], pa.timestamp("us", tz="UTC")), -1, 5),
    (TIMESTAMP_NS, pa.array([5, -1, None], pa.timestamp("ns")), -1, 5),
    (TIMESTAMP_NS, pa.array([5, -1, None], pa.timestamp("us")), -1_000, 5_000),
    (STRING, pa.array(["b", "é", None]), "b", "é"),
    (STRING, pa.array(["b", "é", None], pa.large_string()), "b", "é"),
    (STRING, pa.array(["b", "é", None]).dictionary_encode(), "b", "é"),
    (BINARY, pa.array([b"\x80", b"\x01", None]), b"\x01", b"\x80"),
    (FixedType(2), pa.array([b"\x80a", b"\x01a", None], pa.binary(2)), b"\x01a", b"\x80a"),
    (
        UUID,
        pa.array([b"\xff" * 16, b"\x01" * 16, None], pa.binary(16)),
        uuid.UUID(bytes=b"\x01" * 16),
        uuid.UUID(bytes=b"\xff" * 16),
    ),
    (
        UUID,
        pa.array([b"\xff" * 16, b"\x01" * 16, None], pa.uuid()),
        uuid.UUID(bytes=b"\x01" * 16),
        uuid.UUID(bytes=b"\xff" * 16),
    ),
    *(
        (
            DecimalType(precision, 2),
            pa.array([Decimal("-1.28"), Decimal("300.00"), None], pa.decimal128(precision, 2)),
            Decimal("-1.28"),
            Decimal("300.00"),
        )
        for precision in (5, 9, 18, 19, 38)
    ),
    (DecimalType(20, 2), pa.array([Decimal("-1.28"), Decimal("3.00"), None], pa.decimal128(7, 2)), Decimal("-1.28"), 3),
]


@pytest.mark.parametrize("as_integer", [False, True])
@pytest.mark.parametrize(("type", "values", "low", "high"), VALUES, ids=lambda value: str(value)[:20])
def test_bounds_of_every_type(type, values, low, high, as_integer):
    table = pa.table({"c": values})
    entry = data_file(
        table, schema_of(field(7, "c", type)), write={"store_decimal_as_integer": as_integer, "row_group_size": 2}
    )
    assert entry.lower_bounds is not None
    assert entry.upper_bounds is not None
    assert from_bytes(type, entry.lower_bounds[7]) == low
    assert from_bytes(type, entry.upper_bounds[7]) == high
    assert entry.value_counts == {7: 3}
    assert entry.null_value_counts == {7: 1}
    assert entry.nan_value_counts == {}


def test_the_file_itself_is_described():
    table = pa.table({"c": pa.array(range(100))})
    entry = data_file(table, schema_of(field(1, "c", LONG)), write={"row_group_size": 40}, sort_order_id=2)
    assert (entry.file_path, entry.file_format, entry.content) == (LOCATION, "parquet", "data")
    assert (entry.record_count, entry.file_size_in_bytes, entry.sort_order_id) == (100, 1234, 2)
    assert entry.split_offsets is not None
    assert len(entry.split_offsets) == 3
    assert entry.split_offsets[0] == 4
    assert list(entry.split_offsets) == sorted(entry.split_offsets)
    assert entry.column_sizes is not None
    assert entry.column_sizes[1] > 0


def test_field_ids_in_the_file_win_over_names():
    table = pa.table(
        {"a": [1], "b": [2], "c": [3]},
        schema=pa.schema([with_id("a", pa.int64(), 2), with_id("b", pa.int64(), 1), pa.field("c", pa.int64())]),
    )
    entry = data_file(table, schema_of(field(1, "a", LONG), field(2, "b", LONG), field(3, "c", LONG)))
    assert entry.lower_bounds == {2: (1).to_bytes(8, "little"), 1: (2).to_bytes(8, "little")}


def test_a_name_mapping_names_columns_of_a_file_without_ids():
    table = pa.table({"old": [1], "s": [{"x": 2}]})
    schema = schema_of(field(1, "new", LONG), field(2, "s", StructType((field(3, "y", LONG),))))
    inner = MappedField(names=("x", "xx"), field_id=3)
    mapping = NameMapping(
        (MappedField(names=("old",), field_id=1), MappedField(names=("s",), field_id=2, fields=(inner,)))
    )
    entry = data_file(table, schema, name_mapping=mapping)
    assert entry.value_counts == {1: 1, 3: 1}


def test_columns_in_lists_and_maps_have_sizes_only():
    schema = schema_of(
        field(1, "l", ListType(element_id=2, element=LONG, element_required=False)),
        field(3, "m", MapType(key_id=4, key=STRING, value_id=5, value=DOUBLE, value_required=False)),
        field(6, "s", StructType((field(7, "x", DOUBLE), field(8, "y", STRING)))),
    )
    table = pa.table(
        {
            "l": [[1, 2, 3], None],
            "m": pa.array([[("k", 1.0)], []], pa.map_(pa.string(), pa.float64())),
            "s": pa.array([{"x": 1.0, "y": None}, None], pa.struct([("x", pa.float64()), ("y", pa.string())])),
        }
    )
    entry = data_file(table, schema, nan_counts={5: 1, 7: 0})
    assert entry.column_sizes is not None
    assert set(entry.column_sizes) == {2, 4, 5, 7, 8}
    assert entry.value_counts == {7: 2, 8: 2}
    assert entry.null_value_counts == {7: 1, 8: 2}
    assert entry.nan_value_counts == {7: 0}
    assert entry.lower_bounds is not None
    assert set(entry.lower_bounds) == {7}


def test_long_texts_are_truncated_to_bounds_that_hold():
    text = "0123456789abcdef"
    table = pa.table({"s": [text + "x", text + "z"], "b": [b"\xff" * 17, b"\xff" * 18]})
    schema = schema_of(field(1, "s", STRING), field(2, "b", BINARY))
    entry = data_file(table, schema)
    assert entry.lower_bounds == {1: text.encode(), 2: b"\xff" * 16}
    assert entry.upper_bounds == {1: b"0123456789abcdeg"}
    full = data_file(table, schema, properties=FULL)
    assert full.upper_bounds == {1: (text + "z").encode(), 2: b"\xff" * 18}


@pytest.mark.parametrize(
    ("properties", "counted", "bounded"),
    [
        ({}, {1, 2}, {1, 2}),
        ({"write.metadata.metrics.default": "none"}, set(), set()),
        ({"write.metadata.metrics.default": "Counts"}, {1, 2}, set()),
        ({"write.metadata.metrics.default": "none", "write.metadata.metrics.column.b": "counts"}, {2}, set()),
        ({"write.metadata.metrics.default": "none", "write.metadata.metrics.column.b": "full"}, {2}, {2}),
        ({"write.metadata.metrics.default": "nonsense"}, {1, 2}, {1, 2}),
        ({"write.metadata.metrics.column.a": "truncate(0)"}, {1, 2}, {1, 2}),
        ({"write.metadata.metrics.max-inferred-column-defaults": "1"}, {1}, {1}),
        (
            {
                "write.metadata.metrics.max-inferred-column-defaults": "1",
                "write.metadata.metrics.default": "truncate(3)",
            },
            {1, 2},
            {1, 2},
        ),
    ],
)
def test_properties_say_what_is_kept(properties, counted, bounded):
    table = pa.table({"a": [1], "b": ["abcdef"]})
    entry = data_file(table, schema_of(field(1, "a", LONG), field(2, "b", STRING)), properties=properties)
    assert entry.value_counts is not None
    assert entry.lower_bounds is not None
    assert entry.column_sizes is not None
    assert set(entry.value_counts) == counted == set(entry.column_sizes)
    assert set(entry.lower_bounds) == bounded
    if properties.get("write.metadata.metrics.default") == "truncate(3)":
        assert entry.upper_bounds is not None
        assert entry.upper_bounds[2] == b"abd"


def test_zeros_are_bounded_by_both_zeros():
    for zero in (0.0, -0.0):
        entry = data_file(pa.table({"c": [zero]}), schema_of(field(1, "c", DOUBLE)))
        assert entry.lower_bounds is not None
        assert entry.upper_bounds is not None
        low, high = from_bytes(DOUBLE, entry.lower_bounds[1]), from_bytes(DOUBLE, entry.upper_bounds[1])
        assert math.copysign(1, low) == -1
        assert math.copysign(1, high) == 1


def test_nan_is_never_a_bound_and_is_counted():
    schema = schema_of(field(1, "c", DOUBLE), field(2, "s", StructType((field(3, "f", FLOAT),))), field(4, "n", LONG))
    table = pa.table(
        {
            "c": [1.0, math.nan, None, math.nan],
            "s": pa.array([{"f": math.nan}, None, {"f": None}, {"f": 2.0}], pa.struct([("f", pa.float32())])),
            "n": [1, 2, 3, 4],
        }
    )
    file = parquet(table)
    counts = count_nans(file, schema=schema, location=LOCATION)
    assert counts == {1: 2, 3: 1}
    entry = data_file(table, schema, nan_counts=counts)
    assert entry.nan_value_counts == {1: 2, 3: 1}
    assert entry.lower_bounds is not None
    assert from_bytes(DOUBLE, entry.lower_bounds[1]) == 1.0
    only = data_file(pa.table({"c": [math.nan]}), schema_of(field(1, "c", DOUBLE)))
    assert only.lower_bounds == {}


def test_a_nan_that_a_writer_took_for_a_minimum_is_dropped():
    assert lower_of(float, math.nan) is None
    assert upper_of(float, math.nan) is None


def test_a_text_that_a_writer_cut_inside_a_character_bounds_from_below_only():
    def decode(raw: bytes) -> str:
        return raw.decode()

    cut = "aé".encode()[:-1]
    assert lower_of(decode, cut) == "a"
    assert upper_of(decode, cut) is None


def test_a_row_group_without_statistics_leaves_no_bound():
    table = pa.table({"a": [1, 2], "b": [None, None]}, schema=pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    schema = schema_of(field(1, "a", LONG), field(2, "b", LONG))
    entry = data_file(table, schema, write={"write_statistics": False})
    assert entry.lower_bounds == {}
    assert entry.value_counts == {1: 2, 2: 2}
    assert entry.null_value_counts == {1: 0, 2: 2}
    some = data_file(table, schema, write={"row_group_size": 1})
    assert some.lower_bounds == {1: (1).to_bytes(8, "little")}
    assert some.null_value_counts == {1: 0, 2: 2}


def test_a_required_column_has_no_nulls_even_without_statistics():
    table = pa.table({"a": [1]}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    entry = data_file(table, schema_of(field(1, "a", LONG, required=True)), write={"write_statistics": False})
    assert entry.null_value_counts == {1: 0}


def test_a_variant_counts_as_one_column():
    variant = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())])
    table = pa.table(
        {"v": pa.array([{"metadata": b"\1\0\0", "value": b"\0"}, None], variant)},
        schema=pa.schema([with_id("v", variant, 1)]),
    )
    entry = data_file(table, schema_of(field(1, "v", VARIANT)))
    assert entry.value_counts == {1: 2}
    assert entry.null_value_counts == {1: 1}
    assert entry.lower_bounds == {}


def test_geometries_are_bounded_by_their_box():
    def point(x, y) -> bytes:
        return struct.pack("<BIdd", 1, 1, x, y)

    schema = schema_of(field(1, "g", GeometryType()), field(2, "e", GeographyType()))
    rows: list[dict[int, Any]] = [
        {1: point(1, 20), 2: point(1, 2)},
        {1: None, 2: None},
        {1: point(-5, 30), 2: point(3, 4)},
    ]
    sink = io.BytesIO()
    for size in (1, 3):
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_batches([batch_of_rows(rows, schema)]), sink, row_group_size=size)
        entry = parquet_data_file(
            pq.read_metadata(sink), location=LOCATION, file_size=1, schema=schema, spec=UNPARTITIONED
        )
        assert entry.lower_bounds == {1: struct.pack("<dd", -5, 20)}
        assert entry.upper_bounds == {1: struct.pack("<dd", 1, 30)}
        assert entry.null_value_counts == {1: 1, 2: 1}


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (LONG, pa.array(["1"])),
        (LONG, pa.array([1], pa.uint64())),
        (LONG, pa.array([1], pa.date32())),
        (INT, pa.array([1], pa.int64())),
        (INT, pa.array([1], pa.uint32())),
        (FLOAT, pa.array([1.0], pa.float64())),
        (DATE, pa.array([1], pa.int32())),
        (TIME, pa.array([1], pa.time64("ns"))),
        (TIMESTAMP, pa.array([1], pa.timestamp("ns"))),
        (TIMESTAMP, pa.array([1], pa.timestamp("us", tz="UTC"))),
        (TIMESTAMPTZ, pa.array([1], pa.timestamp("us"))),
        (TIMESTAMPTZ, pa.array([1], pa.date32())),
        (STRING, pa.array([1])),
        (BINARY, pa.array(["x"])),
        (UUID, pa.array([b"x"])),
        (FixedType(3), pa.array([b"ab"], pa.binary(2))),
        (DecimalType(9, 3), pa.array([Decimal("1.00")], pa.decimal128(9, 2))),
        (DecimalType(8, 2), pa.array([Decimal("1.00")], pa.decimal128(9, 2))),
        (BOOLEAN, pa.array([1], pa.int32())),
        (StructType((field(2, "x", LONG),)), pa.array([1])),
        (LONG, pa.array([{"x": 1}])),
        (ListType(element_id=2, element=LONG, element_required=False), pa.array([{"element": 1}])),
    ],
    ids=str,
)
def test_a_column_of_another_type_is_refused_and_named(type, values):
    with pytest.raises(InvalidSchema, match=r"a\.parquet: column 'c'"):
        data_file(pa.table({"c": values}), schema_of(field(1, "c", type)))


def test_a_file_of_another_table_is_refused():
    with pytest.raises(InvalidSchema, match="none of the file's columns"):
        data_file(pa.table({"x": [1]}), schema_of(field(1, "a", LONG)))


def test_required_columns_must_be_there():
    schema = schema_of(field(1, "a", LONG), field(2, "b", LONG, required=True))
    with pytest.raises(InvalidInput, match="required column 'b' is missing"):
        data_file(pa.table({"a": [1]}), schema)
    with pytest.raises(InvalidInput, match="required column 'b' has 1 null"):
        data_file(pa.table({"a": [1], "b": pa.array([None], pa.int64())}), schema)
    defaulted = schema_of(field(1, "a", LONG), field(2, "b", LONG, required=True, default=5))
    assert data_file(pa.table({"a": [1]}), defaulted).value_counts == {1: 1}


def test_a_repeated_field_id_is_refused():
    table = pa.table({"a": [1], "b": [2]}, schema=pa.schema([with_id("a", pa.int64(), 1), with_id("b", pa.int64(), 1)]))
    with pytest.raises(InvalidInput, match="used twice"):
        data_file(table, schema_of(field(1, "a", LONG)))
