"""Publishing a staged snapshot: write-audit-publish and cherry-picking, as far as metadata alone decides it.

A snapshot can be picked in three ways. When its parent is the branch's head, the branch just moves. An append is added
again on top. A replacement of partitions is applied again if the partitions did not change meanwhile; that last check
reads manifests and belongs to replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from firn.model.ancestry import ancestors_of
from firn.model.errors import AlreadyExists, InvalidInput, NotFound
from firn.model.metadata import TableMetadata
from firn.model.snapshot import MAIN_BRANCH, Snapshot

STAGED_WAP_ID: Final = "wap.id"
PUBLISHED_WAP_ID: Final = "published-wap-id"
SOURCE_SNAPSHOT_ID: Final = "source-snapshot-id"
REPLACE_PARTITIONS: Final = "replace-partitions"

PickKind = Literal["fast-forward", "append", "replace-partitions"]


class CherryPick(msgspec.Struct, frozen=True, kw_only=True):
    """How `snapshot` gets onto a branch. `summary` is added to the new snapshot's, unless the branch just moves.

    For ``replace-partitions`` replay must check that the removed files are live and that nothing was added to the
    replaced partitions after the picked snapshot's parent.
    """

    kind: PickKind
    snapshot: Snapshot
    summary: dict[str, str] = {}


def staged_wap_id(snapshot: Snapshot) -> str | None:
    """The write-audit-publish id under which the snapshot was staged."""
    return (snapshot.summary or {}).get(STAGED_WAP_ID) or None


def published_wap_id(snapshot: Snapshot) -> str | None:
    """The write-audit-publish id that the snapshot published."""
    return (snapshot.summary or {}).get(PUBLISHED_WAP_ID) or None


def snapshot_staged_as(metadata: TableMetadata, wap_id: str) -> Snapshot | None:
    """The newest snapshot that was staged under a write-audit-publish id."""
    staged = [snapshot for snapshot in metadata.snapshots if staged_wap_id(snapshot) == wap_id]
    return staged[-1] if staged else None


def is_wap_id_published(
    metadata: TableMetadata, wap_id: str, *, branch: str = MAIN_BRANCH, history: Sequence[Snapshot] | None = None
) -> bool:
    """Whether a branch's history holds what was staged under the id, moved there or picked."""
    if history is None:
        history = _history(metadata, branch)
    return any(wap_id in (staged_wap_id(snapshot), published_wap_id(snapshot)) for snapshot in history)


def _history(metadata: TableMetadata, branch: str) -> Sequence[Snapshot]:
    head = metadata.head(branch)
    return tuple(ancestors_of(metadata, None if head is None else head.snapshot_id))


def plan_cherry_pick(
    metadata: TableMetadata,
    snapshot_id: int,
    *,
    branch: str = MAIN_BRANCH,
    history: Sequence[Snapshot] | None = None,
) -> CherryPick:
    """How a snapshot can be picked onto a branch as it is now.

    `history` is the branch's, newest first, where more of it is known than the metadata has.
    Raises NotFound for an unknown snapshot, AlreadyExists when its changes are on the branch already (itself, picked
    before, or its write-audit-publish id), InvalidInput when it can be picked in no way.
    """
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise NotFound(f"cannot cherry-pick unknown snapshot id: {snapshot_id}")
    head = metadata.head(branch)
    head_id = None if head is None else head.snapshot_id
    if history is None:
        history = _history(metadata, branch)
    kind = _kind(snapshot, head_id, history)
    wap_id = staged_wap_id(snapshot)
    if wap_id is not None and is_wap_id_published(metadata, wap_id, branch=branch, history=history):
        raise AlreadyExists(f"duplicate request to cherry-pick wap id that was published already: {wap_id}")
    if snapshot.parent_snapshot_id == head_id:
        return CherryPick(kind="fast-forward", snapshot=snapshot)
    _check_not_picked(snapshot_id, history)
    summary = {SOURCE_SNAPSHOT_ID: str(snapshot_id)}
    if wap_id is not None:
        summary[PUBLISHED_WAP_ID] = wap_id
    return CherryPick(kind=kind, snapshot=snapshot, summary=summary)


def _kind(snapshot: Snapshot, head_id: int | None, history: Sequence[Snapshot]) -> PickKind:
    parent_id = snapshot.parent_snapshot_id
    if snapshot.operation == "append":
        return "append"
    summary = snapshot.summary or {}
    if snapshot.operation == "overwrite" and summary.get(REPLACE_PARTITIONS, "").lower() == "true":
        # What was added since the parent can only be found where the parent is part of the branch.
        if parent_id is not None and not any(one.snapshot_id == parent_id for one in history):
            raise InvalidInput(
                f"cannot cherry-pick overwrite not based on an ancestor of the current state: {snapshot.snapshot_id}"
            )
        return "replace-partitions"
    if parent_id != head_id:
        raise InvalidInput(
            f"cannot cherry-pick snapshot {snapshot.snapshot_id}: not append, dynamic overwrite, or fast-forward"
        )
    return "fast-forward"


def _check_not_picked(snapshot_id: int, history: Sequence[Snapshot]) -> None:
    for ancestor in history:
        if ancestor.snapshot_id == snapshot_id:
            raise AlreadyExists(f"cannot cherry-pick snapshot {snapshot_id}: already an ancestor")
        if (ancestor.summary or {}).get(SOURCE_SNAPSHOT_ID) == str(snapshot_id):
            raise AlreadyExists(
                f"cannot cherry-pick snapshot {snapshot_id}: already picked to create ancestor {ancestor.snapshot_id}"
            )
