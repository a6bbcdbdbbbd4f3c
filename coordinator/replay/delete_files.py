"""Delete files: whole data files go; every one of them must be live."""

from __future__ import annotations

from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.files_rules import require_live
from firn.coordinator.replay.removal import remove_files
from firn.coordinator.replay.working import Working
from firn.model.intent import DeleteFiles


def delete_files(working: Working, intent: DeleteFiles) -> Applied:
    """Remove the named files as one snapshot.

    Prevents: a delete that reports success for files that a compaction has replaced, whose rows then live on
    (`missing-file`).
    """
    working.require(table_uuid=intent.table_uuid)
    require_live(working, intent.branch, intent.removed_data_files, base_snapshot_id=intent.base_snapshot_id)
    snapshot_id = working.snapshot_id_for(intent.intent_id)
    sequence_number = working.next_sequence_number
    manifests, removed = remove_files(
        working, branch=intent.branch, locations=intent.removed_data_files, snapshot_id=snapshot_id
    )
    working.commit(
        branch=intent.branch,
        snapshot_id=snapshot_id,
        operation="delete",
        manifests=manifests,
        added=(),
        removed=removed,
        intents=[(intent.intent_id, intent.writer)],
        properties=intent.summary,
    )
    return Applied(snapshot_id=snapshot_id, sequence_number=sequence_number)
