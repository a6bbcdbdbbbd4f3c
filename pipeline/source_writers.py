"""Writers of the data source: tasks write files, the driver's process commits them as one intent.

Spark pickles a writer and runs `write` in tasks, `commit` or `abort` in processes of their own; what one of them learns
the others do not see. `abort` is called after a `commit` that failed, too: it removes files only if nothing was
submitted, or what was is rejected.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource as spark_source
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from firn.coordinator.client.answers import committed
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.client.table_view import TableView
from firn.model.errors import InvalidInput
from firn.model.intent import ContentFile, Intent, Overwrite, ReplacePartitions
from firn.model.outcome import Rejected
from firn.model.snapshot import MAIN_BRANCH
from firn.pipeline.appends import append_of
from firn.pipeline.connection import Connection
from firn.pipeline.file_removal import remove_files
from firn.pipeline.spark_paths import plain_location
from firn.pipeline.streams import query_label
from firn.pipeline.submission import submit
from firn.pipeline.write_job import write_batches
from firn.pipeline.write_target import WriteTarget
from firn.pipeline.writes import head_of

_STREAM_BASE: Any = getattr(spark_source, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


class FilesWritten(WriterCommitMessage):
    """What a task tells the driver: its files."""

    def __init__(self, files: list[ContentFile]) -> None:
        self.files = files


def files_of(messages: Iterable[WriterCommitMessage | None]) -> list[ContentFile]:
    """The files of all tasks that have told; those that failed have told None and removed theirs."""
    return [file for message in messages if isinstance(message, FilesWritten) for file in message.files]


class BatchWriter(DataSourceArrowWriter):
    """Appends, or replaces the table, or with the option ``overwrite-mode=dynamic`` the partitions that rows are in."""

    def __init__(self, view: TableView, connection: Connection, given: Mapping[str, str], *, overwrite: bool) -> None:
        self._connection = connection
        self._intent_id = new_intent_id()
        self._target = WriteTarget.of(view, run=self._intent_id, files=connection.files)
        self._branch = given.get("branch") or MAIN_BRANCH
        self._base = head_of(view, self._branch)
        self._overwrite = overwrite
        self._dynamic = given.get("overwrite-mode", "static").lower() == "dynamic"
        self._marker = Path(tempfile.gettempdir(), f"firn-submitted-{self._intent_id}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return FilesWritten(write_batches(self._target, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Submit the intent; raises RejectedError or UnknownOutcome, with which the job fails."""
        files = files_of(messages)
        self._marker.touch()  # both run on the driver's machine: `abort` sees it
        committed(submit(self._connection, self._intent(files), files))
        self._marker.unlink(missing_ok=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._marker.exists():
            outcome = self._connection.client().outcome(self._intent_id)
            if not isinstance(outcome, Rejected):
                return
            self._marker.unlink(missing_ok=True)
        remove_files(self._connection.store(), (file.file_path for file in files_of(messages)))

    def _intent(self, files: list[ContentFile]) -> Intent:
        members: dict[str, Any] = {
            "intent_id": self._intent_id,
            "table": self._target.table,
            "table_uuid": self._target.metadata.table_uuid or None,
            "branch": self._branch,
            "base_snapshot_id": self._base,
        }
        if not self._overwrite or (self._dynamic and not files):
            return append_of(files, self._target.metadata, store=self._connection.store(), **members)
        if self._dynamic:
            return ReplacePartitions(**members, data_files=tuple(files))
        return Overwrite(**members, data_files=tuple(files), row_filter=True)


class StreamWriter(_STREAM_BASE):  # type: ignore[misc]
    """Commits every epoch of a streaming query once: the query is the writer, the batch its sequence number.

    The query is known by its checkpoint, or by the option ``writer``, which must then be the same after a restart and
    no other query's.
    """

    def __init__(self, view: TableView, connection: Connection, given: Mapping[str, str]) -> None:
        self._connection = connection
        self._target = WriteTarget.of(view, run=new_intent_id(), files=connection.files)
        self._branch = given.get("branch") or MAIN_BRANCH
        named, checkpoint = given.get("writer"), given.get("checkpointlocation")
        self._writer = named or query_id(checkpoint)
        self._label = _label_of(checkpoint)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return FilesWritten(write_batches(self._target, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Submit the epoch; after RejectedError or UnknownOutcome the query fails, and repeats it when restarted."""
        files = files_of(messages)
        if files:
            intent = append_of(
                files,
                self._target.metadata,
                intent_id=new_intent_id(),
                store=self._connection.store(),
                table=self._target.table,
                table_uuid=self._target.metadata.table_uuid or None,
                branch=self._branch,
                writer=self._writer,
                writer_sequence=batchId,
                epoch_label=self._label,
            )
            committed(submit(self._connection, intent, files))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Leave the files: whether their epoch was submitted is not known here. They are orphans if it was not."""


def query_id(checkpoint: str | None) -> str:
    """The id of the query whose checkpoint this is. Raises InvalidInput where it cannot be read."""
    where = None if checkpoint is None else Path(plain_location(checkpoint), "metadata")
    try:
        return str(json.loads(where.read_text().splitlines()[0])["id"]) if where else _no_query()
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise InvalidInput(f"cannot read the query's id: {error}", where=str(where), hint=_HINT) from error


def _label_of(checkpoint: str | None) -> str | None:
    """Return what the query's epochs are called; None where a `writer` is named and the checkpoint is out of reach."""
    try:
        return query_label(query_id(checkpoint))
    except InvalidInput:
        return None


_HINT: Final = "name the query yourself: option('writer', …)"


def _no_query() -> str:
    raise InvalidInput("the query cannot be told from others without a checkpointLocation", hint=_HINT)
