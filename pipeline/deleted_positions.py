"""The rows that deletion vectors and position delete files delete, as a DataFrame of files and positions.

Delete files are read in tasks, each once, whatever number of data files it is for.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector, from_blob
from firn.model.errors import CorruptFile
from firn.model.scan_plan import FileScanTask
from firn.pipeline.connection import Connection
from firn.pipeline.python_archives import forget_spark_jars
from firn.storage.data_files import DATA_FILE_BYTES_MAX
from firn.storage.file_stores import open_files
from firn.storage.files import FileStore
from firn.storage.position_deletes import decode_position_deletes

COLUMNS: Final = "file int, position bigint"


class DeleteWork(msgspec.Struct, frozen=True, kw_only=True):
    """One delete file to read: `numbers` are those of the data files that it is for, by location."""

    delete: DataFile
    numbers: dict[str, int]


def deleted_positions(spark: SparkSession, tasks: Mapping[int, FileScanTask], *, connection: Connection) -> DataFrame:
    """The deleted positions of the tasks' files, as rows of task number and position, maybe repeated."""
    work: dict[tuple[str, int | None], DeleteWork] = {}
    for number, task in tasks.items():
        for delete in positional_deletes(task):
            found = work.setdefault((delete.file_path, delete.content_offset), DeleteWork(delete=delete, numbers={}))
            found.numbers[task.file.file_path] = number
    return work_frame(spark, list(work.values())).mapInArrow(_DeleteTask(connection.files), COLUMNS)


def positional_deletes(task: FileScanTask) -> tuple[DataFile, ...]:
    """The deletes by position that apply: a deletion vector has absorbed all others."""
    positional = tuple(delete for delete in task.deletes if delete.content == "position-deletes")
    vectors = tuple(delete for delete in positional if delete.is_deletion_vector)
    if len(vectors) > 1:
        raise CorruptFile(task.file.file_path, f"has {len(vectors)} deletion vectors")
    return vectors or positional


def work_frame(spark: SparkSession, work: list[Any]) -> DataFrame:
    """Pieces of work, one a row, spread over tasks."""
    rows = [(bytearray(pickle.dumps(one)),) for one in work]
    tasks = max(1, min(len(rows), 4 * spark.sparkContext.defaultParallelism))
    return spark.createDataFrame(rows, "work binary").repartition(tasks)


def works_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The inverse of `work_frame`, in a task."""
    for batch in batches:
        for one in batch.column(0):
            # What this process's own driver has pickled, like the function that reads it.
            yield pickle.loads(one.as_py())  # noqa: S301
    forget_spark_jars()


class _DeleteTask:
    def __init__(self, stores: dict[str, dict[str, Any]]) -> None:
        self._stores = stores

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = open_files(self._stores)
        for work in works_of(batches):
            for location, vector in read_positions(work.delete, files).items():
                number = work.numbers.get(location)
                if number is not None:
                    positions = pa.array(vector, pa.int64())
                    numbers = pa.repeat(pa.scalar(number, pa.int32()), len(positions))
                    yield pa.RecordBatch.from_arrays([numbers, positions], ["file", "position"])


def read_positions(delete: DataFile, files: FileStore) -> dict[str, DeletionVector]:
    """The positions that a delete file or deletion vector deletes, by data file. Raises CorruptFile."""
    if not delete.is_deletion_vector:
        data = files.read(delete.file_path, bytes_max=DATA_FILE_BYTES_MAX)
        return decode_position_deletes(data, file_format=delete.file_format, location=delete.file_path)
    offset, length, data_file = delete.content_offset, delete.content_size_in_bytes, delete.referenced_data_file
    if offset is None or length is None or data_file is None:
        raise CorruptFile(delete.file_path, "the entry of a deletion vector does not say where it is")
    blob = files.read_range(delete.file_path, offset=offset, length=length)
    return {data_file: from_blob(blob, location=delete.file_path, cardinality=delete.record_count)}
