"""Rules about branches, tags and snapshots that several operations share. Each says which loss it prevents."""

from __future__ import annotations

from typing import Any, Final

from firn.coordinator.replay import rules
from firn.coordinator.replay.working import Working
from firn.model.ancestry import ancestors_of
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.metadata import TableMetadata
from firn.model.new_names import check_new_ref_name
from firn.model.snapshot import MAIN_BRANCH, Snapshot, SnapshotRef

LISTED_MAX: Final = 100
"""Snapshots listed in one outcome; a count says how many there were."""


def require_free(metadata: TableMetadata, name: str) -> None:
    """Refuse a name that a branch or tag has, or that none may have.

    Prevents: two writers who each think that the branch is theirs; branches that look like another.
    """
    taken = metadata.ref(name)
    if taken is not None:
        rules.REF_EXISTS.refuse(
            f"there is a {taken.type} {name!r} already, at snapshot {taken.snapshot_id}",
            winner=metadata.snapshot_by_id(taken.snapshot_id),
        )
    try:
        check_new_ref_name(name)
    except InvalidInput as error:
        rules.INVALID_REF.refuse(str(error))


def require_ref(metadata: TableMetadata, name: str, *, expected: int | None) -> SnapshotRef:
    """The branch or tag; refuses when there is none, or when it is not where its writer saw it (`expected`).

    Prevents: commits that came to a branch in the meantime falling off it, and nobody knows.
    """
    ref = metadata.ref(name)
    if ref is None:
        rules.UNKNOWN_REF.refuse(f"there is no branch or tag {name!r}")
    _require_expected(metadata, f"{ref.type} {name!r}", ref.snapshot_id, expected=expected)
    return ref


def head_of(metadata: TableMetadata, branch: str, *, expected: int | None) -> int | None:
    """Where a branch is, None for the main of an empty table; refuses as `require_ref`, and tags: they do not move."""
    ref = metadata.ref(branch)
    if ref is None and branch != MAIN_BRANCH:
        rules.UNKNOWN_BRANCH.refuse(f"there is no branch {branch!r}")
    if ref is not None and ref.type != "branch":
        rules.NOT_A_BRANCH.refuse(f"{branch!r} is a tag: it does not move")
    head = None if ref is None else ref.snapshot_id
    _require_expected(metadata, f"branch {branch!r}", head, expected=expected)
    return head


def _require_expected(metadata: TableMetadata, what: str, found: int | None, *, expected: int | None) -> None:
    if expected is not None and found != expected:
        rules.REF_MOVED.refuse(
            f"{what} is at snapshot {found} now, not at {expected}",
            winner=None if found is None else metadata.snapshot_by_id(found),
            base=expected,
        )


def require_snapshot(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """The snapshot; refuses one that the table does not have.

    Prevents: a reference or a statistics file that leads nowhere, because the snapshot was expired in the meantime.
    """
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        rules.UNKNOWN_SNAPSHOT.refuse(f"the table has no snapshot {snapshot_id} (any more)")
    return snapshot


def require_readable(working: Working, snapshot_id: int) -> None:
    """Refuse a snapshot whose manifest list cannot be read; raises Unavailable where the store does not answer.

    Prevents: a branch that is moved to a damaged snapshot, and refuses every later commit.
    """
    metadata = working.metadata
    assert metadata is not None
    snapshot = require_snapshot(metadata, snapshot_id)
    if any(draft.snapshot.snapshot_id == snapshot_id for draft in working.snapshots):
        return  # made by this swap, which writes its list
    try:
        working.reader.manifests(metadata, snapshot)
    except (CorruptFile, InvalidInput, NotFound) as error:
        rules.UNREADABLE_SNAPSHOT.refuse(
            f"snapshot {snapshot_id} cannot be read: {error}; restore the file, or name another snapshot",
            files=() if snapshot.manifest_list is None else (snapshot.manifest_list,),
        )


def fallen_off(metadata: TableMetadata, was_at: int | None, *, now_at: int) -> dict[str, Any]:
    """The snapshots that were in a branch's history and are not any more, newest first, for an outcome's details."""
    kept = {snapshot.snapshot_id for snapshot in ancestors_of(metadata, now_at)}
    lost = [s.snapshot_id for s in ancestors_of(metadata, was_at) if s.snapshot_id not in kept]
    return {"fallen-off": lost[:LISTED_MAX], "fallen-off-count": len(lost)} if lost else {}
