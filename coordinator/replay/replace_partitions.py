"""Replace partitions: whatever is in the partitions of the added files goes (dynamic overwrite)."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay.conflicts import (
    require_no_new_data,
    require_no_new_deletes_in,
    require_no_removed_data,
)
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.files_rules import bind_added, require_not_live
from firn.coordinator.replay.live_entries import live_entries
from firn.coordinator.replay.window import window
from firn.coordinator.replay.working import Working
from firn.model.cherry_pick import REPLACE_PARTITIONS
from firn.model.datafile import DataFile
from firn.model.delete_index import partition_key
from firn.model.intent import ReplacePartitions
from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot


class _Touched:
    """The partitions of some files. Those of an unpartitioned spec are in the whole table, whatever its spec was."""

    def __init__(self, metadata: TableMetadata, files: Sequence[DataFile]) -> None:
        self._metadata = metadata
        self._keys = {partition_key(file.spec_id, file.partition) for file in files}
        self._specs = {file.spec_id for file in files}
        self._everything = any(not self._is_partitioned(spec_id) for spec_id in self._specs)

    def _is_partitioned(self, spec_id: int) -> bool:
        spec = self._metadata.spec_by_id(spec_id)
        assert spec is not None
        return spec.is_partitioned

    def opens(self, manifest: ManifestRef) -> bool:
        """Whether the manifest may have files of these partitions."""
        return self._everything or manifest.partition_spec_id in self._specs

    def covers(self, file: DataFile) -> bool:
        """Whether whatever is in the file's partition goes; of a delete file, whether it is for nothing else."""
        return self._everything or partition_key(file.spec_id, file.partition) in self._keys

    def has(self, file: DataFile) -> bool:
        """Whether the data file is in one of them, or the delete file may reach into one."""
        return self.covers(file) or (file.content == "equality-deletes" and not self._is_partitioned(file.spec_id))


def replace_partitions(working: Working, intent: ReplacePartitions) -> Applied:
    """Swap the content of the touched partitions for the added files as one snapshot."""
    metadata = working.require(table_uuid=intent.table_uuid)
    head = working.head(intent.branch)
    added = bind_added(working, intent.data_files, where="data-files")
    require_not_live(head, added)
    touched = _Touched(metadata, added)
    if intent.validate == "all":
        since = window(working, intent.branch, base_snapshot_id=intent.base_snapshot_id)
        _require_no_conflict(working, intent, since, touched)
    live = live_entries(working, intent.branch, opens=touched.opens)
    removed = [entry.data_file.file_path for entry in live if touched.has(entry.data_file)]
    change = FileChange(
        added_data=added,
        removed_data=removed,
        removed_deletes=working.deletes(intent.branch).of_partitions(touched.covers) if removed else (),
        properties={REPLACE_PARTITIONS: "true"},
    )
    return apply_change(working, intent, change, operation="overwrite")


def _require_no_conflict(
    working: Working, intent: ReplacePartitions, since: Sequence[Snapshot], touched: _Touched
) -> None:
    base = intent.base_snapshot_id
    if intent.isolation == "serializable":
        require_no_new_data(working, since, reads=touched.has, base=base)
    require_no_removed_data(working, since, overwrites=touched.has, base=base)
    require_no_new_deletes_in(working, intent.branch, since, overwrites=touched.has, base=base)
