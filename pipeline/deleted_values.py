"""The rows that equality delete files delete, as DataFrames of values, for Spark to join with.

A delete reaches the rows of data files that are older than it, in its partition or, if its spec has none or only void
ones, everywhere. Which files it applies to was planned; from that its reach is known by age: everything planned that is
as old as the youngest file that it applies to. Files that planning has ruled out by their bounds hold no such row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField
from pyspark.sql.types import StructType as SparkStruct

from firn.model.datafile import DataFile
from firn.model.delete_index import equality_scope, partition_key
from firn.model.metadata import TableMetadata
from firn.model.name_mapping import name_mapping_from_text
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.model.table_properties import NAME_MAPPING
from firn.model.types import NestedField, StructType
from firn.pipeline.connection import Connection
from firn.pipeline.deleted_positions import work_frame, works_of
from firn.pipeline.firn_scan import shown
from firn.pipeline.spark_types import spark_type
from firn.pipeline.write_target import without_history
from firn.storage.arrow_rows import batch_of_rows
from firn.storage.data_files import DATA_FILE_BYTES_MAX
from firn.storage.equality_deletes import decode_equality_deletes
from firn.storage.file_stores import open_files
from firn.storage.scan_rows import every_column

YOUNGEST: Final = "__firn_youngest"
"""Sequence number of the youngest data files that a delete reaches."""

PARTITION: Final = "__firn_partition"
"""The partition that a delete is for, null for all; of a data file its own."""

_KEY: Final = "__firn_key_"
ROWS: Final = 10_000


class DeletedValues(msgspec.Struct, frozen=True, kw_only=True):
    """Deletes by the same columns: `fields` name them, `rows` has a column ``__firn_key_<n>`` for each."""

    fields: tuple[NestedField, ...]
    rows: DataFrame
    count: int

    def reach(self, columns: Sequence[Column], sequence_number: Column) -> Column:
        """Whether a delete reaches a row with these values of the fields. Null equals null."""
        same = F.lit(col=True)
        for at, column in enumerate(columns):
            same = same & column.eqNullSafe(F.col(f"{_KEY}{at}"))
        here = F.col(f"d.{PARTITION}").isNull() | (F.col(f"d.{PARTITION}") == F.col(f"r.{PARTITION}"))
        return same & (sequence_number <= F.col(YOUNGEST)) & here


class ValueWork(msgspec.Struct, frozen=True, kw_only=True):
    """One equality delete file to read, and its reach."""

    delete: DataFile
    youngest: int
    partition: str | None


def partition_text(spec_id: int, partition: tuple[Any, ...]) -> str:
    """A text that is equal for equal partitions of one spec."""
    return repr(partition_key(spec_id, partition))


def equality_ids(tasks: Iterable[FileScanTask]) -> set[tuple[int, ...]]:
    """The choices of delete columns among the deletes that apply."""
    return {
        tuple(sorted(delete.equality_ids or ()))
        for task in tasks
        for delete in task.deletes
        if delete.content == "equality-deletes"
    }


def deleted_values(
    spark: SparkSession, tasks: Sequence[FileScanTask], *, metadata: TableMetadata, connection: Connection
) -> list[DeletedValues]:
    """The equality deletes that apply to these tasks' files, by delete columns."""
    youngest: dict[str, tuple[DataFile, int]] = {}
    for task in tasks:
        for delete in task.deletes:
            if delete.content == "equality-deletes":
                _, known = youngest.get(delete.file_path, (delete, -1))
                youngest[delete.file_path] = (delete, max(known, task.sequence_number))
    every = every_column(metadata.current_schema, metadata.schemas)
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    of_ids: dict[tuple[int, ...], list[ValueWork]] = {}
    for delete, age in youngest.values():
        everywhere = equality_scope(delete, specs) is None
        partition = None if everywhere else partition_text(delete.spec_id, delete.partition)
        work = ValueWork(delete=delete, youngest=age, partition=partition)
        of_ids.setdefault(tuple(sorted(delete.equality_ids or ())), []).append(work)
    return [_values(spark, ids, works, every, metadata, connection) for ids, works in of_ids.items()]


def _values(
    spark: SparkSession,
    ids: tuple[int, ...],
    works: list[ValueWork],
    every: Schema,
    metadata: TableMetadata,
    connection: Connection,
) -> DeletedValues:
    fields = tuple(every.fields_by_id[i] for i in ids)
    reading = _Reading(stores=connection.files, metadata=without_history(metadata), every=every, ids=ids)
    columns = [StructField(f"{_KEY}{at}", spark_type(field.type)) for at, field in enumerate(fields)]
    schema = SparkStruct([*columns, StructField(YOUNGEST, LongType()), StructField(PARTITION, StringType())])
    rows = work_frame(spark, list(works)).mapInArrow(reading, schema)
    return DeletedValues(fields=fields, rows=rows, count=sum(work.delete.record_count for work in works))


class _Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a task does: read delete files."""

    stores: dict[str, dict[str, Any]]
    metadata: TableMetadata
    every: Schema
    ids: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = open_files(self.stores)
        mapping = NAME_MAPPING.of(self.metadata.properties)
        fields = tuple(
            NestedField(field_id=i, name=f"{_KEY}{at}", type=self.every.fields_by_id[i].type, required=False)
            for at, i in enumerate(self.ids)
        )
        schema = Schema(schema_id=0, struct=StructType(fields))
        for work in works_of(batches):
            found = decode_equality_deletes(
                files.read(work.delete.file_path, bytes_max=DATA_FILE_BYTES_MAX),
                file_format=work.delete.file_format,
                location=work.delete.file_path,
                schema=self.every,
                equality_ids=self.ids,
                name_mapping=None if mapping is None else name_mapping_from_text(mapping),
            )
            keys = list(found.keys)
            for start in range(0, len(keys), ROWS):
                part = [dict(zip(self.ids, key, strict=True)) for key in keys[start : start + ROWS]]
                batch = shown(batch_of_rows(part, schema), schema)
                ages = pa.repeat(pa.scalar(work.youngest, pa.int64()), len(part))
                places = pa.repeat(pa.scalar(work.partition, pa.string()), len(part))
                names = [*batch.schema.names, YOUNGEST, PARTITION]
                yield pa.RecordBatch.from_arrays([*batch.columns, ages, places], names)
