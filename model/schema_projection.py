"""The part of a schema that a read needs, chosen by field id (table specification, "Column Projection")."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from firn.model.errors import InvalidSchema
from firn.model.schema import Schema
from firn.model.types import ListType, MapType, StructType, Type


def select(schema: Schema, names: Collection[str], *, case_sensitive: bool = True) -> Schema:
    """`project` by dotted names; ``*`` stands for all columns. Raises InvalidSchema for a name that does not exist."""
    if "*" in names:
        return schema
    ids = set()
    for name in names:
        field = schema.find_field(name, case_sensitive)
        if field is None:
            raise InvalidSchema(f"no column is named {name}")
        ids.add(field.field_id)
    return project(schema, ids)


def project(schema: Schema, ids: Collection[int]) -> Schema:
    """The columns with these field ids, in the schema's order, with its ids, names and defaults.

    A field that is asked for comes with all that it contains. One that is not comes with what is asked for inside it;
    a map's key then comes whole, because values without keys cannot be read. Identifier fields that are left out are
    no longer named. Ids that the schema does not have are ignored.
    """
    struct = _pruned(schema.struct, frozenset(ids))
    assert struct is None or isinstance(struct, StructType)
    kept = msgspec.structs.replace(
        schema, struct=struct if struct is not None else StructType(()), identifier_field_ids=()
    )
    identifiers = tuple(i for i in schema.identifier_field_ids if i in kept.fields_by_id)
    return msgspec.structs.replace(kept, identifier_field_ids=identifiers)


def _pruned(type: Type, ids: frozenset[int]) -> Type | None:
    """What is left of a type that is not itself asked for; None for nothing."""
    match type:
        case StructType():
            fields = []
            for field in type.fields:
                kept = field.type if field.field_id in ids else _pruned(field.type, ids)
                if kept is not None:
                    fields.append(msgspec.structs.replace(field, type=kept))
            return msgspec.structs.replace(type, fields=tuple(fields)) if fields else None
        case ListType():
            kept = type.element if type.element_id in ids else _pruned(type.element, ids)
            return None if kept is None else msgspec.structs.replace(type, element=kept)
        case MapType():
            kept = type.value if type.value_id in ids else _pruned(type.value, ids)
            if kept is None and type.key_id not in ids and _pruned(type.key, ids) is None:
                return None
            return type if kept is None else msgspec.structs.replace(type, value=kept)
        case _:
            return None
