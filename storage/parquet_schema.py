"""Table schemas as Arrow schemas that Parquet writes with field ids on all levels, and back (Appendix A, "Parquet")."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, Final

import msgspec
import pyarrow as pa

from firn.model.errors import InvalidSchema, Unsupported
from firn.model.schema import Schema, assign_fresh_ids, check_unique_ids
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
    PrimitiveType,
    StructType,
    Type,
)
from firn.storage.parquet_columns import FIELD_ID_KEY, arrow_field_id, storage_type

_GEO_EXTENSION: Final = "geoarrow.wkb"
_DOC_KEY: Final = b"doc"

_ARROW: Final[dict[PrimitiveType, pa.DataType]] = {
    BOOLEAN: pa.bool_(),
    INT: pa.int32(),
    LONG: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    DATE: pa.date32(),
    TIME: pa.time64("us"),
    TIMESTAMP: pa.timestamp("us"),
    TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    TIMESTAMP_NS: pa.timestamp("ns"),
    TIMESTAMPTZ_NS: pa.timestamp("ns", tz="UTC"),
    STRING: pa.string(),
    UUID: pa.uuid(),
    BINARY: pa.binary(),
    UNKNOWN: pa.null(),
    VARIANT: pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())]),
}


class GeoArrowType(pa.ExtensionType):  # type: ignore[misc]
    """Well-known binary that Arrow writes to Parquet as GEOMETRY or GEOGRAPHY."""

    def __init__(self, parameters: bytes) -> None:
        self._parameters = parameters
        super().__init__(pa.binary(), _GEO_EXTENSION)

    def __arrow_ext_serialize__(self) -> bytes:
        return self._parameters

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> GeoArrowType:
        return cls(serialized)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's rows, with ``PARQUET:field_id`` on every field, nested ones included.

    A variant is a struct of its two parts, which have no ids.
    """
    return pa.schema([arrow_field(field) for field in schema.fields])


def arrow_field(field: NestedField) -> pa.Field:
    """One field with its id and doc."""
    metadata = {FIELD_ID_KEY: str(field.field_id).encode()}
    if field.doc is not None:
        metadata[_DOC_KEY] = field.doc.encode()
    nullable = not field.required or field.type == UNKNOWN
    return pa.field(field.name, arrow_type(field.type), nullable=nullable, metadata=metadata)


def arrow_type(type: Type) -> pa.DataType:
    """The Arrow type whose Parquet form is that of Appendix A; nested fields carry their ids."""
    match type:
        case PrimitiveType():
            return _ARROW[type]
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case FixedType(length=length):
            return pa.binary(length)
        case GeometryType() | GeographyType():
            return GeoArrowType(_geo_parameters(type))
        case StructType():
            return pa.struct([arrow_field(field) for field in type.fields])
        case ListType():
            return pa.list_(arrow_field(type.element_field))
        case MapType():
            return pa.map_(arrow_field(type.key_field), arrow_field(type.value_field))


def _geo_parameters(type: GeometryType | GeographyType) -> bytes:
    parameters: dict[str, Any] = {}
    if type.crs is not None:
        parameters["crs"] = type.crs
    if isinstance(type, GeographyType):
        parameters["edges"] = type.algorithm or "spherical"
    return msgspec.json.encode(parameters)


def schema_from_arrow(schema: pa.Schema, *, where: str = "schema") -> Schema:
    """The table schema of an Arrow schema, to create a table from.

    Field ids are taken from ``PARQUET:field_id`` where every field has one, and given anew where none has. Raises
    InvalidSchema when only some have, Unsupported for a type that the format does not have.
    """
    reader = _Reader()
    fields = tuple(reader.field(field, where=f"{where}.{field.name}") for field in schema)
    if reader.with_id and reader.without_id:
        raise InvalidSchema(f"has a field id, but not {reader.without_id}", where=reader.with_id)
    result = Schema(schema_id=0, struct=StructType(fields))
    if reader.without_id:
        return assign_fresh_ids(result)[0]
    check_unique_ids(result, where=where)
    return result


class _Reader:
    """Reads fields and remembers a place with and a place without an id."""

    def __init__(self) -> None:
        self.with_id = ""
        self.without_id = ""
        self._temporary = count(1)

    def field(self, field: pa.Field, *, where: str) -> NestedField:
        doc = (field.metadata or {}).get(_DOC_KEY)
        return NestedField(
            field_id=self._id(field, where=where),
            name=field.name,
            type=self._type(field.type, where=where),
            required=not field.nullable and not pa.types.is_null(field.type),
            doc=None if doc is None else doc.decode("utf-8", "replace"),
        )

    def _id(self, field: pa.Field, *, where: str) -> int:
        field_id = arrow_field_id(field)
        if field_id is None:
            self.without_id = self.without_id or where
            return next(self._temporary)
        self.with_id = self.with_id or where
        return field_id

    def _type(self, type: pa.DataType, *, where: str) -> Type:
        if type == pa.uuid():
            return UUID
        if isinstance(type, pa.BaseExtensionType) and type.extension_name == _GEO_EXTENSION:
            return _geo_type(type)
        type = storage_type(type)
        if pa.types.is_struct(type):
            fields = (type.field(index) for index in range(type.num_fields))
            return StructType(tuple(self.field(field, where=f"{where}.{field.name}") for field in fields))
        if pa.types.is_map(type):
            key = self.field(type.key_field, where=f"{where}.key")
            value = self.field(type.item_field, where=f"{where}.value")
            return MapType(
                key_id=key.field_id,
                key=key.type,
                value_id=value.field_id,
                value=value.type,
                value_required=value.required,
            )
        if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
            element = self.field(type.value_field, where=f"{where}.element")
            return ListType(element_id=element.field_id, element=element.type, element_required=element.required)
        found = _leaf_type(type)
        if found is None:
            raise Unsupported(f"Arrow type {type} has no Iceberg type", where=where)
        return found


def _geo_type(type: pa.BaseExtensionType) -> Type:
    try:
        parameters = json.loads(type.__arrow_ext_serialize__() or b"{}")
    except (ValueError, AttributeError):
        parameters = {}
    parameters = parameters if isinstance(parameters, dict) else {}
    crs, edges = parameters.get("crs"), parameters.get("edges")
    crs = crs if isinstance(crs, str) else None
    if isinstance(edges, str) and edges != "planar":
        return GeographyType(crs=crs, algorithm=None if edges == "spherical" else edges)
    return GeometryType(crs=crs)


def _leaf_type(type: pa.DataType) -> Type | None:
    if pa.types.is_decimal(type):
        return DecimalType(type.precision, type.scale) if 0 <= type.scale <= type.precision <= 38 else None
    if pa.types.is_fixed_size_binary(type):
        return FixedType(type.byte_width)
    if pa.types.is_timestamp(type):
        if type.unit == "ns":
            return TIMESTAMP_NS if type.tz is None else TIMESTAMPTZ_NS
        return TIMESTAMP if type.tz is None else TIMESTAMPTZ
    if pa.types.is_time(type):
        return None if type.unit == "ns" else TIME
    return next((found for holds, found in _LEAVES if holds(type)), None)


_LEAVES: Final = (
    (pa.types.is_boolean, BOOLEAN),
    (lambda type: pa.types.is_integer(type) and type.bit_width < 32, INT),
    (pa.types.is_int32, INT),
    (lambda type: pa.types.is_uint32(type) or pa.types.is_int64(type), LONG),
    (pa.types.is_float32, FLOAT),
    (pa.types.is_float64, DOUBLE),
    (pa.types.is_date, DATE),
    (lambda type: pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type), STRING),
    (lambda type: pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type), BINARY),
    (pa.types.is_null, UNKNOWN),
)
