"""How many rows come to a Python task at once: so few that Spark need not count their bytes.

Spark 4.1 adds up the bytes of all columns after each row that it puts in a batch
(``spark.sql.execution.arrow.maxBytesPerBatch``). With six columns that is more work than all the rest of bringing rows
to Python. Where no value is large by nature, a limit of rows keeps batches small as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from firn.pipeline.session_copy import SessionCopy

BYTES_CONF: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_CONF: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"

ROWS_MAX: Final = 2_000
"""Rows in a batch whose bytes are not counted."""

TOGETHER_ROWS: Final = 64 * 1024
TOGETHER_BYTES: Final = 16 * 1024 * 1024
"""So many rows or bytes of small batches are worked on together."""

_UNCOUNTED: Final = str(2**31 - 1)
"""What Spark takes for no limit of bytes."""

_UNSET: Final = str(2**31 - 2)


def in_small_batches(rows: DataFrame) -> DataFrame:
    """The same rows for a job that takes them to Python: `ROWS_MAX` at a time, without a count of their bytes.

    A session's own limit of bytes is left as it is, and so is Spark's for rows with columns of bytes, lists or maps,
    whose values may be of any size. Other frames of the session keep their limits.
    """
    session = rows.sparkSession
    if any(_may_be_large(field.dataType) for field in rows.schema.fields):
        return rows
    if session.conf.get(BYTES_CONF, _UNSET) != _UNSET:
        return rows
    most = int(session.conf.get(ROWS_CONF, _UNSET) or _UNSET)
    limit = min(most, ROWS_MAX) if most > 0 else ROWS_MAX
    copy = SessionCopy.of(session, {ROWS_CONF: str(limit), BYTES_CONF: _UNCOUNTED})
    return rows if copy is None else copy.planned(rows)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, which cost less to work on."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in map(mended, batches):
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= TOGETHER_ROWS or size >= TOGETHER_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def mended(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, as pyarrow can work on them.

    Java sends nothing for the offsets of lists that there are none of, such as those in lists that are all empty. To
    pyarrow (26) they are missing then, and looking at them ends the process.
    """
    if not any(_has_lists(type) for type in batch.schema.types):
        return batch
    return pa.RecordBatch.from_arrays([_mended(column) for column in batch.columns], schema=batch.schema)


def _mended(array: pa.Array) -> pa.Array:
    type = array.type
    if not _has_lists(type) or array.offset:
        return array  # what is a part of something larger was made by Python
    if len(array) == 0:
        return pa.array([], type)
    if pa.types.is_struct(type):
        buffers, children = 1, [array.field(at) for at in range(type.num_fields)]
    else:
        buffers, children = 2, [array.values]
    return pa.Array.from_buffers(
        type, len(array), array.buffers()[:buffers], array.null_count, children=[_mended(child) for child in children]
    )


def _has_lists(type: pa.DataType) -> bool:
    if pa.types.is_struct(type):
        return any(_has_lists(type.field(at).type) for at in range(type.num_fields))
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_map(type))


def _may_be_large(type: DataType) -> bool:
    if isinstance(type, StructType):
        return any(_may_be_large(field.dataType) for field in type.fields)
    return isinstance(type, BinaryType | ArrayType | MapType)
