"""Rows by field id and by name, and what later schemas make of them."""

from __future__ import annotations

from typing import Any

import msgspec

from firn.model.datafile import DataFile
from firn.model.internal_values import DAY_MICROS
from firn.model.schema import Schema
from firn.model.types import DATE, ListType, MapType, StructType, Type

Row = dict[int, Any]
Named = dict[str, Any]


class LiveFile(msgspec.Struct, kw_only=True):
    """A data file with its rows as written, None for those deleted since; its deletion vector and that one's entry."""

    file: DataFile
    rows: list[Row | None]
    schema: Schema
    vector: DataFile | None = None

    def named(self, row: Row) -> Named:
        return {field.name: row.get(field.field_id) for field in self.schema.fields}


def identified(value: Any, type: Type) -> Any:
    """A value with structs keyed by field id instead of name, and maps as pairs."""
    if value is None:
        return None
    match type:
        case StructType():
            unknown = set(value) - {field.name for field in type.fields}
            assert not unknown, f"no columns {unknown}"
            return {f.field_id: identified(value[f.name], f.type) for f in type.fields if f.name in value}
        case ListType():
            return tuple(identified(item, type.element) for item in value)
        case MapType():
            return tuple((identified(key, type.key), identified(item, type.value)) for key, item in value.items())
    return value


def same(left: Any, right: Any) -> bool:
    """Equality as in equality deletes: null equals null."""
    return left is None if right is None else left == right


def projected(row: Row, wanted: StructType, written: StructType) -> Row:
    """A written row (or struct) in the columns of a later schema: by id, defaults for what was not there yet."""
    old = {field.field_id: field for field in written.fields}
    out = {}
    for field in wanted.fields:
        if field.field_id not in old:
            out[field.field_id] = field.initial_default
            continue
        out[field.field_id] = converted(row.get(field.field_id), field.type, old[field.field_id].type)
    return out


def converted(value: Any, wanted: Type, written: Type) -> Any:
    if value is None:
        return None
    match wanted, written:
        case StructType(), StructType():
            return projected(value, wanted, written)
        case ListType(), ListType():
            return tuple(converted(item, wanted.element, written.element) for item in value)
        case MapType(), MapType():
            return tuple(
                (converted(key, wanted.key, written.key), converted(item, wanted.value, written.value))
                for key, item in value
            )
    if written == DATE and wanted != DATE:
        return value * DAY_MICROS * (1000 if str(wanted).endswith("_ns") else 1)
    return value
