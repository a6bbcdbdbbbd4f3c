"""What a schema must hold before a table may use it (table specification, "Schemas and Data Types").

Each rule is one function that raises InvalidSchema and says in one sentence what it prevents. A schema from a file is
only parsed by `firn.model.schema`; these rules are for schemas that a table gets.
"""

from __future__ import annotations

from firn.model.errors import InvalidInput, InvalidSchema
from firn.model.reserved import TABLE_FIELD_ID_MAX
from firn.model.schema import Schema, check_unique_ids
from firn.model.type_json import SCHEMA_FIELDS_MAX
from firn.model.types import (
    DOUBLE,
    FLOAT,
    TYPE_DEPTH_MAX,
    UNKNOWN,
    VARIANT,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    child_fields,
    is_primitive,
    needs_v3,
)
from firn.model.values import value_to_json


def validate_schema(schema: Schema, *, format_version: int | None = None, where: str = "schema") -> None:
    """Raise InvalidSchema for the first rule that `schema` breaks; with `format_version`, also what that one lacks."""
    check_size(schema, where=where)
    check_unique_ids(schema, where=where)
    check_ids_are_the_tables_own(schema, where=where)
    check_names(schema, where=where)
    check_unknown_is_optional(schema, where=where)
    check_defaults(schema, where=where)
    for field_id in schema.identifier_field_ids:
        check_identifier(schema, field_id, where=where)
    if format_version is not None:
        check_format_version(schema, format_version, where=where)


def check_size(schema: Schema, *, where: str = "schema") -> None:
    """Too deep a type would end the stack of whoever reads it, too many fields the memory."""
    level: list[Type] = [schema.struct]
    depth = fields = 0
    while level:
        # Primitives below the last level of nesting are not a level of their own.
        level = [f.type for t in level for f in child_fields(t)]
        fields += len(level)
        depth += any(not is_primitive(t) and t != VARIANT for t in level)
        if depth >= TYPE_DEPTH_MAX:
            raise InvalidSchema(f"more than {TYPE_DEPTH_MAX} levels of nested types", where=where)
        if fields > SCHEMA_FIELDS_MAX:
            raise InvalidSchema(f"more than {SCHEMA_FIELDS_MAX} fields", where=where)


def check_ids_are_the_tables_own(schema: Schema, *, where: str = "schema") -> None:
    """An id in the reserved range would make readers take a metadata column for a table's, or the reverse."""
    for field_id, name in schema.names_by_id.items():
        if field_id < 0:
            raise InvalidSchema(f"column {name} has the negative field id {field_id}", where=where)
        if field_id > TABLE_FIELD_ID_MAX:
            raise InvalidSchema(
                f"column {name} has field id {field_id}; ids above {TABLE_FIELD_ID_MAX} are reserved", where=where
            )


def check_names(schema: Schema, *, where: str = "schema") -> None:
    """Two columns of one full name could not be told apart in a query; an empty one could not be said."""
    seen: dict[str, int] = {}
    for field_id, name in schema.names_by_id.items():
        field = schema.fields_by_id[field_id]
        if not field.name:
            raise InvalidSchema(f"the column with field id {field_id} has an empty name", where=where)
        try:
            field.name.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidSchema(f"the name of field {field_id} has a lone surrogate", where=where) from None
        other = seen.setdefault(name, field_id)
        if other != field_id:
            raise InvalidSchema(f"two columns are named {name}: field ids {other} and {field_id}", where=where)


def check_unknown_is_optional(schema: Schema, *, where: str = "schema") -> None:
    """A column of type unknown is not in any file: only null can be read from it."""
    for field_id, field in schema.fields_by_id.items():
        if field.type == UNKNOWN and field.required:
            raise InvalidSchema(f"column {schema.names_by_id[field_id]} of type unknown must be optional", where=where)


def check_defaults(schema: Schema, *, where: str = "schema") -> None:
    """A default that is not a value of its column would fail every reader of older files."""
    for field_id, field in schema.fields_by_id.items():
        name = schema.names_by_id[field_id]
        for kind, value in (("initial-default", field.initial_default), ("write-default", field.write_default)):
            if value is not None:
                check_default(field, value, name=name, kind=kind, where=where)


def check_default(field: NestedField, value: object, *, name: str, kind: str, where: str = "schema") -> None:
    """Raise InvalidSchema when `value` (an internal value, not None) cannot be a default of `field`."""
    if field.type in (UNKNOWN, VARIANT) or isinstance(field.type, GeometryType | GeographyType):
        raise InvalidSchema(f"{kind} of column {name} must be null: its type is {field.type}", where=where)
    if isinstance(field.type, StructType) and value != {}:
        raise InvalidSchema(
            f"{kind} of column {name} must be null or an empty struct",
            where=where,
            hint="set the defaults of its fields",
        )
    try:
        value_to_json(field.type, value, where=kind)
    except InvalidInput as exc:
        raise InvalidSchema(f"{kind} of column {name}: {exc.message}", where=where) from None


def check_identifier(schema: Schema, field_id: int, *, where: str = "schema") -> None:
    """Rows are told apart by their identifiers: those must be single, exact values that are always there."""
    field = schema.field_by_id(field_id)
    if field is None:
        raise InvalidSchema(f"identifier field id {field_id} is not a column", where=where)
    name = schema.names_by_id[field_id]
    path = f"column {name} cannot be an identifier field"
    if not is_primitive(field.type):
        raise InvalidSchema(f"{path}: its type is {field.type}, not a primitive one", where=where)
    if field.type in (FLOAT, DOUBLE):
        raise InvalidSchema(f"{path}: {field.type} values have no exact equality", where=where)
    if not field.required:
        raise InvalidSchema(f"{path}: it is not required", where=where)
    parent_id = schema.parent_id(field_id)
    while parent_id is not None:
        parent = schema.fields_by_id[parent_id]
        parent_name = schema.names_by_id[parent_id]
        if isinstance(parent.type, ListType | MapType):
            raise InvalidSchema(f"{path}: it is inside the list or map {parent_name}", where=where)
        if not parent.required:
            raise InvalidSchema(f"{path}: it is inside {parent_name}, which is optional", where=where)
        parent_id = schema.parent_id(parent_id)


def check_format_version(schema: Schema, format_version: int, *, where: str = "schema") -> None:
    """A reader of an older format version would stop at a type that it does not know, or miss a default."""
    if format_version >= schema.min_format_version:
        return
    for field_id, field in schema.fields_by_id.items():
        name = schema.names_by_id[field_id]
        if needs_v3(field.type):
            raise InvalidSchema(
                f"column {name} of type {field.type} needs format version 3, the table has {format_version}",
                where=where,
            )
        if field.initial_default is not None:
            raise InvalidSchema(
                f"the initial-default of column {name} needs format version 3, the table has {format_version}",
                where=where,
            )
