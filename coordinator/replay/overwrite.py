"""Overwrite: files go by a filter or by name, and others take their place (copy-on-write)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.conflicts import (
    WindowDeletes,
    require_no_new_data,
    require_no_new_deletes,
    require_no_new_deletes_in,
    require_no_removed_data,
)
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.delete_where import files_inside
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.file_filter import FileFilter
from firn.coordinator.replay.files_rules import bind_added, require_live, require_not_live
from firn.coordinator.replay.live_deletes import DeleteKey
from firn.coordinator.replay.live_entries import as_stored, entries_of
from firn.coordinator.replay.origins import require_origin
from firn.coordinator.replay.row_ids import require_known_row_ids
from firn.coordinator.replay.window import window
from firn.coordinator.replay.working import Working
from firn.model.amounts import plural
from firn.model.datafile import DataFile
from firn.model.intent import Overwrite
from firn.model.snapshot import Snapshot


def overwrite(working: Working, intent: Overwrite) -> Applied:
    """Replace what the filter covers, and the named files, by the added ones as one snapshot."""
    working.require(table_uuid=intent.table_uuid)
    require_origin(working, intent)
    head, base = working.head(intent.branch), intent.base_snapshot_id
    covers = None if intent.row_filter is None else _filter(working, intent, of_rows=True)
    added = bind_added(working, intent.data_files, where="data-files")
    require_live(working, intent.branch, intent.removed_data_files, base_snapshot_id=base)
    intent = msgspec.structs.replace(
        intent,
        removed_data_files=as_stored(working, intent.branch, intent.removed_data_files, where="removed-data-files"),
    )
    require_not_live(head, added)
    if intent.validate == "all":
        reads = intent.isolation == "serializable"
        since = window(working, intent.branch, base_snapshot_id=base, appends=reads)
        _require_no_conflict(working, intent, since, covers)
        if covers is not None:
            require_inside(covers, added)
    removed, useless = dict.fromkeys(intent.removed_data_files), set[DeleteKey]()
    if covers is not None:
        removed |= dict.fromkeys(files_inside(working, intent.branch, covers, base=base))
        useless = working.deletes(intent.branch).of_partitions(covers.covers) if removed else useless
    change = FileChange(added_data=added, removed_data=tuple(removed), removed_deletes=useless)
    return apply_change(working, intent, change)


def _filter(working: Working, intent: Overwrite, *, of_rows: bool) -> FileFilter:
    assert working.metadata is not None
    chosen, name = (intent.row_filter, "row-filter") if of_rows else (intent.conflict_filter, "conflict-filter")
    return FileFilter.parse(working.metadata, chosen, case_sensitive=intent.case_sensitive, where=name)


def _require_no_conflict(
    working: Working, intent: Overwrite, since: Sequence[Snapshot], covers: FileFilter | None
) -> None:
    """What came since the base must not concern what the statement read (serializable), nor what it overwrites."""
    base = intent.base_snapshot_id
    if intent.isolation == "serializable":
        # Files that are rewritten by name were read by a condition that the row filter does not tell.
        by_rows = covers is not None and intent.conflict_filter is None and not intent.removed_data_files
        reads = covers if by_rows and covers is not None else _filter(working, intent, of_rows=False)
        require_no_new_data(working, since, reads=reads.may_match, base=base)
    if intent.removed_data_files:
        entries = entries_of(working, intent.branch, intent.removed_data_files)
        require_no_new_deletes(WindowDeletes(working, since), entries, base=base)
        if intent.data_files:
            require_known_row_ids(working, since, entries, base=base)
    if covers is not None:
        require_no_removed_data(working, since, overwrites=covers.may_match, base=base)
        require_no_new_deletes_in(working, intent.branch, since, overwrites=covers.may_match, base=base)


def require_inside(filter: FileFilter, added: Sequence[DataFile]) -> None:
    """Refuse added files that may have rows outside the row filter.

    Prevents: rows that stay when the overwrite is repeated, and are added once more.
    """
    outside = [file.file_path for file in added if not filter.must_match(file)]
    if outside:
        rules.OUTSIDE_FILTER.refuse(
            f"{len(outside):,} of {plural(len(added), 'added file')} may have rows outside the row filter, first "
            f"{outside[0]}",
            files=outside,
        )
