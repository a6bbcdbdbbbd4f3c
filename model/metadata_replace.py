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
from firn.model.schema import Schema
from firn.model.snapshot import MAIN_BRANCH
from firn.model.sorting import UNSORTED, SortOrder, rebind_order
from firn.model.types import StructType

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

    Columns that the table has under the same full name keep their ids, others get new ones; so do partition fields.
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
    """The schema with the table's ids for the columns that it has, and unused ones for the others."""
    current = metadata.current_schema
    unused = count(metadata.last_column_id + 1)
    new_ids: dict[int, int] = {}

    def table_id(field_id: int) -> int:
        known = current.find_field(schema.names_by_id[field_id])
        new_ids[field_id] = next(unused) if known is None else known.field_id
        return new_ids[field_id]

    struct = with_ids(schema.struct, table_id)
    assert isinstance(struct, StructType)
    identifiers = tuple(new_ids[field_id] for field_id in schema.identifier_field_ids)
    return replace(schema, struct=struct, identifier_field_ids=identifiers)
