"""One group of a compaction written anew: the snapshot that it is read from, the Spark job, and what must come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import msgspec
from pyspark.sql import SparkSession

from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.client.table_view import TableView
from firn.model.amounts import plural
from firn.model.errors import CorruptFile, NotFound
from firn.model.intent import ContentFile
from firn.model.scan_plan import FileScanTask
from firn.model.snapshot import Snapshot
from firn.model.table_properties import TARGET_FILE_SIZE_BYTES
from firn.pipeline.compaction_copy import copied, is_shown_by_spark
from firn.pipeline.compaction_layout import Layout
from firn.pipeline.compaction_plan import FileGroup, group_files
from firn.pipeline.compaction_rules import CompactionRules
from firn.pipeline.connection import Connection
from firn.pipeline.scan_frames import scan_frame
from firn.pipeline.submission import job_of
from firn.pipeline.write_job import WriteTask, run_job
from firn.pipeline.write_target import WriteTarget
from firn.storage.manifest_reader import StoredManifests
from firn.storage.table_scan import plan_scan


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a branch that groups are read from; `tasks` are all of its data files with all deletes that apply.

    All of them, whatever filter chose the files: every row of a file is rewritten, also those the filter is not about.
    """

    view: TableView
    snapshot: Snapshot
    tasks: Mapping[str, FileScanTask]

    @classmethod
    def of(cls, connection: Connection, table: str, *, branch: str) -> Self:
        """The head as it is now. Raises NotFound for a branch that is not there, or has no snapshot any more."""
        view = connection.table(table)
        head = view.metadata.head(branch)
        if head is None:
            raise NotFound(f"table {table!r} has no branch {branch!r}")
        plan = plan_scan(view.metadata, files=StoredManifests(connection.store()), ref=branch)
        return cls(view=view, snapshot=head, tasks={task.file.file_path: task for task in plan.tasks})

    def refreshed(self, group: FileGroup, rules: CompactionRules) -> FileGroup | None:
        """The group as it is in this snapshot; None if what is left of it needs no compaction."""
        left = [self.tasks[path] for path in group.paths if path in self.tasks]
        found = group_files(left, metadata=self.view.metadata, rules=rules)
        if not found:
            return None
        return msgspec.structs.replace(
            found[0],
            number=group.number,
            tasks=tuple(task for one in found for task in one.tasks),
            outputs=sum(one.outputs for one in found),
        )


class WrittenGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group and the files that have its rows now; no snapshot names them yet."""

    group: FileGroup
    files: tuple[ContentFile, ...]


def write_group(
    spark: SparkSession, group: FileGroup, *, base: Base, layout: Layout, rules: CompactionRules, connection: Connection
) -> WrittenGroup:
    """Write the live rows of a group's files into new files, which the caller commits or removes.

    Rows of v3 tables keep their ids, and the sequence number of the commit that changed them last. What Spark raises
    for a failed job is raised here, CorruptFile if rows went missing on the way; no files are left then.
    """
    view = base.view
    lineage = view.metadata.format_version >= 3
    target = WriteTarget.of(
        view,
        run=new_intent_id(),
        files=connection.files,
        sort_order_id=layout.sort_order_id(view.metadata),
        lineage=lineage,
    )
    sized = {**view.metadata.properties, TARGET_FILE_SIZE_BYTES.name: str(rules.write_max_bytes)}
    target = msgspec.structs.replace(target, metadata=msgspec.structs.replace(target.metadata, properties=sized))
    with job_of(connection, target):
        if is_shown_by_spark(target.schema):
            rows = scan_frame(
                spark, group.tasks, metadata=view.metadata, projection=target.schema, connection=connection
            )
            files = run_job(layout.arranged(rows, group=group, target=target), WriteTask(target))
        else:
            files = copied(spark, group.tasks, target, outputs=group.outputs)
        require_all_rows(group.tasks, files)
    return WrittenGroup(group=group, files=tuple(files))


def require_all_rows(tasks: Sequence[FileScanTask], files: Sequence[ContentFile]) -> None:
    """Raise CorruptFile unless `files` have as many rows as the tasks' live ones, as far as metadata tell.

    What vectors delete is known to the row. Other deletes may repeat each other or reach nothing.
    """
    most = sum(task.file.record_count for task in tasks)
    vectors = sum(d.record_count for task in tasks for d in task.deletes if d.is_deletion_vector)
    others = [d for task in tasks for d in task.deletes if not d.is_deletion_vector]
    most -= vectors
    written = sum(file.record_count for file in files)
    if written > most or (written < most and not others):
        raise CorruptFile(
            tasks[0].file.file_path,
            f"{plural(len(tasks), 'file')} with {plural(most, 'live row')}{' at the most' if others else ''}: "
            f"{written:,} written",
        )
