"""Name mappings: field ids for data files that carry none (table specification, "Column Projection", Appendix C).

The table property ``schema.name-mapping.default`` holds the JSON text of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput, InvalidMetadata, InvalidPropertyError
from firn.model.json_members import as_object, describe, extra_of, int_or_none, join, list_or_none, strs_of
from firn.model.schema import Schema
from firn.model.strict_json import loads
from firn.model.type_json import SCHEMA_FIELDS_MAX
from firn.model.types import (
    TYPE_DEPTH_MAX,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    child_fields,
)

NAME_MAPPING_PROPERTY: Final = "schema.name-mapping.default"

NAME_MAPPING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of a mapping's JSON text."""

_MEMBERS: Final = frozenset({"field-id", "names", "fields"})


class MappedField(msgspec.Struct, frozen=True, kw_only=True):
    """The names that one field has in files, its id (None: in files only) and the fields inside it.

    Names are literal: ``a.b`` is one name. The fields of a list are named ``element``, of a map ``key`` and ``value``.
    """

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()
    extra: dict[str, Any] = {}


class NameMapping(msgspec.Struct, frozen=True, dict=True):
    """The mapped fields at the top of a table."""

    fields: tuple[MappedField, ...]

    @cached_property
    def fields_by_id(self) -> Mapping[int, MappedField]:
        """Every mapped field that has an id, nested ones included."""
        found: dict[int, MappedField] = {}
        open_fields = list(reversed(self.fields))
        while open_fields:
            field = open_fields.pop()
            if field.field_id is not None:
                found[field.field_id] = field
            open_fields.extend(reversed(field.fields))
        return found


def name_mapping_from_text(text: str, *, where: str = NAME_MAPPING_PROPERTY) -> NameMapping:
    """The mapping in the value of the table property. Raises InvalidInput."""
    # Each level of fields is an object and an array.
    return name_mapping_from_json(
        loads(text, where=where, bytes_max=NAME_MAPPING_BYTES_MAX, depth_max=2 * TYPE_DEPTH_MAX + 2), where=where
    )


def check_name_mapping(properties: Mapping[str, str]) -> None:
    """Refuse a name mapping that cannot be read. Raises InvalidPropertyError; nothing happens where none is set."""
    text = properties.get(NAME_MAPPING_PROPERTY)
    if text is None:
        return
    try:
        name_mapping_from_text(text)
    except InvalidInput as error:
        raise InvalidPropertyError(str(error), where=f"properties.{NAME_MAPPING_PROPERTY}") from error


def name_mapping_from_json(obj: Any, *, where: str = "name-mapping") -> NameMapping:
    """The mapping that a JSON array describes.

    Raises InvalidMetadata for malformed members, and where an id or a name among siblings occurs twice: which column a
    file's field is would then be chance.
    """
    ids: set[int] = set()
    return NameMapping(_fields_from_json(obj, ids, where=where, depth=0))


def _fields_from_json(obj: Any, ids: set[int], *, where: str, depth: int) -> tuple[MappedField, ...]:
    if not isinstance(obj, list):
        raise InvalidMetadata(f"must be an array, not {describe(obj)}", where=where)
    if depth >= TYPE_DEPTH_MAX:
        raise InvalidMetadata(f"more than {TYPE_DEPTH_MAX} levels of mapped fields", where=where)
    if len(obj) > SCHEMA_FIELDS_MAX:
        raise InvalidMetadata(f"{len(obj)} mapped fields, over {SCHEMA_FIELDS_MAX}", where=where)
    names: set[str] = set()
    fields = []
    for i, member in enumerate(obj):
        path = f"{where}[{i}]"
        field = _field_from_json(member, ids, where=path, depth=depth)
        for name in field.names:
            if name in names:
                raise InvalidMetadata(f"name {name!r} is mapped twice", where=join(path, "names"))
            names.add(name)
        fields.append(field)
    return tuple(fields)


def _field_from_json(obj: Any, ids: set[int], *, where: str, depth: int) -> MappedField:
    members = as_object(obj, where=where)
    field_id = int_or_none(members, "field-id", where=where)
    if field_id is not None:
        if field_id in ids:
            raise InvalidMetadata(f"field id {field_id} is mapped twice", where=join(where, "field-id"))
        ids.add(field_id)
    nested = list_or_none(members, "fields", where=where)
    return MappedField(
        names=tuple(dict.fromkeys(strs_of(members, "names", where=where))),
        field_id=field_id,
        fields=() if nested is None else _fields_from_json(nested, ids, where=join(where, "fields"), depth=depth + 1),
        extra=extra_of(members, _MEMBERS),
    )


def name_mapping_to_json(mapping: NameMapping) -> list[dict[str, Any]]:
    """The JSON array of a mapping."""
    return [_field_to_json(f) for f in mapping.fields]


def name_mapping_to_text(mapping: NameMapping) -> str:
    """The mapping as the value of the table property."""
    return json.dumps(name_mapping_to_json(mapping), ensure_ascii=False, separators=(",", ":"))


def _field_to_json(field: MappedField) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if field.field_id is not None:
        out["field-id"] = field.field_id
    out["names"] = list(field.names)
    if field.fields:
        out["fields"] = [_field_to_json(f) for f in field.fields]
    return out | field.extra


def name_mapping_of(schema: Schema) -> NameMapping:
    """The mapping in which every field has the one name that it has in the schema."""
    return NameMapping(_mapped(schema.struct))


def _mapped(type: Type) -> tuple[MappedField, ...]:
    return tuple(MappedField(names=(f.name,), field_id=f.field_id, fields=_mapped(f.type)) for f in child_fields(type))


def update_name_mapping(mapping: NameMapping, *, before: Schema, after: Schema) -> NameMapping:
    """The mapping for a schema that evolved: renamed fields gain their new name, added ones a mapping of their own.

    A name goes to the field that has it in `after` and is taken from any other: files written from now on mean that
    one. Old names and dropped fields stay otherwise, because files that have them do; fields that were not mapped are
    not mapped by a new name either.
    """
    old = before.fields_by_id
    added = frozenset(i for i in after.fields_by_id if i not in old)
    renamed = frozenset(i for i, f in after.fields_by_id.items() if i in old and old[i].name != f.name)
    return NameMapping(_updated(mapping.fields, after.struct, added=added, renamed=renamed))


def _updated(
    mapped: tuple[MappedField, ...], type: Type, *, added: frozenset[int], renamed: frozenset[int]
) -> tuple[MappedField, ...]:
    children = {f.field_id: f for f in child_fields(type)}
    owners = {f.name: i for i, f in children.items() if i in added or i in renamed}
    out = []
    for field in mapped:
        names = [n for n in field.names if owners.get(n, field.field_id) == field.field_id]
        nested = field.fields
        child = None if field.field_id is None else children.get(field.field_id)
        if child is not None:
            nested = _updated(nested, child.type, added=added, renamed=renamed)
            if child.field_id in renamed and child.name not in names:
                names.append(child.name)
        out.append(msgspec.structs.replace(field, names=tuple(names), fields=nested))
    out += [MappedField(names=(f.name,), field_id=i, fields=_mapped(f.type)) for i, f in children.items() if i in added]
    return tuple(out)


def apply_name_mapping(struct: StructType, mapping: NameMapping) -> StructType:
    """The columns of a file that has no field ids, with the ids of the mapping; ids in `struct` are ignored.

    Fields without an id in the mapping are left out, and so are lists and maps whose element, key or value has none:
    they are not columns of the table.
    """
    return StructType(_identified(struct.fields, mapping.fields))


def _identified(fields: tuple[NestedField, ...], mapped: tuple[MappedField, ...]) -> tuple[NestedField, ...]:
    by_name = {name: m for m in mapped for name in m.names}
    out = []
    for field in fields:
        match = by_name.get(field.name)
        if match is None or match.field_id is None:
            continue
        type = _type_identified(field.type, match.fields)
        if type is not None:
            out.append(msgspec.structs.replace(field, field_id=match.field_id, type=type))
    return tuple(out)


def _type_identified(type: Type, mapped: tuple[MappedField, ...]) -> Type | None:
    match type:
        case StructType():
            return StructType(_identified(type.fields, mapped))
        case ListType():
            elements = _identified((type.element_field,), mapped)
            if not elements:
                return None
            return msgspec.structs.replace(type, element_id=elements[0].field_id, element=elements[0].type)
        case MapType():
            entries = _identified((type.key_field, type.value_field), mapped)
            if len(entries) < 2:
                return None
            key, value = entries
            return msgspec.structs.replace(
                type, key_id=key.field_id, key=key.type, value_id=value.field_id, value=value.type
            )
        case _:
            return type
