"""Deletes of an earlier member of a transaction, and a later one that writes files anew which they are for.

A transaction's own snapshots are no conflict with its later members, which may have been made on what they left, or may
not. Of a rewrite, its rows tell: files that were read with all deletes have so many of them, and not more.
"""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay import rules
from firn.coordinator.replay.conflicts import WindowDeletes
from firn.coordinator.replay.deleted_positions import DeletedPositions
from firn.coordinator.replay.row_conflicts import NO_ROWS
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.delete_index import DeleteIndex
from firn.model.manifest import ManifestEntry
from firn.model.snapshot import Snapshot


def deleted_rows(
    working: Working,
    branch: str,
    own: Sequence[Snapshot],
    rewritten: Sequence[ManifestEntry],
    *,
    positions: DeletedPositions,
    base: int | None,
) -> int:
    """How many rows of rewritten files are deleted by position, as far as it must be known.

    Deletion vectors tell it themselves. Position delete files are read where those of `own`, the snapshots of earlier
    members of the transaction, have rows of the files. Refuses when equality deletes apply to the files then: how many
    rows were read is not known. Prevents: deleted rows coming back.
    """
    live = working.deletes(branch)
    came = WindowDeletes(working, [snapshot for snapshot in own if snapshot.operation != "replace"])
    if not any(_names_rows(came, entry.data_file, positions) for entry in rewritten):
        return sum(one.file.record_count for entry in rewritten for one in live.vectors_of(entry.data_file.file_path))
    assert working.metadata is not None
    index = DeleteIndex(
        (one.entry for one in live),
        specs={spec.spec_id: spec for spec in working.metadata.partition_specs},
        schemas=(working.metadata.current_schema, *working.metadata.schemas),
    )
    deleted = 0
    for entry in rewritten:
        path, applied = entry.data_file.file_path, index.of(entry)
        by_key = next((file for file in applied if file.content == "equality-deletes"), None)
        if by_key is not None:
            rules.NEW_DELETES.refuse(
                f"an earlier member of the transaction has deleted rows of the rewritten files, and equality deletes "
                f"({by_key.file_path}) are for {path}: whether the rewrite was made with the former cannot be told",
                files=(path,),
                base=base,
                hint="fix",
            )
        deleted += len(NO_ROWS.union(*(positions.stored(file, path).bitmap for file in applied)))
    return deleted


def _names_rows(came: WindowDeletes, file: DataFile, positions: DeletedPositions) -> bool:
    """Whether some of the deletes are of rows of this very file."""
    return any(positions.stored(delete, file.file_path) for delete in came.positions(file))
