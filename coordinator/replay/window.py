"""The window: the snapshots between the one an intent was planned on and the head it is replayed on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firn.coordinator.replay import rules
from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.working import Working
from firn.model.manifest import ManifestFile, Status
from firn.model.snapshot import Snapshot

REMOVERS_READ_MAX: Final = 100
"""Removing snapshots looked at to name the winner of a conflict when the intent has no base: a courtesy, bounded."""


def lineage(working: Working, branch: str) -> Iterator[Snapshot]:
    """Snapshots from the head of `branch` to the oldest ancestor that is still known, newest first."""
    assert working.metadata is not None
    head = working.head(branch).snapshot_id
    snapshot = None if head is None else working.metadata.snapshot_by_id(head)
    seen: set[int] = set()
    while snapshot is not None and snapshot.snapshot_id not in seen:
        seen.add(snapshot.snapshot_id)
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else working.metadata.snapshot_by_id(parent)


def window(working: Working, branch: str, *, base_snapshot_id: int) -> list[Snapshot]:
    """Snapshots after the base up to the head, newest first.

    Refuses `unknown-base` when the base is no ancestor of the head (expired, or of another branch): what cannot be
    validated is not committed.
    """
    found: list[Snapshot] = []
    for snapshot in lineage(working, branch):
        if snapshot.snapshot_id == base_snapshot_id:
            return found
        found.append(snapshot)
    return rules.UNKNOWN_BASE.refuse(
        f"snapshot {base_snapshot_id}, which the intent was planned on, is not in the history of "
        f"{branch!r} any more (it was expired, or is not an ancestor of the head)",
        base=base_snapshot_id,
    )


def made_by(snapshot: Snapshot, manifests: tuple[ManifestRef, ...]) -> Iterator[ManifestRef]:
    """The manifests that the snapshot itself wrote."""
    for manifest in manifests:
        author = manifest.added_snapshot_id if isinstance(manifest, ManifestFile) else manifest.snapshot_id
        if author == snapshot.snapshot_id:
            yield manifest


def remover_of(working: Working, branch: str, locations: set[str], *, since: int | None) -> Snapshot | None:
    """The newest snapshot that removed one of the files, if it can be found between the head and `since`."""
    looked_at = 0
    for snapshot in lineage(working, branch):
        if snapshot.snapshot_id == since or looked_at >= REMOVERS_READ_MAX:
            return None
        if snapshot.operation == "append":
            continue
        looked_at += 1
        for manifest in made_by(snapshot, working.manifests_of(snapshot)):
            if manifest.content != "data" or (isinstance(manifest, ManifestFile) and manifest.deleted_files_count == 0):
                continue
            for entry in working.entries(manifest):
                if entry.status is Status.DELETED and entry.data_file.file_path in locations:
                    return snapshot
    return None
