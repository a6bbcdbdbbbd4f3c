"""The Avro schemas of data files: each type of a table as Appendix A, "Avro", has it, with field ids."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput, Unsupported
from firn.model.internal_values import decimal_width
from firn.model.name_mapping import MappedField, NameMapping
from firn.model.schema import Schema
from firn.model.types import (
    STRING,
    UNKNOWN,
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
from firn.model.values import to_bytes
from firn.storage.manifest_schema import avro_name

_PLAIN: Final[dict[str, Any]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}


def avro_schema_json(schema: Schema, *, name: str = "table") -> bytes:
    """The JSON of the Avro schema of rows of `schema`; `name` is the record's.

    Columns of type unknown are left out. Maps with string keys are Avro maps, as Java writes them. Raises Unsupported
    for a list or map of unknown values.
    """
    return msgspec.json.encode(_Builder().record(schema.struct, name=avro_name(name), where=""))


class _Builder:
    """Builds one schema; a named type is written out once and then referred to."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def record(self, struct: StructType, *, name: str, where: str) -> dict[str, Any]:
        fields: list[dict[str, Any]] = []
        used: set[str] = set()
        for field in struct.fields:
            if field.type == UNKNOWN:
                continue
            safe = avro_name(field.name)
            if safe in used:
                safe = f"{safe}_{field.field_id}"
            used.add(safe)
            fields.append(self._field(field, name=safe, where=where))
        self._named.add(name)
        return {"type": "record", "name": name, "fields": fields}

    def _field(self, field: NestedField, *, name: str, where: str) -> dict[str, Any]:
        path = f"{where}.{field.name}".lstrip(".")
        type = self.type(field.type, field_id=field.field_id, where=path)
        default = _default(field)
        out: dict[str, Any] = {"name": name, "type": type}
        if not field.required:
            # An Avro default has the type of the union's first branch.
            out["type"] = ["null", type] if default is None else [type, "null"]
            out["default"] = default
        elif default is not None:
            out["default"] = default
        if field.doc is not None:
            out["doc"] = field.doc
        out["field-id"] = field.field_id
        if name != field.name:
            out["iceberg-field-name"] = field.name
        return out

    def type(self, type: Type, *, field_id: int, where: str) -> Any:
        match type:
            case StructType():
                return self.record(type, name=f"r{field_id}", where=where)
            case ListType():
                items = self._inner(type.element_field, where=where)
                return {"type": "array", "items": items, "element-id": type.element_id}
            case MapType():
                return self._map(type, where=where)
            case DecimalType(precision=precision, scale=scale):
                logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
                return self._fixed(f"decimal_{precision}_{scale}", decimal_width(precision), logical)
            case FixedType(length=length):
                return self._fixed(f"fixed_{length}", length, {})
            case GeometryType() | GeographyType():
                return "bytes"
            case PrimitiveType(name="uuid"):
                return self._fixed("uuid_fixed", 16, {"logicalType": "uuid"})
            case PrimitiveType(name="variant"):
                parts = [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}]
                return {"type": "record", "name": f"r{field_id}", "logicalType": "variant", "fields": parts}
            case PrimitiveType(name="unknown"):
                raise Unsupported("values of type unknown cannot be inside a list or map in Avro", where=where)
            case PrimitiveType(name=name):
                return _PLAIN[name]

    def _inner(self, field: NestedField, *, where: str) -> Any:
        inner = self.type(field.type, field_id=field.field_id, where=f"{where}.{field.name}")
        return inner if field.required else ["null", inner]

    def _map(self, type: MapType, *, where: str) -> dict[str, Any]:
        if type.key == STRING:
            values = self._inner(type.value_field, where=where)
            return {"type": "map", "values": values, "key-id": type.key_id, "value-id": type.value_id}
        fields = [
            {"name": "key", "type": self._inner(type.key_field, where=where), "field-id": type.key_id},
            {"name": "value", "type": self._inner(type.value_field, where=where), "field-id": type.value_id},
        ]
        items = {"type": "record", "name": f"k{type.key_id}_v{type.value_id}", "fields": fields}
        return {"type": "array", "logicalType": "map", "items": items}

    def _fixed(self, name: str, size: int, logical: dict[str, Any]) -> Any:
        if name in self._named:
            return name
        self._named.add(name)
        return {"type": "fixed", "name": name, "size": size} | logical


def _default(field: NestedField) -> Any:
    """The Avro default of a field with an initial default; None where there is none or Avro has no form for it."""
    value, type = field.initial_default, field.type
    if value is None or isinstance(type, StructType | ListType | MapType) or type in (VARIANT, UNKNOWN):
        return None
    if isinstance(type, DecimalType):
        raw = to_bytes(type, value)
        fill = b"\xff" if raw[0] & 0x80 else b"\0"
        return raw.rjust(decimal_width(type.precision), fill).decode("latin-1")
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if type == PrimitiveType("uuid"):
        return value.bytes.decode("latin-1")
    return value if not isinstance(value, float) or value - value == 0 else None


def with_mapped_ids(schema: bytes, mapping: NameMapping, *, where: str) -> bytes:
    """The JSON of a schema without any field id, with the ids that `mapping` gives its names; itself if it has some.

    Raises InvalidInput when it is not JSON.
    """
    if b'"field-id"' in schema:
        return schema
    try:
        decoded = json.loads(schema)
        return msgspec.json.encode(_mapped(decoded, mapping.fields))
    except (ValueError, RecursionError) as refusal:
        raise InvalidInput(f"not an Avro schema: {refusal}", where=where) from None


def _mapped(schema: Any, fields: tuple[MappedField, ...]) -> Any:
    if isinstance(schema, list):
        return [_mapped(branch, fields) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    by_name = {name: field for field in fields for name in field.names}
    nothing = MappedField(names=())
    match schema.get("type"):
        case "record" if isinstance(schema.get("fields"), list):
            return schema | {"fields": [_mapped_field(member, by_name) for member in schema["fields"]]}
        case "array" if _key_and_value(schema):
            return schema | {"items": _mapped(schema.get("items"), fields)}
        case "array":
            return schema | {"items": _mapped(schema.get("items"), by_name.get("element", nothing).fields)}
        case "map":
            return schema | {"values": _mapped(schema.get("values"), by_name.get("value", nothing).fields)}
        case dict() | list() as inner:
            return schema | {"type": _mapped(inner, fields)}
    return schema


def _key_and_value(schema: dict[str, Any]) -> bool:
    return schema.get("logicalType") == "map"


def _mapped_field(member: Any, by_name: dict[str, MappedField]) -> Any:
    if not isinstance(member, dict):
        return member
    name = member.get("iceberg-field-name", member.get("name"))
    aliases = member.get("aliases")
    names = [name, *(aliases if isinstance(aliases, list) else [])]
    match = next((by_name[one] for one in names if isinstance(one, str) and one in by_name), None)
    if match is None:
        return member
    out = member | {"type": _mapped(member.get("type"), match.fields)}
    return out if match.field_id is None else out | {"field-id": match.field_id}
