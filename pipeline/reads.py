"""Reading tables into DataFrames: a snapshot, what was appended between two, and what changed between two."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Final

import msgspec
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column, DataFrame, SparkSession

from firn.coordinator.client.table_view import TableView
from firn.model.errors import InvalidInput
from firn.model.expressions.predicates import TRUE, And, BoundPredicate, Expression, Not, Or
from firn.model.metadata import TableMetadata
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.types import NestedField, StructType, Type
from firn.pipeline.column_names import named_column
from firn.pipeline.connection import Connection
from firn.pipeline.row_filter import narrowing_column, parse_filter
from firn.pipeline.scan_frames import scan_frame
from firn.storage.incremental_scan import SnapshotRange, plan_appends
from firn.storage.manifest_reader import StoredManifests
from firn.storage.table_scan import plan_scan

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A table to read from, as it was when it was looked at."""

    spark: SparkSession
    view: TableView
    connection: Connection

    @classmethod
    def of(cls, spark: SparkSession, table: str | TableView, connection: Connection | None) -> Source:
        """The table by its name, or as somebody has seen it."""
        connection = Connection.of_spark(spark) if connection is None else connection
        view = connection.table(table) if isinstance(table, str) else table
        return cls(spark=spark, view=view, connection=connection)

    @property
    def metadata(self) -> TableMetadata:
        return self.view.metadata

    @property
    def manifests(self) -> StoredManifests:
        return StoredManifests(self.connection.store())


def read(
    spark: SparkSession,
    table: str | TableView,
    *,
    columns: Collection[str] | None = None,
    filter: str | Expression = TRUE,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of: dt.datetime | None = None,
    connection: Connection | None = None,
) -> DataFrame:
    """The rows of one snapshot that `filter` matches.

    `columns` are dotted names, ``_file``, ``_pos``, ``_spec_id``, ``_row_id`` and ``_last_updated_sequence_number``
    among them; None for all of the table's. `snapshot_id`, `ref` (a branch or tag) or `as_of` (with time zone) choose
    the snapshot, the head of ``main`` without. Raises InvalidInput for a filter or columns that do not fit, NotFound
    for a table or snapshot that is not there, Unsupported for columns that Spark has no type for.
    """
    source = Source.of(spark, table, connection)
    expression = parse_filter(filter)
    as_of_ms = None if as_of is None else epoch_ms(as_of)
    plan = plan_scan(
        source.metadata,
        files=source.manifests,
        filter=expression,
        snapshot_id=snapshot_id,
        ref=ref,
        as_of_ms=as_of_ms,
        columns=columns,
    )
    wide = with_filter_columns(plan.projection, plan.filter, plan.schema)
    rows = scan_frame(spark, plan.tasks, metadata=source.metadata, projection=wide, connection=source.connection)
    return narrowed(filtered(rows, plan.filter), wide, plan.projection)


def read_appends(
    spark: SparkSession,
    table: str | TableView,
    *,
    snapshots: SnapshotRange,
    columns: Collection[str] | None = None,
    filter: str | Expression = TRUE,
    connection: Connection | None = None,
) -> DataFrame:
    """The rows that the *append* snapshots of a range added; what other snapshots did is not seen.

    Raises as `read`, and ChangesUnavailableError where the range cannot be determined exactly.
    """
    source = Source.of(spark, table, connection)
    plan = plan_appends(
        source.metadata, files=source.manifests, snapshots=snapshots, filter=parse_filter(filter), columns=columns
    )
    wide = with_filter_columns(plan.projection, plan.filter, plan.schema)
    rows = scan_frame(spark, plan.tasks, metadata=source.metadata, projection=wide, connection=source.connection)
    return narrowed(filtered(rows, plan.filter), wide, plan.projection)


def filtered(rows: DataFrame, bound: Expression) -> DataFrame:
    """The rows that a bound filter matches."""
    return rows if bound == TRUE else rows.filter(narrowing_column(bound))


def with_filter_columns(projection: Schema, bound: Expression, schema: Schema) -> Schema:
    """The projection and what the filter looks at, which comes last."""
    wanted = filter_ids(bound)
    missing = wanted - projection.fields_by_id.keys()
    if not missing:
        return projection
    leaves = {
        i for i in projection.fields_by_id if schema.field_by_id(i) is not None and not _has_children(projection, i)
    }
    by_id = {field.field_id: field for field in project(schema, leaves | wanted).fields}
    shared = [by_id.pop(field.field_id, field) for field in projection.fields]
    return msgspec.structs.replace(projection, struct=StructType((*shared, *by_id.values())))


def _has_children(schema: Schema, field_id: int) -> bool:
    return field_id in schema.parent_ids.values()


def filter_ids(bound: Expression) -> set[int]:
    """The ids of the columns that a bound filter looks at."""
    match bound:
        case BoundPredicate(term=term):
            return {term.reference.field_id}
        case And(children=children) | Or(children=children):
            return set[int]().union(*map(filter_ids, children))
        case Not(child=child):
            return filter_ids(child)
    return set()


def narrowed(rows: DataFrame, given: Schema, wanted: Schema) -> DataFrame:
    """The columns of `wanted`, of rows that have those of `given` and maybe more inside them."""
    if given == wanted:
        return rows
    by_id = {field.field_id: field for field in given.fields}
    return rows.select(
        [_cut(named_column(field.name), by_id[field.field_id].type, field).alias(field.name) for field in wanted.fields]
    )


def _cut(column: Column, given: Type, wanted: NestedField) -> Column:
    """The column without the fields of structs that were read for the filter only."""
    if given == wanted.type or not isinstance(given, StructType) or not isinstance(wanted.type, StructType):
        return column
    by_id = {field.field_id: field.type for field in given.fields}
    inside = [_cut(column.getField(one.name), by_id[one.field_id], one).alias(one.name) for one in wanted.type.fields]
    return F.when(column.isNotNull(), F.struct(*inside))


def epoch_ms(moment: dt.datetime) -> int:
    """A moment as snapshots tell theirs: milliseconds since 1970. Raises InvalidInput for one without a time zone."""
    if moment.tzinfo is None:
        raise InvalidInput("needs a time zone", where="as_of")
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)
