from __future__ import annotations

import datetime as dt
import io
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pyorc
import pytest

from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema, Misconfigured, Unsupported
from firn.model.name_mapping import MappedField, NameMapping
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
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
    NestedField,
    StructType,
)
from firn.model.variant import Variant
from firn.storage import orc_types
from firn.storage.orc_data import read_orc_rows, write_orc_rows


def field(field_id, name, type, *, required=False, default=None) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=required, initial_default=default)


def schema_of(*fields) -> Schema:
    return Schema(schema_id=0, struct=StructType(fields))


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
    field(12, "str ing", STRING),
    field(13, "uuid", UUID),
    field(14, "binary", BINARY),
    field(15, "fixed", FixedType(3)),
    field(16, "small", DecimalType(9, 2)),
    field(17, "again", DecimalType(9, 2)),
    field(18, "large", DecimalType(38, 10)),
    field(19, "unknown", UNKNOWN),
    field(20, "geometry", GeometryType()),
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
    field(29, "texts", MapType(key_id=30, key=STRING, value_id=31, value=LONG, value_required=False)),
    field(32, "struct", StructType((field(33, "inner", StructType((field(34, "deep", LONG, required=True),))),))),
    field(35, "variant", VARIANT),
)
NEW = field(8, "new", STRING, default="+")
EMPTY: dict[int, Any] = {i: None for i in EVERYTHING.fields_by_id if EVERYTHING.parent_id(i) is None}
ROWS: list[dict[int, Any]] = [
    {
        1: True, 2: -1, 3: 2**63 - 1, 4: 1.5, 5: -0.1, 6: -719_162, 7: 86_399_999_999, 8: -1_000_000,
        9: 253_402_300_800_000_000, 10: -(2**63), 11: 2**63 - 1, 12: "é\0🎉", 13: uuid.UUID(int=2**128 - 1),
        14: b"\0\xff", 15: b"abc",
        16: Decimal("-9999999.99"), 17: Decimal("0.01"), 18: Decimal("9" * 28 + ".0000000001"), 19: None,
        20: b"wkb", 21: b"wkb", 22: ("a", None, "b"), 24: ((1, {27: 1.0, 28: None}), (2, None)), 29: (("k", None),),
        32: {33: {34: 5}}, 35: Variant(b"\1\0\0", b"\0"),
    },
    EMPTY | {2: 0},
    EMPTY | {2: 7, 5: math.inf, 12: "", 22: (), 24: (), 29: (), 32: {33: None}},
]  # fmt: skip


def read(data: bytes, schema: Schema, **options):
    return [row for part in read_orc_rows(data, location="f.orc", schema=schema, **options) for row in part]


def foreign(schema: str, records: list[tuple]) -> bytes:
    sink = io.BytesIO()
    with pyorc.Writer(sink, schema) as writer:
        writer.writerows(records)
    return sink.getvalue()


def test_every_type_reads_as_it_was_written():
    assert read(write_orc_rows(ROWS, EVERYTHING).data, EVERYTHING) == ROWS


def test_no_rows_are_a_valid_file():
    assert read(write_orc_rows([], EVERYTHING).data, EVERYTHING) == []


def test_many_rows_come_in_parts():
    schema = schema_of(field(1, "a", LONG))
    rows = [{1: i} for i in range(10_000)]
    parts = list(read_orc_rows(write_orc_rows(rows, schema).data, location="f", schema=schema))
    assert len(parts) == 3
    assert [row for part in parts for row in part] == rows


def test_the_attributes_are_those_of_the_specification():
    reader = pyorc.Reader(io.BytesIO(write_orc_rows(ROWS, EVERYTHING).data))
    schema: Any = reader.schema

    def attributes(name):
        return {key.removeprefix("iceberg."): value for key, value in schema[name].attributes.items()}

    assert attributes("int") == {"id": "2", "required": "true"}
    assert attributes("long") == {"id": "3", "required": "false", "long-type": "LONG"}
    assert attributes("time") == {"id": "7", "required": "false", "long-type": "TIME"}
    assert attributes("timestamp") == {"id": "8", "required": "false", "timestamp-unit": "MICROS"}
    assert attributes("timestamptz_ns") == {"id": "11", "required": "false", "timestamp-unit": "NANOS"}
    assert attributes("uuid") == {"id": "13", "required": "false", "binary-type": "UUID"}
    assert attributes("fixed") == {"id": "15", "required": "false", "binary-type": "FIXED", "length": "3"}
    assert attributes("geometry") == {"id": "20", "required": "false", "binary-type": "GEOMETRY"}
    assert attributes("variant") == {"id": "35", "required": "false", "struct-type": "VARIANT"}
    assert schema["variant"]["value"].attributes == {}
    assert schema["list"].type.attributes == {"iceberg.id": "23", "iceberg.required": "false"}
    assert schema["map"].key.attributes["iceberg.required"] == "true"
    assert schema["map"].value["x"].attributes["iceberg.id"] == "27"
    assert str(schema["timestamptz"]) == "timestamp with local time zone"
    assert "unknown" not in schema.fields
    assert json.loads(reader.user_metadata["iceberg.schema"])["fields"][0]["id"] == 1


def test_the_file_is_described():
    schema = schema_of(field(1, "a", LONG), field(2, "d", DOUBLE))
    written = write_orc_rows([{1: 1, 2: math.nan}, {1: None, 2: 1.0}], schema)
    spec = PartitionSpec(spec_id=0)
    entry = written.metrics.data_file(written.at("s3://t/a.orc"), spec=spec)
    assert (entry.file_format, entry.record_count, entry.file_size_in_bytes) == ("orc", 2, len(written.data))
    assert entry.split_offsets == (3,)
    assert entry.null_value_counts == {1: 1, 2: 0}
    assert entry.nan_value_counts == {2: 1}


def test_moments_that_orc_would_change_are_refused():
    schema = schema_of(field(1, "t", TIMESTAMP))
    for moment in (-1, -999_000):
        with pytest.raises(Unsupported, match="row 0, t: ORC cannot hold"):
            write_orc_rows([{1: moment}], schema)
    rows = [{1: moment} for moment in (-999_999 - 1, -1_000_001, -(2**60), 0, 1)]
    micros = [row for row in rows if row[1] > -(2**53)]
    assert read(write_orc_rows(micros, schema).data, schema) == micros


# ---------------------------------------------------------------------------------------------------------------------
# Projection


def test_columns_are_found_by_id_after_rename_reorder_and_promotion():
    old = schema_of(
        field(1, "a", INT),
        field(2, "b", FLOAT),
        field(3, "c", DecimalType(5, 2)),
        field(4, "d", DATE),
        field(5, "s", StructType((field(6, "x", INT), field(7, "y", STRING)))),
    )
    rows: list[dict[int, Any]] = [
        {1: 1, 2: 0.5, 3: Decimal("1.25"), 4: 10, 5: {6: 1, 7: "y"}},
        dict.fromkeys(range(1, 6)),
    ]
    new = schema_of(
        field(4, "moment", TIMESTAMP),
        field(5, "st", StructType((field(7, "why", STRING), NEW, field(6, "ex", LONG)))),
        field(3, "c", DecimalType(20, 2)),
        field(2, "a", DOUBLE),
        field(1, "b", LONG),
        field(9, "constant", STRING),
        field(10, "default", LONG, required=True, default=7),
        field(11, "missing", UUID),
    )  # fmt: skip
    extra = {9: "p", 10: 7, 11: None}
    assert read(write_orc_rows(rows, old).data, new, constants={9: "p"}) == [
        {4: 864_000_000_000, 5: {7: "y", 8: "+", 6: 1}, 3: Decimal("1.25"), 2: 0.5, 1: 1, **extra},
        {4: None, 5: None, 3: None, 2: None, 1: None, **extra},
    ]


def test_a_missing_required_column_is_refused():
    data = write_orc_rows([{1: 1}], schema_of(field(1, "a", INT))).data
    with pytest.raises(InvalidSchema, match="no required column 'z'"):
        read(data, schema_of(field(2, "z", INT, required=True)))


def test_a_file_without_ids_is_read_by_name_mapping():
    data = foreign("struct<old:int,l:array<struct<x:bigint>>>", [(1, [(2,)])])
    element = MappedField(names=("element",), field_id=3, fields=(MappedField(names=("x",), field_id=4),))
    mapping = NameMapping(
        (
            MappedField(names=("older", "old"), field_id=1),
            MappedField(names=("l",), field_id=2, fields=(element,)),
        )
    )
    table = schema_of(
        field(1, "new", LONG),
        field(2, "l", ListType(element_id=3, element=StructType((field(4, "y", LONG),)), element_required=False)),
    )
    assert read(data, table, name_mapping=mapping) == [{1: 1, 2: ({4: 2},)}]
    assert read(data, schema_of(field(9, "old", INT))) == [{9: 1}]


def test_no_columns_still_count_the_rows():
    data = write_orc_rows([{1: 1}, {1: 2}], schema_of(field(1, "a", INT))).data
    assert read(data, schema_of(field(9, "later", LONG))) == [{9: None}, {9: None}]


@pytest.mark.parametrize(
    ("orc", "type", "value", "expected"),
    [
        ("tinyint", INT, 7, 7),
        ("smallint", LONG, 7, 7),
        ("varchar(5)", STRING, "abc", "abc"),
        ("timestamp", TIMESTAMP, dt.datetime(2000, 1, 1, tzinfo=dt.UTC), 946_684_800_000_000),
        ("decimal(9,2)", DecimalType(20, 2), Decimal("1.5"), Decimal("1.50")),
    ],
)
def test_what_other_writers_wrote_is_read(orc, type, value, expected):
    assert read(foreign(f"struct<c:{orc}>", [(value,)]), schema_of(field(1, "c", type))) == [{1: expected}]


@pytest.mark.parametrize(
    ("type", "written", "value"),
    [
        (LONG, STRING, "x"),
        (INT, LONG, 1),
        (DATE, INT, 1),
        (LONG, TIME, 1),
        (LONG, DATE, 1),
        (TIME, TIMESTAMP, 1),
        (TIMESTAMP, TIMESTAMPTZ, 1),
        (TIMESTAMP, TIME, 1),
        (TIMESTAMPTZ, DATE, 1),
        (FLOAT, DOUBLE, 1.0),
        (DecimalType(9, 1), DecimalType(9, 2), Decimal("1.23")),
        (StructType((field(2, "x", LONG),)), LONG, 1),
        (LONG, StructType((field(2, "x", LONG),)), {2: 1}),
        (ListType(element_id=3, element=LONG, element_required=False), LONG, 1),
        (VARIANT, StructType((field(2, "x", LONG),)), {2: 1}),
    ],
    ids=str,
)
def test_a_column_of_another_type_is_refused(type, written, value):
    data = write_orc_rows([{1: value}], schema_of(field(1, "c", written))).data
    with pytest.raises(InvalidSchema, match=r"f\.orc: column 'c'"):
        read(data, schema_of(field(1, "c", type)))


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def test_nulls_in_a_required_column_are_a_corrupt_file():
    data = write_orc_rows([{1: None}], schema_of(field(1, "c", LONG))).data
    with pytest.raises(CorruptFile, match="null in a required column"):
        read(data, schema_of(field(1, "c", LONG, required=True)))


@pytest.mark.parametrize("type", [FixedType(2), UUID], ids=str)
def test_bytes_of_another_length_are_a_corrupt_file(type):
    data = write_orc_rows([{1: b"abc"}], schema_of(field(1, "c", BINARY))).data
    with pytest.raises(CorruptFile, match="3 bytes"):
        read(data, schema_of(field(1, "c", type)))


def test_a_damaged_file_is_named():
    data = write_orc_rows(ROWS, EVERYTHING).data
    for cut in (0, 3, 100, len(data) - 1):
        with pytest.raises(CorruptFile, match=r"f\.orc"):
            read(data[:cut], EVERYTHING)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "row 0, int: null"),
        ({2: "x"}, "row 0, int"),
        ({2: 2**31}, "row 0, int"),
        ({2: 1, 15: b"ab"}, "row 0, fixed"),
        ({2: 1, 22: "abc"}, "row 0, list"),
        ({2: 1, 22: (1,)}, r"row 0, list\.element"),
        ({2: 1, 32: 5}, "row 0, struct"),
        ({2: 1, 32: {33: {}}}, r"row 0, struct\.inner\.deep"),
        ({2: 1, 24: ((None, None),)}, r"row 0, map\.key"),
    ],
)
def test_a_value_of_another_type_is_refused_and_named(row, message):
    with pytest.raises(InvalidInput, match=message):
        write_orc_rows([row], EVERYTHING)


def test_what_cannot_be_written_is_refused(monkeypatch):
    unknowns = schema_of(field(1, "l", ListType(element_id=2, element=UNKNOWN, element_required=False)))
    with pytest.raises(Unsupported, match="unknown"):
        write_orc_rows([], unknowns)
    with pytest.raises(Unsupported, match="name"):
        write_orc_rows([], schema_of(field(1, "self", LONG)))
    keys = MapType(
        key_id=2,
        key=ListType(element_id=3, element=INT, element_required=True),
        value_id=4,
        value=INT,
        value_required=True,
    )
    with pytest.raises(Unsupported, match="keys"):
        write_orc_rows([{1: (((1,), 1),)}], schema_of(field(1, "m", keys)))
    monkeypatch.setattr(orc_types, "pyorc", None)
    with pytest.raises(Misconfigured, match=r"pip install 'firn\[orc\]'"):
        write_orc_rows([], EVERYTHING)
