"""The operation of firn that a client's change of files stands for, replayed by its own rules (decision 39)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.files_rules import require_named_once, require_not_live
from firn.coordinator.replay.lifted_lists import ListDifference
from firn.coordinator.replay.origins import require_origin
from firn.coordinator.replay.overwrite import overwrite
from firn.coordinator.replay.replace import replace
from firn.coordinator.replay.replace_partitions import replace_partitions
from firn.coordinator.replay.rest_files import require_listable
from firn.coordinator.replay.rewrite_manifests import rewrite_manifests
from firn.coordinator.replay.row_delta import row_delta
from firn.coordinator.replay.touched_partitions import TouchedPartitions
from firn.coordinator.replay.working import Working
from firn.coordinator.replay.written_manifests import unusable
from firn.model.cherry_pick import REPLACE_PARTITIONS
from firn.model.content_file import content_file_of
from firn.model.datafile import DataFile
from firn.model.delete_index import referenced_data_file
from firn.model.intent import Append, ContentFile, Overwrite, Replace, ReplacePartitions, RewriteManifests, RowDelta
from firn.model.operations.files import DeleteFileRef, FileOperation, Isolation
from firn.model.operations.rest import RestCommit
from firn.model.snapshot import Operation
from firn.model.snapshot_summary import is_computed
from firn.storage.locations import canonical

_OPERATIONS: Final[dict[str | None, Operation]] = {
    "append": "append", "replace": "replace", "overwrite": "overwrite", "delete": "delete",
}  # fmt: skip


def stand_in(
    working: Working, intent: RestCommit, found: ListDifference, *, branch: str, base: int | None, isolation: Isolation
) -> FileOperation:
    """The operation that the change stands for, planned on `base`.

    Deletes that go because they reach nothing any more are left to firn, which removes those that reach nothing at the
    head.
    """
    metadata = working.metadata
    assert metadata is not None
    snapshot = found.snapshot
    summary = {name: text for name, text in (snapshot.summary or {}).items() if not is_computed(name)}
    common: dict[str, Any] = {
        "intent_id": intent.intent_id,
        "table": intent.table,
        "writer": intent.writer,
        "branch": branch,
        "base_snapshot_id": base,
        "summary": summary,
        "schema_ids": () if snapshot.schema_id is None else (snapshot.schema_id,),
    }
    if not found.added and not found.removed:
        if snapshot.operation == "replace" and found.dropped:
            return RewriteManifests(**common, removed_manifests=found.dropped, manifests=found.put)
        return Append(**common)
    removed, removed_deletes = tuple(f.file_path for f in found.removed_files(data=True)), _removed_deletes(found)
    deletes = _wire(working, found.added_files(data=False))
    is_rewrite = snapshot.operation == "replace"
    if found.numbers and (not is_rewrite or len(found.numbers) > 1):
        rules.LIST_CONTRADICTS.refuse(
            f"snapshot {snapshot.snapshot_id} adds files of ages {sorted(found.numbers)}, which only a rewrite does, "
            f"and that with one age"
        )
    if not (removed or deletes or removed_deletes or is_rewrite):
        return Append(**common)
    common["data_files"] = _wire(working, found.added_files(data=True))
    if is_rewrite:
        return Replace(
            **common,
            removed_data_files=removed,
            removed_delete_files=removed_deletes,
            delete_files=deletes,
            data_sequence_number=next(iter(found.numbers), None),
        )
    common["isolation"] = isolation
    if summary.get(REPLACE_PARTITIONS) == "true" and found.added_files(data=True) and not deletes:
        _require_inside(working, found)
        return ReplacePartitions(**common)
    if deletes or removed_deletes:
        return RowDelta(
            **common, removed_data_files=removed, delete_files=deletes, removed_delete_files=removed_deletes
        )
    return Overwrite(**common, removed_data_files=removed)


def replay_stand_in(working: Working, operation: FileOperation, found: ListDifference) -> Applied:
    """Replay the operation that stands for a client's change, by its own function."""
    match operation:
        case Append() if found.added:
            return _append(working, operation, found)
        case Append():
            return _nothing(working, operation, found)
        case Overwrite():
            return overwrite(working, operation)
        case ReplacePartitions():
            return replace_partitions(working, operation)
        case Replace():
            return replace(working, operation)
        case RewriteManifests():
            return rewrite_manifests(working, operation)
        case RowDelta():
            return row_delta(working, operation)
    raise AssertionError(operation)


def is_blind(operation: FileOperation) -> bool:
    """Whether an operation takes rows by equality alone, or only rows of its own: it always applies, as an append."""
    if not isinstance(operation, RowDelta) or operation.removed_data_files or operation.removed_delete_files:
        return False
    own = {file.file_path for file in operation.data_files}
    return all(
        file.content == "equality-deletes" or file.referenced_data_file in own for file in operation.delete_files
    )


def _wire(working: Working, files: list[DataFile]) -> tuple[ContentFile, ...]:
    assert working.metadata is not None
    return tuple(content_file_of(file, working.metadata) for file in files)


def _removed_deletes(found: ListDifference) -> tuple[DeleteFileRef, ...]:
    """The delete files whose removal is a change: not those of removed data files, nor those older than all data."""
    gone = {canonical(file.file_path) for file in found.removed_files(data=True)}
    named: list[DeleteFileRef] = []
    for entry in found.removed:
        file = entry.data_file
        path = referenced_data_file(file)
        if file.content == "data" or (path is not None and canonical(path) in gone):
            continue
        if (entry.sequence_number or 0) >= found.oldest:
            offset = file.content_offset if file.is_deletion_vector else None
            named.append(DeleteFileRef(file_path=file.file_path, content_offset=offset))
    return tuple(named)


def _require_inside(working: Working, found: ListDifference) -> None:
    """Refuse removed files outside the partitions that the added files are in: the summary does not say what goes."""
    assert working.metadata is not None
    touched = TouchedPartitions(working.metadata, found.added_files(data=True))
    outside = [file.file_path for file in found.removed_files(data=True) if not touched.covers(file)]
    if outside:
        rules.LIST_CONTRADICTS.refuse(
            f"{outside[0]} is removed, and not in a partition that the snapshot says it replaces", files=outside
        )


def _append(working: Working, operation: Append, found: ListDifference) -> Applied:
    """Add the files. Manifests of nothing else are listed as they are; their entries carry the id that is kept."""
    metadata = working.metadata
    assert metadata is not None
    require_origin(working, operation)
    files = found.added_files(data=True)
    for file in files:
        require_listable(working, file.file_path, where=f"snapshot {found.snapshot.snapshot_id}")
        reason = unusable(file, metadata)
        if reason is not None:
            rules.LIST_CONTRADICTS.refuse(f"{file.file_path}: {reason}", files=(file.file_path,))
    require_named_once([file.file_path for file in files], where="added files")
    require_not_live(working.head(operation.branch), files)
    listed = found.fresh if metadata.format_version > 1 else ()
    kept = {file.file_path for manifest in listed for file in manifest.files}
    copied = [msgspec.structs.replace(file, first_row_id=None) for file in files if file.file_path not in kept]
    change = FileChange(added_data=copied, added_manifests=listed)
    return apply_change(working, operation, change)


def _nothing(working: Working, operation: Append, found: ListDifference) -> Applied:
    """A snapshot that changes no file: sinks make some to say how far they have read."""
    head = working.head(operation.branch)
    working.require_room(head, (), added=(), removed=())
    snapshot_id, number = working.snapshot_id_for(operation.intent_id), working.next_sequence_number
    working.commit(
        branch=operation.branch,
        snapshot_id=snapshot_id,
        operation=_OPERATIONS.get(found.snapshot.operation, "append"),
        manifests=head.manifests,
        added=(),
        removed=(),
        intents=[(operation.intent_id, operation.writer)],
        intended="append",
        properties=operation.summary,
    )
    return Applied(snapshot_id=snapshot_id, sequence_number=number)
