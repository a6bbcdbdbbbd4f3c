"""Giving the fields of a type new ids, defaults included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from firn.model.types import ListType, MapType, NestedField, StructType, Type


def with_ids(type: Type, new_id: Callable[[int], int]) -> Type:
    """The type with every field id replaced by `new_id` of it.

    Ids are asked for level by level: all fields of a struct, or key and value, before anything inside them.
    """
    match type:
        case StructType():
            ids = [new_id(f.field_id) for f in type.fields]
            fields = tuple(_field(f, i, new_id) for f, i in zip(type.fields, ids, strict=True))
            return msgspec.structs.replace(type, fields=fields)
        case ListType():
            element_id = new_id(type.element_id)
            return msgspec.structs.replace(type, element_id=element_id, element=with_ids(type.element, new_id))
        case MapType():
            key_id, value_id = new_id(type.key_id), new_id(type.value_id)
            return msgspec.structs.replace(
                type,
                key_id=key_id,
                key=with_ids(type.key, new_id),
                value_id=value_id,
                value=with_ids(type.value, new_id),
            )
        case _:
            return type


def _field(field: NestedField, field_id: int, new_id: Callable[[int], int]) -> NestedField:
    type = with_ids(field.type, new_id)
    return msgspec.structs.replace(
        field,
        field_id=field_id,
        type=type,
        initial_default=rekeyed(field.initial_default, old=field.type, new=type),
        write_default=rekeyed(field.write_default, old=field.type, new=type),
    )


def rekeyed(value: Any, *, old: Type, new: Type) -> Any:
    """An internal value of type `old` as one of `new`, which differs in field ids only: they key struct values."""
    if value is None:
        return None
    match old, new:
        case StructType(), StructType():
            pairs = [(o, n) for o, n in zip(old.fields, new.fields, strict=True) if o.field_id in value]
            return {n.field_id: rekeyed(value[o.field_id], old=o.type, new=n.type) for o, n in pairs}
        case ListType(), ListType():
            return tuple(rekeyed(v, old=old.element, new=new.element) for v in value)
        case MapType(), MapType():
            return tuple(
                (rekeyed(k, old=old.key, new=new.key), rekeyed(v, old=old.value, new=new.value)) for k, v in value
            )
        case _:
            return value
