"""What changed between two snapshots, row by row: rows that came, rows that went, and with which commit."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import DataFrame, SparkSession

from firn.coordinator.client.table_view import TableView
from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.reserved import METADATA_COLUMNS
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.model.snapshot import Snapshot
from firn.model.types import StructType
from firn.pipeline.column_names import named_column
from firn.pipeline.connection import Connection
from firn.pipeline.reads import Source, filtered, with_filter_columns
from firn.pipeline.row_changes import FILE, POS
from firn.pipeline.row_filter import parse_filter
from firn.pipeline.scan_frames import scan_frame
from firn.pipeline.spark_types import spark_schema
from firn.storage.incremental_scan import EVERYTHING, SnapshotRange
from firn.storage.scan_planner import Planner, projection_of

CHANGE_TYPE: Final = "_change_type"
CHANGE_ORDINAL: Final = "_change_ordinal"
COMMIT_SNAPSHOT_ID: Final = "_commit_snapshot_id"
_CHANGE_COLUMNS: Final = (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID)

Change = Literal["insert", "delete"]


class _FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came or went whole with a snapshot, with the deletes that applied to it then."""

    change: Change
    ordinal: int
    snapshot_id: int
    task: FileScanTask


class _RowsGone(msgspec.Struct, frozen=True, kw_only=True):
    """Files that a snapshot has brought deletes for: as they were before it, and as they were after it."""

    ordinal: int
    snapshot_id: int
    before: list[FileScanTask]
    after: list[FileScanTask]


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
    (which a table with map columns needs: Spark does not compare maps). Raises as `firn.pipeline.reads.read`.
    """
    source = Source.of(spark, table, connection)
    schema = source.metadata.current_schema
    bound = bind(parse_filter(filter), schema)
    projection = projection_of(schema, columns, case_sensitive=True)
    wide = with_filter_columns(projection, bound, schema)
    changes = list(_changes(source, snapshots, bound))
    files = [one for one in changes if isinstance(one, _FileChange)]
    frames = [_whole_files(source, wide, change, files) for change in ("insert", "delete")]
    frames += [_rows_gone(source, wide, one) for one in changes if isinstance(one, _RowsGone)]
    rows = functools.reduce(DataFrame.unionAll, frames)
    rows = filtered(rows, bound)
    if not carry_overs and {one.change for one in files} == {"insert", "delete"}:
        rows = _without_carry_overs(rows)
    return rows.select(*(named_column(field.name) for field in projection.fields), *_CHANGE_COLUMNS)


def _changes(source: Source, snapshots: SnapshotRange, bound: Expression) -> Iterator[_FileChange | _RowsGone]:
    """Compare each snapshot's live files with those of its parent."""
    found = snapshots.resolve(source.metadata)
    changing = [snapshot for snapshot in found if snapshot.operation != "replace"]
    live: dict[int | None, Mapping[str, FileScanTask]] = {None: {}}
    for ordinal, snapshot in enumerate(changing):
        parent_id = snapshot.parent_snapshot_id
        parent = None if parent_id is None else source.metadata.snapshot_by_id(parent_id)
        before = live.get(parent_id)
        if before is None:
            before = {} if parent is None else _live(source, parent, bound)
        after = _live(source, snapshot, bound)
        live = {None: {}, snapshot.snapshot_id: after}
        yield from _differences(before, after, ordinal=ordinal, snapshot_id=snapshot.snapshot_id)


def _live(source: Source, snapshot: Snapshot, bound: Expression) -> Mapping[str, FileScanTask]:
    """The planned files of a snapshot, by location."""
    planner = Planner(source.metadata, source.manifests, bound)
    manifests = source.manifests.manifests(source.metadata, snapshot)
    data = list(planner.data_entries(manifests))
    deletes = planner.deletes_for(data, manifests)
    return {entry.data_file.file_path: planner.task(entry, deletes.of(entry)) for entry in data}


def _differences(
    before: Mapping[str, FileScanTask], after: Mapping[str, FileScanTask], *, ordinal: int, snapshot_id: int
) -> Iterator[_FileChange | _RowsGone]:
    for path, task in after.items():
        if path not in before:
            yield _FileChange(change="insert", ordinal=ordinal, snapshot_id=snapshot_id, task=task)
    for path, task in before.items():
        if path not in after:
            yield _FileChange(change="delete", ordinal=ordinal, snapshot_id=snapshot_id, task=task)
    paths = [path for path in after if path in before and _deletes(before[path]) != _deletes(after[path])]
    if paths:
        yield _RowsGone(
            ordinal=ordinal,
            snapshot_id=snapshot_id,
            before=[before[path] for path in paths],
            after=[after[path] for path in paths],
        )


def _deletes(task: FileScanTask) -> frozenset[tuple[str, int | None]]:
    return frozenset((delete.file_path, delete.content_offset) for delete in task.deletes)


def _frame(source: Source, tasks: Iterable[FileScanTask], wide: Schema, *places: str) -> DataFrame:
    extra = tuple(METADATA_COLUMNS[name] for name in places)
    projection = msgspec.structs.replace(wide, struct=StructType((*wide.fields, *extra)))
    return scan_frame(
        source.spark, list(tasks), metadata=source.metadata, projection=projection, connection=source.connection
    )


def _whole_files(source: Source, wide: Schema, change: Change, files: list[_FileChange]) -> DataFrame:
    """The rows of all files that came, or of all that went."""
    of_kind = [one for one in files if one.change == change]
    facts = source.spark.createDataFrame(
        [(one.task.file.file_path, change, one.ordinal, one.snapshot_id) for one in of_kind],
        f"{FILE} string, {CHANGE_TYPE} string, {CHANGE_ORDINAL} int, {COMMIT_SNAPSHOT_ID} bigint",
    )
    if not of_kind:
        names = [field.name for field in wide.fields]
        return (
            source.spark.createDataFrame([], spark_schema(wide))
            .crossJoin(facts.drop(FILE))
            .toDF(*names, *_CHANGE_COLUMNS)
        )
    return _frame(source, (one.task for one in of_kind), wide, FILE).join(F.broadcast(facts), FILE).drop(FILE)


def _rows_gone(source: Source, wide: Schema, gone: _RowsGone) -> DataFrame:
    """The rows that were live before the snapshot, and not after it."""
    place = msgspec.structs.replace(wide, struct=StructType(()))
    after = _frame(source, gone.after, place, FILE, POS)
    rows = _frame(source, gone.before, wide, FILE, POS).join(after, [FILE, POS], "left_anti").drop(FILE, POS)
    return rows.select(
        "*",
        F.lit("delete").alias(CHANGE_TYPE),
        F.lit(gone.ordinal).alias(CHANGE_ORDINAL),
        F.lit(gone.snapshot_id).cast("bigint").alias(COMMIT_SNAPSHOT_ID),
    )


def _without_carry_overs(rows: DataFrame) -> DataFrame:
    """The changes without rows that one snapshot has deleted and inserted alike, as often as it did both."""
    inserted = rows.where(F.col(CHANGE_TYPE) == "insert").drop(CHANGE_TYPE)
    deleted = rows.where(F.col(CHANGE_TYPE) == "delete").drop(CHANGE_TYPE)
    parts = [
        inserted.exceptAll(deleted).withColumn(CHANGE_TYPE, F.lit("insert")),
        deleted.exceptAll(inserted).withColumn(CHANGE_TYPE, F.lit("delete")),
    ]
    return DataFrame.unionAll(*parts).select(rows.columns)
