"""The first metadata of a table (table specification, "Table Metadata"; what Java's catalogs do for a new table)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from firn.model.errors import InvalidMetadata, InvalidPropertyError, Unsupported
from firn.model.metadata import FORMAT_VERSION_DEFAULT, FORMAT_VERSION_MAX, TableMetadata
from firn.model.metadata_check import check_metadata, check_uuid, strip_slashes
from firn.model.metrics_modes import parse_mode
from firn.model.name_mapping import check_name_mapping
from firn.model.partitioning import PARTITION_FIELD_ID_START, UNPARTITIONED, PartitionSpec, check_spec
from firn.model.schema import Schema, assign_fresh_ids
from firn.model.schema_rules import validate_schema
from firn.model.sorting import UNSORTED, SortOrder, check_order
from firn.model.table_properties import (
    ENCRYPTION_KEY_ID,
    METRICS_COLUMN_PREFIX,
    METRICS_DEFAULT,
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_NEW_TABLES,
    check_properties,
    without_reserved,
)

SORT_ORDER_ID_START: Final = 1
"""Id of a new table's sort order, when it has one; 0 is unsorted."""

replace = msgspec.structs.replace


def new_table_metadata(
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    order: SortOrder = UNSORTED,
    *,
    location: str,
    table_uuid: str,
    now_ms: int,
    properties: Mapping[str, str] | None = None,
    format_version: int = FORMAT_VERSION_DEFAULT,
) -> TableMetadata:
    """Metadata of a new, empty table.

    Columns get fresh ids from 1, partition fields from 1000; `spec` and `order` name columns by their ids in `schema`
    and are bound to the fresh ones. Raises InvalidMetadata or InvalidSchema for what a new table may not have, and
    Unsupported for what firn cannot keep up: a newer format version, encryption.
    """
    if not 1 <= format_version <= FORMAT_VERSION_MAX:
        raise Unsupported(
            f"unsupported format version v{format_version}, the newest is v{FORMAT_VERSION_MAX}", where="format-version"
        )
    check_uuid(table_uuid, where="table-uuid")
    if not strip_slashes(location):
        raise InvalidMetadata("must not be empty", where="location")
    validate_schema(schema, format_version=format_version)
    stored = stored_properties(properties)
    check_new_properties(stored, schema)
    fresh_schema, last_column_id = assign_fresh_ids(replace(schema, schema_id=0))
    # Both walks visit the fields in one order, so this holds even where names are ambiguous.
    new_ids = dict(zip(schema.fields_by_id, fresh_schema.fields_by_id, strict=True))
    fresh_spec = _fresh_spec(spec, new_ids)
    check_spec(fresh_spec, fresh_schema, format_version=format_version, new_table=True)
    fresh_order = _fresh_sort_order(order, new_ids)
    check_order(fresh_order, fresh_schema, format_version=format_version)
    metadata = TableMetadata(
        format_version=format_version,
        table_uuid=table_uuid,
        location=strip_slashes(location),
        last_updated_ms=now_ms,
        last_column_id=last_column_id,
        schemas=(fresh_schema,),
        current_schema_id=fresh_schema.schema_id,
        partition_specs=(fresh_spec,),
        default_spec_id=fresh_spec.spec_id,
        last_partition_id=PARTITION_FIELD_ID_START - 1 + len(fresh_spec.fields),
        properties=stored,
        sort_orders=(fresh_order,),
        default_sort_order_id=fresh_order.order_id,
        next_row_id=0 if format_version > 2 else None,
    )
    check_metadata(metadata)
    return metadata


def _fresh_spec(spec: PartitionSpec, new_ids: Mapping[int, int]) -> PartitionSpec:
    fields = tuple(
        replace(
            field,
            source_ids=_fresh_source_ids(field.source_ids, new_ids, where=f"partition-spec.fields[{i}]"),
            field_id=PARTITION_FIELD_ID_START + i,
        )
        for i, field in enumerate(spec.fields)
    )
    return replace(spec, spec_id=0, fields=fields)


def _fresh_sort_order(order: SortOrder, new_ids: Mapping[int, int]) -> SortOrder:
    """The order bound to new column ids; an empty one is the unsorted order 0."""
    if not order.fields:
        return UNSORTED
    fields = tuple(
        replace(field, source_ids=_fresh_source_ids(field.source_ids, new_ids, where=f"sort-order.fields[{i}]"))
        for i, field in enumerate(order.fields)
    )
    return replace(order, order_id=SORT_ORDER_ID_START, fields=fields)


def _fresh_source_ids(source_ids: tuple[int, ...], new_ids: Mapping[int, int], *, where: str) -> tuple[int, ...]:
    """The columns' new ids; raises InvalidMetadata for one that the schema has not."""
    for source_id in source_ids:
        if source_id not in new_ids:
            raise InvalidMetadata(f"cannot find source column {source_id} in the schema", where=where)
    return tuple(new_ids[source_id] for source_id in source_ids)


def stored_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    """A new table's properties: the given ones, and those whose default for new tables differs from that for old."""
    return {PARQUET_COMPRESSION.name: PARQUET_COMPRESSION_NEW_TABLES, **(properties or {})}


def check_new_properties(properties: Mapping[str, str], schema: Schema) -> None:
    """Refuse properties that a new table may not start with; existing tables keep what they have."""
    reserved = sorted(set(properties) - set(without_reserved(properties)))
    if reserved:
        raise InvalidMetadata(
            f"table properties should not contain reserved properties, but got {', '.join(reserved)}",
            where="properties",
        )
    if ENCRYPTION_KEY_ID.of(properties) is not None:
        raise Unsupported("table encryption is not implemented", where=f"properties.{ENCRYPTION_KEY_ID.name}")
    check_properties(properties)
    check_name_mapping(properties)
    for name, value in properties.items():
        is_column = name.startswith(METRICS_COLUMN_PREFIX)
        if (is_column or name == METRICS_DEFAULT) and parse_mode(value) is None:
            raise InvalidPropertyError(
                f"must be none, counts, truncate(length) or full, not {value[:40]!r}", where=f"properties.{name}"
            )
        if is_column and schema.find_field(name.removeprefix(METRICS_COLUMN_PREFIX)) is None:
            raise InvalidPropertyError("names a column that the schema does not have", where=f"properties.{name}")
