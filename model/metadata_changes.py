"""Changes of table metadata, each a function from one metadata to the next (table specification, "Table Metadata").

Every change moves `last_updated_ms` forward by at least one millisecond, whatever the clock says: readers travel in
time by these numbers, so they never fall and two states never share one.
"""

from __future__ import annotations

import msgspec

from firn.model.errors import InvalidMetadata
from firn.model.metadata import TableMetadata
from firn.model.snapshot import MAIN_BRANCH, MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from firn.model.table_properties import (
    METADATA_PREVIOUS_VERSIONS_MAX,
)

replace = msgspec.structs.replace


def next_timestamp_ms(metadata: TableMetadata, now_ms: int) -> int:
    """The time of a change made now: `now_ms`, or just after the last change when the clock is behind it."""
    return max(now_ms, metadata.last_updated_ms + 1)


def add_snapshot(metadata: TableMetadata, snapshot: Snapshot, *, branch: str | None, now_ms: int) -> TableMetadata:
    """The metadata with a new snapshot as head of `branch`, which is created when it does not exist.

    With `branch` None the snapshot is staged: in the table, named by no reference (write-audit-publish).
    Raises InvalidMetadata when the snapshot does not follow on this metadata: its id is taken, its parent is not the
    branch's head, its sequence number or first row id is not the next.
    """
    if metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
        raise InvalidMetadata(f"snapshot already exists for id {snapshot.snapshot_id}", where="snapshot-id")
    if branch is not None:
        _check_parent(metadata, snapshot, branch)
    added = replace(
        metadata,
        last_updated_ms=max(next_timestamp_ms(metadata, now_ms), snapshot.timestamp_ms),
        last_sequence_number=_checked_sequence_number(metadata, snapshot),
        next_row_id=_next_row_id(metadata, snapshot),
        snapshots=(*metadata.snapshots, snapshot),
    )
    if branch is None:
        return added
    ref = metadata.ref(branch)
    moved = (
        SnapshotRef(snapshot_id=snapshot.snapshot_id, type="branch")
        if ref is None
        else replace(ref, snapshot_id=snapshot.snapshot_id)
    )
    return with_ref(added, branch, moved, logged_ms=snapshot.timestamp_ms)


def _check_parent(metadata: TableMetadata, snapshot: Snapshot, branch: str) -> None:
    ref = metadata.ref(branch)
    if ref is not None and ref.type != "branch":
        raise InvalidMetadata(f"cannot update branch: {branch} is a tag", where=f"refs.{branch}")
    if not branch:
        raise InvalidMetadata("a branch must have a name", where="refs")
    head = None if ref is None else ref.snapshot_id
    # A new branch starts from whatever its first snapshot was built on; an existing one moves from its head only.
    if ref is not None and snapshot.parent_snapshot_id != head:
        raise InvalidMetadata(
            f"{snapshot.parent_snapshot_id} is not the head of {branch}, which is {head}", where="parent-snapshot-id"
        )


def _checked_sequence_number(metadata: TableMetadata, snapshot: Snapshot) -> int:
    """The table's last sequence number with the snapshot in it; numbers are never reused, on no branch."""
    number = snapshot.sequence_number
    if metadata.format_version == 1:
        if number != 0:
            raise InvalidMetadata(f"must be 0 in format v1, not {number}", where="sequence-number")
        return 0
    if number <= metadata.last_sequence_number:
        raise InvalidMetadata(
            f"cannot add snapshot with sequence number {number} older than last sequence number "
            f"{metadata.last_sequence_number}",
            where="sequence-number",
        )
    return number


def _next_row_id(metadata: TableMetadata, snapshot: Snapshot) -> int | None:
    """The table's next row id after the snapshot, past every id in the snapshot's range (v3, "Row Lineage")."""
    first, rows = snapshot.first_row_id, snapshot.added_rows
    if metadata.format_version < 3:
        if first is not None:
            raise InvalidMetadata("row lineage needs format v3", where="first-row-id")
        return None
    if first is None:
        raise InvalidMetadata("cannot add a snapshot: first-row-id is null", where="first-row-id")
    if first < 0:
        raise InvalidMetadata(f"cannot be negative: {first}", where="first-row-id")
    if rows is None or rows < 0:
        raise InvalidMetadata(f"required when first-row-id is set, and not negative: {rows}", where="added-rows")
    next_row_id = metadata.next_row_id or 0
    if first < next_row_id:
        raise InvalidMetadata(
            f"cannot add a snapshot, first-row-id is behind table next-row-id: {first} < {next_row_id}",
            where="first-row-id",
        )
    return first + rows


def with_ref(metadata: TableMetadata, name: str, ref: SnapshotRef, *, logged_ms: int | None = None) -> TableMetadata:
    """The metadata with a reference set, and for ``main`` the current snapshot and the snapshot log with it.

    `logged_ms` is when the log says the change was made; the metadata's last update when not given. Whether the change
    is allowed is the business of `firn.model.refs`.
    """
    refs = {**metadata.refs, name: ref}
    if name != MAIN_BRANCH:
        return replace(metadata, refs=refs)
    entry = SnapshotLogEntry(
        snapshot_id=ref.snapshot_id, timestamp_ms=metadata.last_updated_ms if logged_ms is None else logged_ms
    )
    log = metadata.snapshot_log
    if metadata.current_snapshot_id != ref.snapshot_id or not log:
        log = (*log, entry)
    return replace(metadata, refs=refs, current_snapshot_id=ref.snapshot_id, snapshot_log=log)


def with_metadata_log(
    metadata: TableMetadata, previous_location: str, *, previous_updated_ms: int | None = None
) -> TableMetadata:
    """The metadata with the file it replaces in its log, which keeps the newest `write.metadata.previous-versions-max`.

    `previous_updated_ms` is the replaced metadata's `last_updated_ms`; left out, `metadata` is that metadata itself,
    before any change.
    """
    count_max = max(1, METADATA_PREVIOUS_VERSIONS_MAX.of(metadata.properties))
    entry = MetadataLogEntry(
        metadata_file=previous_location,
        timestamp_ms=metadata.last_updated_ms if previous_updated_ms is None else previous_updated_ms,
    )
    return replace(metadata, metadata_log=(*metadata.metadata_log, entry)[-count_max:])
