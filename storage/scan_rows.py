"""The rows of a planned scan, one after the other in memory: for small tables, tests and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from firn.model.expressions.predicates import TRUE, And, BoundPredicate, Expression, Not, Or
from firn.model.expressions.row_filter import matches
from firn.model.metadata import TableMetadata
from firn.model.name_mapping import name_mapping_from_text
from firn.model.reserved import is_reserved_id
from firn.model.scan_plan import FileScanTask, ScanPlan
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.table_properties import NAME_MAPPING
from firn.model.types import ListType, MapType, NestedField, StructType, Type, child_fields
from firn.storage.arrow_rows import Row
from firn.storage.files import FileStore
from firn.storage.table_rows import RowReader


def scan_rows(plan: ScanPlan, metadata: TableMetadata, *, files: FileStore) -> Iterator[list[Row]]:
    """The rows that the plan's filter matches, in the columns of its projection, some at a time.

    They come file by file in the order of the plan, deletes applied. `metadata` is what the plan was made from.
    Raises CorruptFile for damaged files, InvalidSchema for columns that do not fit, Unsupported for what cannot be
    read.
    """
    mapping = NAME_MAPPING.of(metadata.properties)
    reader = RowReader(
        files=files,
        schema=plan.projection,
        table_schema=every_column(plan.schema, (metadata.current_schema, *metadata.schemas)),
        specs={spec.spec_id: spec for spec in metadata.partition_specs},
        name_mapping=None if mapping is None else name_mapping_from_text(mapping),
    )
    for task in plan.tasks:
        yield from _task_rows(task, reader, plan)


def _task_rows(task: FileScanTask, reader: RowReader, plan: ScanPlan) -> Iterator[list[Row]]:
    schema = _with_filter_columns(plan, task.residual)
    reader = msgspec.structs.replace(reader, schema=schema)
    parts = reader.rows(task.file, deletes=task.deletes, data_sequence_number=task.sequence_number)
    if task.residual == TRUE:
        yield from parts
        return
    for part in parts:
        found = [row for row in part if matches(task.residual, _by_id(row, schema.struct))]
        if found:
            yield found if schema is plan.projection else [_trimmed(row, plan.projection.struct) for row in found]


def every_column(schema: Schema, others: Iterable[Schema]) -> Schema:
    """`schema` with all columns that other schemas of the table have besides, as optional ones.

    Equality deletes may name columns that the table has dropped since.
    """
    struct = schema.struct
    for other in others:
        struct = _united(struct, other.struct)
    return msgspec.structs.replace(schema, struct=struct, identifier_field_ids=())


def _united(struct: StructType, other: StructType) -> StructType:
    fields = {field.field_id: field for field in struct.fields}
    for field in other.fields:
        known = fields.get(field.field_id)
        if known is None:
            fields[field.field_id] = msgspec.structs.replace(field, required=False)
        elif isinstance(known.type, StructType) and isinstance(field.type, StructType):
            fields[field.field_id] = msgspec.structs.replace(known, type=_united(known.type, field.type))
    return StructType(tuple(fields.values()))


def _with_filter_columns(plan: ScanPlan, filter: Expression) -> Schema:
    """The plan's projection with the columns that `filter` asks about; the same object when it has them all."""
    wanted = frozenset(_columns_of(filter))
    present = plan.projection.fields_by_id
    if all(i in present and _is_whole(present[i], plan.schema) for i in wanted):
        return plan.projection
    metadata_columns = tuple(field for field in plan.projection.fields if is_reserved_id(field.field_id))
    leaves = {i for i, field in present.items() if not child_fields(field.type)}
    wide = project(plan.schema, leaves | wanted)
    return msgspec.structs.replace(wide, struct=StructType((*wide.fields, *metadata_columns)))


def _is_whole(field: NestedField, schema: Schema) -> bool:
    return field == schema.field_by_id(field.field_id)


def _columns_of(expr: Expression) -> Iterator[int]:
    match expr:
        case And(children) | Or(children):
            for child in children:
                yield from _columns_of(child)
        case Not(child):
            yield from _columns_of(child)
        case BoundPredicate(term=term):
            yield term.reference.field_id


def _by_id(row: Mapping[int, Any], struct: StructType) -> dict[int, Any]:
    """The row with the fields of its structs beside them, as filters are asked of rows."""
    values = dict(row)
    for field in struct.fields:
        if isinstance(field.type, StructType) and row[field.field_id] is not None:
            values |= _by_id(row[field.field_id], field.type)
    return values


def _trimmed(value: Any, type: Type) -> Any:
    """A value without the fields that were read for the filter only."""
    if value is None:
        return None
    match type:
        case StructType():
            return {field.field_id: _trimmed(value[field.field_id], field.type) for field in type.fields}
        case ListType():
            return tuple([_trimmed(element, type.element) for element in value])
        case MapType():
            return tuple([(_trimmed(key, type.key), _trimmed(item, type.value)) for key, item in value])
    return value
