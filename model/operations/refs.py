"""Operations on branches and tags, and on what a branch points at."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firn.model.operations.common import Count, Name, Operation, SnapshotId

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
SnapshotCount = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class CreateBranch(Operation, frozen=True, kw_only=True, tag="create-branch"):
    """Make a branch at a snapshot of the table; the name must be free. Ages are milliseconds.

    Without a snapshot, the branch starts where main is when its turn comes, and with an empty snapshot where main has
    none.
    """

    ref_name: Name
    snapshot_id: SnapshotId | None = None
    min_snapshots_to_keep: SnapshotCount | None = None
    max_snapshot_age_ms: Positive | None = None
    max_ref_age_ms: Positive | None = None


class CreateTag(Operation, frozen=True, kw_only=True, tag="create-tag"):
    """Make a tag at a snapshot of the table; the name must be free."""

    ref_name: Name
    snapshot_id: SnapshotId
    max_ref_age_ms: Positive | None = None


class SetRef(Operation, frozen=True, kw_only=True, tag="set-ref"):
    """Move a branch or tag to another snapshot, if it still points at `expected_snapshot_id`."""

    ref_name: Name
    snapshot_id: SnapshotId
    expected_snapshot_id: SnapshotId


class RemoveRef(Operation, frozen=True, kw_only=True, tag="remove-ref"):
    """Remove a branch or tag, if it still points at `expected_snapshot_id`; its snapshots stay until they expire."""

    ref_name: Name
    expected_snapshot_id: SnapshotId


class RenameBranch(Operation, frozen=True, kw_only=True, tag="rename-branch"):
    """Give a branch another, free name."""

    ref_name: Name
    new_name: Name
    expected_snapshot_id: SnapshotId | None = None


class FastForward(Operation, frozen=True, kw_only=True, tag="fast-forward"):
    """Move a branch ahead to where the branch or tag `to` is when its turn comes; nothing may be lost by it."""

    branch: Name = "main"
    to: Name
    expected_snapshot_id: SnapshotId | None = None


class SetRetention(Operation, frozen=True, kw_only=True, tag="set-retention"):
    """Change how long a branch or tag, and a branch's snapshots, are kept; what is left out stays as it is."""

    ref_name: Name
    expected_snapshot_id: SnapshotId | None = None
    min_snapshots_to_keep: SnapshotCount | None = None
    max_snapshot_age_ms: Positive | None = None
    max_ref_age_ms: Positive | None = None


class Rollback(Operation, frozen=True, kw_only=True, tag="rollback"):
    """Move a branch back to one of its ancestors: a snapshot, or the newest that is older than `timestamp_ms`."""

    branch: Name = "main"
    snapshot_id: SnapshotId | None = None
    timestamp_ms: Count | None = None
    expected_snapshot_id: SnapshotId | None = None


class SetCurrentSnapshot(Operation, frozen=True, kw_only=True, tag="set-current-snapshot"):
    """Move a branch to any snapshot of the table, related or not."""

    branch: Name = "main"
    snapshot_id: SnapshotId
    expected_snapshot_id: SnapshotId | None = None


class CherryPick(Operation, frozen=True, kw_only=True, tag="cherry-pick"):
    """Apply the changes of a snapshot that is not on the branch to the branch."""

    branch: Name = "main"
    snapshot_id: SnapshotId


class Publish(Operation, frozen=True, kw_only=True, tag="publish"):
    """Cherry-pick the snapshot that was staged under a write-audit-publish id."""

    branch: Name = "main"
    wap_id: Name


RefOperation = (
    CreateBranch
    | CreateTag
    | SetRef
    | RemoveRef
    | RenameBranch
    | FastForward
    | SetRetention
    | Rollback
    | SetCurrentSnapshot
    | CherryPick
    | Publish
)
