"""Branches and tags: create, move, rename, remove and keep them (table specification, "Snapshot References").

Each function is pure and returns the metadata with the reference changed, the same metadata when nothing changes.
NotFound and AlreadyExists name references and snapshots, InvalidInput what a reference may not do.
"""

from __future__ import annotations

import msgspec

from firn.model.ancestry import ancestors_of, is_ancestor
from firn.model.errors import AlreadyExists, InvalidInput, NotFound
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import next_timestamp_ms, remove_ref, with_ref
from firn.model.snapshot import MAIN_BRANCH, RefType, SnapshotRef, check_ref

replace = msgspec.structs.replace


def set_ref(metadata: TableMetadata, name: str, ref: SnapshotRef, *, now_ms: int) -> TableMetadata:
    """The metadata with the reference as given, new or changed: what the REST update ``set-snapshot-ref`` does."""
    if metadata.ref(name) == ref:
        return metadata
    if not name:
        raise InvalidInput("a reference must have a name", where="refs")
    if metadata.snapshot_by_id(ref.snapshot_id) is None:
        raise NotFound(f"cannot set {name} to unknown snapshot: {ref.snapshot_id}")
    if name == MAIN_BRANCH and ref.type != "branch":
        raise InvalidInput(f"cannot set {MAIN_BRANCH} to a tag, it must be a branch", where=f"refs.{name}")
    check_ref(ref, where=f"refs.{name}")
    return with_ref(replace(metadata, last_updated_ms=next_timestamp_ms(metadata, now_ms)), name, ref)


def create(metadata: TableMetadata, name: str, ref: SnapshotRef, *, now_ms: int) -> TableMetadata:
    """The metadata with a new branch or tag; the name must be free."""
    if metadata.ref(name) is not None:
        raise AlreadyExists(f"ref {name} already exists")
    return set_ref(metadata, name, ref, now_ms=now_ms)


def replace_with_snapshot(
    metadata: TableMetadata, name: str, *, type: RefType, snapshot_id: int, now_ms: int
) -> TableMetadata:
    """The metadata with an existing branch or tag at another snapshot; its retention settings stay."""
    ref = _existing(metadata, name, type)
    return set_ref(metadata, name, replace(ref, snapshot_id=snapshot_id), now_ms=now_ms)


def replace_branch(metadata: TableMetadata, branch: str, *, to: str, now_ms: int) -> TableMetadata:
    """The metadata with a branch where the reference `to` is, whatever the branch pointed at; created when missing."""
    return _move(metadata, branch, to=to, now_ms=now_ms)


def fast_forward(metadata: TableMetadata, branch: str, *, to: str, now_ms: int) -> TableMetadata:
    """The metadata with a branch moved ahead to the reference `to`, losing nothing; created when missing."""
    target, ref = _existing(metadata, to, None), metadata.ref(branch)
    if ref is not None and not is_ancestor(metadata, ancestor_id=ref.snapshot_id, descendant_id=target.snapshot_id):
        raise InvalidInput(f"cannot fast-forward: {branch} is not an ancestor of {to}", where=f"refs.{branch}")
    return _move(metadata, branch, to=to, now_ms=now_ms)


def _move(metadata: TableMetadata, branch: str, *, to: str, now_ms: int) -> TableMetadata:
    target = _existing(metadata, to, None)
    if metadata.ref(branch) is None:
        new = SnapshotRef(snapshot_id=target.snapshot_id, type="branch")
        return create(metadata, branch, new, now_ms=now_ms)
    return replace_with_snapshot(metadata, branch, type="branch", snapshot_id=target.snapshot_id, now_ms=now_ms)


def remove(metadata: TableMetadata, name: str, *, type: RefType, now_ms: int) -> TableMetadata:
    """The metadata without a branch or tag; its snapshots stay until they expire."""
    if name == MAIN_BRANCH:
        raise InvalidInput("cannot remove main branch", where=f"refs.{name}")
    _existing(metadata, name, type)
    return remove_ref(metadata, name, now_ms=now_ms)


def rename_branch(metadata: TableMetadata, name: str, *, new_name: str, now_ms: int) -> TableMetadata:
    """The metadata with a branch under another, free name."""
    if name == MAIN_BRANCH:
        raise InvalidInput("cannot rename main branch", where=f"refs.{name}")
    ref = _existing(metadata, name, "branch")
    return remove_ref(create(metadata, new_name, ref, now_ms=now_ms), name, now_ms=now_ms)


def set_retention(
    metadata: TableMetadata,
    name: str,
    *,
    now_ms: int,
    min_snapshots_to_keep: int | None = None,
    max_snapshot_age_ms: int | None = None,
    max_ref_age_ms: int | None = None,
) -> TableMetadata:
    """The metadata with some of a reference's retention settings changed; None leaves a setting as it is."""
    ref = _existing(metadata, name, None)
    if name == MAIN_BRANCH and max_ref_age_ms is not None:
        raise InvalidInput("main never expires", where=f"refs.{name}.max-ref-age-ms")
    changed = replace(
        ref,
        min_snapshots_to_keep=ref.min_snapshots_to_keep if min_snapshots_to_keep is None else min_snapshots_to_keep,
        max_snapshot_age_ms=ref.max_snapshot_age_ms if max_snapshot_age_ms is None else max_snapshot_age_ms,
        max_ref_age_ms=ref.max_ref_age_ms if max_ref_age_ms is None else max_ref_age_ms,
    )
    return set_ref(metadata, name, changed, now_ms=now_ms)


def set_current(metadata: TableMetadata, snapshot_id: int, *, now_ms: int, branch: str = MAIN_BRANCH) -> TableMetadata:
    """The metadata with a branch at any of the table's snapshots."""
    if metadata.snapshot_by_id(snapshot_id) is None:
        raise NotFound(f"cannot set {branch} to unknown snapshot: {snapshot_id}")
    if metadata.ref(branch) is None:
        return set_ref(metadata, branch, SnapshotRef(snapshot_id=snapshot_id, type="branch"), now_ms=now_ms)
    return replace_with_snapshot(metadata, branch, type="branch", snapshot_id=snapshot_id, now_ms=now_ms)


def roll_back(metadata: TableMetadata, snapshot_id: int, *, now_ms: int, branch: str = MAIN_BRANCH) -> TableMetadata:
    """The metadata with a branch back at one of its ancestors. Sequence numbers and row ids are not given back."""
    if metadata.snapshot_by_id(snapshot_id) is None:
        raise NotFound(f"cannot roll back to unknown snapshot id: {snapshot_id}")
    head = metadata.head(branch)
    if not is_ancestor(metadata, ancestor_id=snapshot_id, descendant_id=None if head is None else head.snapshot_id):
        raise InvalidInput(
            f"cannot roll back to snapshot, not an ancestor of the current state of {branch}: {snapshot_id}",
            where=f"refs.{branch}",
        )
    return set_current(metadata, snapshot_id, now_ms=now_ms, branch=branch)


def snapshot_before(metadata: TableMetadata, timestamp_ms: int, *, branch: str = MAIN_BRANCH) -> int:
    """The newest of a branch's snapshots older than `timestamp_ms`, for rolling back to a time."""
    head = metadata.head(branch)
    older = [
        snapshot
        for snapshot in ancestors_of(metadata, None if head is None else head.snapshot_id)
        if snapshot.timestamp_ms < timestamp_ms
    ]
    if not older:
        raise NotFound(f"cannot roll back, no valid snapshot older than: {timestamp_ms}")
    return max(older, key=lambda snapshot: snapshot.timestamp_ms).snapshot_id


def _existing(metadata: TableMetadata, name: str, type: RefType | None) -> SnapshotRef:
    ref = metadata.ref(name)
    if ref is None:
        raise NotFound(f"{'ref' if type is None else type} does not exist: {name}")
    if type is not None and ref.type != type:
        raise InvalidInput(f"ref {name} is a {ref.type} not a {type}", where=f"refs.{name}")
    return ref
