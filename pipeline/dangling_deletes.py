"""Delete files that reach no data file any more: what they delete has been rewritten or removed.

Replay drops those that are older than every data file, or that name a data file which goes. Others are found here by
planning a scan of the whole branch: a delete file that applies to none of its data files is useless. No data file that
comes later is older than a delete, except a compaction's, whose rows were there and were not reached either.
"""

from __future__ import annotations

from typing import Final

from firn.coordinator.client.intents import new_intent_id
from firn.model.datafile import DataFile
from firn.model.intent import DeleteFileRef, Replace
from firn.model.metadata import TableMetadata
from firn.model.outcome import Committed
from firn.model.snapshot import MAIN_BRANCH
from firn.pipeline.connection import Connection
from firn.storage.manifest_reader import ManifestReader, StoredManifests
from firn.storage.table_scan import plan_scan

REMOVED_AT_ONCE_MAX: Final = 10_000
"""Delete files that one intent removes; what is beyond is left for the next time."""


def dangling_deletes(metadata: TableMetadata, *, files: ManifestReader, branch: str = MAIN_BRANCH) -> list[DataFile]:
    """The delete files of the head of `branch` that apply to none of its data files."""
    head = metadata.head(branch)
    if head is None:
        return []
    live = [
        entry.data_file
        for manifest in files.manifests(metadata, head)
        if manifest.content == "deletes" and manifest.may_have_live_files
        for entry in files.entries(metadata, manifest)
        if entry.is_live
    ]
    if not live:
        return []
    tasks = plan_scan(metadata, files=files, ref=branch).tasks
    reaching = {(delete.file_path, delete.content_offset) for task in tasks for delete in task.deletes}
    return [delete for delete in live if (delete.file_path, delete.content_offset) not in reaching]


def remove_dangling_deletes(connection: Connection, table: str, *, branch: str = MAIN_BRANCH) -> int:
    """Remove the delete files that reach nothing; how many went.

    0 also if another commit removed one of them first, or the outcome is not known: what is left is found next time.
    """
    view = connection.table(table)
    found = dangling_deletes(view.metadata, files=StoredManifests(connection.store()), branch=branch)
    head = view.metadata.head(branch)
    if not found or head is None:
        return 0
    named = found[:REMOVED_AT_ONCE_MAX]
    intent = Replace(
        intent_id=new_intent_id(),
        table=table,
        table_uuid=view.uuid or None,
        branch=branch,
        priority="maintenance",
        base_snapshot_id=head.snapshot_id,
        removed_delete_files=tuple(
            DeleteFileRef(file_path=delete.file_path, content_offset=delete.content_offset) for delete in named
        ),
    )
    answer = connection.client().submit(intent).result(connection.timeout_s)
    return len(named) if isinstance(answer, Committed) else 0
