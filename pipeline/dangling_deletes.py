"""Delete files that reach no data file any more: what they delete has been rewritten or removed.

Replay drops those that are older than every data file, or that name a data file which goes. Others are found here by
planning a scan of the whole branch: a delete file that applies to none of its data files is useless. No data file that
comes later is older than a delete, except a compaction's, whose rows were there and were not reached either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from firn.coordinator.client.intents import new_intent_id
from firn.model.datafile import DataFile
from firn.model.intent import DeleteFileRef, Replace
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.outcome import Committed
from firn.model.scan_plan import FileScanTask
from firn.model.snapshot import MAIN_BRANCH
from firn.pipeline.connection import Connection
from firn.storage.manifest_reader import ManifestReader, StoredManifests
from firn.storage.table_scan import plan_scan

REMOVED_AT_ONCE_MAX: Final = 10_000
"""Delete files that one intent removes; what is beyond is left for the next time."""


def dangling_deletes(metadata: TableMetadata, *, files: ManifestReader, branch: str = MAIN_BRANCH) -> list[DataFile]:
    """The delete files of the head of `branch` that apply to none of its data files."""
    head = metadata.head(branch)
    if head is None or not any(_has_deletes(manifest) for manifest in files.manifests(metadata, head)):
        return []
    return unreached(metadata, plan_scan(metadata, files=files, ref=branch).tasks, files=files, branch=branch)


def unreached(
    metadata: TableMetadata, tasks: Iterable[FileScanTask], *, files: ManifestReader, branch: str
) -> list[DataFile]:
    """The same for whoever has planned the whole branch: `tasks` are all of its data files."""
    head = metadata.head(branch)
    if head is None:
        return []
    reaching = {(delete.file_path, delete.content_offset) for task in tasks for delete in task.deletes}
    return [
        entry.data_file
        for manifest in files.manifests(metadata, head)
        if _has_deletes(manifest)
        for entry in files.entries(metadata, manifest)
        if entry.is_live and (entry.data_file.file_path, entry.data_file.content_offset) not in reaching
    ]


def removal_of_dangling(
    table: str, metadata: TableMetadata, *, files: ManifestReader, branch: str = MAIN_BRANCH
) -> Replace | None:
    """The intent that removes the delete files which reach nothing; None if there are none."""
    head = metadata.head(branch)
    found = dangling_deletes(metadata, files=files, branch=branch)
    if not found or head is None:
        return None
    return Replace(
        intent_id=new_intent_id(),
        table=table,
        table_uuid=metadata.table_uuid or None,
        branch=branch,
        priority="maintenance",
        base_snapshot_id=head.snapshot_id,
        removed_delete_files=tuple(
            DeleteFileRef(file_path=delete.file_path, content_offset=delete.content_offset)
            for delete in found[:REMOVED_AT_ONCE_MAX]
        ),
    )


def remove_dangling_deletes(connection: Connection, table: str, *, branch: str = MAIN_BRANCH) -> int:
    """Remove the delete files that reach nothing; how many went.

    0 also if another commit removed one of them first, or the outcome is not known: what is left is found next time.
    """
    metadata = connection.table(table).metadata
    intent = removal_of_dangling(table, metadata, files=StoredManifests(connection.store()), branch=branch)
    if intent is None:
        return 0
    answer = connection.client().submit(intent).result(connection.timeout_s)
    return len(intent.removed_delete_files) if isinstance(answer, Committed) else 0


def _has_deletes(manifest: ManifestFile) -> bool:
    return manifest.content == "deletes" and manifest.may_have_live_files
