"""Replace: data and delete files are rewritten without a change of rows (compaction)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.ancestry import known_snapshot
from firn.coordinator.replay.conflicts import WindowDeletes, refuse_new_deletes
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.delete_rules import (
    bind_deletes,
    require_deletes_live,
    require_deletes_not_live,
    require_same_partition,
)
from firn.coordinator.replay.deleted_positions import DeletedPositions
from firn.coordinator.replay.equality_reach import require_same_reach
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.files_rules import bind_added, require_live, require_not_live
from firn.coordinator.replay.live_deletes import DeleteKey, LiveDeletes, delete_key
from firn.coordinator.replay.live_entries import as_stored, entries_of
from firn.coordinator.replay.lost_deletes import (
    require_no_lost_deletes,
    require_no_wider_deletes,
    require_nothing_hidden,
)
from firn.coordinator.replay.origins import require_origin
from firn.coordinator.replay.own_deletes import deleted_rows
from firn.coordinator.replay.row_conflicts import require_no_rows_deleted
from firn.coordinator.replay.row_ids import require_known_row_ids
from firn.coordinator.replay.window import own_snapshots, window
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.delete_index import referenced_data_file
from firn.model.intent import Replace
from firn.model.manifest import ManifestEntry


def replace(working: Working, intent: Replace) -> Applied:
    """Swap the removed files for the added ones as one snapshot, if nothing happened to the removed ones since S."""
    working.require(table_uuid=intent.table_uuid)
    require_origin(working, intent)
    head, index, base = working.head(intent.branch), working.deletes(intent.branch), intent.base_snapshot_id
    since = window(working, intent.branch, base_snapshot_id=base, appends=False)
    added = bind_added(working, intent.data_files, where="data-files")
    added_deletes = bind_deletes(working, intent.delete_files, where="delete-files")
    require_live(working, intent.branch, intent.removed_data_files, base_snapshot_id=base)
    intent = msgspec.structs.replace(
        intent,
        removed_data_files=as_stored(working, intent.branch, intent.removed_data_files, where="removed-data-files"),
    )
    removed_deletes = require_deletes_live(working, intent.branch, intent.removed_delete_files, base=base)
    require_not_live(head, added)
    require_deletes_not_live(index, added_deletes)
    rewritten = entries_of(working, intent.branch, intent.removed_data_files)
    came, positions = WindowDeletes(working, since), DeletedPositions(working)
    require_no_rows_deleted(working, positions, came, rewritten, base=base)
    if added:
        require_known_row_ids(working, since, rewritten, base=base)
    own = own_snapshots(working, intent.branch)
    deleted = deleted_rows(working, intent.branch, own, rewritten, positions=positions, base=base)
    require_no_more_rows(intent, rewritten, added, deleted=deleted)
    require_kept_age(working, intent, rewritten, added_deletes, [e for k in removed_deletes if (e := _entry(index, k))])
    # Equality deletes tell no rows, so that it was made with those of its own transaction is not to be seen: its new
    # files stay in their reach, as in that of others'.
    newer = [*own, *since]
    came_or_own = WindowDeletes(working, newer) if own else came
    require_same_reach(
        working, intent, newer, came_or_own, rewritten=rewritten, added=added, removed_deletes=removed_deletes
    )
    require_deletes_fit(working, intent, added_deletes, removed_deletes, came=came, positions=positions)
    change = FileChange(
        added_data=added,
        added_deletes=added_deletes,
        removed_data=intent.removed_data_files,
        removed_deletes=removed_deletes,
        data_sequence_number=intent.data_sequence_number,
    )
    return apply_change(working, intent, change, operation="replace")


def _entry(index: LiveDeletes, key: DeleteKey) -> ManifestEntry | None:
    live = index.get(key)
    return None if live is None else live.entry


def require_no_more_rows(
    intent: Replace, rewritten: Sequence[ManifestEntry], added: Sequence[DataFile], *, deleted: int
) -> None:
    """Refuse a rewrite that adds more rows than it removes, not counting `deleted` ones.

    Prevents: rows doubled by a compaction; deleted rows coming back, because it has not applied the vectors of its
    base, or what an earlier member of its transaction has deleted.
    """
    removed_rows = sum(entry.data_file.record_count for entry in rewritten)
    added_rows = sum(file.record_count for file in added)
    if added_rows > removed_rows - deleted:
        but = f", {deleted:,} of them deleted by position" if deleted else ""
        rules.MORE_ROWS.refuse(
            f"a rewrite keeps rows, but {added_rows:,} come where {removed_rows:,} go{but}",
            base=intent.base_snapshot_id,
        )


def require_kept_age(
    working: Working,
    intent: Replace,
    rewritten: Sequence[ManifestEntry],
    added_deletes: Sequence[DataFile],
    removed_deletes: Sequence[ManifestEntry],
) -> None:
    """Refuse an age for the added files that lets other equality deletes reach them than reached the removed ones.

    Rewritten rows may be as old as the youngest file that they come from, or as the base: equality deletes in between
    have been applied to all of them. Rewritten equality deletes must keep the one age that they all had.

    Prevents: rows that were deleted while a rewrite ran live on, or rows written after a delete going with it.
    """
    number, base = intent.data_sequence_number, intent.base_snapshot_id
    equality = [entry.sequence_number for entry in removed_deletes if entry.data_file.content == "equality-deletes"]
    if any(file.content == "equality-deletes" for file in added_deletes) and (
        not equality or {number} != set(equality)
    ):
        rules.WRONG_SEQUENCE_NUMBER.refuse(
            f"data-sequence-number: rewritten equality deletes need that of all those they replace, which have "
            f"{sorted(set(equality), key=str)}, not {number}",
            base=base,
        )
    if number is None:
        return
    assert working.metadata is not None
    planned = known_snapshot(working, base)
    if planned is None:
        rules.UNKNOWN_BASE.refuse(f"snapshot {base}, whose sequence number bounds data-sequence-number, was expired")
    youngest = max((entry.sequence_number or 0 for entry in rewritten), default=0)
    if not youngest <= number <= planned.sequence_number:
        rules.WRONG_SEQUENCE_NUMBER.refuse(
            f"data-sequence-number: {number} is not between that of the youngest rewritten file, {youngest}, and that "
            f"of the base, {planned.sequence_number}",
            base=base,
        )


def require_deletes_fit(
    working: Working,
    intent: Replace,
    added: Sequence[DataFile],
    removed: Collection[DeleteKey],
    *,
    came: WindowDeletes,
    positions: DeletedPositions,
) -> None:
    """Refuse added deletes that are not those of the removed delete files, written anew.

    Prevents: a rewrite that deletes rows; two deletion vectors on a data file; a vector that forgets what another
    writer added to the one before it.
    """
    base = intent.base_snapshot_id
    if added and not removed:
        rules.INVALID_FIELD.refuse("delete-files: a rewrite adds deletes only for delete files that it removes")
    named: dict[str, DataFile] = {}
    for file in added:
        path = referenced_data_file(file)
        if path is None:
            continue
        if path in named and file.is_deletion_vector:
            rules.INVALID_DELETE_FILE.refuse(f"{path} is given two deletion vectors", files=(path,))
        named[path] = file
    outlived = [path for path in named if path in set(intent.removed_data_files)]
    require_live(working, intent.branch, list(named), base_snapshot_id=base)
    if outlived:
        rules.INVALID_DELETE_FILE.refuse(f"{outlived[0]} is removed, and given deletes", files=outlived)
    require_same_partition(named.values(), (e.data_file for e in entries_of(working, intent.branch, list(named))))
    _require_whole_vectors(working, intent, named, removed)
    index, branch = working.deletes(intent.branch), intent.branch
    require_no_wider_deletes(working, added, [live.file for key in removed if (live := index.get(key)) is not None])
    vectors = [file for file in added if file.is_deletion_vector]
    require_nothing_hidden(working, branch, vectors, removed=removed, came=came, positions=positions, base=base)
    gone = intent.removed_data_files
    require_no_lost_deletes(working, branch, removed, added=added, removed_data=gone, positions=positions)


def _require_whole_vectors(
    working: Working, intent: Replace, named: dict[str, DataFile], removed: Collection[DeleteKey]
) -> None:
    """A vector takes the place of the one that is live now, or of none."""
    index, base = working.deletes(intent.branch), intent.base_snapshot_id
    left = [
        live
        for path, file in named.items()
        if file.is_deletion_vector
        for live in index.vectors_of(path)
        if delete_key(live.file) not in removed
    ]
    for live in left:
        assert working.metadata is not None
        snapshot_id = live.entry.snapshot_id
        snapshot = known_snapshot(working, snapshot_id)
        path = live.file.referenced_data_file or ""
        if snapshot is not None:
            refuse_new_deletes(snapshot, live.file, f"rows of {path}", files=(path,), base=base)
        rules.INVALID_DELETE_FILE.refuse(f"{path} has a deletion vector that is not removed", files=(path,), base=base)
