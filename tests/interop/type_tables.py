"""Tables of every type and every transform, with the edge values of each."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from firn.model.datafile import FileFormat
from firn.model.partition_update import AddField
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
    Type,
)
from tests.interop.rows import OBJECT_A1, STRING_HI
from tests.interop.table_builder import BuiltTable, TableBuilder

FORMATS: Final[tuple[FileFormat, ...]] = ("parquet", "avro", "orc")
DAY: Final = 86_400 * 10**6


def columns(**types: Type) -> Schema:
    """A schema of optional columns; a new table numbers them from 1 in this order, nested ones after."""
    fields, at = [], len(types)

    def numbered(type: Type) -> Type:
        nonlocal at
        match type:
            case StructType():
                ids = []
                for _ in type.fields:
                    at += 1
                    ids.append(at)
                return StructType(
                    tuple(
                        NestedField(field_id=i, name=f.name, type=numbered(f.type), required=f.required)
                        for i, f in zip(ids, type.fields, strict=True)
                    )
                )
            case ListType():
                at += 1
                return ListType(element_id=at, element=numbered(type.element), element_required=False)
            case MapType():
                key, at = at + 1, at + 2
                return MapType(
                    key_id=key,
                    key=numbered(type.key),
                    value_id=key + 1,
                    value=numbered(type.value),
                    value_required=False,
                )
        return type

    for i, (name, type) in enumerate(types.items(), start=1):
        fields.append(NestedField(field_id=i, name=name, type=numbered(type), required=False))
    return Schema(schema_id=0, struct=StructType(tuple(fields)))


def struct(**types: Type) -> StructType:
    return StructType(
        tuple(
            NestedField(field_id=-i, name=name, type=type, required=False)
            for i, (name, type) in enumerate(types.items(), 1)
        )
    )


def list_of(element: Type) -> ListType:
    return ListType(element_id=0, element=element, element_required=False)


def map_of(key: Type, value: Type) -> MapType:
    return MapType(key_id=0, key=key, value_id=0, value=value, value_required=False)


def partitioned(schema: Schema, **transforms: str) -> PartitionSpec:
    """Fields called ``<column>__<anything>``."""
    return PartitionSpec(
        spec_id=0,
        fields=tuple(
            PartitionField(
                source_ids=(schema.ids_by_name[name.split("__")[0]],),
                field_id=1000 + i,
                name=f"p_{name}",
                transform=text,
            )
            for i, (name, text) in enumerate(transforms.items())
        ),
    )


def rows_of(values: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Rows of columns, and one of nulls."""
    count = max(map(len, values.values()))
    rows = [{name: items[at % len(items)] for name, items in values.items()} for at in range(count)]
    return [*rows, dict.fromkeys(values)]


def items(start: int, count: int = 20) -> list[dict[str, Any]]:
    return [
        {"id": start + i, "name": f"n{i % 5}" if i % 7 else None, "region": "eu" if i % 2 else "us"}
        for i in range(count)
    ]


def regions(folder: Path, version: int, *, is_partitioned: bool = True) -> TableBuilder:
    schema = columns(id=LONG, name=STRING, region=STRING)
    spec = partitioned(schema, region="identity") if is_partitioned else PartitionSpec(spec_id=0)
    return TableBuilder(folder, schema, spec, format_version=version)


# -- types ------------------------------------------------------------------------------------------------------------
COMMON: Final[dict[str, tuple[Type, list[Any]]]] = {
    "c_boolean": (BOOLEAN, [True, False]),
    "c_int": (INT, [0, -1, 2**31 - 1, -(2**31)]),
    "c_long": (LONG, [0, -1, 2**63 - 1, -(2**63)]),
    "c_float": (FLOAT, [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]),
    "c_double": (DOUBLE, [0.1, -0.0, 1e300, math.nan, math.inf, -math.inf]),
    "c_decimal9": (DecimalType(9, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99")]),
    "c_decimal18": (DecimalType(18, 4), [Decimal("0.0001"), Decimal("-99999999999999.9999")]),
    "c_decimal38": (
        DecimalType(38, 10),
        [Decimal("1.0000000000"), Decimal("-1234567890123456789012345678.0123456789")],
    ),
    "c_date": (DATE, [0, -1, 20_000, 2_932_896, -700_000]),
    "c_timestamp": (TIMESTAMP, [0, -1, 1_750_000_000_123_456, -9_000_000_000_000_000]),
    "c_timestamptz": (TIMESTAMPTZ, [0, -1, 1_750_000_000_123_456, -9_000_000_000_000_000]),
    "c_string": (STRING, ["", "a", "héllo", "\U0001f600 smile", "x" * 40, "tab\tquote'"]),
    "c_binary": (BINARY, [b"", b"\x00", b"\xff\xfe", bytes(range(40))]),
}
UUIDS: Final = [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")]
FAR: Final = [253_402_300_799_999_999, -62_135_596_800_000_000]
"""Moments of the years 9999 and 1, which nanoseconds cannot count."""
NS: Final = [0, -1, 1_750_000_000_123_456_789, 2**63 - 1 - 10**9, -(2**63) + 10**9]
POINT_1_2: Final = bytes.fromhex("0101000000000000000000f03f0000000000000040")
SPECIAL: Final[dict[str, tuple[int, Type, list[Any]]]] = {
    "time": (1, TIME, [0, 1, 86_399_999_999]),
    "far-timestamp": (1, TIMESTAMP, FAR),
    "far-timestamptz": (1, TIMESTAMPTZ, FAR),
    "uuid": (1, UUID, UUIDS),
    "fixed": (1, FixedType(5), [b"\0" * 5, b"\xff" * 5, b"hello"]),
    "timestamp_ns": (3, TIMESTAMP_NS, NS),
    "timestamptz_ns": (3, TIMESTAMPTZ_NS, NS),
    "unknown": (3, UNKNOWN, [None]),
    "variant": (3, VARIANT, [OBJECT_A1, STRING_HI]),
    "geometry": (3, GeometryType(), [POINT_1_2]),
    "geography": (3, GeographyType(), [POINT_1_2]),
}


def storable(values: list[Any], file_format: FileFormat) -> list[Any]:
    """The values without those that ORC cannot hold: moments within the last second before 1970."""
    return [v for v in values if v != -1] if file_format == "orc" else values


def common_types(folder: Path, version: int, file_format: FileFormat) -> BuiltTable:
    schema = columns(**{name: type for name, (type, _) in COMMON.items()})
    table = TableBuilder(folder, schema, format_version=version)
    values = {name: storable(values, file_format) for name, (_, values) in COMMON.items()}
    table.append(rows_of(values), file_format=file_format)
    return table.finish()


def special_type(folder: Path, name: str, file_format: FileFormat) -> BuiltTable:
    version, type, all_values = SPECIAL[name]
    values = storable(all_values, file_format)
    table = TableBuilder(folder, columns(id=LONG, v=type), format_version=max(version, 2))
    table.append(rows_of({"id": [1, 2, 3, 4, 5][: len(values)], "v": values}), file_format=file_format)
    return table.finish()


def nested_types(folder: Path, version: int, file_format: FileFormat) -> BuiltTable:
    schema = columns(
        id=LONG,
        point=struct(x=INT, y=DOUBLE, inner=struct(text=STRING)),
        tags=list_of(STRING),
        counts=map_of(STRING, LONG),
        by_number=map_of(INT, STRING),
        points=list_of(struct(x=INT, day=DATE)),
        table=map_of(STRING, struct(n=LONG, many=list_of(INT))),
        deep=list_of(list_of(list_of(LONG))),
    )
    table = TableBuilder(folder, schema, format_version=version)
    full = {
        "id": 1,
        "point": {"x": 1, "y": 2.5, "inner": {"text": "in"}},
        "tags": ["a", None, "c"],
        "counts": {"one": 1, "none": None},
        "by_number": {1: "one", 2: "two"},
        "points": [{"x": 1, "day": 10}, None, {"x": None, "day": -10}],
        "table": {"k": {"n": 1, "many": [1, 2]}, "l": None},
        "deep": [[[1, 2], []], [], [[3]]],
    }
    empty = {"id": 2, "point": {}, "tags": [], "counts": {}, "by_number": {}, "points": [], "table": {}, "deep": []}
    half = {"id": 3, "point": {"x": 3, "inner": {}}, "points": [{}], "table": {"m": {}}, "deep": [[[]]]}
    nulls = {"id": 4, "points": [], "table": {}}
    table.append([full, empty, half, nulls], file_format=file_format)
    return table.finish()


def null_collections(folder: Path, file_format: FileFormat) -> BuiltTable:
    """Lists and maps of structs that are null, and not empty."""
    schema = columns(id=LONG, points=list_of(struct(x=INT)), table=map_of(STRING, struct(n=LONG)))
    table = TableBuilder(folder, schema, format_version=2)
    table.append([{"id": 1, "points": [], "table": {}}, {"id": 2}], file_format=file_format)
    return table.finish()


# -- partitioning -----------------------------------------------------------------------------------------------------
TRANSFORMS: Final[dict[str, tuple[str, ...]]] = {
    "c_boolean": ("identity", "void"),
    "c_int": ("identity", "bucket[7]", "truncate[10]"),
    "c_long": ("identity", "bucket[7]", "truncate[10]"),
    "c_float": ("identity",),
    "c_double": ("identity",),
    "c_decimal9": ("identity", "bucket[7]", "truncate[10]"),
    "c_decimal38": ("identity", "bucket[7]", "truncate[10]"),
    "c_date": ("identity", "bucket[7]", "year", "month", "day"),
    "c_timestamp": ("identity", "bucket[7]", "year", "month", "day", "hour"),
    "c_timestamptz": ("identity", "bucket[7]", "year", "month", "day", "hour"),
    "c_string": ("identity", "bucket[7]", "truncate[2]"),
    "c_binary": ("identity", "bucket[7]", "truncate[2]"),
}
"""Every transform of every type that all engines have."""


MINIMA: Final = (-(2**31), -(2**63))
TIME_UNITS: Final = ("year", "month", "day", "hour")
SPECIAL_TRANSFORMS: Final[dict[str, tuple[str, ...]]] = {
    "time": ("identity", "bucket[7]"),
    "uuid": ("identity", "bucket[7]"),
    "fixed": ("identity", "bucket[7]"),
    "timestamp_ns": ("identity", "bucket[7]", "hour"),
    "timestamptz_ns": ("identity", "bucket[7]", "day"),
}


def transformed(folder: Path, version: int, types: dict[str, tuple[Type, list[Any]]], **transforms: str) -> BuiltTable:
    """A table of edge values, partitioned by all of the transforms (``<column>__<n>`` to transform) at once."""
    schema = columns(**{name: type for name, (type, _) in types.items()})
    spec = partitioned(schema, **transforms)
    # A new table takes one time unit of a column only; the others are added one by one, as users do.
    first: dict[int, str] = {}
    for field in spec.fields:
        if field.transform in TIME_UNITS:
            first.setdefault(field.source_id, field.transform)
    later = [f for f in spec.fields if f.transform in TIME_UNITS and f.transform != first[f.source_id]]
    started = PartitionSpec(spec_id=0, fields=tuple(field for field in spec.fields if field not in later))
    table = TableBuilder(folder, schema, started, format_version=version)
    rows = rows_of({name: values for name, (_, values) in types.items()})
    table.append(rows[:2])
    for field in later:
        table.evolve_spec(
            AddField(source=schema.names_by_id[field.source_id], transform=field.transform, name=field.name)
        )
    table.append(rows[2:])
    return table.finish()


def every_transform(folder: Path, version: int, group: tuple[str, ...], units: tuple[str, ...] = ()) -> BuiltTable:
    """Every transform of some columns, of the time units only those in `units`."""
    transforms = {
        f"{name}__{at}": text
        for name in group
        for at, text in enumerate(TRANSFORMS[name])
        if text not in TIME_UNITS or text in units
    }
    types = {name: (COMMON[name][0], [v for v in COMMON[name][1] if v not in MINIMA]) for name in group}
    return transformed(folder, version, types, **transforms)


def truncated_minimum(folder: Path) -> BuiltTable:
    """The smallest int and long, which wrap around when they are truncated, as in the Java library."""
    types: dict[str, tuple[Type, list[Any]]] = {"i": (INT, [MINIMA[0], 1]), "l": (LONG, [MINIMA[1], 1])}
    return transformed(folder, 2, types, i="truncate[10]", l="truncate[10]")


def special_transform(folder: Path, name: str) -> BuiltTable:
    version, type, values = SPECIAL[name]
    transforms = {f"v__{at}": text for at, text in enumerate(SPECIAL_TRANSFORMS[name])}
    types: dict[str, tuple[Type, list[Any]]] = {"id": (LONG, [1, 2, 3, 4, 5]), "v": (type, values)}
    return transformed(folder, max(version, 2), types, **transforms)


GROUPS: Final = {
    "numbers": ("c_boolean", "c_int", "c_long", "c_decimal9", "c_decimal38"),
    "floats": ("c_float", "c_double"),
    "texts": ("c_string", "c_binary"),
}
TIMES: Final = ("c_date", "c_timestamp", "c_timestamptz")
