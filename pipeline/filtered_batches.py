"""Rows of a task's batches that a filter matches: only the columns that it asks about are looked at row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from firn.model.expressions.predicates import Expression
from firn.model.expressions.row_filter import matches
from firn.model.schema import Schema
from firn.model.types import NestedField, StructType
from firn.storage.arrow_rows import rows_of_batch
from firn.storage.parquet_schema import arrow_field, arrow_schema


def filtered_batches(
    batches: Iterable[pa.RecordBatch], bound: Expression, *, asked: frozenset[int], given: Schema, wanted: Schema
) -> Iterator[pa.RecordBatch]:
    """The rows that `bound` matches, in the columns of `wanted`.

    `given` are the columns of the batches: those of `wanted`, and those that the filter looks at, with the ids `asked`.
    """
    places = [at for at, field in enumerate(given.fields) if asked & _ids(field)]
    looked_at = Schema(schema_id=0, struct=StructType(tuple(given.fields[at] for at in places)))
    at = {field.field_id: place for place, field in enumerate(given.fields)}
    for batch in batches:
        rows = rows_of_batch(batch.select(places), looked_at)
        kept = batch.filter(pa.array([matches(bound, _flat(row, looked_at.struct)) for row in rows], pa.bool_()))
        if kept.num_rows:
            columns = [
                _cut(kept.column(at[one.field_id]), given.fields[at[one.field_id]], one) for one in wanted.fields
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=arrow_schema(wanted))


def _ids(field: NestedField) -> frozenset[int]:
    """The field and all fields of structs in it."""
    inside = field.type.fields if isinstance(field.type, StructType) else ()
    return frozenset({field.field_id}).union(*map(_ids, inside))


def _flat(row: Mapping[int, Any], struct: StructType) -> dict[int, Any]:
    """The row with the fields of its structs beside them, as filters are asked of rows."""
    values = dict(row)
    for field in struct.fields:
        if isinstance(field.type, StructType) and row[field.field_id] is not None:
            values |= _flat(row[field.field_id], field.type)
    return values


def _cut(array: pa.Array, given: NestedField, wanted: NestedField) -> pa.Array:
    """The column without the fields of structs that were read for the filter only."""
    if given.type == wanted.type or not isinstance(given.type, StructType) or not isinstance(wanted.type, StructType):
        return array
    at = {field.field_id: place for place, field in enumerate(given.type.fields)}
    children = [
        _cut(array.field(at[one.field_id]), given.type.fields[at[one.field_id]], one) for one in wanted.type.fields
    ]
    fields = [arrow_field(one) for one in wanted.type.fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
