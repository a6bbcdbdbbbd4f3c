"""Many files of deleted positions rewritten into few: one for each data file (v2), or its deletion vector (v3).

A reader opens every delete file that may be for a data file. Files for whole partitions, and several for one data file,
make that many. Equality deletes are not rewritten: compaction applies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

import msgspec
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import SparkSession

from firn.coordinator.client.answers import Answer
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.client.table_view import TableView
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.intent import ContentFile, DeleteFileRef, Replace
from firn.model.outcome import Committed, Rejected
from firn.model.scan_plan import FileScanTask
from firn.model.snapshot import MAIN_BRANCH
from firn.model.spelling import refuse_unknown
from firn.pipeline.connection import Connection
from firn.pipeline.delete_files_plan import DeleteRewritePlan, plan_delete_rewrite
from firn.pipeline.delete_job import write_deletes
from firn.pipeline.deleted_positions import deleted_positions
from firn.pipeline.row_filter import parse_filter
from firn.pipeline.submission import job_of, submit
from firn.pipeline.write_target import WriteTarget
from firn.storage.manifest_reader import StoredManifests

ATTEMPTS: Final = 3
PURPOSE: Final = "rewrite of deletes"
"""How often deletes are written before a rewrite that loses is given up."""


class DeleteRewriteOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a rewrite; `answer` is None if there was nothing to do.

    `files_after` and `bytes_after` are those written. `conflicts` counts how often it lost to another commit.
    """

    table: str
    plan: DeleteRewritePlan
    answer: Answer | None = None
    files_after: int = 0
    bytes_after: int = 0
    conflicts: int = 0

    @property
    def files_before(self) -> int:
        """Delete files that went, those that reached nothing among them."""
        return len(self.plan.replaced) + len(self.plan.dangling) if isinstance(self.answer, Committed) else 0

    @property
    def ok(self) -> bool:
        """Whether it is committed, or there was nothing to do."""
        return self.answer is None or isinstance(self.answer, Committed)

    def as_json(self) -> dict[str, Any]:
        """The outcome in types that JSON has."""
        return {
            "table": self.table,
            "ok": self.ok,
            "files-before": self.files_before,
            "files-after": self.files_after,
            "bytes-after": self.bytes_after,
            "conflicts": self.conflicts,
            "answer": msgspec.to_builtins(self.answer),
        }


class DeleteRewriteOptions(TypedDict, total=False):
    """What a rewrite can be told: `attempts` (default 3); `connection`, `branch` and `summary` as for writes."""

    attempts: int
    connection: Connection
    branch: str
    summary: Mapping[str, str]


def rewrite_delete_files(
    spark: SparkSession, table: str, *, where: str | Expression = TRUE, **options: Unpack[DeleteRewriteOptions]
) -> DeleteRewriteOutcome:
    """Rewrite files of deleted positions that data files share or have several of, and remove what reaches nothing.

    One Spark job and one intent, planned and written again when it loses to another commit. Raises InvalidInput for a
    filter that does not fit, NotFound for a table that is not there, and what Spark raises for a failed job.
    """
    refuse_unknown(options, DeleteRewriteOptions.__annotations__)
    connection = options.get("connection") or Connection.of_spark(spark)
    branch = options.get("branch") or MAIN_BRANCH
    attempts = max(1, options.get("attempts", ATTEMPTS))
    conflicts = 0
    while True:
        view = connection.table(table)
        plan = plan_delete_rewrite(
            view.metadata, files=StoredManifests(connection.store()), filter=parse_filter(where), branch=branch
        )
        if plan.is_empty or plan.snapshot_id is None:
            return DeleteRewriteOutcome(table=table, plan=plan, conflicts=conflicts)
        with connection.client().keeping(table, plan.snapshot_id, branch=branch, purpose=PURPOSE):
            outcome = _rewritten(spark, view, plan, connection=connection, summary=options.get("summary") or {})
        answer = outcome.answer
        if not isinstance(answer, Rejected) or answer.hint not in {"replan", "retry"}:
            return msgspec.structs.replace(outcome, conflicts=conflicts)
        conflicts += 1
        if conflicts >= attempts:
            return msgspec.structs.replace(outcome, conflicts=conflicts)


def _rewritten(
    spark: SparkSession,
    view: TableView,
    plan: DeleteRewritePlan,
    *,
    connection: Connection,
    summary: Mapping[str, str],
) -> DeleteRewriteOutcome:
    assert plan.snapshot_id is not None
    target = WriteTarget.of(view, run=new_intent_id(), files=connection.files)
    with job_of(connection, target):
        files = _write(spark, plan.tasks, target, connection) if plan.tasks else []
    intent = Replace(
        intent_id=target.run,
        table=view.name,
        table_uuid=view.uuid or None,
        branch=plan.branch,
        priority="maintenance",
        summary=dict(summary),
        base_snapshot_id=plan.snapshot_id,
        removed_delete_files=tuple(
            DeleteFileRef(file_path=delete.file_path, content_offset=delete.content_offset)
            for delete in (*plan.replaced, *plan.dangling)
        ),
        delete_files=tuple(files),
    )
    answer = submit(connection, intent, files)
    rejected = isinstance(answer, Rejected)
    return DeleteRewriteOutcome(
        table=view.name,
        plan=plan,
        answer=answer,
        files_after=0 if rejected else len(files),
        bytes_after=0 if rejected else sum(file.content_size_in_bytes or file.file_size_in_bytes for file in files),
    )


def _write(
    spark: SparkSession, tasks: Sequence[FileScanTask], target: WriteTarget, connection: Connection
) -> list[ContentFile]:
    """New deletes for data files: all positions that their deletes name."""
    numbered = dict(enumerate(tasks))
    paths = [(number, task.file.file_path) for number, task in numbered.items()]
    names = spark.createDataFrame(paths, "file int, _file string")
    positions = deleted_positions(spark, numbered, connection=connection).join(F.broadcast(names), "file")
    return write_deletes(positions.select("_file", F.col("position").alias("_pos")), tasks, target).files
