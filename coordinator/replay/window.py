"""The window: the snapshots between the one an intent was planned on and the head it is replayed on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from firn.coordinator.replay import rules
from firn.coordinator.replay.ancestry import is_kept, lineage, reading_files_of
from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.live_deletes import DeleteKey, delete_key
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.snapshot import Snapshot
from firn.storage.locations import canonical

REMOVERS_READ_MAX: Final = 100
"""Removing snapshots looked at to name the winner of a conflict when the intent has no base: a courtesy, bounded."""

DROPPED_LOOKED_AT_MAX: Final = 50_000
"""Snapshots which the table has dropped that are looked at for one intent: two files each, a minute of reading."""

ADDED_DATA: Final = frozenset({"append", "overwrite"})
"""Operations of snapshots whose data files are new rows. A compaction's are not."""

REMOVED_DATA: Final = frozenset({"overwrite", "replace", "delete"})
ADDED_DELETES: Final = frozenset({"overwrite", "delete"})
ADDED_VECTORS: Final = frozenset({"overwrite", "delete", "replace"})

_KNOWN: Final = ADDED_DATA | REMOVED_DATA


def window(working: Working, branch: str, *, base_snapshot_id: int | None, appends: bool = True) -> list[Snapshot]:
    """Snapshots after the base up to the head, newest first; base None is the empty branch.

    What earlier members of the same transaction did is not in it. With `appends` off, of the snapshots that the table
    has dropped those that only appended are left out, but for the oldest that gave ids to rows: a day may have hundreds
    of thousands of them.

    The base itself may have been expired, as long as all that came after it is known. Refuses `unknown-base` when it
    is not reached: what cannot be validated is not committed.
    """
    found: list[Snapshot] = []
    if working.head(branch).snapshot_id == base_snapshot_id:
        return found
    history = lineage(working, branch)
    first_given: Snapshot | None = None
    looked_at = 0
    for snapshot in history:
        if snapshot.snapshot_id not in working.own:
            dropped = not is_kept(working, snapshot)
            if not dropped or appends or snapshot.operation != "append":
                found.append(snapshot)
                looked_at += dropped
            if snapshot.first_row_id is not None:
                first_given = snapshot
            if looked_at > DROPPED_LOOKED_AT_MAX:
                rules.UNKNOWN_BASE.refuse(
                    f"more than {DROPPED_LOOKED_AT_MAX:,} snapshots that the table has dropped since, which would all "
                    f"have to be looked at, came to {branch!r} after what the intent was planned on",
                    base=base_snapshot_id,
                )
        if snapshot.parent_snapshot_id == base_snapshot_id:
            return found if appends else _with(found, first_given)
    planned = "the empty branch" if base_snapshot_id is None else f"snapshot {base_snapshot_id}"
    why = "" if history.trouble is None else f"; not all that the table has dropped is known: {history.trouble}"
    return rules.UNKNOWN_BASE.refuse(
        f"the history of {branch!r} does not lead back to {planned}, which the intent was planned on "
        f"(it was expired with what followed, or is not an ancestor of the head{why})",
        base=base_snapshot_id,
    )


def _with(found: list[Snapshot], one: Snapshot | None) -> list[Snapshot]:
    """A window with one more of its snapshots, if that is not in it, in order."""
    if one is None or any(one.snapshot_id == other.snapshot_id for other in found):
        return found
    return sorted([*found, one], key=lambda snapshot: snapshot.sequence_number, reverse=True)


def own_snapshots(working: Working, branch: str) -> list[Snapshot]:
    """Snapshots of a branch that earlier members of the same transaction made, newest first.

    They are no conflict (`window`); a member whose files show that it was made without them is asked about them all
    the same.
    """
    if not working.own:
        return []
    return list(itertools.takewhile(lambda snapshot: snapshot.snapshot_id in working.own, lineage(working, branch)))


def manifests_of(working: Working, snapshot: Snapshot) -> Sequence[ManifestRef]:
    """Return the manifests of a snapshot that the table has or had; refuses one whose list went after it."""
    with reading_files_of(working, snapshot):
        return working.manifests_of(snapshot)


def entries_of(working: Working, snapshot: Snapshot, manifest: ManifestRef) -> Sequence[ManifestEntry]:
    """Return the entries of one of its manifests; refuses as `manifests_of`."""
    with reading_files_of(working, snapshot):
        return working.entries(manifest)


def made_by(snapshot: Snapshot, manifests: Sequence[ManifestRef]) -> Iterator[ManifestRef]:
    """The manifests that the snapshot itself wrote."""
    for manifest in manifests:
        author = manifest.added_snapshot_id if isinstance(manifest, ManifestFile) else manifest.snapshot_id
        if author == snapshot.snapshot_id:
            yield manifest


def _is_one_of(snapshot: Snapshot, operations: frozenset[str]) -> bool:
    """Whether the snapshot's operation is one of these; one that is not known may be any."""
    return snapshot.operation in operations or snapshot.operation not in _KNOWN


def _entries(
    working: Working, snapshot: Snapshot, *, content: ManifestContent, status: Status
) -> Iterator[ManifestEntry]:
    """What the snapshot itself added or deleted."""
    for manifest in made_by(snapshot, manifests_of(working, snapshot)):
        if manifest.content != content or (isinstance(manifest, ManifestFile) and _has_none(manifest, status)):
            continue
        for entry in entries_of(working, snapshot, manifest):
            if entry.status is status and entry.snapshot_id == snapshot.snapshot_id:
                yield entry


def _has_none(manifest: ManifestFile, status: Status) -> bool:
    return (manifest.added_files_count if status is Status.ADDED else manifest.deleted_files_count) == 0


def added_data(working: Working, since: Sequence[Snapshot]) -> Iterator[tuple[Snapshot, ManifestEntry]]:
    """Data files with rows that the snapshots of a window added."""
    for snapshot in since:
        if _is_one_of(snapshot, ADDED_DATA):
            for entry in _entries(working, snapshot, content="data", status=Status.ADDED):
                yield snapshot, entry


def removed_data(working: Working, since: Sequence[Snapshot]) -> Iterator[tuple[Snapshot, ManifestEntry]]:
    """Data files that the snapshots of a window removed."""
    for snapshot in since:
        if _is_one_of(snapshot, REMOVED_DATA):
            for entry in _entries(working, snapshot, content="data", status=Status.DELETED):
                yield snapshot, entry


def added_deletes(working: Working, since: Sequence[Snapshot]) -> Iterator[tuple[Snapshot, ManifestEntry]]:
    """Delete files that the snapshots of a window added; of rewrites only deletion vectors.

    All of them are newer than the base, whatever its sequence number was and the head's is.
    """
    for snapshot in since:
        if _is_one_of(snapshot, ADDED_VECTORS):
            every = _is_one_of(snapshot, ADDED_DELETES)
            for entry in _entries(working, snapshot, content="deletes", status=Status.ADDED):
                if every or entry.data_file.is_deletion_vector:
                    yield snapshot, entry


def remover_of(working: Working, branch: str, locations: set[str], *, since: int | None) -> Snapshot | None:
    """The newest snapshot that removed one of the data files, if it can be found between the head and `since`."""
    names = set(map(canonical, locations))
    return _remover_of(working, branch, "data", lambda file: canonical(file.file_path) in names, since=since)


def deletes_remover_of(
    working: Working, branch: str, keys: Collection[DeleteKey], *, since: int | None
) -> Snapshot | None:
    """Return what `remover_of` does, of delete files."""
    return _remover_of(working, branch, "deletes", lambda file: delete_key(file) in keys, since=since)


def _remover_of(
    working: Working,
    branch: str,
    content: ManifestContent,
    is_wanted: Callable[[DataFile], bool],
    *,
    since: int | None,
) -> Snapshot | None:
    looked_at = 0
    # Without a base nothing says how far to go back.
    for snapshot in lineage(working, branch, dropped=since is not None):
        if snapshot.snapshot_id == since or looked_at >= REMOVERS_READ_MAX:
            return None
        if snapshot.operation == "append":
            continue
        looked_at += 1
        removed = _entries(working, snapshot, content=content, status=Status.DELETED)
        if any(is_wanted(entry.data_file) for entry in removed):
            return snapshot
    return None
