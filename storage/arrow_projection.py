"""A file's batches as batches of another schema, field by field id (table specification, "Column Projection").

Columns come out renamed, reordered, promoted; what the file does not have is the constant that the caller knows (a
partition value), else the field's initial default, else null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidSchema, Unsupported
from firn.model.schema import Schema
from firn.model.types import (
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    VARIANT,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
)
from firn.storage.arrow_rows import array_of_values, as_optional
from firn.storage.parquet_columns import FileField
from firn.storage.parquet_schema import arrow_field, arrow_schema, arrow_type


def needed_leaves(fields: tuple[FileField, ...], schema: Schema) -> set[int]:
    """Indices of the file's leaf columns that a read of `schema` needs."""
    return _leaves_of_struct(fields, schema.struct)


def _leaves_of_struct(fields: tuple[FileField, ...], type: StructType) -> set[int]:
    by_id = {field.field_id: field for field in fields if field.field_id is not None}
    return {
        leaf
        for wanted in type.fields
        if wanted.field_id in by_id
        for leaf in _leaves(by_id[wanted.field_id], wanted.type)
    }


def _leaves(field: FileField, type: Type) -> set[int]:
    match type:
        case StructType():
            found = _leaves_of_struct(field.children, type)
            # Whether the struct is null is stored with its columns: one of them has to be read.
            return found or {next(one.leaf for one in field.walk() if one.kind == "leaf")}
        case ListType() if field.kind == "list":
            return _leaves(field.children[0], type.element)
        case MapType() if field.kind == "map":
            return _leaves(field.children[0], type.key) | _leaves(field.children[1], type.value)
    return {one.leaf for one in field.walk() if one.kind == "leaf"}


def project_batch(
    batch: pa.RecordBatch,
    fields: tuple[FileField, ...],
    *,
    schema: Schema,
    constants: Mapping[int, Any],
    location: str,
) -> pa.RecordBatch:
    """`batch`, whose columns are `fields` in order, in the Arrow schema of `schema`.

    `constants` are internal values by field id, for columns at the top that the file does not have. Raises
    InvalidSchema for a column that cannot be promoted, or a required one that is nowhere; CorruptFile for values that
    do not fit.
    """
    if not schema.fields:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    by_id = {field.field_id: index for index, field in enumerate(fields) if field.field_id is not None}
    arrays = []
    for wanted in schema.fields:
        at = by_id.get(wanted.field_id)
        if at is not None and wanted.type != UNKNOWN:
            arrays.append(_converted(batch.column(at), fields[at], wanted, location=location))
        elif wanted.field_id in constants:
            arrays.append(_repeated(constants[wanted.field_id], wanted, batch.num_rows))
        else:
            arrays.append(_default(wanted, batch.num_rows, location=location))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def _default(field: NestedField, length: int, *, location: str) -> pa.Array:
    if field.required and field.initial_default is None and field.type != UNKNOWN:
        raise InvalidSchema(
            f"the file has no required column {field.name!r} (id {field.field_id}) and the table no default for it",
            where=location,
        )
    return _repeated(field.initial_default, field, length)


def _repeated(value: Any, field: NestedField, length: int) -> pa.Array:
    if length == 0 or value is None:
        return _empty(field.type, length)
    one = array_of_values([value], field)
    return one.take(pa.nulls(length, pa.int32()).fill_null(0))


def _empty(type: Type, length: int) -> pa.Array:
    target = arrow_type(type)
    if isinstance(target, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(target, pa.nulls(length, target.storage_type))
    return pa.nulls(length, target)


def _converted(array: pa.Array, field: FileField, wanted: NestedField, *, location: str) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    match wanted.type:
        case StructType() if field.kind == "struct":
            return _struct(array, field, wanted.type, location=location)
        case ListType() if field.kind == "list":
            return _list(array, field, wanted.type, location=location)
        case MapType() if field.kind == "map":
            return _map(array, field, wanted.type, location=location)
        case StructType() | ListType() | MapType():
            raise _mismatch(field, wanted, location)
    return _leaf(array, field, wanted, location=location)


def _struct(array: pa.StructArray, field: FileField, type: StructType, *, location: str) -> pa.Array:
    by_id = {child.field_id: index for index, child in enumerate(field.children) if child.field_id is not None}
    masked = array.flatten()
    arrays = []
    for wanted in type.fields:
        at = by_id.get(wanted.field_id)
        if at is None or wanted.type == UNKNOWN:
            arrays.append(_default(wanted, len(array), location=location))
            continue
        # Where the struct is null a required field has some value all the same: Arrow writes no column without.
        child = array.field(at) if wanted.required else masked[at]
        converted = _converted(child, field.children[at], as_optional(wanted), location=location)
        if wanted.required and converted.null_count:
            _check_nulls(converted, array, wanted, location=location)
        arrays.append(converted)
    mask = array.is_null() if array.null_count else None
    if not arrays:
        return pa.array([{} if here else None for here in array.is_valid().to_pylist()], pa.struct([]))
    return pa.StructArray.from_arrays(arrays, fields=[arrow_field(one) for one in type.fields], mask=mask)


def _check_nulls(child: pa.Array, parent: pa.StructArray, wanted: NestedField, *, location: str) -> None:
    nulls = pc.sum(pc.and_(child.is_null(), parent.is_valid())).as_py()
    if nulls:
        raise CorruptFile(location, f"required field {wanted.name!r} holds {plural(nulls, 'null')}")


def _list(array: pa.Array, field: FileField, type: ListType, *, location: str) -> pa.Array:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    offsets, inside = _offsets(array)
    elements = _converted(array.values.slice(*inside), field.children[0], type.element_field, location=location)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, elements, type=arrow_type(type), mask=mask)


def _map(array: pa.MapArray, field: FileField, type: MapType, *, location: str) -> pa.Array:
    offsets, inside = _offsets(array)
    keys = _converted(array.keys.slice(*inside), field.children[0], type.key_field, location=location)
    items = _converted(array.items.slice(*inside), field.children[1], type.value_field, location=location)
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(type), mask=mask)


def _offsets(array: pa.ListArray | pa.MapArray) -> tuple[pa.Array, tuple[int, int]]:
    """Offsets from zero, and offset and length of the elements that they mean."""
    if len(array) == 0:
        return pa.array([0], pa.int32()), (0, 0)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return pc.subtract(array.offsets, pa.scalar(first, pa.int32())), (first, last - first)


def _leaf(array: pa.Array, field: FileField, wanted: NestedField, *, location: str) -> pa.Array:
    target = arrow_type(wanted.type)
    storage = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    if wanted.type == VARIANT:
        array = _variant(array, field, wanted, location=location)
    elif array.type != storage:
        if not _promotes(array.type, wanted.type, storage):
            raise _mismatch(field, wanted, location)
        array = _cast(array, wanted.type, storage, location=location)
    if wanted.required and array.null_count:
        raise CorruptFile(location, f"required column {wanted.name!r} holds {plural(array.null_count, 'null')}")
    return pa.ExtensionArray.from_storage(target, array) if storage is not target else array


def _variant(array: pa.Array, field: FileField, wanted: NestedField, *, location: str) -> pa.Array:
    names = [child.name for child in field.children]
    if field.kind == "struct" and "metadata" in names and "typed_value" in names:
        raise Unsupported(
            f"column {wanted.name!r} is a shredded variant, which firn does not put together",
            where=location,
            hint="read it with Spark, or write it without shredding",
        )
    if field.kind != "struct" or "metadata" not in names or "value" not in names:
        raise _mismatch(field, wanted, location)
    parts = array.flatten()
    return pa.StructArray.from_arrays(
        [parts[names.index(name)].cast(pa.binary()) for name in ("metadata", "value")],
        fields=list(arrow_type(VARIANT)),
        mask=array.is_null() if array.null_count else None,
    )


def _promotes(source: pa.DataType, wanted: Type, target: pa.DataType) -> bool:
    """Whether every value of `source` is one of `target`, by Iceberg's promotions or another width of one type."""
    if pa.types.is_null(source):
        return True
    if pa.types.is_integer(source) and pa.types.is_integer(target):
        unsigned = 1 if pa.types.is_unsigned_integer(source) else 0
        return bool(source.bit_width + unsigned <= target.bit_width)
    if pa.types.is_float32(source) and pa.types.is_float64(target):
        return True
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        return bool(source.scale == target.scale and source.precision <= target.precision)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        order = ("s", "ms", "us", "ns")
        # INT96 has no zone: it is the form that Spark wrote both kinds in.
        finer = order.index(source.unit) <= order.index(target.unit)
        return bool(finer and (source.tz is None or target.tz is not None))
    if pa.types.is_time(source) and pa.types.is_time(target):
        return bool(source.unit != "ns")
    if pa.types.is_date(source):
        return bool(pa.types.is_date(target)) or wanted in (TIMESTAMP, TIMESTAMP_NS)
    return _bytes_fit(source, target) or (
        isinstance(wanted, GeometryType | GeographyType) and _bytes_fit(source, pa.binary())
    )


def _bytes_fit(source: pa.DataType, target: pa.DataType) -> bool:
    text = pa.types.is_string(source) or pa.types.is_large_string(source) or pa.types.is_string_view(source)
    octets = pa.types.is_binary(source) or pa.types.is_large_binary(source) or pa.types.is_binary_view(source)
    fixed = pa.types.is_fixed_size_binary(source)
    if pa.types.is_string(target):
        return bool(text or octets)
    return bool(pa.types.is_binary(target) and (octets or fixed) and not pa.types.is_decimal(source))


def _cast(array: pa.Array, wanted: Type, storage: pa.DataType, *, location: str) -> pa.Array:
    try:
        if wanted == TIMESTAMP_NS and pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("s"))
        return array.cast(storage)
    except pa.ArrowInvalid as refusal:
        raise CorruptFile(location, f"a value does not fit {wanted}: {refusal}") from refusal


def _mismatch(field: FileField, wanted: NestedField, location: str) -> InvalidSchema:
    return InvalidSchema(
        f"column {field.name!r} (id {wanted.field_id}) is {field.type} in the file and {wanted.type} in the table",
        where=location,
    )
