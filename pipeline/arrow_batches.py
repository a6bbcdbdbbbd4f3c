"""How many rows come to a Python task at once: so few that Spark need not count their bytes.

Spark 4.1 adds up the bytes of all columns after each row that it puts in a batch
(``spark.sql.execution.arrow.maxBytesPerBatch``). With six columns that is more work than all the rest of bringing rows
to Python. Where no value is large by nature, a limit of rows keeps batches small as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

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


@contextmanager
def few_rows_uncounted(rows: DataFrame) -> Iterator[None]:
    """While the block runs a job that takes `rows` to Python: `ROWS_MAX` at a time, without a count of their bytes.

    A session's own limit of bytes is left as it is, and so is Spark's for rows with columns of bytes, lists or maps,
    whose values may be of any size.
    """
    if any(_may_be_large(field.dataType) for field in rows.schema.fields):
        yield
        return
    session = rows.sparkSession
    _limits.begin(session)
    try:
        yield
    finally:
        _limits.end(session)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, which cost less to work on."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= TOGETHER_ROWS or size >= TOGETHER_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _may_be_large(type: DataType) -> bool:
    if isinstance(type, StructType):
        return any(_may_be_large(field.dataType) for field in type.fields)
    return isinstance(type, BinaryType | ArrayType | MapType)


class _Limits:
    """The limits of sessions that jobs run in; the last job that ends puts them back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()
        self._rows_before: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()

    def begin(self, session: SparkSession) -> None:
        with self._lock:
            if session not in self._jobs:
                if session.conf.get(BYTES_CONF, _UNSET) != _UNSET:
                    return
                before = session.conf.get(ROWS_CONF, _UNSET) or _UNSET
                self._rows_before[session] = before
                rows = int(before)
                session.conf.set(ROWS_CONF, str(min(rows, ROWS_MAX) if rows > 0 else ROWS_MAX))
                session.conf.set(BYTES_CONF, _UNCOUNTED)
            self._jobs[session] = self._jobs.get(session, 0) + 1

    def end(self, session: SparkSession) -> None:
        with self._lock:
            if session not in self._jobs:
                return
            self._jobs[session] -= 1
            if self._jobs[session]:
                return
            del self._jobs[session]
            before = self._rows_before.pop(session)
            session.conf.unset(BYTES_CONF)
            if before == _UNSET:
                session.conf.unset(ROWS_CONF)
            else:
                session.conf.set(ROWS_CONF, before)


_limits: Final = _Limits()
