from __future__ import annotations

import pyarrow as pa
import pytest

from firn.model.errors import InvalidSchema, Unsupported
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
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from firn.storage.parquet_columns import file_fields
from firn.storage.parquet_schema import arrow_schema, schema_from_arrow


def field(field_id, name, type, *, required=False, doc=None) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=required, doc=doc)


LEAVES = [
    BOOLEAN,
    INT,
    LONG,
    FLOAT,
    DOUBLE,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TIMESTAMP_NS,
    TIMESTAMPTZ_NS,
    STRING,
    UUID,
    BINARY,
    UNKNOWN,
    FixedType(5),
    DecimalType(38, 38),
    GeometryType(),
    GeometryType("srid:1"),
    GeographyType(),
    GeographyType("srid:1", "karney"),
]
NESTED = Schema(
    schema_id=0,
    struct=StructType(
        (
            field(1, "l", ListType(element_id=7, element=INT, element_required=True), required=True, doc="numbers"),
            field(
                2,
                "m",
                MapType(
                    key_id=3,
                    key=StructType((field(9, "k", STRING),)),
                    value_id=4,
                    value=ListType(element_id=5, element=UUID, element_required=False),
                    value_required=False,
                ),
            ),
        )
    ),
)


@pytest.mark.parametrize("type", LEAVES, ids=str)
def test_every_type_survives_arrow(type):
    schema = Schema(schema_id=0, struct=StructType((field(3, "c", type),)))
    assert schema_from_arrow(arrow_schema(schema)) == schema


def test_nested_types_survive_arrow_with_their_ids():
    assert schema_from_arrow(arrow_schema(NESTED)) == NESTED
    ids = [one.field_id for top in file_fields(arrow_schema(NESTED), location="f") for one in top.walk()]
    assert ids == [1, 7, 2, 3, 9, 4, 5]


def test_a_schema_without_ids_gets_fresh_ones_level_by_level():
    schema = pa.schema([("a", pa.struct([("x", pa.int64())])), pa.field("b", pa.list_(pa.string()), nullable=False)])
    assert schema_from_arrow(schema).names_by_id == {1: "a", 3: "a.x", 2: "b", 4: "b.element"}
    assert schema_from_arrow(schema).fields[1].required


def test_a_schema_with_some_ids_is_refused():
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"}), pa.field("b", pa.int64())])
    with pytest.raises(InvalidSchema, match=r"schema\.a: has a field id, but not schema\.b"):
        schema_from_arrow(schema)


def test_a_repeated_id_is_refused():
    schema = pa.schema([pa.field(n, pa.int64(), metadata={"PARQUET:field_id": "1"}) for n in "ab"])
    with pytest.raises(InvalidSchema, match="used by a and b"):
        schema_from_arrow(schema)


@pytest.mark.parametrize(
    ("arrow", "type"),
    [
        (pa.int8(), INT),
        (pa.uint16(), INT),
        (pa.uint32(), LONG),
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.large_binary(), BINARY),
        (pa.timestamp("s"), TIMESTAMP),
        (pa.timestamp("ms", tz="Europe/Rome"), TIMESTAMPTZ),
        (pa.time32("s"), TIME),
        (pa.date64(), DATE),
        (pa.decimal256(20, 3), DecimalType(20, 3)),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
    ],
    ids=str,
)
def test_related_arrow_types_are_accepted(arrow, type):
    assert schema_from_arrow(pa.schema([("c", arrow)])).fields[0].type == type


@pytest.mark.parametrize(
    "arrow",
    [
        pa.uint64(),
        pa.float16(),
        pa.duration("s"),
        pa.time64("ns"),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.struct([("x", pa.uint64())]),
    ],
    ids=str,
)
def test_arrow_types_that_iceberg_lacks_are_refused_and_named(arrow):
    with pytest.raises(Unsupported, match=r"schema\.c"):
        schema_from_arrow(pa.schema([("c", arrow)]))
