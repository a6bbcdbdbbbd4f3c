"""A streaming query that ends at any step of a batch, and is started again, has written every row once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import datasource as spark_source
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from firn.coordinator.client.answers import Answer
from firn.model.intent import ContentFile, Intent
from firn.pipeline import source_writers, writes
from firn.pipeline.connection import Connection
from firn.pipeline.data_source import FirnSource, register
from firn.pipeline.source_writers import StreamWriter
from firn.pipeline.streams import stream_to
from firn.pipeline.submission import submit
from tests.spark.lake import Lake

ROWS: Final = 5
DEADLY_BATCH: Final = 1
"""The batch that is under way when the query ends; one came before it."""

Step = Literal["nothing", "files", "submitted", "committed"]
"""What has been done of the batch by then."""

STEPS: Final[tuple[Step, ...]] = ("nothing", "files", "submitted", "committed")


class Died(Exception):
    """The end of the query."""


class Stream:
    """Files that arrive in a folder, and the query that takes them to a table, one a batch."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self.lake = lake
        self.table = lake.create({"id": "long"})
        self.landing = folder / "landing"
        self.landing.mkdir()
        self.checkpoint = folder / "checkpoint"
        self.arrived = 0

    def arrive(self) -> None:
        ids = pa.table({"id": range(self.arrived * ROWS, (self.arrived + 1) * ROWS)})
        pq.write_table(ids, self.landing / f"{self.arrived:03}.parquet")
        self.arrived += 1

    def run(self, sink: Any) -> None:
        """Until all that has arrived is in the table. `sink` is for ``foreachBatch``, None is the data source."""
        rows = self.lake.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(self.landing))
        write = rows.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        if sink is None:
            query = write.format("firn").option("table", self.table).start()
        else:
            query = write.foreachBatch(sink).start()
        assert query.awaitTermination(120)

    def is_as_left_at(self, step: Step) -> None:
        """The query has ended where it was to end."""
        batches = len(self.lake.ids(self.table)) // ROWS
        files = len(self.lake.files_on_disk(self.table))
        assert files == 1 if step == "nothing" else files == 2
        assert batches == 1 if step in {"nothing", "files"} else batches == 2 or step == "submitted"

    def every_row_is_there_once(self) -> None:
        assert self.lake.ids(self.table) == list(range(self.arrived * ROWS))


def submit_and_die(step: Step, connection: Connection, intent: Intent, written: list[ContentFile]) -> Answer:
    """As `submit`, until the step is done."""
    if step == "submitted":
        connection.client().submit(intent)
    if step == "committed":
        submit(connection, intent, written)
    raise Died


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_function_that_ends_at_any_step(
    lake: Lake, step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(lake, tmp_path)
    to_table = stream_to(stream.table)

    def dying(rows: Any, batch_id: int) -> None:
        with monkeypatch.context() as patched:
            if batch_id == DEADLY_BATCH and step == "nothing":
                raise Died
            if batch_id == DEADLY_BATCH:
                patched.setattr(writes, "submit", lambda *job: submit_and_die(step, *job))
            to_table(rows, batch_id)

    stream.arrive()
    stream.arrive()
    with pytest.raises(StreamingQueryException, match="Died"):
        stream.run(dying)
    stream.is_as_left_at(step)
    stream.arrive()
    stream.run(to_table)
    stream.every_row_is_there_once()


def test_two_writes_of_a_batch_to_one_table_are_each_made_once_or_the_query_fails(lake: Lake, tmp_path: Path) -> None:
    """Both have equally many rows, and the query ends between them: neither is taken for the other made again."""
    stream = Stream(lake, tmp_path)
    first, unnamed, named = stream_to(stream.table), stream_to(stream.table), stream_to(stream.table, writer="second")
    deaths = [DEADLY_BATCH]

    def both(rows: Any, batch_id: int, *, second: Callable[[Any, int], None] = named) -> None:
        first(rows, batch_id)
        if second is named and batch_id in deaths:
            raise Died
        second(rows.selectExpr("id + 1000 AS id"), batch_id)

    stream.arrive()
    with pytest.raises(StreamingQueryException, match="writer-sequence-reuse"):
        stream.run(lambda rows, batch_id: both(rows, batch_id, second=unnamed))
    assert lake.ids(stream.table) == list(range(ROWS))

    # The program is mended, and the query goes on: the batch's first write is a repetition, its second one is new.
    stream.arrive()
    with pytest.raises(StreamingQueryException, match="Died"):
        stream.run(both)
    ids = list(range(2 * ROWS))
    assert lake.ids(stream.table) == [*ids, *range(1000, 1000 + ROWS)]
    deaths.clear()
    stream.run(both)
    assert lake.ids(stream.table) == [*ids, *(1000 + number for number in ids)]


class DyingSource(FirnSource):
    """firn's data source, whose processes end at a step of a batch."""

    step: Step

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = self._options(schema)
        found = super().streamWriter(schema, overwrite)
        assert isinstance(found, StreamWriter)
        return DyingWriter(found, self.step, Path(options["checkpointlocation"]))


class DyingWriter(spark_source.DataSourceStreamArrowWriter):
    """Writes as firn's does, and ends its process in the middle of a batch: in a task, or where it is committed."""

    def __init__(self, writer: StreamWriter, step: Step, checkpoint: Path) -> None:
        self._writer = writer
        self._step = step
        self._checkpoint = checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        deadly = (self._checkpoint / "offsets" / str(DEADLY_BATCH)).exists()
        if deadly and self._step == "nothing":
            os._exit(1)
        found = self._writer.write(iterator)
        if deadly and self._step == "files":
            os._exit(1)
        return found

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        if batchId == DEADLY_BATCH:
            source_writers.__dict__["submit"] = self._submit_and_exit  # in a process of its own, which ends
        self._writer.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._writer.abort(messages, batchId)

    def _submit_and_exit(self, *job: Any) -> Answer:
        try:
            return submit_and_die(self._step, *job)
        finally:
            os._exit(1)


@pytest.mark.skipif(not hasattr(spark_source, "DataSourceStreamArrowWriter"), reason="needs Spark 4.1")
@pytest.mark.parametrize("step", STEPS)
def test_a_data_source_whose_processes_end_at_any_step(lake: Lake, step: Step, tmp_path: Path) -> None:
    stream = Stream(lake, tmp_path)
    connection = lake.connection.options()

    class Dying(DyingSource):
        defaults = connection

    Dying.step = step
    lake.spark.dataSource.register(Dying)
    stream.arrive()
    stream.arrive()
    try:
        with pytest.raises(StreamingQueryException):
            stream.run(None)
    finally:
        register(lake.spark)
    stream.is_as_left_at(step)
    stream.arrive()
    stream.run(None)
    stream.every_row_is_there_once()
