"""Delete where: every data file whose rows all match a filter goes, by the files that are there now."""

from __future__ import annotations

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.file_filter import FileFilter
from firn.coordinator.replay.live_entries import live_entries
from firn.coordinator.replay.working import Working
from firn.model.amounts import plural
from firn.model.intent import DeleteWhere


def delete_where(working: Working, intent: DeleteWhere) -> Applied:
    """Drop the files inside the filter as one snapshot; none is made where nothing matches."""
    metadata = working.require(table_uuid=intent.table_uuid)
    working.head(intent.branch)
    filter = FileFilter.parse(metadata, intent.row_filter, case_sensitive=intent.case_sensitive, where="row-filter")
    removed = files_inside(working, intent.branch, filter, base=intent.base_snapshot_id)
    useless = working.deletes(intent.branch).of_partitions(filter.covers) if removed else ()
    return apply_change(working, intent, FileChange(removed_data=removed, removed_deletes=useless))


def files_inside(working: Working, branch: str, filter: FileFilter, *, base: int | None) -> list[str]:
    """Live data files whose rows all match; refuses when a file may have some that do and some that do not.

    Prevents: rows going that do not match, with the file that they share with some that do.
    """
    inside: list[str] = []
    partly: list[str] = []
    for entry in live_entries(working, branch, opens=filter.opens):
        file = entry.data_file
        if filter.may_match(file):
            (inside if filter.must_match(file) else partly).append(file.file_path)
    if partly:
        rules.PARTIAL_MATCH.refuse(
            f"{plural(len(partly), 'file')} may have rows that match and rows that do not, first {partly[0]}: "
            f"rewrite them, or delete their rows by position",
            files=partly,
            base=base,
        )
    return inside
