"""Rows handed to tasks as Arrow batches, whatever their columns are called.

PySpark finds the columns of `mapInArrow` by parsing their names: a dot in one is taken for a step into a struct, and a
backtick is a syntax error. So columns are numbered on the way, and have their names again in the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType as SparkStruct

BatchTask = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_batches(rows: DataFrame, task: BatchTask, schema: SparkStruct | str) -> DataFrame:
    """Return what `task` makes of the batches of each partition, in the columns of `schema`."""
    numbered = rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))
    return numbered.mapInArrow(_Named(names=tuple(rows.columns), task=task), schema)


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    """What a task does: give the columns their names, then what it is for."""

    names: tuple[str, ...]
    task: BatchTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.task(batch.rename_columns(list(self.names)) for batch in batches)
