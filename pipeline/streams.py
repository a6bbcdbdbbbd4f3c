"""Streams into tables by ``foreachBatch``: as with the data source, with rows distributed before they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Unpack

from pyspark.sql import DataFrame

from firn.coordinator.client.answers import committed
from firn.model.errors import InvalidInput
from firn.pipeline.writes import WriteOptions, append

QUERY_ID: Final = "sql.streaming.queryId"
"""Where Spark tells a batch the id of its query, which stays the same as long as its checkpoint."""


def stream_to(table: str, **options: Unpack[WriteOptions]) -> Callable[[DataFrame, int], None]:
    """A function for ``writeStream.foreachBatch`` that commits every batch once, whatever is repeated after a crash.

    The query's id is the writer (or the option `writer`, which must stay the same and be no other query's), the batch
    its sequence number. A batch that is rejected or whose outcome is unknown fails the query; restart it, and it goes
    on where it was.
    """
    if "writer_sequence" in options or "intent_id" in options:
        raise InvalidInput("every batch has its own", where="writer_sequence, intent_id")

    def write(rows: DataFrame, batch_id: int) -> None:
        writer = options.get("writer") or rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if not writer:
            raise InvalidInput("this is no batch of a streaming query", where="foreachBatch", hint="name the writer")
        members: WriteOptions = {**options, "writer": writer, "writer_sequence": batch_id}
        committed(append(rows, table, **members))

    return write
