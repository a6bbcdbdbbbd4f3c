from __future__ import annotations

import datetime as dt
import io
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema, Unsupported
from firn.model.name_mapping import MappedField, NameMapping
from firn.model.partitioning import PartitionField, PartitionSpec
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
from firn.storage.avro_data import read_avro_rows, write_avro_rows


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
DECIMAL_BYTES = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
EMPTY: dict[int, Any] = {i: None for i in EVERYTHING.fields_by_id if EVERYTHING.parent_id(i) is None}
ROWS: list[dict[int, Any]] = [
    {
        1: True, 2: -1, 3: 2**63 - 1, 4: 1.5, 5: -0.1, 6: -719_162, 7: 86_399_999_999, 8: -1,
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
    return [row for block in read_avro_rows(data, location="f.avro", schema=schema, **options) for row in block]


def foreign(schema: dict, records: list[dict]) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), records)
    return sink.getvalue()


def header(data: bytes) -> dict[str, str]:
    read: Any = fastavro.reader(io.BytesIO(data))
    found: dict[str, str] = read.metadata
    return found


def record(*fields) -> dict:
    return {"type": "record", "name": "t", "fields": [dict(one) for one in fields]}


@pytest.mark.parametrize("codec", [None, "gzip", "zstd", "uncompressed"])
def test_every_type_reads_as_it_was_written(codec):
    properties = {} if codec is None else {"write.avro.compression-codec": codec}
    assert read(write_avro_rows(ROWS, EVERYTHING, properties=properties).data, EVERYTHING) == ROWS


def test_many_rows_take_several_blocks():
    schema = schema_of(field(1, "s", STRING))
    rows: list[dict[int, Any]] = [{1: f"{i}" * 500} for i in range(2000)]
    data = write_avro_rows(rows, schema).data
    blocks = list(read_avro_rows(data, location="f", schema=schema))
    assert len(blocks) > 1
    assert [row for block in blocks for row in block] == rows


def test_no_rows_are_a_valid_file():
    assert read(write_avro_rows([], EVERYTHING).data, EVERYTHING) == []


def test_another_avro_library_reads_it():
    reader: Any = fastavro.reader(io.BytesIO(write_avro_rows([ROWS[0] | {9: 5, 10: 5, 11: 5}], EVERYTHING).data))
    (row,) = reader
    assert row["date"] == dt.date(1, 1, 1)
    assert row["uuid"] == uuid.UUID(int=2**128 - 1).bytes or row["uuid"] == uuid.UUID(int=2**128 - 1)
    assert row["small"] == row["small"].__class__("-9999999.99")
    assert row["str_x20ing"] == "é\0🎉"
    assert row["texts"] == {"k": None}
    assert row["map"] == [{"key": 1, "value": {"x": 1.0, "y": None}}, {"key": 2, "value": None}]
    assert "unknown" not in row


def test_the_schema_is_that_of_the_specification():
    data = write_avro_rows([], EVERYTHING).data
    schema = json.loads(header(data)["avro.schema"])
    by_id = {one["field-id"]: one for one in schema["fields"]}
    assert by_id[2] == {"name": "int", "type": "int", "field-id": 2}
    assert by_id[1] == {"name": "boolean", "type": ["null", "boolean"], "default": None, "field-id": 1}
    assert by_id[7]["type"][1] == {"type": "long", "logicalType": "time-micros"}
    assert by_id[8]["type"][1] == {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}
    assert by_id[11]["type"][1] == {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}
    assert by_id[12]["name"] == "str_x20ing"
    assert by_id[12]["iceberg-field-name"] == "str ing"
    assert by_id[13]["type"][1] == {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    assert by_id[16]["type"][1] == {
        "type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2,
    }  # fmt: skip
    assert by_id[17]["type"][1] == "decimal_9_2"
    assert by_id[22]["type"][1] == {"type": "array", "items": ["null", "string"], "element-id": 23}
    assert by_id[24]["type"][1]["logicalType"] == "map"
    assert by_id[24]["type"][1]["items"]["name"] == "k25_v26"
    assert by_id[24]["type"][1]["items"]["fields"][1]["field-id"] == 26
    assert by_id[29]["type"][1] == {"type": "map", "values": ["null", "long"], "key-id": 30, "value-id": 31}
    assert by_id[32]["type"][1]["name"] == "r32"
    assert [one["name"] for one in by_id[35]["type"][1]["fields"]] == ["metadata", "value"]
    assert 19 not in by_id


def test_defaults_are_written_as_avro_defaults():
    schema = schema_of(
        field(1, "a", LONG, default=5),
        field(2, "b", STRING, required=True, default="x"),
        field(3, "c", FixedType(2), default=b"\xff\x00"),
        field(4, "d", DecimalType(9, 2), default=Decimal("-0.01")),
    )
    written = json.loads(header(write_avro_rows([], schema).data)["avro.schema"])
    assert written["fields"][0]["type"] == ["long", "null"]
    assert [one["default"] for one in written["fields"]] == [5, "x", "\xff\x00", "\xff\xff\xff\xff"]
    rows: list[dict[int, Any]] = [{1: None, 2: "y", 3: b"ab", 4: None}]
    assert read(write_avro_rows(rows, schema).data, schema) == rows


def test_metrics_come_from_the_rows():
    schema = schema_of(
        field(1, "a", LONG),
        field(2, "d", DOUBLE),
        field(3, "s", STRING),
        field(4, "l", ListType(element_id=5, element=LONG, element_required=False)),
        field(6, "st", StructType((field(7, "x", FLOAT),))),
        field(8, "z", DOUBLE),
    )
    rows: list[dict[int, Any]] = [
        {1: 5, 2: math.nan, 3: "0123456789abcdefX", 4: (1, 2), 6: {7: math.nan}, 8: 0.0},
        {1: -5, 2: 1.0, 3: None, 4: None, 6: None, 8: -0.0},
        {1: None, 2: None, 3: "z", 4: (), 6: {7: 2.0}, 8: None},
    ]
    written = write_avro_rows(rows, schema)
    spec = PartitionSpec(
        spec_id=4, fields=(PartitionField(source_ids=(1,), field_id=1000, name="p", transform="void"),)
    )
    entry = written.metrics.data_file(written.at("s3://t/a.avro"), spec=spec, partition=(None,), sort_order_id=1)
    assert (entry.file_path, entry.file_format, entry.record_count) == ("s3://t/a.avro", "avro", 3)
    assert (entry.file_size_in_bytes, entry.spec_id, entry.partition) == (len(written.data), 4, (None,))
    assert entry.value_counts == dict.fromkeys((1, 2, 3, 7, 8), 3)
    assert entry.null_value_counts == {1: 1, 2: 1, 3: 1, 7: 1, 8: 1}
    assert entry.nan_value_counts == {2: 1, 7: 1, 8: 0}
    assert entry.lower_bounds is not None
    assert entry.upper_bounds is not None
    assert entry.lower_bounds[1] == (-5).to_bytes(8, "little", signed=True)
    assert entry.lower_bounds[3] == b"0123456789abcdef"
    assert entry.upper_bounds[3] == b"z"
    assert entry.lower_bounds[8][-1] == 0x80
    assert entry.upper_bounds[8] == bytes(8)
    none = written.metrics.data_file(
        written.at("f"), spec=spec, partition=(None,), properties={"write.metadata.metrics.default": "none"}
    )
    assert none.value_counts == {}
    with pytest.raises(InvalidInput, match="partition values"):
        written.metrics.data_file(written.at("f"), spec=spec)


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
    assert read(write_avro_rows(rows, old).data, new, constants={9: "p"}) == [
        {4: 864_000_000_000, 5: {7: "y", 8: "+", 6: 1}, 3: Decimal("1.25"), 2: 0.5, 1: 1, **extra},
        {4: None, 5: None, 3: None, 2: None, 1: None, **extra},
    ]


def test_a_missing_required_column_is_refused():
    data = write_avro_rows([{1: 1}], schema_of(field(1, "a", INT))).data
    with pytest.raises(InvalidSchema, match="no required column 'z'"):
        read(data, schema_of(field(2, "z", INT, required=True)))


def test_a_file_without_ids_is_read_by_name_mapping():
    inner = record({"name": "x", "type": "long"})
    schema = record(
        {"name": "old", "type": "int"},
        {"name": "other", "aliases": ["was"], "type": ["null", {"type": "array", "items": inner | {"name": "i"}}]},
        {"name": "m", "type": {"type": "map", "values": inner | {"name": "v"}}},
    )  # fmt: skip
    data = foreign(schema, [{"old": 1, "other": [{"x": 2}], "m": {"k": {"x": 3}}}])
    mapping = NameMapping(
        (
            MappedField(names=("older", "old"), field_id=1),
            MappedField(
                names=("was",),
                field_id=2,
                fields=(MappedField(names=("element",), field_id=3, fields=(MappedField(names=("x",), field_id=4),)),),
            ),
            MappedField(
                names=("m",),
                field_id=5,
                fields=(
                    MappedField(names=("key",), field_id=6),
                    MappedField(names=("value",), field_id=7, fields=(MappedField(names=("x",), field_id=8),)),
                ),
            ),
        )
    )
    element, value = StructType((field(4, "y", LONG),)), StructType((field(8, "y", LONG),))
    table = schema_of(
        field(1, "new", LONG),
        field(2, "l", ListType(element_id=3, element=element, element_required=False)),
        field(5, "m", MapType(key_id=6, key=STRING, value_id=7, value=value, value_required=False)),
    )
    assert read(data, table, name_mapping=mapping) == [{1: 1, 2: ({4: 2},), 5: (("k", {8: 3}),)}]
    assert read(data, schema_of(field(9, "old", INT))) == [{9: 1}]


@pytest.mark.parametrize(
    ("avro", "type", "value", "expected"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, TIMESTAMPTZ, 5, 5000),
        ({"type": "int", "logicalType": "time-millis"}, TIME, 5, 5000),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, TIMESTAMP, 5, 5),
        (DECIMAL_BYTES, DecimalType(9, 2), b"\xff", Decimal("-0.01")),
        ({"type": "string", "logicalType": "uuid"}, UUID, str(uuid.UUID(int=9)), uuid.UUID(int=9)),
        ("int", LONG, 7, 7),
        ("float", DOUBLE, 0.5, 0.5),
    ],
    ids=str,
)  # fmt: skip
def test_what_other_writers_wrote_is_read(avro, type, value, expected):
    plain = {k: v for k, v in avro.items() if k != "logicalType"} if isinstance(avro, dict) else avro
    data = foreign(record({"name": "c", "type": plain, "field-id": 1}), [{"c": value}])
    if isinstance(avro, dict):
        # fastavro would convert the values itself; the annotation is put into the finished header instead.
        data = data.replace(*_annotated(data, avro))
    assert read(data, schema_of(field(1, "c", type))) == [{1: expected}]


def _annotated(data: bytes, avro: dict) -> tuple[bytes, bytes]:
    old = header(data)["avro.schema"].encode()
    decoded = json.loads(old)
    decoded["fields"][0]["type"] = avro
    new = json.dumps(decoded).encode()
    return _length(old) + old, _length(new) + new


def _length(text: bytes) -> bytes:
    value, out = len(text) << 1, bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    ("type", "written", "value"),
    [
        (LONG, STRING, "x"),
        (INT, LONG, 1),
        (DATE, INT, 1),
        (LONG, DATE, 1),
        (TIME, TIMESTAMP, 1),
        (TIMESTAMP, TIMESTAMP_NS, 1),
        (TIMESTAMP, TIME, 1),
        (TIMESTAMPTZ, DATE, 1),
        (FLOAT, DOUBLE, 1.0),
        (DecimalType(9, 1), DecimalType(9, 2), Decimal("1.23")),
        (FixedType(2), FixedType(3), b"abc"),
        (UUID, BINARY, b"abc"),
        (StructType((field(2, "x", LONG),)), LONG, 1),
        (LONG, StructType((field(2, "x", LONG),)), {2: 1}),
        (ListType(element_id=3, element=LONG, element_required=False), LONG, 1),
        (VARIANT, StructType((field(2, "x", LONG),)), {2: 1}),
    ],
    ids=str,
)
def test_a_column_of_another_type_is_refused(type, written, value):
    data = write_avro_rows([{1: value}], schema_of(field(1, "c", written))).data
    with pytest.raises(InvalidSchema, match=r"f\.avro: column 'c'"):
        read(data, schema_of(field(1, "c", type)))


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def test_nulls_in_a_required_column_are_a_corrupt_file():
    data = write_avro_rows([{1: None}], schema_of(field(1, "c", LONG))).data
    with pytest.raises(CorruptFile, match="null in a required column"):
        read(data, schema_of(field(1, "c", LONG, required=True)))


def test_a_damaged_file_is_named():
    data = write_avro_rows(ROWS, EVERYTHING).data
    for cut in (0, 3, 100, len(data) - 1):
        with pytest.raises(CorruptFile, match=r"f\.avro"):
            read(data[:cut], EVERYTHING)


def test_a_decimal_with_too_many_digits_is_a_corrupt_file():
    data = write_avro_rows([{1: Decimal("9.99")}], schema_of(field(1, "c", DecimalType(9, 2)))).data
    with pytest.raises(CorruptFile, match="does not fit"):
        read(data, schema_of(field(1, "c", DecimalType(2, 2))))


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
        write_avro_rows([row], EVERYTHING)


def test_what_cannot_be_written_is_refused():
    with pytest.raises(Unsupported, match="codec 'snappy'"):
        write_avro_rows([], EVERYTHING, properties={"write.avro.compression-codec": "snappy"})
    unknowns = schema_of(field(1, "l", ListType(element_id=2, element=UNKNOWN, element_required=False)))
    with pytest.raises(Unsupported, match="unknown"):
        write_avro_rows([], unknowns)
