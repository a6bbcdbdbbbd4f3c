"""Changes of single rows, turned into an intent: by rewriting their files, or by deletes beside them.

A change is a row that goes (``_file`` and ``_pos`` say which), a row that comes (the table's columns), or both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypedDict, get_args

import msgspec
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import DataFrame, SparkSession

from firn.coordinator.client.answers import Answer
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.client.table_view import TableView
from firn.model.errors import Unsupported
from firn.model.expressions.expression_json import expression_to_json
from firn.model.expressions.predicates import Expression
from firn.model.intent import ContentFile, Intent, Overwrite, RowDelta
from firn.model.operations.files import Isolation
from firn.model.reserved import METADATA_COLUMNS
from firn.model.scan_plan import FileScanTask, ScanPlan
from firn.model.schema import Schema
from firn.model.snapshot import MAIN_BRANCH
from firn.model.spelling import refuse_unknown, require_one_of
from firn.model.table_properties import ChoiceProperty
from firn.model.types import StructType
from firn.pipeline.column_names import named_column
from firn.pipeline.connection import Connection
from firn.pipeline.delete_job import write_deletes
from firn.pipeline.distribution import distribution_mode
from firn.pipeline.scan_frames import scan_frame
from firn.pipeline.submission import job_of, submit
from firn.pipeline.user_columns import fresh_name
from firn.pipeline.write_job import write_files
from firn.pipeline.write_properties import DISTRIBUTION_MODE
from firn.pipeline.write_target import LAST_UPDATED, LINEAGE, ROW_ID, WriteTarget
from firn.pipeline.writes import head_of
from firn.storage.manifest_reader import StoredManifests
from firn.storage.table_scan import plan_scan

PURPOSE: Final = "change of rows"

Mode = Literal["copy-on-write", "merge-on-read"]

FILE: Final = "_file"
POS: Final = "_pos"

DELETE: Final = "delete"
UPDATE: Final = "update"
INSERT: Final = "insert"


class ChangeOptions(TypedDict, total=False):
    """What every row-level operation can be told.

    `connection`, `branch`, `summary` and `intent_id` as for writes. `mode` and `isolation` instead of the table's
    properties (``write.delete.mode``, ``write.delete.isolation-level`` and so on).
    """

    connection: Connection
    branch: str
    summary: dict[str, str]
    intent_id: str
    mode: Mode
    isolation: Isolation


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot that an operation is planned on, and what its intent will say.

    `reads` is the filter over the rows that decide: whatever comes to the table meanwhile and matches it is a conflict,
    if the isolation is serializable.
    """

    spark: SparkSession
    view: TableView
    connection: Connection
    plan: ScanPlan
    reads: Expression
    members: dict[str, Any]
    merges_on_read: bool

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        table: str,
        *,
        reads: Expression,
        options: ChangeOptions,
        mode: ChoiceProperty,
        isolation: ChoiceProperty,
    ) -> Base:
        """Plan on the head of the branch; `mode` and `isolation` are the properties that this operation goes by."""
        refuse_unknown(options, ChangeOptions.__annotations__)
        require_one_of(options.get("mode"), get_args(Mode), where="mode")
        require_one_of(options.get("isolation"), get_args(Isolation), where="isolation")
        connection = options.get("connection") or Connection.of_spark(spark)
        view = connection.table(table)
        branch = options.get("branch") or MAIN_BRANCH
        plan = plan_scan(view.metadata, files=StoredManifests(connection.store()), filter=reads, ref=branch)
        properties = view.metadata.properties
        chosen = options.get("mode") or mode.of(properties)
        if view.metadata.format_version < 2 and options.get("mode") == "merge-on-read":
            raise Unsupported("tables of format v1 have no deletes", hint="mode='copy-on-write'")
        return cls(
            spark=spark,
            view=view,
            connection=connection,
            plan=plan,
            reads=reads,
            members={
                "table": table,
                "table_uuid": view.uuid or None,
                "intent_id": options.get("intent_id") or new_intent_id(),
                "branch": branch,
                "summary": dict(options.get("summary") or {}),
                "base_snapshot_id": head_of(view, branch),
                "conflict_filter": expression_to_json(reads),
                "isolation": options.get("isolation") or isolation.of(properties),
            },
            merges_on_read=chosen == "merge-on-read" and view.metadata.format_version > 1,
        )

    @classmethod
    @contextmanager
    def planned(
        cls,
        spark: SparkSession,
        table: str,
        *,
        reads: Expression,
        options: ChangeOptions,
        mode: ChoiceProperty,
        isolation: ChoiceProperty,
    ) -> Iterator[Base]:
        """As `of`; what it is planned on stays, with its files, until the operation is done."""
        base = cls.of(spark, table, reads=reads, options=options, mode=mode, isolation=isolation)
        head, branch = base.members["base_snapshot_id"], base.members["branch"]
        with base.connection.client().keeping(table, head, branch=branch, purpose=PURPOSE):
            yield base

    @property
    def action(self) -> str:
        """The column that says what becomes of a row, `DELETE`, `UPDATE` or `INSERT`: no column of the table."""
        return fresh_name("__firn_action", (field.name for field in self.view.schema.fields))

    @property
    def keeps_lineage(self) -> bool:
        """Whether rows have an identity that they keep."""
        return self.view.metadata.format_version >= 3

    def whole_tasks(self, paths: Collection[str]) -> list[FileScanTask]:
        """Planned files that are rewritten, with all deletes that apply to any of their rows.

        What was planned with the filter leaves out deletes of rows that it does not match. Those rows are written anew,
        too, and would come back.
        """
        plan, skipped = self.plan, self.plan.metrics
        if skipped.skipped_delete_files or skipped.skipped_delete_manifests:
            files = StoredManifests(self.connection.store())
            plan = plan_scan(self.view.metadata, files=files, ref=self.members["branch"])
        return [task for task in plan.tasks if task.file.file_path in paths]

    def rows(self, tasks: Sequence[FileScanTask]) -> DataFrame:
        """The live rows of planned files: the table's columns, lineage where rows have it, file and position."""
        names = [*(LINEAGE if self.keeps_lineage else ()), FILE, POS]
        extra = tuple(METADATA_COLUMNS[name] for name in names)
        return self.frame(tasks, StructType((*self.view.schema.fields, *extra)))

    def frame(self, tasks: Sequence[FileScanTask], columns: StructType) -> DataFrame:
        """The live rows of planned files in these columns."""
        return scan_frame(
            self.spark,
            tasks,
            metadata=self.view.metadata,
            projection=Schema(schema_id=self.view.schema.schema_id, struct=columns),
            connection=self.connection,
        )

    def target(self) -> WriteTarget:
        order = self.view.metadata.default_order
        return WriteTarget.of(
            self.view,
            run=self.members["intent_id"],
            files=self.connection.files,
            sort_order_id=order.order_id if order.is_sorted else None,
            lineage=self.keeps_lineage,
        )

    def write(self, rows: DataFrame, target: WriteTarget) -> list[ContentFile]:
        """Write rows as data files."""
        order = self.view.metadata.default_order
        asked = DISTRIBUTION_MODE.of(self.view.metadata.properties)
        mode = distribution_mode(spec=self.view.spec, order=order, asked=asked)
        return write_files(rows, target, mode=mode, order=order)


def apply_changes(
    base: Base, changes: DataFrame, *, whole: Sequence[FileScanTask] = (), brings_rows: bool
) -> Answer | None:
    """Submit `changes` and the removal of `whole` files; None when nothing changes.

    `changes` has the columns `FILE`, `POS`, `base.action` and, where it `brings_rows`, the table's columns and its
    lineage. It is read several times and must be the same each time.
    """
    target = base.target()
    with job_of(base.connection, target):
        gone = changes.where(F.col(FILE).isNotNull()).select(FILE, POS)
        coming = _coming(base, changes) if brings_rows else None
        if base.merges_on_read:
            intent, written = _merge_on_read(base, target, gone, coming, whole)
        else:
            intent, written = _copy_on_write(base, target, gone, coming, whole)
    if intent is None:
        return None
    return submit(base.connection, intent, written)


def _coming(base: Base, changes: DataFrame) -> DataFrame:
    """The rows that come; an updated one keeps its id, and is last updated by the commit that brings it."""
    rows = changes.where(F.col(base.action) != DELETE)
    columns = [named_column(field.name) for field in base.view.schema.fields]
    if base.keeps_lineage:
        columns += [F.col(ROW_ID), F.lit(None).cast("bigint").alias(LAST_UPDATED)]
    return rows.select(*columns)


_Written = tuple[Intent | None, list[ContentFile]]


def _merge_on_read(
    base: Base, target: WriteTarget, gone: DataFrame, coming: DataFrame | None, whole: Sequence[FileScanTask]
) -> _Written:
    deletes = write_deletes(gone, base.plan.tasks, target)
    files = [] if coming is None else base.write(coming, target)
    if not (deletes.files or files or whole):
        return None, []
    intent = RowDelta(
        **base.members,
        data_files=tuple(files),
        delete_files=tuple(deletes.files),
        removed_data_files=tuple(task.file.file_path for task in whole),
        removed_delete_files=deletes.replaced,
    )
    return intent, [*deletes.files, *files]


def _copy_on_write(
    base: Base, target: WriteTarget, gone: DataFrame, coming: DataFrame | None, whole: Sequence[FileScanTask]
) -> _Written:
    paths = {row[0] for row in gone.select(FILE).distinct().collect()}
    affected = base.whole_tasks(paths)
    files: list[ContentFile] = []
    if affected:
        kept = base.rows(affected).join(gone, [FILE, POS], "left_anti").drop(FILE, POS)
        files = base.write(kept if coming is None else kept.unionByName(coming), target)
    elif coming is not None:
        files = base.write(coming, target)
    removed = tuple(task.file.file_path for task in (*whole, *affected))
    if not (removed or files):
        return None, []
    return Overwrite(**base.members, removed_data_files=removed, data_files=tuple(files)), files
