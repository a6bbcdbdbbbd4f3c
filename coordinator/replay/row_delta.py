"""Row delta: rows come and go by data files, delete files and deletion vectors (merge-on-read)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.conflicts import (
    WindowDeletes,
    refuse_new_deletes,
    require_no_new_data,
    require_no_new_deletes,
)
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.delete_rules import (
    bind_deletes,
    may_apply,
    refuse_spelling,
    require_columns,
    require_deletes_live,
    require_deletes_not_live,
    require_same_partition,
)
from firn.coordinator.replay.deleted_positions import DeletedPositions
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.file_filter import FileFilter
from firn.coordinator.replay.files_rules import bind_added, require_live, require_not_live
from firn.coordinator.replay.live_entries import as_stored, entries_of
from firn.coordinator.replay.lost_deletes import require_no_lost_deletes
from firn.coordinator.replay.origins import require_origin
from firn.coordinator.replay.row_conflicts import require_rows_untouched
from firn.coordinator.replay.row_ids import require_known_row_ids
from firn.coordinator.replay.vector_merge import draft_merged, plan_vectors, superseded_deletes
from firn.coordinator.replay.window import own_snapshots, removed_data, window
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.delete_index import partition_key, referenced_data_file
from firn.model.intent import RowDelta
from firn.model.manifest import ManifestEntry
from firn.model.snapshot import Snapshot
from firn.storage.locations import canonical


class _Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A row delta bound to the table: its files, and the data files of others that its deletes are for."""

    data: list[DataFile]
    deletes: list[DataFile]
    references: list[str]
    reads: FileFilter

    @property
    def needs_base(self) -> bool:
        """Equality deletes reach whatever is older than they are, and deletes of own files concern nobody else."""
        return not self.deletes or bool(self.references) or any(_is_wide(file) for file in self.deletes)


def _is_wide(file: DataFile) -> bool:
    """Whether these are position deletes for no data file in particular."""
    return file.content == "position-deletes" and referenced_data_file(file) is None


def row_delta(working: Working, intent: RowDelta) -> Applied:
    """Add and remove the files as one snapshot, if the rows that they are for are still there.

    Equality deletes alone always apply: their sequence number just moves on.
    """
    working.require(table_uuid=intent.table_uuid)
    require_origin(working, intent)
    head, index = working.head(intent.branch), working.deletes(intent.branch)
    intent = msgspec.structs.replace(
        intent,
        removed_data_files=as_stored(working, intent.branch, intent.removed_data_files, where="removed-data-files"),
    )
    bound = _bind(working, intent)
    since, base = _window(working, intent, bound)
    require_live(working, intent.branch, intent.removed_data_files, base_snapshot_id=base)
    require_not_live(head, bound.data)
    require_deletes_not_live(index, bound.deletes)
    came, positions = WindowDeletes(working, since), DeletedPositions(working)
    bound = _with_named(working, intent.branch, bound, came, since, positions=positions)
    gone = _gone(working, intent, bound, since, base=base)
    deletes = [file for file in bound.deletes if canonical(referenced_data_file(file) or "") not in gone]
    referenced = entries_of(working, intent.branch, bound.references)
    require_same_partition(deletes, [*bound.data, *(entry.data_file for entry in referenced)])
    if since:
        _require_no_conflict(working, intent, bound, since, referenced, came=came, positions=positions, base=base)
    vectors = [file for file in deletes if file.is_deletion_vector]
    others = [file for file in deletes if not file.is_deletion_vector]
    plan = plan_vectors(working, intent, vectors, positions=positions)
    superseded = superseded_deletes(working, intent, deletes)
    removed = require_deletes_live(
        working, intent.branch, intent.removed_delete_files, superseded=superseded, base=base
    )
    require_no_lost_deletes(
        working, intent.branch, removed, added=deletes, removed_data=intent.removed_data_files, positions=positions
    )
    change = FileChange(
        added_data=bound.data,
        added_deletes=[*others, *plan.kept, *draft_merged(working, plan.merged)],
        removed_data=intent.removed_data_files,
        removed_deletes=removed | plan.removed,
    )
    return apply_change(working, intent, change)


def _bind(working: Working, intent: RowDelta) -> _Bound:
    assert working.metadata is not None
    data = bind_added(working, intent.data_files, where="data-files")
    deletes = bind_deletes(working, intent.delete_files, where="delete-files")
    require_columns(working.metadata, deletes)
    own = {canonical(file.file_path) for file in data}
    named = [path for file in deletes if (path := referenced_data_file(file)) is not None]
    others = {name: path for path in (*intent.referenced_data_files, *named) if (name := canonical(path)) not in own}
    references = as_stored(working, intent.branch, tuple(others.values()), where="referenced-data-files")
    both = [path for path in intent.removed_data_files if path in references]
    if both:
        rules.INVALID_DELETE_FILE.refuse(f"{both[0]} is removed, and given deletes", files=both)
    reads = FileFilter.parse(
        working.metadata, intent.conflict_filter, case_sensitive=intent.case_sensitive, where="conflict-filter"
    )
    return _Bound(data=data, deletes=deletes, references=list(references), reads=reads)


def _window(working: Working, intent: RowDelta, bound: _Bound) -> tuple[list[Snapshot], int | None]:
    """What is to be validated, and from where. A base that is needed and missing is refused, never made up."""
    base = intent.base_snapshot_id
    known = None if isinstance(base, msgspec.UnsetType) else base
    if intent.validate == "none" or not (bound.needs_base or intent.removed_data_files):
        return [], known
    if isinstance(base, msgspec.UnsetType):
        rules.MISSING_FIELD.refuse("base-snapshot-id: needed to tell what happened to the rows since they were read")
    reads = intent.isolation == "serializable"
    return window(working, intent.branch, base_snapshot_id=base, appends=reads), base


def _with_named(
    working: Working,
    branch: str,
    bound: _Bound,
    came: WindowDeletes,
    since: Sequence[Snapshot],
    *,
    positions: DeletedPositions,
) -> _Bound:
    """The data files, too, that wide position deletes are for; they are read where files left their partition, or
    others' deletes came to it.

    Prevents: deletes that report success, of rows that were moved to another file or changed meanwhile.
    """
    wide = [file for file in bound.deletes if _is_wide(file)]
    newer = [*own_snapshots(working, branch), *since]
    if not wide or not newer:
        return bound
    left = {partition_key(e.data_file.spec_id, e.data_file.partition) for _, e in removed_data(working, newer)}
    met = [file for file in wide if partition_key(file.spec_id, file.partition) in left or came.may_reach(file)]
    own = {file.file_path for file in bound.data}
    names = []
    for file in met:
        paths = [path for path in positions.named_by_own(file) if path not in own]
        for path, stored in zip(paths, as_stored(working, branch, paths, where=file.file_path), strict=True):
            if path != stored:
                refuse_spelling(file, path, stored=stored)
        names += paths
    return msgspec.structs.replace(bound, references=list(dict.fromkeys((*bound.references, *names))))


def _gone(
    working: Working, intent: RowDelta, bound: _Bound, since: Sequence[Snapshot], *, base: int | None
) -> frozenset[str]:
    """Return the canonical names of referenced data files that a delete has removed, if the intent allows for that.

    Refuses other missing ones.

    Prevents: deletes of rows that a compaction has moved to another file, where they live on.
    """
    live = working.head(intent.branch).live
    missing = [path for path in bound.references if path not in live]
    if not missing:
        return frozenset()
    removers = {canonical(entry.data_file.file_path): snapshot for snapshot, entry in removed_data(working, since)}
    names = frozenset(map(canonical, missing))
    deleted = [name for name in names if name in removers and removers[name].operation == "delete"]
    if not intent.referenced_may_be_deleted or len(deleted) < len(names):
        require_live(working, intent.branch, missing, base_snapshot_id=base)
    return names


def _require_no_conflict(
    working: Working,
    intent: RowDelta,
    bound: _Bound,
    since: Sequence[Snapshot],
    referenced: Sequence[ManifestEntry],
    *,
    came: WindowDeletes,
    positions: DeletedPositions,
    base: int | None,
) -> None:
    """What came since the base must not concern what the statement read (serializable), nor the rows it takes.

    Of rows that go by position the positions decide. Equality deletes tell none: where the intent writes rows anew, one
    that may have taken them is in its way.
    """
    if intent.isolation == "serializable":
        require_no_new_data(working, since, reads=bound.reads.may_match, base=base)
    removed = entries_of(working, intent.branch, intent.removed_data_files)
    require_no_new_deletes(came, removed, base=base)
    rewrites_rows = bool(bound.data)
    if rewrites_rows:
        require_known_row_ids(working, since, [*removed, *referenced], base=base)
    for entry in referenced:
        own = [
            file for file in bound.deletes if file.content == "position-deletes" and may_apply(file, entry.data_file)
        ]
        require_rows_untouched(
            working, positions, came, entry.data_file, own=own, rewrites_rows=rewrites_rows, base=base
        )
        unclear = came.equality(entry) if rewrites_rows else []
        if rewrites_rows and not own:  # it was read, and what of it made its way into the added rows is not known
            unclear += came.positions(entry.data_file)
        for delete in unclear:
            path = entry.data_file.file_path
            refuse_new_deletes(came.snapshot_of(delete), delete, f"rows of {path}", files=(path,), base=base)
