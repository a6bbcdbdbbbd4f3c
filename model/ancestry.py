"""How snapshots follow one another: each names its parent, which may have expired.

Every walk is bounded by the number of snapshots, so that metadata whose parents form a ring cannot hold up a table.
"""

from __future__ import annotations

from collections.abc import Iterator

from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot


def ancestors_of(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """The snapshot itself, its parent, and so on to the first, or to where the history has expired."""
    for _ in range(len(metadata.snapshots)):
        snapshot = None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            return
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id


def is_ancestor(metadata: TableMetadata, *, ancestor_id: int, descendant_id: int | None) -> bool:
    """Whether one snapshot is the other or in its known history."""
    return any(snapshot.snapshot_id == ancestor_id for snapshot in ancestors_of(metadata, descendant_id))


def snapshots_between(
    metadata: TableMetadata, *, after_id: int | None, until_id: int | None
) -> tuple[Snapshot, ...] | None:
    """The snapshots after `after_id` up to and including `until_id`, newest first; both ends may be the same.

    `after_id` None asks for the whole history of `until_id`. None when `after_id` is not reached: it expired or is
    no ancestor, and what happened since cannot be told.
    """
    if after_id == until_id:
        return () if after_id is None or metadata.snapshot_by_id(after_id) is not None else None
    found: list[Snapshot] = []
    for snapshot in ancestors_of(metadata, until_id):
        if snapshot.snapshot_id == after_id:
            return tuple(found)
        found.append(snapshot)
    is_whole = bool(found) and found[-1].parent_snapshot_id is None
    return tuple(found) if after_id is None and is_whole else None
