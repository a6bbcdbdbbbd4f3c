"""Replace partitions: whatever is in the partitions of the added files goes (dynamic overwrite)."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay import rules
from firn.coordinator.replay.conflicts import (
    require_no_new_data,
    require_no_new_deletes_in,
    require_no_removed_data,
)
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.files_rules import bind_added, require_not_live
from firn.coordinator.replay.live_entries import live_entries
from firn.coordinator.replay.origins import require_origin
from firn.coordinator.replay.touched_partitions import TouchedPartitions
from firn.coordinator.replay.window import window
from firn.coordinator.replay.working import Working
from firn.model.amounts import agreeing, plural
from firn.model.cherry_pick import REPLACE_PARTITIONS
from firn.model.datafile import DataFile
from firn.model.intent import ReplacePartitions
from firn.model.snapshot import Snapshot


def replace_partitions(working: Working, intent: ReplacePartitions) -> Applied:
    """Swap the content of the touched partitions for the added files as one snapshot."""
    metadata = working.require(table_uuid=intent.table_uuid)
    require_origin(working, intent)
    head = working.head(intent.branch)
    added = bind_added(working, intent.data_files, where="data-files")
    require_not_live(head, added)
    touched = TouchedPartitions(metadata, added)
    if intent.append_only:
        require_empty(working, intent, touched)
    if intent.validate == "all":
        since = window(working, intent.branch, base_snapshot_id=intent.base_snapshot_id)
        _require_no_conflict(working, intent, since, touched)
    removed = files_inside(working, intent, touched)
    change = FileChange(
        added_data=added,
        removed_data=removed,
        removed_deletes=working.deletes(intent.branch).of_partitions(touched.covers) if removed else (),
        properties={REPLACE_PARTITIONS: "true"},
    )
    return apply_change(working, intent, change, operation="overwrite")


def require_empty(working: Working, intent: ReplacePartitions, touched: TouchedPartitions) -> None:
    """Refuse when a partition that is to be filled for the first time has files.

    Prevents: a load that runs twice, or beside another, and replaces what the first one has put there.
    """
    live = live_entries(working, intent.branch, opens=touched.opens)
    files = [entry.data_file for entry in live if touched.may_have(entry.data_file)]
    if files:
        rules.OCCUPIED_PARTITION.refuse(
            f"{plural(len(files), 'file')} {agreeing(len(files))} in the partitions that are to be filled, first "
            f"{files[0].file_path}",
            files=[file.file_path for file in files],
            partitions=[working.partition_path(file) for file in files],
            base=intent.base_snapshot_id,
        )


def files_inside(working: Working, intent: ReplacePartitions, touched: TouchedPartitions) -> list[str]:
    """Live data files that are in the touched partitions; refuses when one may be there in part (of another spec).

    Prevents: rows going that are in other partitions, or rows staying beside what replaces them.
    """
    inside: list[str] = []
    partly: list[DataFile] = []
    for entry in live_entries(working, intent.branch, opens=touched.opens):
        file = entry.data_file
        if touched.covers(file):
            inside.append(file.file_path)
        elif touched.may_have(file):
            partly.append(file)
    if partly:
        rules.PARTIAL_MATCH.refuse(
            f"{plural(len(partly), 'file')} of other partition specs may have rows in the replaced partitions and in "
            f"others, first {partly[0].file_path} (spec {partly[0].spec_id}): rewrite them by the spec of the added "
            f"files, or overwrite by a filter",
            files=[file.file_path for file in partly],
            partitions=[working.partition_path(file) for file in partly],
            base=intent.base_snapshot_id,
        )
    return inside


def _require_no_conflict(
    working: Working, intent: ReplacePartitions, since: Sequence[Snapshot], touched: TouchedPartitions
) -> None:
    base = intent.base_snapshot_id
    if intent.isolation == "serializable":
        require_no_new_data(working, since, reads=touched.may_have, base=base)
    require_no_removed_data(working, since, overwrites=touched.may_have, base=base)
    require_no_new_deletes_in(working, intent.branch, since, overwrites=touched.may_have, base=base)
