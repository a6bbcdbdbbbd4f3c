"""Delete files that are taken away: something stands for them, or they reach nothing that stays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.conflicts import WindowDeletes, refuse_new_deletes
from firn.coordinator.replay.delete_rules import delete_scope, stands_for
from firn.coordinator.replay.deleted_positions import DeletedPositions
from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.live_deletes import DeleteKey, LiveDelete, delete_key
from firn.coordinator.replay.live_entries import live_entries
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.delete_index import DeleteIndex, equality_scope, partition_key, referenced_data_file
from firn.model.partitioning import PartitionSpec


def require_no_lost_deletes(
    working: Working,
    branch: str,
    removed: Collection[DeleteKey],
    *,
    added: Sequence[DataFile],
    removed_data: Collection[str],
    positions: DeletedPositions,
) -> None:
    """Refuse to remove deletes of a data file that stays, when nothing is added that can stand for them.

    Those for one data file are told by it. Others are compared with the live data files that are as old as they must
    be: equality deletes by their metrics, position deletes of several data files are read. Prevents: deleted rows
    coming back.
    """
    index, specs = working.deletes(branch), _specs(working)
    found = [live for key in removed if (live := index.get(key)) is not None]
    gone = frozenset(removed_data)
    for live in found:
        path = referenced_data_file(live.file)
        if path is None or path in gone or path not in working.head(branch).live:
            continue
        if not any(stands_for(file, live.file) for file in added):
            _refuse(live.file, path)
    wide = [live for live in found if referenced_data_file(live.file) is None and not _stands(live.file, added, specs)]
    for delete, path in _reached(working, branch, wide, gone, removed, positions):
        _refuse(delete, path)


def require_no_wider_deletes(working: Working, added: Iterable[DataFile], removed: Iterable[DataFile]) -> None:
    """Refuse equality deletes of a partition, or of all, in the place of others that were not for it.

    Prevents: rows going that nobody has deleted.
    """
    specs = _specs(working)
    scopes = {equality_scope(file, specs) for file in removed if file.content == "equality-deletes"}
    for file in added:
        if file.content == "equality-deletes" and scopes.isdisjoint({equality_scope(file, specs), None}):
            rules.INVALID_PARTITION.refuse(
                f"{file.file_path} is of spec {file.spec_id}, partition {file.partition}: none of the equality deletes "
                f"that it replaces are for that",
                files=(file.file_path,),
                partitions=(working.partition_path(file),),
            )


def require_nothing_hidden(
    working: Working,
    branch: str,
    vectors: Sequence[DataFile],
    *,
    removed: Collection[DeleteKey],
    came: WindowDeletes,
    positions: DeletedPositions,
    base: int | None,
) -> None:
    """Refuse a deletion vector without what position delete files that stay have deleted from its data file.

    There are such in tables that were upgraded from v2, and no reader looks at them where there is a vector. Prevents:
    deleted rows coming back.
    """
    if not vectors:
        return
    index = working.deletes(branch)
    for vector in vectors:
        path = vector.referenced_data_file or ""
        newer = {delete_key(file) for file in came.positions(msgspec.structs.replace(vector, file_path=path))}
        for delete in index.hidden_by(vector):
            if delete_key(delete) in removed:
                continue
            if not positions.stored(delete, path).bitmap - positions.own(vector, path).bitmap:
                continue
            if delete_key(delete) in newer:
                refuse_new_deletes(came.snapshot_of(delete), delete, f"rows of {path}", files=(path,), base=base)
            _refuse(delete, path)


def _specs(working: Working) -> Mapping[int, PartitionSpec]:
    assert working.metadata is not None
    return {spec.spec_id: spec for spec in working.metadata.partition_specs}


def _refuse(delete: DataFile, path: str) -> NoReturn:
    rules.LOST_DELETES.refuse(
        f"{delete.file_path} deletes rows of {path}, which stays, and nothing that is added has them",
        files=(delete.file_path, path),
    )


def _stands(removed: DataFile, added: Sequence[DataFile], specs: Mapping[int, PartitionSpec]) -> bool:
    """Whether any of the added deletes are for the partition that the removed ones were for."""
    scope = delete_scope(removed, specs)
    return any(
        scope is None or partition_key(file.spec_id, file.partition) == scope or delete_scope(file, specs) is None
        for file in added
        if file.content == "position-deletes" or removed.content == "equality-deletes"
    )


def _reached(
    working: Working,
    branch: str,
    wide: Sequence[LiveDelete],
    gone: Collection[str],
    removed: Collection[DeleteKey],
    positions: DeletedPositions,
) -> Iterator[tuple[DataFile, str]]:
    """Deletes that are for no data file in particular, with live data files that they may have rows of."""
    if not wide:
        return
    assert working.metadata is not None
    specs = _specs(working)
    schemas = (working.metadata.current_schema, *working.metadata.schemas)
    index, live = DeleteIndex((one.entry for one in wide), specs=specs, schemas=schemas), working.deletes(branch)
    scopes = {delete_scope(one.file, specs) for one in wide}
    of_specs = {one.file.spec_id for one in wide}
    newest = max(one.entry.sequence_number or 0 for one in wide)

    def opens(manifest: ManifestRef) -> bool:
        listed = working.as_manifest_file(manifest)
        old_enough = listed.min_sequence_number <= newest
        return old_enough and (None in scopes or listed.partition_spec_id in of_specs)

    for entry in live_entries(working, branch, opens=opens):
        path = entry.data_file.file_path
        if path in gone:
            continue
        # Where there is a deletion vector, readers look at no other deletes by position.
        absorbed = any(delete_key(vector.file) not in removed for vector in live.vectors_of(path))
        for delete in index.of(entry):
            by_key = delete.content == "equality-deletes"
            if by_key or (not absorbed and positions.stored(delete, path)):
                yield delete, path
