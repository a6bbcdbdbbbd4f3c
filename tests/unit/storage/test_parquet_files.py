"""Parquet files of every type: rows come back as they were written, and damage and wrong values are named."""

from __future__ import annotations

import io
import math
import uuid
from decimal import Decimal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.partitioning import PartitionSpec
from firn.model.schema_projection import project
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
    TIMESTAMPTZ_NS,
    UNKNOWN,
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
from firn.storage.arrow_rows import batch_of_rows
from firn.storage.parquet_files import ParquetFileWriter, read_parquet
from tests.unit.storage.parquet_rows import plain, read, written
from tests.unit.storage.parquet_tables import field, schema_of

POINT = bytes.fromhex("0101000000") + b"\0" * 16
POINT_TYPE = StructType((field(34, "p", UUID),))
LONGS = ListType(element_id=2, element=LONG, element_required=False)
EVERYTHING = schema_of(
    field(1, "boolean", BOOLEAN),
    field(2, "int", INT, required=True),
    field(3, "long", LONG),
    field(4, "float", FLOAT),
    field(5, "double", DOUBLE),
    field(6, "date", DATE),
    field(7, "time", TIME),
    field(8, "timestamp", TIMESTAMP),
    field(9, "timestamptz", TIMESTAMPTZ),
    field(10, "timestamp_ns", TIMESTAMP_NS),
    field(11, "timestamptz_ns", TIMESTAMPTZ_NS),
    field(12, "string", STRING),
    field(13, "uuid", UUID),
    field(14, "binary", BINARY),
    field(15, "fixed", FixedType(3)),
    field(16, "small", DecimalType(9, 2)),
    field(17, "medium", DecimalType(18, 4)),
    field(18, "large", DecimalType(38, 10)),
    field(19, "unknown", UNKNOWN),
    field(20, "geometry", GeometryType("srid:3857")),
    field(21, "geography", GeographyType()),
    field(22, "list", ListType(element_id=23, element=STRING, element_required=False)),
    field(
        24,
        "map",
        MapType(
            key_id=25,
            key=INT,
            value_id=26,
            value=StructType((field(27, "x", DOUBLE, required=True), field(28, "y", DATE))),
            value_required=False,
        ),
    ),
    field(
        29,
        "struct",
        StructType(
            (
                field(30, "inner", StructType((field(31, "deep", LONG, required=True),))),
                field(32, "points", ListType(element_id=33, element=POINT_TYPE, element_required=True)),
            )
        ),
    ),
)  # fmt: skip

ROWS = [
    {
        1: True, 2: -1, 3: 2**63 - 1, 4: 1.5, 5: -0.1, 6: -719_162, 7: 86_399_999_999, 8: -1,
        9: 253_402_300_800_000_000, 10: -(2**63), 11: 2**63 - 1,
        12: "é\0🎉", 13: uuid.UUID(int=2**128 - 1), 14: b"\0\xff", 15: b"abc",
        16: Decimal("-9999999.99"), 17: Decimal("0.0001"), 18: Decimal("9" * 28 + ".0000000001"), 19: None, 20: POINT,
        21: POINT, 22: ("a", None, "b"), 24: ((1, {27: 1.0, 28: None}), (2, None)),
        29: {30: {31: 5}, 32: ({34: uuid.UUID(int=1)}, {34: None})},
    },
    {i: None for i in EVERYTHING.fields_by_id if EVERYTHING.parent_id(i) is None} | {2: 0},
    {i: None for i in EVERYTHING.fields_by_id if EVERYTHING.parent_id(i) is None}
    | {2: 7, 5: math.inf, 12: "", 22: (), 24: (), 29: {30: None, 32: None}},
]  # fmt: skip


def test_every_type_reads_as_it_was_written():
    _, data = written(ROWS, EVERYTHING)
    assert read(data, EVERYTHING) == ROWS


def test_what_was_read_can_be_written_again():
    _, data = written(ROWS, EVERYTHING)
    sink = io.BytesIO()
    writer = ParquetFileWriter(sink, EVERYTHING)
    for batch in read_parquet(data, location="f.parquet", schema=EVERYTHING):
        writer.write(batch)
    writer.close()
    assert read(sink.getvalue(), EVERYTHING) == ROWS


def test_the_file_has_the_specifications_types_and_ids():
    result, data = written(ROWS, EVERYTHING)
    text = str(pq.read_metadata(io.BytesIO(data)).schema)
    for expected in (
        "required int32 field_id=2 int;",
        "optional int64 field_id=7 time (Time(isAdjustedToUTC=false, timeUnit=microseconds))",
        "optional int64 field_id=9 timestamptz (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
        "optional int64 field_id=10 timestamp_ns (Timestamp(isAdjustedToUTC=false, timeUnit=nanoseconds",
        "optional fixed_len_byte_array(16) field_id=13 uuid (UUID)",
        "optional fixed_len_byte_array(3) field_id=15 fixed;",
        "optional int32 field_id=16 small (Decimal(precision=9, scale=2))",
        "optional int64 field_id=17 medium (Decimal(precision=18, scale=4))",
        "optional fixed_len_byte_array(16) field_id=18 large (Decimal(precision=38, scale=10))",
        "field_id=20 geometry (Geometry(crs=srid:3857))",
        "field_id=21 geography (Geography(crs=, algorithm=spherical))",
        "optional binary field_id=23 element (String)",
        "required int32 field_id=25 key",
        "required double field_id=27 x",
        "required int64 field_id=31 deep",
    ):
        assert expected in text
    assert "unknown" not in text
    metadata = result.metadata.metadata
    assert msgspec.json.decode(metadata[b"iceberg.schema"])["fields"][0]["name"] == "boolean"
    assert b"ARROW:schema" not in metadata


def test_a_written_file_has_full_metrics():
    rows = [{2: i, 5: value, 12: "x"} for i, value in enumerate([1.0, math.nan, None, math.nan])]
    schema = project(EVERYTHING, {2, 5, 12})
    result, data = written(rows, schema)
    entry = result.data_file("s3://t/f.parquet", spec=PartitionSpec(spec_id=0))
    assert entry.file_size_in_bytes == len(data) == result.size
    assert entry.record_count == 4
    assert entry.nan_value_counts == {5: 2}
    assert entry.null_value_counts == {2: 0, 5: 1, 12: 0}
    assert entry.lower_bounds is not None
    assert entry.lower_bounds[2] == (0).to_bytes(4, "little")


def test_nan_is_counted_inside_structs_not_inside_lists():
    schema = schema_of(
        field(1, "s", StructType((field(2, "f", FLOAT),))),
        field(3, "l", ListType(element_id=4, element=DOUBLE, element_required=False)),
    )
    result, _ = written([{1: {2: math.nan}, 3: (math.nan,)}, {1: None, 3: None}], schema)
    assert result.nan_counts == {2: 1}


values = {
    1: st.booleans(),
    3: st.integers(-(2**63), 2**63 - 1),
    4: st.floats(width=32, allow_nan=False),
    6: st.integers(-(2**31), 2**31 - 1),
    7: st.integers(0, 86_399_999_999),
    9: st.integers(-(2**63), 2**63 - 1),
    12: st.text(max_size=5),
    13: st.uuids(),
    15: st.binary(min_size=3, max_size=3),
    18: st.decimals(min_value=-(10**20), max_value=10**20, places=10),
    22: st.lists(st.none() | st.text(max_size=3), max_size=3).map(tuple),
}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.fixed_dictionaries({i: st.none() | one for i, one in values.items()}), max_size=4))
def test_any_rows_read_as_they_were_written(rows):
    schema = project(EVERYTHING, set(values))
    _, data = written(rows, schema)
    assert read(data, schema) == rows


def test_a_damaged_file_is_named():
    _, data = written(ROWS, EVERYTHING)
    for cut in (0, 3, 10, len(data) - 20, len(data) - 1):
        with pytest.raises(CorruptFile, match=r"f\.parquet"):
            read(data[:cut], EVERYTHING)


def test_a_text_that_is_no_utf8_is_a_corrupt_file():
    text = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
    with pytest.raises(CorruptFile, match="not UTF-8"):
        read(plain(pa.table({"c": text})), schema_of(field(1, "c", STRING)))


def test_a_flipped_bit_in_a_page_is_noticed():
    schema = project(EVERYTHING, {3})
    _, data = written([{3: i * 7919} for i in range(1000)], schema)
    at = 600
    with pytest.raises(CorruptFile, match=r"f\.parquet"):
        read(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], schema)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "null in a required column.*|row 0, int"),
        ({2: "x"}, "row 0, int"),
        ({2: 2**31}, "row 0, int"),
        ({2: 1, 15: b"ab"}, "row 0, fixed"),
        ({2: 1, 16: Decimal("1.234")}, "row 0, small"),
        ({2: 1, 22: "abc"}, "list"),
        ({2: 1, 22: (1,)}, "list.element"),
        ({2: 1, 29: 5}, "row 0, struct"),
        ({2: 1, 29: {30: {}}}, "struct.inner.deep"),
        ({2: 1, 29: {32: (None,)}}, "struct.points.element"),
        ({2: 1, 24: ((None, None),)}, "map.key"),
    ],
)
def test_a_value_of_another_type_is_refused_and_named(row, message):
    with pytest.raises(InvalidInput, match=message):
        batch_of_rows([row], EVERYTHING)


def test_what_arrow_cannot_write_is_refused():
    with pytest.raises(Unsupported, match=r"variant column 's\.v'"):
        ParquetFileWriter(io.BytesIO(), schema_of(field(1, "s", StructType((field(2, "v", VARIANT),)))))
    with pytest.raises(InvalidInput, match="unknown codec"):
        ParquetFileWriter(io.BytesIO(), EVERYTHING, properties={"write.parquet.compression-codec": "zip"})


def test_the_compression_property_is_used():
    for codec, expected in ((None, "ZSTD"), ("snappy", "SNAPPY"), ("UNCOMPRESSED", "UNCOMPRESSED"), ("gzip", "GZIP")):
        properties = {} if codec is None else {"write.parquet.compression-codec": codec}
        result, _ = written([{1: 1}], schema_of(field(1, "a", INT)), properties=properties)
        assert result.metadata.row_group(0).column(0).compression == expected
