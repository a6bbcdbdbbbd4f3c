"""Rows as Arrow arrays and back.

A row is a dict of field id to internal value (`firn.model.datafile`); nested values are those of `firn.model.values`: a
struct is such a dict too, a list a tuple, a map a tuple of (key, value) pairs. A variant is a `Variant`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from firn.model.errors import CorruptFile, InvalidInput
from firn.model.internal_values import INTEGER_TYPES, check_value, decimal_of
from firn.model.schema import Schema
from firn.model.types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    STRING,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
)
from firn.model.variant import Variant
from firn.storage.parquet_schema import arrow_field, arrow_schema, arrow_type

Row = dict[int, Any]

_FOUR_BYTES: Final = frozenset({"int", "date"})


def batch_of_rows(rows: Sequence[Mapping[int, Any]], schema: Schema) -> pa.RecordBatch:
    """The rows as a batch in the Arrow schema of `schema`; fields that a row does not have are null.

    Raises InvalidInput naming row and column for a value of another type or a null in a required column.
    """
    arrays = [_array([row.get(field.field_id) for row in rows], field, where=field.name) for field in schema.fields]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def rows_of_batch(batch: pa.RecordBatch, schema: Schema, *, location: str = "batch") -> list[Row]:
    """The rows of a batch whose columns are those of `schema`, in its order and types.

    `location` names the file it came from, for the CorruptFile that a text which is not UTF-8 raises.
    """
    try:
        columns = [values_of(column, field.type) for column, field in zip(batch.columns, schema.fields, strict=True)]
    except UnicodeDecodeError as refusal:
        raise CorruptFile(location, f"a text is not UTF-8: {refusal}") from None
    ids = [field.field_id for field in schema.fields]
    if not columns:
        return [{} for _ in range(batch.num_rows)]
    return [dict(zip(ids, values, strict=True)) for values in zip(*columns, strict=True)]


def values_of(array: pa.Array, type: Type) -> list[Any]:
    """The internal values of an array in the Arrow type of `type`."""
    match type:
        case StructType():
            children = [values_of(child, field.type) for child, field in zip(array.flatten(), type.fields, strict=True)]
            ids = [field.field_id for field in type.fields]
            valid = array.is_valid().to_pylist()
            return [
                {i: child[at] for i, child in zip(ids, children, strict=True)} if here else None
                for at, here in enumerate(valid)
            ]
        case ListType():
            spans, inside = _spans(array)
            elements = values_of(array.values.slice(*inside), type.element)
            return [None if span is None else tuple(elements[slice(*span)]) for span in spans]
        case MapType():
            spans, inside = _spans(array)
            keys = values_of(array.keys.slice(*inside), type.key)
            entries = list(zip(keys, values_of(array.items.slice(*inside), type.value), strict=True))
            return [None if span is None else tuple(entries[slice(*span)]) for span in spans]
    return _leaf_values(array, type)


def _spans(array: pa.ListArray | pa.MapArray) -> tuple[list[tuple[int, int] | None], tuple[int, int]]:
    """Where each list lies among the elements that the array uses (None for null), and where those lie among all."""
    offsets = array.offsets.to_pylist()
    first = offsets[0] if offsets else 0
    valid = array.is_valid().to_pylist()
    spans = [
        (start - first, stop - first) if here else None
        for start, stop, here in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]
    return spans, (first, (offsets[-1] if offsets else 0) - first)


def _leaf_values(array: pa.Array, type: Type) -> list[Any]:
    if type == UNKNOWN:
        return [None] * len(array)
    if type == VARIANT:
        parts = (part.to_pylist() for part in array.flatten())
        return [
            Variant(metadata, value) if here else None
            for metadata, value, here in zip(*parts, array.is_valid().to_pylist(), strict=True)
        ]
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if type == UUID:
        return [None if value is None else uuid.UUID(bytes=value) for value in array.to_pylist()]
    if isinstance(type, PrimitiveType) and type.name in INTEGER_TYPES:
        # Python's own dates and times end at the year 9999 and at microseconds.
        array = array.view(pa.int32() if type.name in _FOUR_BYTES else pa.int64())
    values: list[Any] = array.to_pylist()
    return values


def array_of_values(values: Sequence[Any], field: NestedField) -> pa.Array:
    """The values of one column as an array in its Arrow type; InvalidInput as in `batch_of_rows`."""
    return _array(values, field, where=field.name)


def _array(values: Sequence[Any], field: NestedField, *, where: str) -> pa.Array:
    if field.required and field.type != UNKNOWN and None in values:
        raise InvalidInput("null in a required column", where=f"row {_first_null(values)}, {where}")
    type = field.type
    match type:
        case StructType():
            return _struct_array(values, type, where=where)
        case ListType():
            items = [element for value in values for element in _sequence(value, where)]
            elements = _array(items, type.element_field, where=f"{where}.element")
            return pa.ListArray.from_arrays(_offsets(values), elements, type=arrow_type(type), mask=_mask(values))
        case MapType():
            pairs = [pair for value in values for pair in _sequence(value, where)]
            keys = _array([key for key, _ in pairs], type.key_field, where=f"{where}.key")
            items = _array([value for _, value in pairs], type.value_field, where=f"{where}.value")
            return pa.MapArray.from_arrays(_offsets(values), keys, items, type=arrow_type(type), mask=_mask(values))
    return _leaf_array(values, type, where=where)


def _first_null(values: Sequence[Any]) -> int:
    return next(index for index, value in enumerate(values) if value is None)


def _sequence(value: Any, where: str) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, tuple | list):
        raise InvalidInput(f"{type(value).__name__} is not a list or map value", where=where)
    return value


def _offsets(values: Sequence[Any]) -> pa.Array:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + (0 if value is None else len(value)))
    return pa.array(offsets, pa.int32())


def _mask(values: Sequence[Any]) -> pa.Array | None:
    return pa.array([value is None for value in values], pa.bool_()) if None in values else None


def _struct_array(values: Sequence[Any], type: StructType, *, where: str) -> pa.Array:
    for at, value in enumerate(values):
        if value is not None and not isinstance(value, Mapping):
            raise InvalidInput("a struct value must be a mapping of field id to value", where=f"row {at}, {where}")
    mask = _mask(values)
    if not type.fields:
        return pa.array([None if value is None else {} for value in values], arrow_type(type))
    children = []
    for field in type.fields:
        # Arrow writes no required column with nulls in it, though its parent's null says that nothing is there.
        missing = _placeholder(field.type) if field.required else None
        inside = [missing if value is None else value.get(field.field_id) for value in values]
        children.append(_array(inside, field, where=f"{where}.{field.name}"))
    return pa.StructArray.from_arrays(children, fields=[arrow_field(field) for field in type.fields], mask=mask)


def _placeholder(type: Type) -> Any:
    """Some value of a type, which nobody reads."""
    match type:
        case StructType():
            return {field.field_id: _placeholder(field.type) for field in type.fields if field.required}
        case ListType() | MapType():
            return ()
        case DecimalType(scale=scale):
            return decimal_of(0, scale)
        case FixedType(length=length):
            return bytes(length)
        case PrimitiveType(name=name) if name in INTEGER_TYPES:
            return 0
    return _PLACEHOLDERS.get(type, b"")


_PLACEHOLDERS: Final[Mapping[Type, Any]] = {
    BOOLEAN: False,
    FLOAT: 0.0,
    DOUBLE: 0.0,
    STRING: "",
    UUID: uuid.UUID(int=0),
    UNKNOWN: None,
    VARIANT: Variant(b"", b""),
}


def as_optional(field: NestedField) -> NestedField:
    """The field without its requirement, for a place where its parent's null stands for it."""
    return msgspec.structs.replace(field, required=False)


def _leaf_array(values: Sequence[Any], type: Type, *, where: str) -> pa.Array:
    target = arrow_type(type)
    if type == UNKNOWN:
        return pa.nulls(len(values))
    if type == VARIANT:
        parts = [None if one is None else {"metadata": one.metadata, "value": one.value} for one in values]
        return pa.array(parts, target)
    checked = [
        None if value is None else check_value(type, value, where=f"row {at}, {where}")
        for at, value in enumerate(values)
    ]
    if type == UUID:
        checked = [None if value is None else value.bytes for value in checked]
    storage = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    array = pa.array(checked, storage)
    return pa.ExtensionArray.from_storage(target, array) if storage is not target else array
