"""Planned Parquet files read by Spark itself: columns by field id, deleted positions taken out by an anti-join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField
from pyspark.sql.types import StructType as SparkStruct

from firn.model.errors import CorruptFile
from firn.model.metadata import TableMetadata
from firn.model.reserved import (
    FILE_ID,
    LAST_UPDATED_SEQUENCE_NUMBER_ID,
    POS_ID,
    ROW_ID_ID,
    SPEC_ID_ID,
)
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.model.types import UUID, NestedField, is_nested
from firn.pipeline.connection import Connection
from firn.pipeline.deleted_positions import deleted_positions, positional_deletes
from firn.pipeline.deleted_values import PARTITION, deleted_values, equality_ids, partition_text
from firn.pipeline.session_copy import SessionCopy
from firn.pipeline.spark_paths import spellings
from firn.pipeline.spark_types import FIELD_ID_KEY, spark_field
from firn.pipeline.sql_literals import sql_literal
from firn.storage.locations import normalize
from firn.storage.scan_rows import every_column

FIELD_IDS_CONF: Final = "spark.sql.parquet.fieldId.read.enabled"
_SETTINGS: Final = {
    FIELD_IDS_CONF: "true",
    # Its other reader looks for columns by the settings of whoever reads, and finds them by name.
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
}
_OPTIONS: Final = {
    # What a session may be set to, and a table must not be read with: rows would be missing, or have other days.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
BROADCAST_POSITIONS_MAX: Final = 2_000_000
"""Deleted positions that are sent to every task; more of them are shuffled."""

_FILE: Final = "__firn_file"
_ROW: Final = "__firn_row"
_PATH: Final = "__firn_path"
_FACTS: Final = "__firn_location string, __firn_spec int, __firn_first bigint, __firn_seq bigint"
_COMPUTED: Final = frozenset({FILE_ID, POS_ID, SPEC_ID_ID, ROW_ID_ID, LAST_UPDATED_SEQUENCE_NUMBER_ID})
_PREFIX: Final = "__firn_column_"


def native_frame(
    spark: SparkSession,
    tasks: Sequence[FileScanTask],
    *,
    metadata: TableMetadata,
    projection: Schema,
    connection: Connection,
) -> DataFrame:
    """The live rows of these tasks' files in the columns of `projection`."""
    stored = [field for field in projection.fields if field.field_id not in {FILE_ID, POS_ID, SPEC_ID_ID}]
    every = every_column(metadata.current_schema, metadata.schemas)
    keys = {i for ids in equality_ids(tasks) for i in ids} - projection.fields_by_id.keys()
    stored += [every.fields_by_id[i] for i in sorted(keys)]
    names = {field.field_id: f"{_PREFIX}{at}" for at, field in enumerate(stored)}
    # Names in Parquet do not matter; ours cannot clash, neither with each other nor with `_metadata`.
    schema = SparkStruct([_physical(field, names[field.field_id]) for field in stored])
    rows = _parquet(spark, schema, [task.file.file_path for task in tasks])
    if any(task.deletes for task in tasks) or any(field.field_id in _COMPUTED for field in projection.fields):
        rows = rows.select("*", F.col("_metadata.file_path").alias(_PATH), F.col("_metadata.row_index").alias(_ROW))
        # A path that is not among the planned ones must not pass for a file without rows.
        known = F.coalesce(F.col(_FILE), F.raise_error(F.concat(F.lit("not planned: "), F.col(_PATH))).cast("int"))
        rows = rows.join(F.broadcast(_facts(spark, rows, tasks)), _PATH, "left").withColumn(_FILE, known)
    if any(positional_deletes(task) for task in tasks):
        gone = deleted_positions(spark, dict(enumerate(tasks)), connection=connection)
        count = sum(delete.record_count for task in tasks for delete in positional_deletes(task))
        gone = gone.toDF(_FILE, _ROW)
        rows = rows.join(F.broadcast(gone) if count <= BROADCAST_POSITIONS_MAX else gone, [_FILE, _ROW], "left_anti")
    for deleted in deleted_values(spark, tasks, metadata=metadata, connection=connection):
        values = deleted.rows if deleted.count > BROADCAST_POSITIONS_MAX else F.broadcast(deleted.rows)
        columns = [F.col(f"r.{names[field.field_id]}") for field in deleted.fields]
        reach = deleted.reach(columns, F.col("r.__firn_seq"))
        rows = rows.alias("r").join(values.alias("d"), reach, "left_anti")
    return rows.select([_shown(field, names).alias(field.name) for field in projection.fields])


def _parquet(spark: SparkSession, schema: SparkStruct, paths: Sequence[str]) -> DataFrame:
    """The rows of Parquet files, columns by field id, whatever the session's settings are and will be."""
    copy = SessionCopy.of(spark, _SETTINGS)
    if copy is None:
        spark.conf.set(FIELD_IDS_CONF, "true")
    reader = spark.read if copy is None else copy.reader()
    rows = reader.options(**_OPTIONS).schema(schema).parquet(*paths)
    return rows if copy is None else copy.returned(rows)


def _physical(field: NestedField, name: str) -> StructField:
    """The column as Spark is to read it."""
    if field.type == UUID:
        return StructField(name, BinaryType(), nullable=True, metadata={FIELD_ID_KEY: field.field_id})
    found = spark_field(field)
    return StructField(name, found.dataType, nullable=True, metadata={**found.metadata, **_default(field)})


def _default(field: NestedField) -> dict[str, str]:
    """What Spark fills in where a file does not have the column: SQL in the field's metadata."""
    if field.initial_default is None:
        return {}
    return {"EXISTS_DEFAULT": sql_literal(field.type, field.initial_default)}


def _facts(spark: SparkSession, rows: DataFrame, tasks: Sequence[FileScanTask]) -> DataFrame:
    """What is known of each file, by every way in which Spark spells its path."""
    numbers = {normalize(task.file.file_path): at for at, task in enumerate(tasks)}
    found = []
    for spelled, location in spellings(rows.inputFiles()).items():
        if location not in numbers:
            raise CorruptFile(location, f"Spark reads it as {spelled}, and no planned file is called so")
        number = numbers[location]
        task = tasks[number]
        file = task.file
        place = partition_text(file.spec_id, file.partition)
        found.append((spelled, number, file.file_path, file.spec_id, file.first_row_id, task.sequence_number, place))
    return spark.createDataFrame(found, f"{_PATH} string, {_FILE} int, {_FACTS}, {PARTITION} string")


def _shown(field: NestedField, names: dict[int, str]) -> Column:
    """The column as it is shown."""
    first = F.col("__firn_first")
    match field.field_id:
        case int(i) if i == FILE_ID:
            return F.col("__firn_location")
        case int(i) if i == POS_ID:
            return F.col(_ROW)
        case int(i) if i == SPEC_ID_ID:
            return F.col("__firn_spec")
    column = F.col(names[field.field_id])
    if field.field_id == ROW_ID_ID:
        return F.coalesce(column, first + F.col(_ROW))
    if field.field_id == LAST_UPDATED_SEQUENCE_NUMBER_ID:
        return F.coalesce(column, F.when(first.isNotNull(), F.col("__firn_seq")))
    if field.type == UUID:
        text = F.lower(F.hex(column))
        return F.regexp_replace(text, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    # Where only some fields of a struct are asked for, Spark reads a struct of these, and forgets the ids of all of it:
    # every column would be null. It cannot look into an array that is made here.
    return F.element_at(F.array(column), 1) if is_nested(field.type) else column
