"""Batches of any Arrow types as batches of a table's schema: columns by name, values as they are or widened.

Spark and others do not know all of Iceberg's types: a uuid may come as text or 16 bytes, a time as text or
microseconds, a nanosecond timestamp as a number. What would lose something is refused.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.model.amounts import plural
from firn.model.errors import InvalidInput
from firn.model.schema import Schema
from firn.model.types import (
    BINARY,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
)
from firn.storage.arrow_rows import array_of_values
from firn.storage.parquet_schema import arrow_field, arrow_schema, arrow_type

_TIMES: Final = (TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS)


def conform(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """`batch` in the Arrow schema of `schema`; columns that it does not have are their write default, else null.

    Names are compared exactly, and without case where that fits one column. Raises InvalidInput naming the column for
    one that the table does not have, a required one that is missing or null, or values that do not fit.
    """
    at = _matched(batch.schema.names, [field.name for field in schema.fields], where="")
    arrays = [
        _default(field, batch.num_rows, where=field.name)
        if index is None
        else _required(_conformed(batch.column(index), field.type, where=field.name), field, where=field.name)
        for field, index in zip(schema.fields, at, strict=True)
    ]
    if not arrays:
        raise InvalidInput("a table without columns cannot be written to")
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def _matched(given: list[str], wanted: list[str], *, where: str) -> list[int | None]:
    """Where each wanted name is among the given; InvalidInput for one given that is not wanted, or given twice."""
    found: dict[str, int] = {}
    lowered: dict[str, list[str]] = {}
    for name in wanted:
        lowered.setdefault(name.lower(), []).append(name)
    for at, name in enumerate(given):
        alike = lowered.get(name.lower(), [])
        target = name if name in alike else alike[0] if len(alike) == 1 else None
        if target is None:
            raise InvalidInput(f"the table has no column {where}{name!r}", hint=f"it has {', '.join(wanted)[:200]}")
        if target in found:
            raise InvalidInput(f"column {where}{target!r} is given twice")
        found[target] = at
    return [found.get(name) for name in wanted]


def _default(field: NestedField, length: int, *, where: str) -> pa.Array:
    if field.write_default is None:
        return _required(_nulls(field.type, length), field, where=where)
    one = array_of_values([field.write_default], field)
    return one.take(pa.nulls(length, pa.int32()).fill_null(0))


def _nulls(type: Type, length: int) -> pa.Array:
    target = arrow_type(type)
    if isinstance(target, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(target, pa.nulls(length, target.storage_type))
    return pa.nulls(length, target)


def _required(array: pa.Array, field: NestedField, *, where: str) -> pa.Array:
    if field.required and array.null_count and field.type != UNKNOWN:
        raise InvalidInput(f"holds {plural(array.null_count, 'null')} and is required", where=where)
    return array


def _conformed(array: pa.Array, type: Type, *, where: str) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return _nulls(type, len(array))
    match type:
        case StructType():
            return _struct(array, type, where=where)
        case ListType():
            return _list(array, type, where=where)
        case MapType():
            return _map(array, type, where=where)
    return _leaf(array, type, where=where)


def _struct(array: pa.Array, type: StructType, *, where: str) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise _mismatch(array, type, where)
    names = [array.type.field(index).name for index in range(array.type.num_fields)]
    at = _matched(names, [field.name for field in type.fields], where=f"{where}.")
    children = array.flatten()
    dead = array.is_null()
    arrays = []
    for field, index in zip(type.fields, at, strict=True):
        inside = f"{where}.{field.name}"
        if index is None:
            child = _default(_optional(field, array.null_count), len(array), where=inside)
        else:
            child = _conformed(children[index], field.type, where=inside)
        if field.required and child.null_count:
            child = _under_nulls(child, dead, field, where=inside)
        arrays.append(child)
    mask = dead if array.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=[arrow_field(field) for field in type.fields], mask=mask)


def _optional(field: NestedField, parents_null: int) -> NestedField:
    """A required field that is missing altogether is an error only where its struct is there, which is found later."""
    if not field.required or not parents_null:
        return field
    return NestedField(
        field_id=field.field_id, name=field.name, type=field.type, required=False, write_default=field.write_default
    )


def _under_nulls(child: pa.Array, dead: pa.Array, field: NestedField, *, where: str) -> pa.Array:
    """Some value where the parent is null: Arrow writes no required column with nulls, whatever its parent is."""
    nulls = pc.sum(pc.and_(child.is_null(), pc.invert(dead))).as_py()
    if nulls:
        raise InvalidInput(f"holds {plural(nulls, 'null')} and is required", where=where)
    if pc.all(dead).as_py():
        parent = NestedField(field_id=0, name="parent", type=StructType((field,)), required=False)
        placeholder = array_of_values([None], parent).field(0)
        return placeholder.take(pa.nulls(len(child), pa.int32()).fill_null(0))
    present = pc.index(dead, pa.scalar(value=False)).as_py()
    at = pc.if_else(dead, pa.scalar(present, pa.int64()), pa.array(range(len(child)), pa.int64()))
    return child.take(at)


def _list(array: pa.Array, type: ListType, *, where: str) -> pa.Array:
    if pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if not pa.types.is_list(array.type):
        raise _mismatch(array, type, where)
    offsets, inside = _offsets(array)
    field = type.element_field
    elements = _conformed(array.values.slice(*inside), field.type, where=f"{where}.element")
    elements = _required(elements, field, where=f"{where}.element")
    return pa.ListArray.from_arrays(offsets, elements, type=arrow_type(type), mask=_mask(array))


def _map(array: pa.Array, type: MapType, *, where: str) -> pa.Array:
    if not pa.types.is_map(array.type):
        raise _mismatch(array, type, where)
    offsets, inside = _offsets(array)
    keys = _conformed(array.keys.slice(*inside), type.key, where=f"{where}.key")
    items = _conformed(array.items.slice(*inside), type.value, where=f"{where}.value")
    items = _required(items, type.value_field, where=f"{where}.value")
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(type), mask=_mask(array))


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _offsets(array: pa.ListArray | pa.MapArray) -> tuple[pa.Array, tuple[int, int]]:
    """Offsets from zero, and offset and length of the elements that they mean."""
    if len(array) == 0:
        return pa.array([0], pa.int32()), (0, 0)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return pc.subtract(array.offsets, pa.scalar(first, pa.int32())), (first, last - first)


def _leaf(array: pa.Array, type: Type, *, where: str) -> pa.Array:
    target = arrow_type(type)
    storage = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type != storage:
        try:
            array = _converted(array, type, storage, where=where)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as refusal:
            raise InvalidInput(f"a value does not fit {type}: {refusal}", where=where) from refusal
    return pa.ExtensionArray.from_storage(target, array) if storage is not target else array


def _converted(array: pa.Array, type: Type, storage: pa.DataType, *, where: str) -> pa.Array:
    source = array.type
    match type:
        case FixedType() if _is_bytes(source) or pa.types.is_fixed_size_binary(source):
            return array.cast(storage)
        case GeometryType() | GeographyType() if _is_bytes(source):
            return array.cast(storage)
    if type == UUID and _is_bytes(source):
        return array.cast(storage)
    if type == UUID and _is_text(source):
        return _each(array, lambda text: uuid.UUID(text).bytes, storage)
    if type == TIME and (pa.types.is_int64(source) or _is_text(source)):
        return array.view(storage) if pa.types.is_int64(source) else _each(array, _time, storage)
    if type in _TIMES:
        return _timestamp(array, type, storage, where=where)
    if type == VARIANT or not _widens(source, storage):
        raise _mismatch(array, type, where)
    return array.cast(storage)


def _timestamp(array: pa.Array, type: Type, storage: pa.DataType, *, where: str) -> pa.Array:
    if pa.types.is_int64(array.type) and type in (TIMESTAMP_NS, TIMESTAMPTZ_NS):
        return array.view(storage)
    if not pa.types.is_timestamp(array.type) or (array.type.tz is None) != (storage.tz is None):
        raise _mismatch(array, type, where)
    return array.cast(storage)


def _each(array: pa.Array, convert: Callable[[Any], Any], storage: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else convert(value) for value in array.to_pylist()], storage)


def _time(text: str) -> dt.time:
    return dt.time.fromisoformat(text)


def _is_bytes(type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type))


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a safe cast keeps every value or fails: it does not for numbers between integers and floats."""
    if pa.types.is_integer(target) or pa.types.is_decimal(target):
        kind = pa.types.is_integer if pa.types.is_integer(target) else pa.types.is_decimal
        return bool(kind(source))
    if pa.types.is_float64(target):
        return bool(pa.types.is_float32(source) or pa.types.is_float64(source))
    if pa.types.is_string(target):
        return _is_text(source)
    if target == arrow_type(BINARY):
        return _is_bytes(source) or bool(pa.types.is_fixed_size_binary(source))
    if pa.types.is_time64(target):
        return bool(pa.types.is_time(source))
    return bool(pa.types.is_date(source) and pa.types.is_date(target))


def _mismatch(array: pa.Array, type: Type, where: str) -> InvalidInput:
    return InvalidInput(f"is {array.type}, and the table's column is {type}", where=where, hint="cast it")
