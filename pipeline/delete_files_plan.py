"""Which files of deleted positions are worth rewriting, and which delete files reach nothing. Needs no Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from firn.model.amounts import plural
from firn.model.datafile import DataFile
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.metadata import TableMetadata
from firn.model.scan_plan import FileScanTask
from firn.model.snapshot import MAIN_BRANCH
from firn.pipeline.dangling_deletes import unreached
from firn.storage.manifest_reader import ManifestReader
from firn.storage.table_scan import plan_scan


class DeleteRewritePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be rewritten on a snapshot (None: the branch is empty).

    `tasks` are data files that get deletes of their own; of their deletes only those that go. `replaced` are the delete
    files that go for them, of `files_looked_at` by position that reach data files, `dangling` those that reach none.
    """

    branch: str
    snapshot_id: int | None
    tasks: tuple[FileScanTask, ...]
    replaced: tuple[DataFile, ...]
    dangling: tuple[DataFile, ...]
    files_looked_at: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.replaced or self.dangling)

    @property
    def reads(self) -> int:
        """How often a scan of the whole branch opens a file that goes; after a rewrite, at most once a task."""
        return sum(len(task.deletes) for task in self.tasks)

    def as_json(self) -> dict[str, Any]:
        """The plan in types that JSON has."""
        return {
            "branch": self.branch,
            "snapshot-id": self.snapshot_id,
            "data-files": [task.file.file_path for task in self.tasks],
            "delete-files": [delete.file_path for delete in self.replaced],
            "dangling-delete-files": [delete.file_path for delete in self.dangling],
        }

    def __str__(self) -> str:
        if self.is_empty:
            return "no delete files to rewrite"
        said = f"to rewrite: {plural(len(self.replaced), 'delete file')} for {plural(len(self.tasks), 'data file')}"
        return f"{said}; to remove: {len(self.dangling):,} that reach nothing"


def plan_delete_rewrite(
    metadata: TableMetadata,
    *,
    files: ManifestReader,
    filter: Expression = TRUE,
    branch: str = MAIN_BRANCH,
    without: Collection[str] = frozenset(),
) -> DeleteRewritePlan:
    """What a rewrite of delete files would do; `filter` leaves out data files that certainly have no matching row.

    In v2 tables data files with several files of positions get one; in v3 tables every file of positions, which was
    written before the table was one, becomes vectors. Other data files that the files which go are for get theirs, too.
    `without` are paths of data files that count as gone, because a compaction is to rewrite them first.
    """
    head = metadata.head(branch)
    if head is None or metadata.format_version < 2:
        return DeleteRewritePlan(branch=branch, snapshot_id=None, tasks=(), replaced=(), dangling=())
    every = plan_scan(metadata, files=files, ref=branch).tasks
    tasks = [task for task in every if task.file.file_path not in without]
    matching = every if filter is TRUE else plan_scan(metadata, files=files, filter=filter, ref=branch).tasks
    chosen = {task.file.file_path for task in matching}
    enough = 1 if metadata.format_version >= 3 else 2
    reaching: set[str] = set()
    going: dict[str, DataFile] = {}
    for task in tasks:
        found = _files_of_positions(task)
        reaching |= {delete.file_path for delete in found}
        if task.file.file_path in chosen and len(found) >= enough:
            going |= {delete.file_path: delete for delete in found}
    concerned = tuple(
        msgspec.structs.replace(task, deletes=kept)
        for task in tasks
        if (kept := tuple(delete for delete in _files_of_positions(task) if delete.file_path in going))
    )
    return DeleteRewritePlan(
        branch=branch,
        snapshot_id=head.snapshot_id,
        tasks=concerned,
        replaced=tuple(going.values()),
        dangling=tuple(unreached(metadata, every, files=files, branch=branch)),
        files_looked_at=len(reaching),
    )


def _files_of_positions(task: FileScanTask) -> tuple[DataFile, ...]:
    """The delete files by position that apply, without a vector: where there is one, it has absorbed the others."""
    return tuple(d for d in task.deletes if d.content == "position-deletes" and not d.is_deletion_vector)
