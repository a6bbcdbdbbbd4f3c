"""The JSON form of types and fields (table specification, Appendix C, "Schemas").

Unknown members are kept and written back. Structure only is checked here; what a whole schema must hold is checked by
`firn.model.schema_rules`.
"""

from __future__ import annotations

from typing import Any, Final

from firn.model.amounts import plural
from firn.model.errors import InvalidSchema
from firn.model.json_members import describe, extra_of, int_of, join, list_of, missing, str_of, str_or_none
from firn.model.types import (
    TYPE_DEPTH_MAX,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    type_from_text,
)
from firn.model.values import value_from_json, value_to_json

SCHEMA_FIELDS_MAX: Final = 100_000
"""Fields accepted directly in one struct."""

_FIELD_MEMBERS: Final = frozenset({"id", "name", "required", "type", "doc", "initial-default", "write-default"})
_STRUCT_MEMBERS: Final = frozenset({"type", "fields"})
_LIST_MEMBERS: Final = frozenset({"type", "element-id", "element", "element-required"})
_MAP_MEMBERS: Final = frozenset({"type", "key-id", "key", "value-id", "value", "value-required"})


def type_from_json(obj: Any, *, where: str = "type", depth: int = 0) -> Type:
    """The type that a string or an object describes. Raises InvalidInput naming the member at fault.

    `depth` is how many levels of nesting are around it already; TYPE_DEPTH_MAX are accepted.
    """
    if isinstance(obj, str):
        return type_from_text(obj, where=where)
    if not isinstance(obj, dict):
        raise InvalidSchema(f"a type must be a string or an object, not {describe(obj)}", where=where)
    if depth >= TYPE_DEPTH_MAX:
        raise InvalidSchema(f"more than {TYPE_DEPTH_MAX} levels of nested types", where=where)
    match str_of(obj, "type", where=where):
        case "struct":
            return struct_from_json(obj, where=where, depth=depth, known=_STRUCT_MEMBERS)
        case "list":
            return ListType(
                element_id=int_of(obj, "element-id", where=where),
                element=_member_type(obj, "element", where=where, depth=depth),
                element_required=bool_of(obj, "element-required", where=where),
                extra=extra_of(obj, _LIST_MEMBERS),
            )
        case "map":
            return MapType(
                key_id=int_of(obj, "key-id", where=where),
                key=_member_type(obj, "key", where=where, depth=depth),
                value_id=int_of(obj, "value-id", where=where),
                value=_member_type(obj, "value", where=where, depth=depth),
                value_required=bool_of(obj, "value-required", where=where),
                extra=extra_of(obj, _MAP_MEMBERS),
            )
        case other:
            raise InvalidSchema(
                f"unknown nested type {other[:80]!r}", where=join(where, "type"), hint="one of struct, list, map"
            )


def _member_type(obj: dict[str, Any], key: str, *, where: str, depth: int) -> Type:
    if obj.get(key) is None:
        raise missing(key, where=where)
    return type_from_json(obj[key], where=join(where, key), depth=depth + 1)


def struct_from_json(obj: dict[str, Any], *, where: str, known: frozenset[str], depth: int = 0) -> StructType:
    """The struct type of an object with ``fields``; members not in `known` go to `extra`."""
    members = list_of(obj, "fields", where=where)
    if len(members) > SCHEMA_FIELDS_MAX:
        raise InvalidSchema(f"{plural(len(members), 'field')}, over {SCHEMA_FIELDS_MAX}", where=join(where, "fields"))
    fields = tuple(
        field_from_json(member, where=f"{where}.fields[{i}]", depth=depth) for i, member in enumerate(members)
    )
    return StructType(fields, extra_of(obj, known))


def field_from_json(obj: Any, *, where: str = "field", depth: int = 0) -> NestedField:
    """One field of a struct with its defaults as internal values. Raises InvalidInput naming the member at fault."""
    if not isinstance(obj, dict):
        raise InvalidSchema(f"a field must be an object, not {describe(obj)}", where=where)
    type = _member_type(obj, "type", where=where, depth=depth)
    return NestedField(
        field_id=int_of(obj, "id", where=where),
        name=str_of(obj, "name", where=where),
        type=type,
        required=bool_of(obj, "required", where=where),
        doc=str_or_none(obj, "doc", where=where),
        initial_default=_default_from_json(obj, "initial-default", type, where=where),
        write_default=_default_from_json(obj, "write-default", type, where=where),
        extra=extra_of(obj, _FIELD_MEMBERS),
    )


def _default_from_json(obj: dict[str, Any], key: str, type: Type, *, where: str) -> Any:
    value = obj.get(key)
    return None if value is None else value_from_json(type, value, where=join(where, key))


def bool_of(obj: dict[str, Any], key: str, *, where: str) -> bool:
    """The boolean member `key`; raises when it is missing."""
    value = obj.get(key)
    if value is None:
        raise missing(key, where=where)
    if not isinstance(value, bool):
        raise InvalidSchema(f"must be a boolean, not {describe(value)}", where=join(where, key))
    return value


def type_to_json(type: Type) -> str | dict[str, Any]:
    """The JSON form: a string, or an object for struct, list and map."""
    match type:
        case StructType():
            return {"type": "struct", "fields": [field_to_json(f) for f in type.fields], **type.extra}
        case ListType():
            return {
                "type": "list",
                "element-id": type.element_id,
                "element": type_to_json(type.element),
                "element-required": type.element_required,
                **type.extra,
            }
        case MapType():
            return {
                "type": "map",
                "key-id": type.key_id,
                "key": type_to_json(type.key),
                "value-id": type.value_id,
                "value": type_to_json(type.value),
                "value-required": type.value_required,
                **type.extra,
            }
        case _:
            return str(type)


def field_to_json(field: NestedField) -> dict[str, Any]:
    """The JSON form of one struct field; null defaults and an absent doc are left out."""
    out: dict[str, Any] = {
        "id": field.field_id,
        "name": field.name,
        "required": field.required,
        "type": type_to_json(field.type),
    }
    if field.doc is not None:
        out["doc"] = field.doc
    if field.initial_default is not None:
        out["initial-default"] = value_to_json(field.type, field.initial_default)
    if field.write_default is not None:
        out["write-default"] = value_to_json(field.type, field.write_default)
    return out | field.extra
