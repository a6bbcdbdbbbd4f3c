"""What changed between two snapshots, row by row: rows that came, rows that went, and with which commit."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Final, Literal

import msgspec
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column, DataFrame, SparkSession

from firn.coordinator.client.table_view import TableView
from firn.model.errors import Unsupported
from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.reserved import METADATA_COLUMNS
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.model.types import StructType
from firn.pipeline.column_names import named_column
from firn.pipeline.connection import Connection
from firn.pipeline.reads import Source, filtered, with_filter_columns
from firn.pipeline.row_changes import FILE, POS
from firn.pipeline.row_filter import parse_filter
from firn.pipeline.scan_frames import scan_frame
from firn.pipeline.spark_types import spark_schema
from firn.storage.incremental_scan import EVERYTHING, SnapshotRange
from firn.storage.scan_planner import projection_of
from firn.storage.snapshot_changes import SnapshotChanges, changes_of

CHANGE_TYPE: Final = "_change_type"
CHANGE_ORDINAL: Final = "_change_ordinal"
COMMIT_SNAPSHOT_ID: Final = "_commit_snapshot_id"
_CHANGE_COLUMNS: Final = (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID)

_FACTS: Final = f"{CHANGE_TYPE} string, {CHANGE_ORDINAL} int, {COMMIT_SNAPSHOT_ID} bigint"

Change = Literal["insert", "delete"]


def read_changes(
    spark: SparkSession,
    table: str | TableView,
    *,
    snapshots: SnapshotRange = EVERYTHING,
    columns: Collection[str] | None = None,
    filter: str | Expression = TRUE,
    carry_overs: bool = False,
    connection: Connection | None = None,
) -> DataFrame:
    """The rows that each snapshot of the range inserted or deleted and that `filter` matches, in today's columns.

    Three columns say what happened: ``_change_type`` (``insert`` or ``delete``; an update is one of each),
    ``_change_ordinal`` (the snapshots of the range, oldest first from 0) and ``_commit_snapshot_id``. Rewrites that
    change no rows are left out; so are rows that a snapshot has only copied from file to file, unless `carry_overs`
    (which a table with map columns needs: Spark does not compare maps). Raises as `firn.pipeline.reads.read`, and
    ChangesUnavailableError where the window cannot be determined exactly.
    """
    source = Source.of(spark, table, connection)
    schema = source.metadata.current_schema
    bound = bind(parse_filter(filter), schema)
    projection = projection_of(schema, columns, case_sensitive=True)
    taken = [field.name for field in projection.fields if field.name.lower() in _CHANGE_COLUMNS]
    if taken:
        raise Unsupported(
            f"the table's column {taken[0]!r} is called like one that says what happened",
            where="columns",
            hint="choose columns without it, or rename it",
        )
    wide = with_filter_columns(projection, bound, schema)
    found = snapshots.resolve(source.metadata)
    store = source.connection.store()
    changes = list(changes_of(source.metadata, found, manifests=source.manifests, files=store, filter=bound))
    frames = [_whole_files(source, wide, kind, changes) for kind in ("insert", "delete")]
    for one in changes:
        if one.after:
            frames.append(_rows_of_one_side(source, wide, one, "delete", one.before, without=one.after))
        if any(_lost_deletes(*pair) for pair in zip(one.before, one.after, strict=True)):
            frames.append(_rows_of_one_side(source, wide, one, "insert", one.after, without=one.before))
    rows = functools.reduce(DataFrame.unionAll, frames)
    rows = filtered(rows, bound)
    if not carry_overs and any(one.inserted for one in changes) and any(one.deleted for one in changes):
        rows = _without_carry_overs(rows)
    return rows.select(*_columns(projection), *_CHANGE_COLUMNS)


def _lost_deletes(before: FileScanTask, after: FileScanTask) -> bool:
    """Whether deletes of a file are gone, so that rows of it may have come back."""
    there = {(delete.file_path, delete.content_offset) for delete in after.deletes}
    return any((delete.file_path, delete.content_offset) not in there for delete in before.deletes)


def _frame(source: Source, tasks: Iterable[FileScanTask], wide: Schema, *places: str) -> DataFrame:
    """The rows of tasks in these columns, with the `places` that are not among them."""
    extra = [METADATA_COLUMNS[name] for name in places if METADATA_COLUMNS[name] not in wide.fields]
    projection = msgspec.structs.replace(wide, struct=StructType((*wide.fields, *extra)))
    return scan_frame(
        source.spark, list(tasks), metadata=source.metadata, projection=projection, connection=source.connection
    )


def _whole_files(source: Source, wide: Schema, change: Change, changes: Iterable[SnapshotChanges]) -> DataFrame:
    """The rows of all files that came, or of all that went."""
    found = [(one, task) for one in changes for task in (one.inserted if change == "insert" else one.deleted)]
    if not found:
        facts = source.spark.createDataFrame([], _FACTS)
        names = [field.name for field in wide.fields]
        return source.spark.createDataFrame([], spark_schema(wide)).crossJoin(facts).toDF(*names, *_CHANGE_COLUMNS)
    facts = source.spark.createDataFrame(
        [(task.file.file_path, change, one.ordinal, one.snapshot_id) for one, task in found], f"{FILE} string, {_FACTS}"
    )
    rows = _frame(source, (task for _, task in found), wide, FILE).join(F.broadcast(facts), FILE)
    return rows.select(*_columns(wide), *_CHANGE_COLUMNS)


def _rows_of_one_side(
    source: Source,
    wide: Schema,
    one: SnapshotChanges,
    change: Change,
    tasks: Iterable[FileScanTask],
    *,
    without: Iterable[FileScanTask],
) -> DataFrame:
    """The rows that were live on one side of the snapshot and not on the other, of files that got other deletes."""
    place = msgspec.structs.replace(wide, struct=StructType(()))
    others = _frame(source, without, place, FILE, POS)
    rows = _frame(source, tasks, wide, FILE, POS).join(others, [FILE, POS], "left_anti")
    return rows.select(
        *_columns(wide),
        F.lit(change).alias(CHANGE_TYPE),
        F.lit(one.ordinal).alias(CHANGE_ORDINAL),
        F.lit(one.snapshot_id).cast("bigint").alias(COMMIT_SNAPSHOT_ID),
    )


def _columns(wide: Schema) -> list[Column]:
    return [named_column(field.name) for field in wide.fields]


def _without_carry_overs(rows: DataFrame) -> DataFrame:
    """The changes without rows that one snapshot has deleted and inserted alike, as often as it did both."""
    inserted = rows.where(F.col(CHANGE_TYPE) == "insert").drop(CHANGE_TYPE)
    deleted = rows.where(F.col(CHANGE_TYPE) == "delete").drop(CHANGE_TYPE)
    parts = [
        inserted.exceptAll(deleted).withColumn(CHANGE_TYPE, F.lit("insert")),
        deleted.exceptAll(inserted).withColumn(CHANGE_TYPE, F.lit("delete")),
    ]
    return DataFrame.unionAll(*parts).select([named_column(name) for name in rows.columns])
