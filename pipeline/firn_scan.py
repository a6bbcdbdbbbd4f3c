"""Planned files of any format read by firn's own reader in tasks, every kind of delete applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from firn.model.metadata import TableMetadata
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.model.types import TIME, TIMESTAMP_NS, TIMESTAMPTZ_NS, UUID, ListType, MapType, StructType, Type
from firn.pipeline.connection import Connection
from firn.pipeline.deleted_positions import work_frame, works_of
from firn.pipeline.spark_types import spark_schema
from firn.pipeline.task_rows import TaskReader
from firn.pipeline.write_target import without_history
from firn.storage.file_stores import open_files

_LONGS = (TIME, TIMESTAMP_NS, TIMESTAMPTZ_NS)


def firn_frame(
    spark: SparkSession,
    tasks: Sequence[FileScanTask],
    *,
    metadata: TableMetadata,
    projection: Schema,
    connection: Connection,
) -> DataFrame:
    """The live rows of these tasks' files in the columns of `projection`. Raises Unsupported as `spark_schema` does."""
    reading = _Reading(stores=connection.files, metadata=without_history(metadata), projection=projection)
    return work_frame(spark, list(tasks)).mapInArrow(reading, spark_schema(projection))


class _Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a task does: read the files of its tasks, and show their rows as Spark has them."""

    stores: dict[str, dict[str, Any]]
    metadata: TableMetadata
    projection: Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = TaskReader(self.metadata, self.projection, open_files(self.stores))
        for task in works_of(batches):
            for batch in reader.batches(task):
                yield shown(batch, self.projection)


def shown(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """A batch in the Arrow schema of `schema` as `spark_type` shows its types."""
    arrays = [_shown(column, field.type) for column, field in zip(batch.columns, schema.fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [field.name for field in schema.fields])


def _shown(array: pa.Array, type: Type) -> pa.Array:
    if type == UUID:
        texts = [None if value is None else str(value) for value in array.to_pylist()]
        return pa.array(texts, pa.string())
    if type in _LONGS:
        return array.view(pa.int64())
    match type:
        case StructType():
            children = [_shown(child, field.type) for child, field in zip(array.flatten(), type.fields, strict=True)]
            return pa.StructArray.from_arrays(children, [field.name for field in type.fields], mask=array.is_null())
        case ListType():
            return pa.ListArray.from_arrays(array.offsets, _shown(array.values, type.element), mask=array.is_null())
        case MapType():
            keys, items = _shown(array.keys, type.key), _shown(array.items, type.value)
            return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
    if pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    return array
