"""Widening a schema so that it holds every column of another, matched by name, as schema-on-write engines ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firn.model.promotion import can_promote, promote_value
from firn.model.schema import Schema
from firn.model.schema_change import AddColumn, MakeOptional, SchemaChange, SetDefault, UpdateDoc, UpdateType
from firn.model.schema_update import apply_changes
from firn.model.types import ListType, MapType, NestedField, StructType, Type
from firn.model.values import value_to_json


def union_schema(
    schema: Schema, other: Schema, *, last_column_id: int, format_version: int, case_sensitive: bool = True
) -> tuple[Schema, int]:
    """`schema` with what `other` has and it has not, and the last column id then in use.

    New columns are optional, whatever `other` says: existing rows have no value. Columns become optional or wider
    where `other` needs it, never narrower; docs and write defaults of `other` win. Nothing is dropped or moved.
    Raises InvalidSchema where types of one name do not fit.
    """
    changes = changes_for_union(schema, other, format_version=format_version, case_sensitive=case_sensitive)
    return apply_changes(
        schema,
        changes,
        last_column_id=last_column_id,
        format_version=format_version,
        case_sensitive=case_sensitive,
    )


def changes_for_union(
    schema: Schema, other: Schema, *, format_version: int, case_sensitive: bool = True
) -> tuple[SchemaChange, ...]:
    """The changes that make `union_schema` of `schema`."""
    walk = _Union(schema, format_version=format_version, case_sensitive=case_sensitive)
    return tuple(walk.struct(schema.struct, other.struct, ""))


class _Union:
    """One walk over both schemas; `path` is the full name of what is looked at, in `schema`."""

    def __init__(self, schema: Schema, *, format_version: int, case_sensitive: bool) -> None:
        self.schema = schema
        self.format_version = format_version
        self.case_sensitive = case_sensitive

    def key(self, name: str) -> str:
        return name if self.case_sensitive else name.lower()

    def struct(self, mine: StructType, other: StructType, path: str) -> Iterator[SchemaChange]:
        by_name = {self.key(f.name): f for f in mine.fields}
        for field in other.fields:
            match = by_name.get(self.key(field.name))
            if match is None:
                yield from self.addition(field, path)
            else:
                yield from self.field(match, field)

    def addition(self, field: NestedField, path: str) -> Iterator[SchemaChange]:
        initial = value_to_json(field.type, field.initial_default)
        yield AddColumn(parent=path, name=field.name, type=field.type, doc=field.doc, default=initial)
        if field.write_default is not None and field.write_default != field.initial_default:
            name = f"{path}.{field.name}" if path else field.name
            yield SetDefault(name=name, default=value_to_json(field.type, field.write_default))

    def field(self, mine: NestedField, other: NestedField) -> Iterator[SchemaChange]:
        path = self.schema.names_by_id[mine.field_id]
        if mine.required and not other.required:
            yield MakeOptional(name=path)
        yield from self.types(mine.type, other.type, path)
        if other.doc is not None and other.doc != mine.doc:
            yield UpdateDoc(name=path, doc=other.doc)
        if other.write_default is not None and other.write_default != mine.write_default:
            yield SetDefault(name=path, default=self.default(mine.type, other))

    def default(self, mine: Type, other: NestedField) -> Any:
        """The write default of `other` as JSON of the type that the column will have: the wider of the two."""
        if not can_promote(source=other.type, target=mine, format_version=self.format_version):
            return value_to_json(other.type, other.write_default)
        return value_to_json(mine, promote_value(source=other.type, target=mine, value=other.write_default))

    def types(self, mine: Type, other: Type, path: str) -> Iterator[SchemaChange]:
        match mine, other:
            case StructType(), StructType():
                yield from self.struct(mine, other, path)
            case ListType(), ListType():
                yield from self.field(mine.element_field, other.element_field)
            case MapType(), MapType():
                yield from self.field(mine.key_field, other.key_field)
                yield from self.field(mine.value_field, other.value_field)
            case _ if not can_promote(source=other, target=mine, format_version=self.format_version):
                # Refused when it is applied, with the column's name, if it is no promotion either.
                yield UpdateType(name=path, type=other)
