"""Rows of any engine in one form that can be compared: by column name, sorted, every value exact and printable."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.model.schema import Schema
from firn.model.types import ListType, MapType, StructType, Type
from firn.model.variant import Variant

NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
TIMESTAMPS: Final = {"timestamp": 1000, "timestamptz": 1000, "timestamp_ns": 1, "timestamptz_ns": 1}

OBJECT_A1: Final = Variant(metadata=b"\x01\x01\x00\x01a", value=b"\x02\x01\x00\x00\x02\x0c\x01")
STRING_HI: Final = Variant(metadata=b"\x01\x00\x00", value=b"\x09hi")
VARIANTS: Final = {OBJECT_A1: {"a": 1}, STRING_HI: "hi"}
"""The variants of the tests and what they are as JSON."""

Plain = dict[str, Any]


def expected_rows(rows: Iterable[Mapping[int, Any]], schema: Schema) -> list[Plain]:
    """firn's rows (internal values by field id) in the form that is compared."""
    return in_order(_struct(row, schema.struct) for row in rows)


def table_rows(table: pa.Table, schema: Schema) -> list[Plain]:
    """An engine's rows in the form that is compared; columns are found by name and read as what `schema` says."""
    names = [field.name for field in schema.fields]
    missing = sorted(set(names) - set(table.column_names))
    assert not missing, f"columns {missing} are missing from {table.column_names}"
    columns = {
        field.name: [value for chunk in table.column(field.name).chunks for value in arrow_values(chunk, field.type)]
        for field in schema.fields
    }
    return in_order({name: columns[name][at] for name in names} for at in range(table.num_rows))


def in_order(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=repr)


def _struct(row: Mapping[int, Any], struct: StructType) -> Plain:
    return {field.name: _plain(row.get(field.field_id), field.type) for field in struct.fields}


def _plain(value: Any, type: Type) -> Any:
    if value is None:
        return None
    match type:
        case StructType():
            return _struct(value, type)
        case ListType():
            return [_plain(item, type.element) for item in value]
        case MapType():
            return in_order([_plain(key, type.key), _plain(item, type.value)] for key, item in value)
    name = str(type)
    if name in TIMESTAMPS:
        return value * TIMESTAMPS[name]
    if name == "float":
        return _float(float(pa.scalar(value, pa.float32()).as_py()))
    if isinstance(value, Variant):
        return VARIANTS[value]
    return _float(value) if isinstance(value, float) else value


def _float(value: float) -> Any:
    """Floats by their text: NaN equals NaN, and the sign of zero counts."""
    return "NaN" if math.isnan(value) else repr(value)


def arrow_values(array: pa.Array, type: Type) -> list[Any]:
    """The values of an Arrow array of any engine's choice of types, read as `type`."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return [None] * len(array)
    match type:
        case StructType():
            parts = {f.name: arrow_values(pc.struct_field(array, f.name), f.type) for f in type.fields}
            valid = array.is_valid().to_pylist()
            return [{name: part[at] for name, part in parts.items()} if valid[at] else None for at in range(len(array))]
        case ListType():
            return [arrow_values(item.values, type.element) if item.is_valid else None for item in array]
        case MapType():
            return [_map(item.values, type) if item.is_valid else None for item in array]
    return [None if value is None else value for value in _leaves(array, str(type))]


def _map(entries: pa.Array, type: MapType) -> list[Any]:
    keys, items = arrow_values(entries.field(0), type.key), arrow_values(entries.field(1), type.value)
    return in_order([key, item] for key, item in zip(keys, items, strict=True))


def _leaves(array: pa.Array, name: str) -> list[Any]:
    if name in TIMESTAMPS:
        zoned = array.type.tz is not None
        assert zoned == name.startswith("timestamptz"), f"{name} arrived as {array.type}"
        factor = NANOS[array.type.unit]
        return [None if v is None else v * factor for v in array.cast(pa.int64()).to_pylist()]
    if name == "time":
        micros = NANOS[array.type.unit] // 1000
        return [None if v is None else v * micros for v in array.cast(pa.int64()).to_pylist()]
    if name == "date":
        return array.cast(pa.int32()).to_pylist()
    values = array.to_pylist()
    if name in {"float", "double"}:
        return [None if v is None else _float(v) for v in values]
    if name == "uuid":
        return [None if v is None else _uuid(v) for v in values]
    if name.startswith("decimal"):
        return [None if v is None else Decimal(v) for v in values]
    if name == "variant":
        return [None if v is None else json.loads(v) for v in values]
    return values


def _uuid(value: Any) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    return uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value)
