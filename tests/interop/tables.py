"""The tables that firn writes for other engines to read: every type, transform, evolution, delete and reference."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from firn.model.datafile import FileFormat
from firn.model.partition_update import AddField, RemoveField, RenameField
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.schema_change import (
    AddColumn,
    DropColumn,
    MakeOptional,
    MoveAfter,
    MoveFirst,
    RenameColumn,
    SetDefault,
    UpdateDoc,
    UpdateType,
)
from firn.model.sorting import SortBy, SortField, SortOrder
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


def evolved_spec(folder: Path, version: int) -> BuiltTable:
    """Unpartitioned, then by day, then by bucket without the day, then renamed and by day again."""
    schema = columns(id=LONG, ts=TIMESTAMP, name=STRING)
    table = TableBuilder(folder, schema, format_version=version)

    def rows(start: int) -> list[dict[str, Any]]:
        return [{"id": start + i, "ts": i * DAY // 2, "name": f"n{i % 3}"} for i in range(6)]

    table.append(rows(0))
    table.evolve_spec(AddField(source="ts", transform="day"))
    table.append(rows(10))
    table.evolve_spec(RemoveField(name="ts_day"), AddField(source="id", transform="bucket[4]", name="b"))
    table.append(rows(20))
    table.evolve_spec(RenameField(name="b", new_name="bucket"), AddField(source="name", transform="truncate[1]"))
    table.append(rows(30))
    table.evolve_spec(AddField(source="ts", transform="hour"))
    table.append([*rows(40), {"id": 50}])
    return table.finish()


# -- schema evolution --------------------------------------------------------------------------------------------------
def evolved_schema(folder: Path, version: int, file_format: FileFormat) -> BuiltTable:
    """Columns added, dropped, renamed, promoted, moved, and added anew under a dropped one's name."""
    schema = columns(id=INT, gone=STRING, price=FLOAT, amount=DecimalType(9, 2), old_name=STRING, tags=list_of(INT))
    table = TableBuilder(folder, schema, format_version=version)

    def rows(start: int, **more: Any) -> list[dict[str, Any]]:
        return [
            {"id": start + i, "price": i / 4, "amount": Decimal(i).scaleb(-2), "tags": [i], **more} for i in range(3)
        ]

    table.append(rows(0, gone="gone", old_name="old"), file_format=file_format)
    table.evolve(
        DropColumn(name="gone"),
        RenameColumn(name="old_name", new_name="new_name"),
        AddColumn(name="added", type=STRING, doc="added later"),
    )
    table.append(rows(10, new_name="new", added="a"), file_format=file_format)
    table.evolve(
        UpdateType(name="id", type=LONG),
        UpdateType(name="price", type=DOUBLE),
        UpdateType(name="amount", type=DecimalType(18, 2)),
        UpdateType(name="tags.element", type=LONG),
        MoveFirst(name="added"),
        MoveAfter(name="price", reference="amount"),
        UpdateDoc(name="added", doc=None),
        # Another column than the one that was dropped: its values must not come back.
        AddColumn(name="gone", type=STRING),
    )
    big = {"id": 2**40, "price": 0.1, "amount": Decimal("1234567890123456.78"), "tags": [2**40]}
    table.append([*rows(20, new_name="newer"), big], file_format=file_format)
    return table.finish()


def evolved_struct(folder: Path, file_format: FileFormat) -> BuiltTable:
    """The same inside a struct, and inside the structs of a list."""
    schema = columns(id=LONG, point=struct(x=INT, y=INT, gone=STRING), points=list_of(struct(x=INT)))
    table = TableBuilder(folder, schema, format_version=2)
    table.append(
        [{"id": 1, "point": {"x": 1, "y": 2, "gone": "g"}, "points": [{"x": 1}]}, {"id": 2, "points": []}],
        file_format=file_format,
    )
    table.evolve(
        AddColumn(name="z", type=LONG, parent="point"),
        AddColumn(name="y", type=LONG, parent="points"),
        DropColumn(name="point.gone"),
        UpdateType(name="point.x", type=LONG),
        RenameColumn(name="point.y", new_name="why"),
        MoveFirst(name="point.z"),
    )
    row = {"id": 3, "point": {"x": 2**40, "why": 3, "z": 4}, "points": [{"x": 5, "y": 6}]}
    table.append([row], file_format=file_format)
    return table.finish()


def defaults(folder: Path, file_format: FileFormat) -> BuiltTable:
    """Columns with initial and write defaults, added after the rows."""
    table = TableBuilder(folder, columns(id=LONG), format_version=3)
    table.append([{"id": 1}, {"id": 2}], file_format=file_format)
    table.evolve(
        AddColumn(name="country", type=STRING, default="CH", required=True),
        AddColumn(name="n", type=INT, default=7),
        AddColumn(name="d", type=DecimalType(9, 2), default="1.25"),
        AddColumn(name="day", type=DATE, default="2020-01-02"),
        AddColumn(name="ts", type=TIMESTAMPTZ, default="2020-01-02T03:04:05.000006+00:00"),
    )
    row = {"id": 3, "country": "FR", "n": None, "d": Decimal("0.01"), "day": 0, "ts": 0}
    table.append([row], file_format=file_format)
    table.evolve(SetDefault(name="n", default=8), MakeOptional(name="country"))
    table.append([{"id": 4, "country": None, "n": 8}], file_format=file_format)
    return table.finish()


def nested_defaults(folder: Path, file_format: FileFormat) -> BuiltTable:
    table = TableBuilder(folder, columns(id=LONG, s=struct(a=INT)), format_version=3)
    table.append([{"id": 1, "s": {"a": 1}}, {"id": 2}], file_format=file_format)
    table.evolve(AddColumn(name="b", type=LONG, parent="s", default=9))
    table.append([{"id": 3, "s": {"a": 3, "b": 3}}], file_format=file_format)
    return table.finish()


def promoted_dates(folder: Path, to: Type) -> BuiltTable:
    table = TableBuilder(folder, columns(id=LONG, d=DATE), format_version=3)
    table.append([{"id": 1, "d": 0}, {"id": 2, "d": 20_000}, {"id": 3}])
    table.evolve(UpdateType(name="d", type=to))
    table.append([{"id": 4, "d": 1}])
    return table.finish()


# -- deletes ----------------------------------------------------------------------------------------------------------
def items(start: int, count: int = 20) -> list[dict[str, Any]]:
    return [
        {"id": start + i, "name": f"n{i % 5}" if i % 7 else None, "region": "eu" if i % 2 else "us"}
        for i in range(count)
    ]


def _regions(folder: Path, version: int, *, is_partitioned: bool = True) -> TableBuilder:
    schema = columns(id=LONG, name=STRING, region=STRING)
    spec = partitioned(schema, region="identity") if is_partitioned else PartitionSpec(spec_id=0)
    return TableBuilder(folder, schema, spec, format_version=version)


def position_deletes(folder: Path, data_format: FileFormat, delete_format: FileFormat) -> BuiltTable:
    table = _regions(folder, 2)
    table.append(items(0), file_format=data_format)
    table.append(items(100), file_format=data_format)
    table.delete(lambda row: row["id"] % 10 == 3, how="file", file_format=delete_format)
    table.delete(lambda row: row["id"] % 10 == 4, how="partition", file_format=delete_format)
    table.append(items(200), file_format=data_format)
    table.delete(lambda row: row["id"] in (5, 105, 206), how="partition", file_format=delete_format)
    return table.finish()


def position_deletes_with_rows(folder: Path) -> BuiltTable:
    table = _regions(folder, 2)
    table.append(items(0))
    table.delete(lambda row: row["id"] in (1, 2, 3), how="partition", rows=True)
    return table.finish()


def equality_deletes(folder: Path, version: int, data_format: FileFormat, delete_format: FileFormat) -> BuiltTable:
    """In one partition, and with nulls among the values; rows added later and in the same commit stay."""
    table = _regions(folder, version)
    table.append(items(0), file_format=data_format)
    table.delete_equal([{"name": "n3"}, {"name": None}], partition=("eu",), file_format=delete_format)
    table.append(items(100), file_format=data_format)
    table.delete_equal(
        [{"id": 102, "name": "n2"}, {"id": 104, "name": "no"}], partition=("us",), file_format=delete_format
    )
    table.delete_equal(
        [{"id": 106}], partition=("us",), file_format=delete_format, added=[{"id": 106, "name": "new", "region": "us"}]
    )
    return table.finish()


def global_equality_deletes(folder: Path, version: int) -> BuiltTable:
    """Written in the unpartitioned spec of a partitioned table: they reach every partition."""
    table = _regions(folder, version, is_partitioned=False)
    table.append(items(0))
    table.evolve_spec(AddField(source="region"))
    table.append(items(100))
    table.delete_equal([{"name": "n3"}, {"name": None}])
    table.append(items(200))
    return table.finish()


def deletion_vectors(folder: Path, data_format: FileFormat) -> BuiltTable:
    """New ones, and ones that replace their predecessors; several in one Puffin file."""
    table = _regions(folder, 3)
    table.append(items(0), file_format=data_format)
    table.append(items(100), file_format=data_format)
    table.delete(lambda row: row["id"] % 10 == 3, how="vector")
    table.append(items(200), file_format=data_format)
    table.delete(lambda row: row["id"] % 10 in (4, 5), how="vector")
    table.delete(lambda row: row["id"] < 20 and row["region"] == "us", how="vector")
    return table.finish()


def upgraded(folder: Path) -> BuiltTable:
    """v1 files, v2 files with position deletes, v3 files with deletion vectors."""
    table = _regions(folder, 1)
    table.append(items(0))
    table.upgrade(2)
    table.append(items(100))
    table.delete(lambda row: row["id"] % 10 == 3, how="file")
    table.upgrade(3)
    table.append(items(200))
    table.delete(lambda row: row["id"] >= 200 and row["id"] % 10 == 4, how="vector")
    table.overwrite(lambda row: row["id"] == 1, [{"id": 1, "name": "one", "region": "eu"}])
    return table.finish()


# -- the rest ---------------------------------------------------------------------------------------------------------
def rewritten(folder: Path, version: int) -> BuiltTable:
    """Copy on write: overwritten and deleted files, tombstones in manifests."""
    table = _regions(folder, version)
    table.append(items(0))
    table.append(items(100))
    table.overwrite(lambda row: row["id"] in (3, 4), [{"id": 3, "name": "three", "region": "eu"}])
    table.overwrite(lambda row: row["region"] == "us" and row["id"] >= 100)
    table.append(items(200, 3))
    return table.finish()


def references(folder: Path, version: int) -> BuiltTable:
    table = _regions(folder, version)
    table.append(items(0, 4))
    table.ref("first", type="tag", max_ref_age_ms=10**12)
    table.evolve(AddColumn(name="extra", type=STRING))
    table.append(items(100, 4))
    table.ref("audit", type="branch", min_snapshots_to_keep=2, max_snapshot_age_ms=10**12)
    table.append(items(200, 4), branch="audit")
    table.append([{"id": 300, "extra": "main"}])
    return table.finish()


def sorted_rows(folder: Path, version: int) -> BuiltTable:
    schema = columns(id=LONG, price=DOUBLE, name=STRING)
    order = SortOrder(
        order_id=1,
        fields=(
            SortField(source_ids=(3,), transform="truncate[1]", direction="desc", null_order="nulls-last"),
            SortField(source_ids=(2,), transform="identity"),
        ),
    )
    table = TableBuilder(folder, schema, order=order, format_version=version)
    prices = [0.5, -0.0, 0.0, math.nan, -math.inf, None]
    rows = [{"id": i, "price": prices[i % 6], "name": f"{'abc'[i % 3]}{i}"} for i in range(18)]
    table.append(rows)
    table.sort_by(SortBy(source="id", direction="desc"))
    table.append(rows)
    return table.finish()


def compressed_metadata(folder: Path) -> BuiltTable:
    table = TableBuilder(
        folder, columns(id=LONG), format_version=2, properties={"write.metadata.compression-codec": "gzip"}
    )
    table.append([{"id": 1}])
    return table.finish()


def plain_paths(folder: Path) -> BuiltTable:
    """Absolute paths without a scheme in all of the metadata."""
    table = TableBuilder(folder, columns(id=LONG), format_version=2, scheme="")
    table.append([{"id": 1}, {"id": 2}])
    table.delete(lambda row: row["id"] == 1, how="file")
    return table.finish()


def empty(folder: Path, version: int) -> BuiltTable:
    return TableBuilder(folder, columns(id=LONG, name=STRING), format_version=version).finish()


def row_lineage(folder: Path) -> BuiltTable:
    table = _regions(folder, 3)
    table.append(items(0, 6))
    table.append(items(100, 6))
    table.delete(lambda row: row["id"] in (1, 100), how="vector")
    table.append(items(200, 2))
    return table.finish()


# -- all of them by name ----------------------------------------------------------------------------------------------
Build = Callable[[Path], BuiltTable]


def _catalogue() -> dict[str, Build]:
    found: dict[str, Build] = {}

    def add(name: str, build: Callable[..., BuiltTable], *args: Any) -> None:
        found[name] = lambda folder: build(folder, *args)

    for version in (1, 2, 3):
        for file_format in FORMATS:
            add(f"common-types-v{version}-{file_format}", common_types, version, file_format)
            add(f"nested-v{version}-{file_format}", nested_types, version, file_format)
            add(f"evolved-schema-v{version}-{file_format}", evolved_schema, version, file_format)
        for group, names in GROUPS.items():
            add(f"transforms-v{version}-{group}", every_transform, version, names)
        for unit in TIME_UNITS:
            add(f"transforms-v{version}-{unit}", every_transform, version, TIMES, (unit,))
        add(f"evolved-spec-v{version}", evolved_spec, version)
        add(f"rewritten-v{version}", rewritten, version)
        add(f"references-v{version}", references, version)
        add(f"sorted-v{version}", sorted_rows, version)
        add(f"empty-v{version}", empty, version)
    add("truncated-minimum", truncated_minimum)
    add("several-time-units", every_transform, 2, TIMES, TIME_UNITS)
    for name in SPECIAL_TRANSFORMS:
        add(f"transforms-{name}", special_transform, name)
    for name in SPECIAL:
        # pyarrow cannot write a variant with its annotation, which makes it one for other readers.
        for file_format in FORMATS if name != "variant" else ("avro",):
            add(f"type-{name}-{file_format}", special_type, name, file_format)
    for file_format in FORMATS:
        add(f"null-collections-{file_format}", null_collections, file_format)
        add(f"evolved-struct-{file_format}", evolved_struct, file_format)
        add(f"defaults-{file_format}", defaults, file_format)
        add(f"nested-defaults-{file_format}", nested_defaults, file_format)
        add(f"position-deletes-{file_format}", position_deletes, "parquet", file_format)
        add(f"position-deletes-of-{file_format}", position_deletes, file_format, "parquet")
        add(f"equality-deletes-{file_format}", equality_deletes, 2, "parquet", file_format)
        add(f"deletion-vectors-of-{file_format}", deletion_vectors, file_format)
    add("equality-deletes-v3", equality_deletes, 3, "parquet", "parquet")
    add("position-deletes-with-rows", position_deletes_with_rows)
    add("global-equality-deletes-v2", global_equality_deletes, 2)
    add("global-equality-deletes-v3", global_equality_deletes, 3)
    add("promoted-date-timestamp", promoted_dates, TIMESTAMP)
    add("promoted-date-timestamp_ns", promoted_dates, TIMESTAMP_NS)
    add("plain-paths", plain_paths)
    add("upgraded-v1-v2-v3", upgraded)
    add("compressed-metadata", compressed_metadata)
    add("row-lineage", row_lineage)
    return found


TABLES: Final = _catalogue()
