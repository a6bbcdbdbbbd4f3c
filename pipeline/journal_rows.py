"""Journal records as rows of one table: a row for each decision on an intent, committed or rejected.

The columns are for SQL. An intent that moved several tables (a transaction, a rename) has a row in the journal of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from firn.model.journal import Batch, Decided, Segment
from firn.model.outcome import Committed, Rejected, decision_ms_of
from firn.model.schema import schema_from_json
from firn.storage.parquet_schema import arrow_schema


class Decision(msgspec.Struct, frozen=True):
    """One decision and the swap that it was part of; `position` counts the decisions of the swap from 0."""

    batch: Batch
    attempts: int
    position: int
    decided: Decided

    @property
    def committed(self) -> Committed | None:
        """The outcome, if it is a commit."""
        outcome = self.decided.outcome
        return outcome if isinstance(outcome, Committed) else None

    @property
    def rejected(self) -> Rejected | None:
        """The outcome, if it is a rejection."""
        outcome = self.decided.outcome
        return outcome if isinstance(outcome, Rejected) else None


class JournalColumn(msgspec.Struct, frozen=True):
    """One column: its Iceberg type, what it means, and its value for a decision (timestamps in microseconds)."""

    name: str
    type: str
    doc: str
    value: Callable[[Decision], Any]
    required: bool = False


def _of_commit(name: str) -> Callable[[Decision], Any]:
    return lambda decision: getattr(decision.committed, name, None)


def _of_rejection(name: str) -> Callable[[Decision], Any]:
    return lambda decision: getattr(decision.rejected, name, None)


def _of_decided(name: str) -> Callable[[Decision], Any]:
    return lambda decision: getattr(decision.decided, name)


def _of_batch(name: str) -> Callable[[Decision], Any]:
    return lambda decision: getattr(decision.batch, name)


COLUMNS: Final = (
    JournalColumn("table_name", "string", "the table whose journal this is", _of_batch("table"), required=True),
    JournalColumn("journal_sequence", "long", "number of the swap in the table's journal, from 1",
                  _of_batch("sequence"), required=True),
    JournalColumn("position", "int", "number of the decision in its swap, from 0", lambda d: d.position, required=True),
    JournalColumn("decided_at", "timestamptz", "when the swap was made, by the daemon's clock",
                  lambda d: d.batch.timestamp_ms * 1000, required=True),
    JournalColumn("intent_id", "string", "the intent that was decided", _of_decided("intent_id"), required=True),
    JournalColumn("operation", "string", "what it asked for: append, row-delta, …", _of_decided("operation"),
                  required=True),
    JournalColumn("status", "string", "committed or rejected",
                  lambda d: "committed" if d.committed else "rejected", required=True),
    JournalColumn("writer", "string", "who submitted it, if it said so", _of_decided("writer")),
    JournalColumn("writer_sequence", "long", "a streaming writer's epoch", _of_decided("writer_sequence")),
    JournalColumn("priority", "string", "ingest or maintenance", _of_decided("priority")),
    JournalColumn("branch", "string", "the branch or tag that it was about", _of_decided("branch")),
    JournalColumn("base_snapshot_id", "long", "the snapshot that it was planned on", _of_decided("base_snapshot_id")),
    JournalColumn("queued_at", "timestamptz", "when it was added to the queue, by the queue's clock",
                  lambda d: d.decided.entry_ms * 1000 or None),
    JournalColumn("queued_ms", "double", "from its being queued to a daemon's taking it, by the queue's clock",
                  lambda d: d.decided.outcome.queued_ms),
    JournalColumn("decision_ms", "double", "from the daemon's taking it to its decision, before files are written",
                  lambda d: decision_ms_of(d.decided.outcome)),
    JournalColumn("deliveries", "int", "how often it was handed to a daemon", _of_decided("deliveries")),
    JournalColumn("trace_id", "string", "the trace that its writer named", _of_decided("trace_id")),
    JournalColumn("snapshot_id", "long", "the snapshot that it made", _of_commit("snapshot_id")),
    JournalColumn("sequence_number", "long", "that snapshot's sequence number", _of_commit("sequence_number")),
    JournalColumn("metadata_location", "string", "the metadata file that it is in", _of_commit("metadata_location")),
    JournalColumn("replays", "int", "how often it was replayed on what came first", _of_commit("replays")),
    JournalColumn("rule", "string", "the rule that refused it", _of_rejection("rule")),
    JournalColumn("hint", "string", "retry, replan, narrow-filter or fix", _of_rejection("hint")),
    JournalColumn("message", "string", "why it was refused", _of_rejection("message")),
    JournalColumn("conflicting_writer", "string", "who came first", _of_rejection("conflicting_writer")),
    JournalColumn("conflicting_intent_id", "string", "with which intent", _of_rejection("conflicting_intent_id")),
    JournalColumn("conflicting_operation", "string", "with which operation", _of_rejection("conflicting_operation")),
    JournalColumn("conflicting_snapshot_id", "long", "in which snapshot", _of_rejection("conflicting_snapshot_id")),
    JournalColumn("files_count", "long", "how many files the conflict is about", _of_rejection("files_count")),
    JournalColumn("batch", "string", "the swap", _of_batch("batch"), required=True),
    JournalColumn("swap_attempts", "int", "how often the swap was tried, the successful one included",
                  lambda d: d.attempts, required=True),
    JournalColumn("transaction", "string", "the transaction that the swap was", _of_batch("transaction")),
    JournalColumn("daemon", "string", "who decided", _of_batch("daemon"), required=True),
    JournalColumn("table_uuid", "string", "which table of this name", _of_batch("table_uuid"), required=True),
    JournalColumn("kind", "string", "table or view", _of_batch("kind"), required=True),
)  # fmt: skip

SCHEMA_JSON: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": at, "name": column.name, "type": column.type, "required": column.required, "doc": column.doc}
        for at, column in enumerate(COLUMNS, 1)
    ],
}

_ARROW: Final[pa.Schema] = arrow_schema(schema_from_json({**SCHEMA_JSON, "schema-id": 0}))


def decisions_of(segment: Segment) -> Iterator[Decision]:
    """The decisions of a segment, in order."""
    attempts = 1 + len(segment.retried)
    for position, decided in enumerate(segment.decided):
        yield Decision(segment.batch, attempts, position, decided)


def rows_of_decisions(decisions: list[Decision]) -> pa.RecordBatch:
    """The decisions as a batch of `COLUMNS`."""
    arrays = [
        pa.array([column.value(decision) for decision in decisions], field.type)
        for column, field in zip(COLUMNS, _ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
