"""Appending and overwriting with DataFrames: one job, one intent, one outcome.

Each function returns the outcome: `Committed`, `Rejected` (with the reason; the files are gone) or `Unknown` (never
write the rows again before you know; see `firn.coordinator.client.answers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, TypedDict, Unpack, get_args

from pyspark.sql import DataFrame

from firn.coordinator.client.answers import Answer
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.client.table_view import TableView
from firn.model.expressions.expression_json import expression_to_json
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.intent import ContentFile, Intent, Overwrite, ReplacePartitions
from firn.model.operations.files import Isolation
from firn.model.snapshot import MAIN_BRANCH
from firn.model.spelling import refuse_unknown, require_one_of
from firn.pipeline.appends import append_of
from firn.pipeline.connection import Connection
from firn.pipeline.distribution import distribution_mode
from firn.pipeline.row_filter import parse_filter
from firn.pipeline.submission import job_of, submit
from firn.pipeline.write_job import write_files
from firn.pipeline.write_properties import DISTRIBUTION_MODE
from firn.pipeline.write_target import WriteTarget

PURPOSE: Final = "overwrite"


class WriteOptions(TypedDict, total=False):
    """What every write can be told.

    `connection`: where firn is (default: the session's ``spark.firn.*`` settings). `branch`: default ``main``.
    `summary`: goes into the snapshot's summary. `distribution`: instead of the table's ``write.distribution-mode``.
    `intent_id`: to name the intent yourself. `writer` with `writer_sequence`: a streaming writer and its rising epoch;
    with `epoch_label`, what you call its content: another label under the number is refused.
    """

    connection: Connection
    branch: str
    summary: Mapping[str, str]
    distribution: str
    intent_id: str
    writer: str
    writer_sequence: int
    epoch_label: str


def append(rows: DataFrame, table: str, **options: Unpack[WriteOptions]) -> Answer:
    """Add the rows. Columns are told by name; what the table has and `rows` does not is its default, else null.

    Without rows it is committed, and there is no snapshot.

    Raises InvalidInput for rows that do not fit the table (out of Spark's exception for the failed job), NotFound for
    a table that is not there.
    """
    write = _Write(rows, table, options)
    files = write.files()
    return write.submit(write.append_of(files), files)


def overwrite(
    rows: DataFrame,
    table: str,
    *,
    where: str | Expression = TRUE,
    isolation: Isolation = "serializable",
    **options: Unpack[WriteOptions],
) -> Answer:
    """Replace the rows that `where` matches by these; all of them without it.

    The filter must cover whole files, and new rows must match it (`partial-match`, `outside-filter` otherwise).
    Rejected if what it matches was changed since this began, with ``isolation="serializable"`` also if rows came to it.
    """
    require_one_of(isolation, get_args(Isolation), where="isolation")
    write = _Write(rows, table, options)
    filter = parse_filter(where)
    with write.keeping_base():
        files = write.files()
        intent = Overwrite(
            **write.members,
            base_snapshot_id=write.base_snapshot_id,
            row_filter=expression_to_json(filter),
            data_files=tuple(files),
            isolation=isolation,
        )
        return write.submit(intent, files)


def replace_partitions(
    rows: DataFrame, table: str, *, isolation: Isolation = "serializable", **options: Unpack[WriteOptions]
) -> Answer:
    """Replace whatever is in the partitions that these rows are in (dynamic overwrite); without rows, nothing."""
    require_one_of(isolation, get_args(Isolation), where="isolation")
    write = _Write(rows, table, options)
    with write.keeping_base():
        files = write.files()
        if not files:
            return write.submit(write.append_of(files), files)
        intent = ReplacePartitions(
            **write.members, base_snapshot_id=write.base_snapshot_id, data_files=tuple(files), isolation=isolation
        )
        return write.submit(intent, files)


class _Write:
    """One write under way: the table as it was when it began, and what every intent of it says."""

    def __init__(self, rows: DataFrame, table: str, options: WriteOptions) -> None:
        refuse_unknown(options, WriteOptions.__annotations__)
        self._rows = rows
        self._options = options
        self._connection = options.get("connection") or Connection.of_spark(rows.sparkSession)
        self._view = self._connection.table(table)
        self._branch = options.get("branch") or MAIN_BRANCH
        self.members: dict[str, Any] = {
            "table": table,
            "table_uuid": self._view.uuid or None,
            "intent_id": options.get("intent_id") or new_intent_id(),
            "branch": self._branch,
            "summary": dict(options.get("summary") or {}),
            "writer": options.get("writer"),
            "writer_sequence": options.get("writer_sequence"),
            "epoch_label": options.get("epoch_label"),
        }

    @property
    def base_snapshot_id(self) -> int | None:
        return head_of(self._view, self._branch)

    def keeping_base(self) -> AbstractContextManager[None]:
        """Keep what the write is planned on from expiry."""
        client = self._connection.client()
        return client.keeping(self.members["table"], self.base_snapshot_id, branch=self._branch, purpose=PURPOSE)

    def files(self) -> list[ContentFile]:
        """Run the job."""
        order = self._view.metadata.default_order
        target = WriteTarget.of(
            self._view,
            run=self.members["intent_id"],
            files=self._connection.files,
            sort_order_id=order.order_id if order.is_sorted else None,
        )
        asked = self._options.get("distribution") or DISTRIBUTION_MODE.of(self._view.metadata.properties)
        mode = distribution_mode(spec=self._view.spec, order=order, asked=asked)
        with job_of(self._connection, target):
            return write_files(self._rows, target, mode=mode, order=order)

    def append_of(self, files: list[ContentFile]) -> Intent:
        """What adds these files."""
        return append_of(
            files,
            self._view.metadata,
            store=self._connection.store(),
            base_snapshot_id=self.base_snapshot_id,
            **self.members,
        )

    def submit(self, intent: Intent, files: list[ContentFile]) -> Answer:
        return submit(self._connection, intent, files)


def head_of(view: TableView, branch: str) -> int | None:
    """The snapshot that a branch points at, as far as the view knows; None for an empty one."""
    head = view.metadata.head(branch)
    return None if head is None else head.snapshot_id
