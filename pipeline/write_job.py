"""A Spark job that writes a DataFrame's rows as data files of a table, and tells the driver which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from firn.model.intent import ContentFile
from firn.model.sorting import UNSORTED, SortOrder
from firn.pipeline.arrow_batches import in_small_batches, together
from firn.pipeline.distribution import distribute
from firn.pipeline.named_batches import BatchTask, map_batches
from firn.pipeline.parquet_sink import ParquetSink
from firn.pipeline.python_archives import forget_spark_jars
from firn.pipeline.write_target import WriteTarget

FILE_COLUMN: Final = "content_file string"


class WriteTask:
    """What a task does with its batches: write them, and give one row for each file, its content file in JSON."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield encode_files(write_batches(self._target, batches))


def write_batches(target: WriteTarget, batches: Iterable[pa.RecordBatch]) -> list[ContentFile]:
    """Write the batches of the task that this runs in; what it has written is removed when anything fails."""
    with ParquetSink(target, name=task_name()) as sink:
        sink.write_all(together(batches))
        files = sink.close()
    forget_spark_jars()
    return files


def task_name() -> str:
    """A name for this attempt of this task: partition and attempt, which no other of the application has."""
    context = TaskContext.get()
    if context is None:
        return "00000-0"
    return f"{context.partitionId():05d}-{context.taskAttemptId()}"


def encode_files(files: Iterable[ContentFile]) -> pa.RecordBatch:
    """Content files as a batch of JSON texts."""
    texts = [msgspec.json.encode(file).decode() for file in files]
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["content_file"])


def decode_files(texts: Iterable[str]) -> list[ContentFile]:
    """The inverse of `encode_files`."""
    decoder = msgspec.json.Decoder(ContentFile)
    return [decoder.decode(text) for text in texts]


def write_files(rows: DataFrame, target: WriteTarget, *, mode: str, order: SortOrder = UNSORTED) -> list[ContentFile]:
    """Run the job: `rows` distributed by `mode` (`distribution_mode`) and sorted by `order`, written by every task.

    What Spark raises when the job fails is raised here; failed tasks have removed their files.
    """
    arranged = distribute(rows, schema=target.schema, spec=target.spec, order=order, mode=mode)
    return run_job(arranged, WriteTask(target))


def run_job(rows: DataFrame, task: BatchTask) -> list[ContentFile]:
    """Have tasks turn `rows` into files; the files of all tasks."""
    found = map_batches(in_small_batches(rows), task, FILE_COLUMN).collect()
    return decode_files(row[0] for row in found)
