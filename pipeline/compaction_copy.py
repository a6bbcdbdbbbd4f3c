"""Rows that Spark has no types for, copied from file to file in its tasks: it sees which files, and never a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from firn.model.errors import Unsupported
from firn.model.intent import ContentFile
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.pipeline.deleted_positions import work_frame, works_of
from firn.pipeline.spark_types import spark_schema
from firn.pipeline.task_rows import TaskReader
from firn.pipeline.write_job import encode_files, run_job, write_batches
from firn.pipeline.write_target import WriteTarget
from firn.storage.file_stores import open_files


def is_shown_by_spark(schema: Schema) -> bool:
    """Whether Spark has types for all columns; it has none for variant, geometry and geography."""
    try:
        spark_schema(schema)
    except Unsupported:
        return False
    return True


def copied(
    spark: SparkSession, tasks: Sequence[FileScanTask], target: WriteTarget, *, outputs: int
) -> list[ContentFile]:
    """The files that the live rows of planned files are copied into, in `outputs` Spark tasks.

    Each reads whole files, one after another.
    """
    return run_job(work_frame(spark, list(tasks)).repartition(outputs), _CopyTask(target))


class _CopyTask(msgspec.Struct, frozen=True):
    """What a Spark task does: read its files, and write their rows."""

    target: WriteTarget

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target = self.target
        reader = TaskReader(target.metadata, target.schema, open_files(target.files))
        yield encode_files(
            write_batches(target, (batch for task in works_of(batches) for batch in reader.batches(task)))
        )
