"""Changes of a table's schemas, partition specs and sort orders: add, choose, remove (table specification, "Table
Metadata"; REST specification, table updates).

Adding gives back the id as well: what is equal to something that the table has already is not added again.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from firn.model.errors import InvalidInput, InvalidMetadata, NotFound
from firn.model.json_members import INT_MAX
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import next_timestamp_ms
from firn.model.partition_update import add_spec as spec_in_table
from firn.model.partition_update import reassign_field_ids
from firn.model.partitioning import PartitionSpec, check_spec, misfit
from firn.model.schema import Schema
from firn.model.schema_rules import validate_schema
from firn.model.sorting import SortOrder, add_order, check_order

replace = msgspec.structs.replace


def add_schema(metadata: TableMetadata, schema: Schema, *, now_ms: int) -> tuple[TableMetadata, int]:
    """The metadata with the schema among its schemas, and its id, whatever id it came with.

    Raises InvalidSchema for a schema that this table may not have.
    """
    validate_schema(schema, format_version=metadata.format_version)
    last_column_id = max(metadata.last_column_id, schema.highest_field_id)
    for known in metadata.schemas:
        if _same_schema(known, schema):
            return metadata, known.schema_id
    schema_id = max((known.schema_id for known in metadata.schemas), default=-1) + 1
    added = replace(
        metadata,
        schemas=(*metadata.schemas, replace(schema, schema_id=schema_id)),
        last_column_id=last_column_id,
        last_updated_ms=next_timestamp_ms(metadata, now_ms),
    )
    return added, schema_id


def _same_schema(one: Schema, other: Schema) -> bool:
    return one.struct == other.struct and set(one.identifier_field_ids) == set(other.identifier_field_ids)


def set_current_schema(metadata: TableMetadata, schema_id: int, *, now_ms: int) -> TableMetadata:
    """The metadata with another of its schemas as the current one. `check_layout` says whether specs still fit.

    Raises InvalidMetadata for a schema with which Java could not open the table, because of a partition field of
    whichever spec: a column has its name that it is not made of, or its column is of a type that it cannot be made of.
    """
    schema = metadata.schema_by_id(schema_id)
    if schema is None:
        raise NotFound(f"cannot set current schema to unknown schema: {schema_id}")
    if metadata.current_schema_id == schema_id:
        return metadata
    before = metadata.schema_by_id(metadata.current_schema_id)
    for spec in metadata.partition_specs:
        for field in spec.fields:
            reason = misfit(field, schema)
            if reason is not None and (before is None or misfit(field, before) is None):
                where = f"partition-specs[{spec.spec_id}].{field.name}"
                raise InvalidMetadata(f"the schema does not fit this field: {reason}", where=where)
    return replace(metadata, current_schema_id=schema_id, last_updated_ms=next_timestamp_ms(metadata, now_ms))


def remove_schemas(metadata: TableMetadata, schema_ids: Collection[int], *, now_ms: int) -> TableMetadata:
    """The metadata without some schemas; unknown ids change nothing.

    Raises InvalidInput for the current schema and for one that a snapshot names: it could not be read as of then.
    """
    if metadata.current_schema_id in schema_ids:
        raise InvalidInput("cannot remove the current schema", where="schema-ids")
    for snapshot in metadata.snapshots:
        if snapshot.schema_id in schema_ids:
            raise InvalidInput(
                f"cannot remove schema {snapshot.schema_id}: snapshot {snapshot.snapshot_id} has it", where="schema-ids"
            )
    kept = tuple(schema for schema in metadata.schemas if schema.schema_id not in schema_ids)
    if len(kept) == len(metadata.schemas):
        return metadata
    return replace(metadata, schemas=kept, last_updated_ms=next_timestamp_ms(metadata, now_ms))


def add_spec(
    metadata: TableMetadata, spec: PartitionSpec, *, now_ms: int, assign_ids: bool = False
) -> tuple[TableMetadata, int]:
    """The metadata with the spec among its partition specs, and its id, whatever id it came with.

    With `assign_ids` the partition fields get their ids here, those that the table had before keep theirs.
    Raises InvalidMetadata for a spec that does not fit the current schema.
    """
    if assign_ids:
        spec = reassign_field_ids(
            spec,
            current=metadata.spec_by_id(metadata.default_spec_id) or PartitionSpec(spec_id=0),
            specs=metadata.partition_specs,
            format_version=metadata.format_version,
            last_partition_id=metadata.last_partition_id,
        )
    wanted = spec_in_table(spec, metadata.partition_specs)
    if metadata.spec_by_id(wanted.spec_id) is not None:
        return metadata, wanted.spec_id
    check_spec(wanted, metadata.current_schema, format_version=metadata.format_version)
    if wanted.last_field_id > INT_MAX:
        raise InvalidMetadata(f"partition field id {wanted.last_field_id} is no 32-bit integer", where="partition-spec")
    added = replace(
        metadata,
        partition_specs=(*metadata.partition_specs, wanted),
        last_partition_id=max([metadata.last_partition_id, *(field.field_id for field in wanted.fields)]),
        last_updated_ms=next_timestamp_ms(metadata, now_ms),
    )
    return added, wanted.spec_id


def set_default_spec(metadata: TableMetadata, spec_id: int, *, now_ms: int) -> TableMetadata:
    """The metadata with another of its specs for new data."""
    if metadata.spec_by_id(spec_id) is None:
        raise NotFound(f"cannot set default partition spec to unknown spec: {spec_id}")
    if metadata.default_spec_id == spec_id:
        return metadata
    return replace(metadata, default_spec_id=spec_id, last_updated_ms=next_timestamp_ms(metadata, now_ms))


def remove_specs(metadata: TableMetadata, spec_ids: Collection[int], *, now_ms: int) -> TableMetadata:
    """The metadata without some partition specs; unknown ids change nothing.

    The caller must know that no manifest is written with them. Raises InvalidInput for the default spec.
    """
    if metadata.default_spec_id in spec_ids:
        raise InvalidInput("cannot remove the default partition spec", where="spec-ids")
    kept = tuple(spec for spec in metadata.partition_specs if spec.spec_id not in spec_ids)
    if len(kept) == len(metadata.partition_specs):
        return metadata
    return replace(metadata, partition_specs=kept, last_updated_ms=next_timestamp_ms(metadata, now_ms))


def add_sort_order(metadata: TableMetadata, order: SortOrder, *, now_ms: int) -> tuple[TableMetadata, int]:
    """The metadata with the order among its sort orders, and its id; an order without fields is the unsorted 0."""
    wanted = add_order(order, metadata.sort_orders)
    if any(known.order_id == wanted.order_id for known in metadata.sort_orders):
        return metadata, wanted.order_id
    check_order(wanted, metadata.current_schema, format_version=metadata.format_version)
    added = replace(
        metadata,
        sort_orders=(*metadata.sort_orders, wanted),
        last_updated_ms=next_timestamp_ms(metadata, now_ms),
    )
    return added, wanted.order_id


def set_default_sort_order(metadata: TableMetadata, order_id: int, *, now_ms: int) -> TableMetadata:
    """The metadata with another of its sort orders for new data."""
    if metadata.order_by_id(order_id) is None:
        raise NotFound(f"cannot set default sort order to unknown order: {order_id}")
    if metadata.default_sort_order_id == order_id:
        return metadata
    return replace(metadata, default_sort_order_id=order_id, last_updated_ms=next_timestamp_ms(metadata, now_ms))


def check_layout(metadata: TableMetadata) -> None:
    """Refuse a default spec or order that the current schema cannot feed: the next writer would fail on it.

    Raises InvalidMetadata. For a change as a whole, because dropping a column and its partition field are two steps.
    """
    schema = metadata.current_schema
    for i, part in enumerate(metadata.default_spec.fields):
        transform = part.parsed_transform
        for source_id in () if str(transform) == "void" else part.source_ids:
            column = schema.field_by_id(source_id)
            where = f"partition-specs[{metadata.default_spec_id}].fields[{i}]"
            if column is None:
                raise InvalidMetadata(f"cannot find source column {source_id} for {part.name}", where=where)
            if not transform.can_transform(column.type):
                raise InvalidMetadata(f"invalid source type {column.type} for transform {transform}", where=where)
    if metadata.default_order.fields:
        check_order(metadata.default_order, schema, format_version=metadata.format_version)
