"""The columns of a Parquet file and the table fields they hold (table specification, "Column Projection").

A file's columns are matched by field id; a file without any field id by the table's name mapping, or else by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema
from firn.model.name_mapping import MappedField, NameMapping, name_mapping_of
from firn.model.schema import Schema
from firn.model.types import (
    TYPE_DEPTH_MAX,
    VARIANT,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    child_fields,
)

FIELD_ID_KEY: Final = b"PARQUET:field_id"
"""Where Arrow keeps the field id of a Parquet column."""

COLUMNS_MAX: Final = 100_000
"""Most columns, nested ones included, of one file."""

PARQUET_ERRORS: Final = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError)
"""What the library raises over bytes that are no Parquet, or not what their footer says."""

Kind = Literal["struct", "list", "map", "leaf"]

_UNMAPPED: Final = MappedField(names=())


class FileField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a file's schema, nested ones included.

    `leaf` is the index of the column that holds its values, -1 for a nested field; a list has one child, a map two.
    """

    name: str
    field_id: int | None
    kind: Kind
    nullable: bool
    type: pa.DataType
    leaf: int = -1
    children: tuple[FileField, ...] = ()

    def walk(self) -> Iterator[FileField]:
        """The field, then everything in it."""
        yield self
        for child in self.children:
            yield from child.walk()


class FileColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column that holds a field of the table.

    `index` counts the file's leaf columns; `names` lead to it from the top; `repeated` says that it lies in a list or
    map, so that it has no single value in a row; `required` that no value can be null.
    """

    field: NestedField
    index: int
    path: str
    names: tuple[str, ...]
    repeated: bool
    required: bool
    physical: str
    byte_width: int
    logical: Mapping[str, Any]


def file_fields(schema: pa.Schema, *, location: str) -> tuple[FileField, ...]:
    """The fields of a file from its Arrow schema; InvalidInput for too many or too deep ones, or a repeated id."""
    counter = _Counter()
    fields = tuple(_file_field(field, counter, depth=1, location=location) for field in schema)
    seen: set[int] = set()
    for field in fields:
        for one in field.walk():
            if one.field_id is not None and one.field_id in seen:
                raise InvalidInput(f"field id {one.field_id} is used twice in the file", where=location)
            if one.field_id is not None:
                seen.add(one.field_id)
    return fields


class _Counter:
    """Hands out leaf indices: Parquet counts leaves depth first."""

    def __init__(self) -> None:
        self.leaves = 0
        self.fields = 0


def _file_field(field: pa.Field, counter: _Counter, *, depth: int, location: str) -> FileField:
    counter.fields += 1
    if depth > TYPE_DEPTH_MAX or counter.fields > COLUMNS_MAX:
        raise InvalidInput(
            f"the file's schema is deeper than {TYPE_DEPTH_MAX} or has more than {COLUMNS_MAX} fields", where=location
        )
    type = storage_type(field.type)
    kind, inner = _children(type)
    leaf = -1
    if kind == "leaf":
        leaf = counter.leaves
        counter.leaves += 1
    return FileField(
        name=field.name,
        field_id=arrow_field_id(field),
        kind=kind,
        nullable=field.nullable,
        type=type,
        leaf=leaf,
        children=tuple(_file_field(child, counter, depth=depth + 1, location=location) for child in inner),
    )


def arrow_field_id(field: pa.Field) -> int | None:
    """The Parquet field id in an Arrow field's metadata; None if there is none, or none that is a number."""
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    try:
        field_id = None if text is None else int(text)
    except ValueError:
        return None
    return None if field_id is None or field_id < 0 else field_id


def storage_type(type: pa.DataType) -> pa.DataType:
    """What is stored for extension, dictionary and run-end encoded types."""
    while True:
        if isinstance(type, pa.BaseExtensionType):
            type = type.storage_type
        elif pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
            type = type.value_type
        else:
            return type


def _children(type: pa.DataType) -> tuple[Kind, Sequence[pa.Field]]:
    if pa.types.is_struct(type):
        return "struct", [type.field(index) for index in range(type.num_fields)]
    if pa.types.is_map(type):
        return "map", (type.key_field, type.item_field)
    if (
        pa.types.is_list(type)
        or pa.types.is_large_list(type)
        or pa.types.is_fixed_size_list(type)
        or pa.types.is_list_view(type)
        or pa.types.is_large_list_view(type)
    ):
        return "list", (type.value_field,)
    return "leaf", ()


def with_field_ids(
    fields: tuple[FileField, ...], *, schema: Schema, name_mapping: NameMapping | None = None
) -> tuple[FileField, ...]:
    """The fields with an id each where one is known.

    Ids in the file win, even if only one field has one; without any, `name_mapping` or the names in `schema` give
    them.
    """
    if any(one.field_id is not None for field in fields for one in field.walk()):
        return fields
    mapping = name_mapping_of(schema) if name_mapping is None else name_mapping
    return _named(fields, [field.name for field in fields], mapping.fields)


def _named(
    fields: tuple[FileField, ...], names: Sequence[str], mapped: tuple[MappedField, ...]
) -> tuple[FileField, ...]:
    by_name = {name: one for one in mapped for name in one.names}
    out = []
    for field, name in zip(fields, names, strict=True):
        match = by_name.get(name, _UNMAPPED)
        inner = {"list": ("element",), "map": ("key", "value")}.get(field.kind)
        children = _named(field.children, inner or [child.name for child in field.children], match.fields)
        out.append(msgspec.structs.replace(field, field_id=match.field_id, children=children))
    return tuple(out)


def file_columns(
    metadata: pq.FileMetaData, *, schema: Schema, location: str, name_mapping: NameMapping | None = None
) -> list[FileColumn]:
    """The columns of a Parquet file that hold fields of `schema`, in the file's order.

    A variant counts as one column, that of its metadata. Raises InvalidInput naming the column when the file nests
    differently than the schema.
    """
    try:
        arrow = metadata.schema.to_arrow_schema()
    except PARQUET_ERRORS as refusal:
        raise CorruptFile(location, f"its schema cannot be read: {refusal}") from None
    fields = file_fields(arrow, location=location)
    columns: list[FileColumn] = []
    for field in with_field_ids(fields, schema=schema, name_mapping=name_mapping):
        for found, leaf, names, repeated in _matched(field, schema, names=(), repeated=False, location=location):
            try:
                columns.append(_file_column(metadata.schema.column(leaf), found, leaf, names=names, repeated=repeated))
            except PARQUET_ERRORS as refusal:
                raise CorruptFile(location, f"column {leaf} cannot be read: {refusal}") from None
    return columns


def _file_column(
    column: pq.ColumnSchema, field: NestedField, index: int, *, names: tuple[str, ...], repeated: bool
) -> FileColumn:
    return FileColumn(
        field=field,
        index=index,
        path=column.path,
        names=names,
        repeated=repeated,
        required=column.max_definition_level == 0,
        physical=column.physical_type,
        byte_width=column.length,
        logical=json.loads(column.logical_type.to_json()),
    )


def _matched(
    field: FileField, schema: Schema, *, names: tuple[str, ...], repeated: bool, location: str
) -> Iterator[tuple[NestedField, int, tuple[str, ...], bool]]:
    """Table field, leaf index, names from the top and whether it is repeated, for every column below `field`."""
    found = None if field.field_id is None else schema.field_by_id(field.field_id)
    names = (*names, field.name)
    if found is not None and found.type == VARIANT:
        yield from (
            (found, child.leaf, (*names, child.name), repeated) for child in field.children if child.name == "metadata"
        )
        return
    if found is not None and field.kind != _kind(found.type):
        raise InvalidSchema(
            f"column {field.name!r} (id {found.field_id}) is a {field.kind} in the file and {found.type} in the table",
            where=location,
        )
    if field.kind == "leaf":
        if found is not None:
            yield found, field.leaf, names, repeated
        return
    inside = repeated or field.kind != "struct"
    for child in field.children:
        yield from _matched(child, schema, names=names, repeated=inside, location=location)


def _kind(type: Type) -> Kind:
    match type:
        case StructType():
            return "struct"
        case ListType():
            return "list"
        case MapType():
            return "map"
        case _:
            assert not child_fields(type)
            return "leaf"
