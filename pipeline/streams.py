"""Streams into tables by ``foreachBatch``: as with the data source, with rows distributed before they are written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Unpack

from pyspark.sql import DataFrame

from firn.coordinator.client.answers import committed
from firn.model.errors import InvalidInput
from firn.model.spelling import refuse_unknown
from firn.pipeline.writes import WriteOptions, append

QUERY_ID: Final = "sql.streaming.queryId"
"""Where Spark tells a batch the id of its query, which stays the same as long as its checkpoint."""

RUN_ID: Final = "spark.jobGroup.id"
"""Where Spark tells a batch the run of its query: another one after each start."""


def query_label(query: str, write: int = 1) -> str:
    """Return what an epoch is called: the query, and the how-many-th write of the batch to the table it is."""
    return f"query {query}, write {write}"


class BatchWrites:
    """Number the writes of each batch by one writer to one table, in the order in which they are made.

    A batch that Spark runs again makes the same writes in the same order, so a write keeps its number. A second write
    has another, so that the daemon cannot take it for the first made again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[tuple[str, str], tuple[tuple[str | None, int], list[_Write]]] = {}
        """By writer and table, the run and the number of its last batch, with the writes of that."""

    def number(self, writer: str, table: str, *, run: str | None, batch_id: int, by: object) -> int:
        """Return the number of a write that begins now. One that `by` has begun and not finished is made again."""
        with self._lock:
            batch, writes = self._batches.get((writer, table), (None, []))
            if batch != (run, batch_id):
                writes = []
                self._batches[writer, table] = (run, batch_id), writes
            again = next((at for at, write in enumerate(writes) if write.by is by and not write.done), len(writes))
            if again == len(writes):
                writes.append(_Write(by))
            return again + 1

    def finish(self, writer: str, table: str, number: int) -> None:
        """Note that a write is committed: the next one of the same function is another write."""
        with self._lock:
            _, writes = self._batches.get((writer, table), (None, []))
            if number <= len(writes):
                writes[number - 1].done = True


class _Write:
    def __init__(self, by: object) -> None:
        self.by = by
        self.done = False


_batch_writes: Final = BatchWrites()


def stream_to(table: str, **options: Unpack[WriteOptions]) -> Callable[[DataFrame, int], None]:
    """A function for ``writeStream.foreachBatch`` that commits every batch once, whatever is repeated after a crash.

    The query's id is the writer (or the option `writer`, which must stay the same and be no other query's), the batch
    its sequence number. Of a batch one write to one table can be committed under a writer's name; a second one is
    refused: give each write its own `writer`. A batch that is rejected or whose outcome is unknown fails the query;
    restart it, and it goes on where it was. A batch that was committed before is logged, and its new files are removed.
    """
    refuse_unknown(options, WriteOptions.__annotations__)
    if "writer_sequence" in options or "intent_id" in options:
        raise InvalidInput("every batch has its own", where="writer_sequence, intent_id")

    def write(rows: DataFrame, batch_id: int) -> None:
        context = rows.sparkSession.sparkContext
        query = context.getLocalProperty(QUERY_ID)
        writer = options.get("writer") or query
        if not writer:
            raise InvalidInput("this is no batch of a streaming query", where="foreachBatch", hint="name the writer")
        members: WriteOptions = {**options, "writer": writer, "writer_sequence": batch_id}
        if not query or "epoch_label" in options:
            committed(append(rows, table, **members))
            return
        run = context.getLocalProperty(RUN_ID)
        number = _batch_writes.number(writer, table, run=run, batch_id=batch_id, by=write)
        members["epoch_label"] = query_label(query, number)
        committed(append(rows, table, **members))
        _batch_writes.finish(writer, table, number)

    return write
