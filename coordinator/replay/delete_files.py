"""Delete files: whole data files go; every one of them must be live."""

from __future__ import annotations

from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.files_rules import require_live
from firn.coordinator.replay.live_entries import as_stored
from firn.coordinator.replay.working import Working
from firn.model.intent import DeleteFiles


def delete_files(working: Working, intent: DeleteFiles) -> Applied:
    """Remove the named files, and the deletes that are for them alone, as one snapshot.

    Prevents: a delete that reports success for files that a compaction has replaced, whose rows then live on
    (`missing-file`).
    """
    working.require(table_uuid=intent.table_uuid)
    require_live(working, intent.branch, intent.removed_data_files, base_snapshot_id=intent.base_snapshot_id)
    removed = as_stored(working, intent.branch, intent.removed_data_files, where="removed-data-files")
    return apply_change(working, intent, FileChange(removed_data=removed))
