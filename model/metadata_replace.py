"""Replacing a table by another of the same name (``CREATE OR REPLACE TABLE``), which keeps its history."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import msgspec

from firn.model import metadata_changes as changes
from firn.model import metadata_layout as layout
from firn.model.field_ids import with_ids
from firn.model.metadata import TableMetadata
from firn.model.metadata_check import check_metadata
from firn.model.metadata_create import check_new_properties, stored_properties
from firn.model.partition_update import rebind_spec
from firn.model.partitioning import UNPARTITIONED, PartitionSpec
from firn.model.promotion import can_promote, transforms_that_block
from firn.model.schema import Schema
from firn.model.snapshot import MAIN_BRANCH
from firn.model.sorting import UNSORTED, SortOrder, rebind_order
from firn.model.types import ListType, MapType, NestedField, StructType, Type, child_fields, is_primitive

replace = msgspec.structs.replace


def replace_table(
    metadata: TableMetadata,
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    order: SortOrder = UNSORTED,
    *,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    now_ms: int,
) -> TableMetadata:
    """The metadata of the table after its replacement: empty on ``main``, with all snapshots, logs and tags kept.

    A column keeps its id only where the table has one of the same full name and of the same type, or of a type that it
    can be promoted from; every other column gets a new id, and so do the partition fields over it.
    `properties` are added to the table's. None leaves location and format version as they are.
    """
    stored = stored_properties(properties)
    check_new_properties(stored, schema)
    if format_version is not None:
        metadata = changes.upgrade(metadata, format_version, now_ms=now_ms)
    metadata = changes.remove_ref(metadata, MAIN_BRANCH, now_ms=now_ms)
    fresh = _with_table_ids(schema, metadata)
    metadata, schema_id = layout.add_schema(metadata, fresh, now_ms=now_ms)
    metadata = layout.set_current_schema(metadata, schema_id, now_ms=now_ms)
    metadata, spec_id = layout.add_spec(
        metadata, rebind_spec(spec, planned_on=schema, schema=fresh), assign_ids=True, now_ms=now_ms
    )
    metadata = layout.set_default_spec(metadata, spec_id, now_ms=now_ms)
    metadata, order_id = layout.add_sort_order(
        metadata, rebind_order(order, planned_on=schema, schema=fresh), now_ms=now_ms
    )
    metadata = layout.set_default_sort_order(metadata, order_id, now_ms=now_ms)
    if location is not None:
        metadata = changes.set_location(metadata, location, now_ms=now_ms)
    metadata = changes.set_properties(metadata, stored, now_ms=now_ms)
    check_metadata(metadata)
    return metadata


def _with_table_ids(schema: Schema, metadata: TableMetadata) -> Schema:
    """Return the schema with the table's ids for the columns that it keeps, and unused ids for the others.

    Prevents: files of an older snapshot read under a type that they were not written with, once a branch or `main` is
    set back to it.
    """
    current = metadata.current_schema
    unused = count(metadata.last_column_id + 1)
    new_ids: dict[int, int] = {}
    kept = _kept_columns(schema, metadata)

    def table_id(field_id: int) -> int:
        known = current.find_field(schema.names_by_id[field_id]) if field_id in kept else None
        new_ids[field_id] = next(unused) if known is None else known.field_id
        return new_ids[field_id]

    struct = with_ids(schema.struct, table_id)
    assert isinstance(struct, StructType)
    identifiers = tuple(new_ids[field_id] for field_id in schema.identifier_field_ids)
    return replace(schema, struct=struct, identifier_field_ids=identifiers)


def _kept_columns(schema: Schema, metadata: TableMetadata) -> set[int]:
    """Return the ids, in `schema`, of the columns that are the table's own columns of the same full name.

    A column is kept only together with the column that contains it.
    """
    kept: set[int] = set()
    pending = list(schema.fields)
    while pending:
        column = pending.pop()
        known = metadata.current_schema.find_field(schema.names_by_id[column.field_id])
        if known is not None and _stays(known, column, metadata):
            kept.add(column.field_id)
            pending += child_fields(column.type)
    return kept


def _stays(known: NestedField, column: NestedField, metadata: TableMetadata) -> bool:
    """Whether `column` can take the id of `known`: everything written as `known` reads right as `column`.

    The type is the same or a promotion that every partition spec of the table can follow, a column that may hold nulls
    stays optional, and rows written before the column existed keep their default.
    """
    if not _follows(known.type, column.type, metadata):
        return False
    if column.required and not known.required:
        return False
    if is_primitive(column.type) and known.initial_default != column.initial_default:
        return False
    transforms = [
        field.transform for spec in metadata.partition_specs for field in spec.fields
        if known.field_id in field.source_ids
    ]  # fmt: skip
    return not transforms_that_block(source=known.type, target=column.type, transforms=transforms)


def _follows(source: Type, target: Type, metadata: TableMetadata) -> bool:
    """Whether `target` is `source` or a promotion of it.

    Fields of structs are compared on their own. A list or map follows only with all that it holds: a reader that does
    not find an element under its id takes the whole list for missing.
    """
    match source, target:
        case StructType(), StructType():
            return True
        case ListType(), ListType():
            return _stays(source.element_field, target.element_field, metadata)
        case MapType(), MapType():
            same_keys = _without_ids(source.key) == _without_ids(target.key)
            return same_keys and _stays(source.value_field, target.value_field, metadata)
        case _:
            return can_promote(source=source, target=target, format_version=metadata.format_version)


def _without_ids(type: Type) -> Type:
    return with_ids(type, lambda _: 0)
