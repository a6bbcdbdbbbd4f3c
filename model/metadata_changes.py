"""Changes of table metadata, each a function from one metadata to the next (table specification, "Table Metadata").

Every change moves `last_updated_ms` forward by at least one millisecond, whatever the clock says: readers travel in
time by these numbers, so they never fall and two states never share one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import takewhile
from typing import Any

import msgspec

from firn.model.errors import InvalidMetadata, Unsupported
from firn.model.long_tuples import appended
from firn.model.metadata import FORMAT_VERSION_MAX, TableMetadata, with_index_of
from firn.model.metadata_check import check_encryption_key, check_statistics, check_uuid, strip_slashes
from firn.model.snapshot import MAIN_BRANCH, MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from firn.model.table_properties import (
    FORMAT_VERSION,
    METADATA_PREVIOUS_VERSIONS_MAX,
    check_properties,
    without_reserved,
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
    moves: dict[str, Any] = {}
    if branch is not None:
        ref = metadata.ref(branch)
        moved = (
            SnapshotRef(snapshot_id=snapshot.snapshot_id, type="branch")
            if ref is None
            else replace(ref, snapshot_id=snapshot.snapshot_id)
        )
        moves = _moves(metadata, branch, moved, at_ms=snapshot.timestamp_ms)
    added = replace(
        metadata,
        last_updated_ms=max(next_timestamp_ms(metadata, now_ms), snapshot.timestamp_ms),
        last_sequence_number=_checked_sequence_number(metadata, snapshot),
        next_row_id=_next_row_id(metadata, snapshot),
        snapshots=appended(metadata.snapshots, snapshot),
        **moves,
    )
    return with_index_of(added, metadata)


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
    """The table's last sequence number with the snapshot in it; numbers are not reused where there is a history.

    As in Iceberg, a snapshot without a parent may have an older one: the table is replaced by it.
    """
    number = snapshot.sequence_number
    if metadata.format_version == 1:
        if number != 0:
            raise InvalidMetadata(f"must be 0 in format v1, not {number}", where="sequence-number")
        return 0
    if number <= metadata.last_sequence_number and snapshot.parent_snapshot_id is not None:
        raise InvalidMetadata(
            f"cannot add snapshot with sequence number {number} older than last sequence number "
            f"{metadata.last_sequence_number}",
            where="sequence-number",
        )
    return max(number, metadata.last_sequence_number)


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


def with_ref(metadata: TableMetadata, name: str, ref: SnapshotRef) -> TableMetadata:
    """The metadata with a reference set, and for ``main`` the current snapshot and the snapshot log with it.

    The log says that it was with the metadata's last update. Whether the change is allowed is the business of
    `firn.model.refs`.
    """
    moved = replace(metadata, **_moves(metadata, name, ref, at_ms=metadata.last_updated_ms))
    return with_index_of(moved, metadata)


def _moves(metadata: TableMetadata, name: str, ref: SnapshotRef, *, at_ms: int) -> dict[str, Any]:
    """What is new in the metadata once a reference is set, which the log says was at that time."""
    moves: dict[str, Any] = {"refs": {**metadata.refs, name: ref}}
    if name != MAIN_BRANCH:
        return moves
    log = metadata.snapshot_log
    if log:
        # A snapshot made earlier than the last change, or by a slow clock: readers search the log by time.
        at_ms = max(at_ms, log[-1].timestamp_ms)
    entry = SnapshotLogEntry(snapshot_id=ref.snapshot_id, timestamp_ms=at_ms)
    if metadata.current_snapshot_id != ref.snapshot_id or not log:
        log = appended(log, entry)
    return {**moves, "current_snapshot_id": ref.snapshot_id, "snapshot_log": log}


def with_metadata_log(
    metadata: TableMetadata, previous_location: str, *, previous_updated_ms: int | None = None
) -> TableMetadata:
    """The metadata with the file it replaces in its log, which keeps the newest `write.metadata.previous-versions-max`.

    `previous_updated_ms` is the replaced metadata's `last_updated_ms`; left out, `metadata` is that metadata itself,
    before any change.
    """
    count_max = max(1, METADATA_PREVIOUS_VERSIONS_MAX.sane(metadata.properties))
    entry = MetadataLogEntry(
        metadata_file=previous_location,
        timestamp_ms=metadata.last_updated_ms if previous_updated_ms is None else previous_updated_ms,
    )
    return with_index_of(replace(metadata, metadata_log=(*metadata.metadata_log, entry)[-count_max:]), metadata)


def dropped_metadata_files(metadata: TableMetadata, *, base: TableMetadata) -> tuple[str, ...]:
    """Metadata files that `base` still had in its log and `metadata` has not.

    With ``write.metadata.delete-after-commit.enabled`` they are deleted after the commit.
    """
    kept = {entry.metadata_file for entry in metadata.metadata_log}
    return tuple(entry.metadata_file for entry in base.metadata_log if entry.metadata_file not in kept)


def without_intermediate_snapshots(metadata: TableMetadata, *, base: TableMetadata) -> TableMetadata:
    """The metadata with the log entries of snapshots that no reader of ``main`` ever saw taken out.

    When several snapshots are added to ``main`` between `base` and `metadata`, written in one swap, only the last was
    ever current.
    """
    added = takewhile(  # new ones come behind the others
        lambda snapshot_id: base.snapshot_by_id(snapshot_id) is None,
        (snapshot.snapshot_id for snapshot in reversed(metadata.snapshots)),
    )
    unseen = {snapshot_id for snapshot_id in added if snapshot_id != metadata.current_snapshot_id}
    if not unseen:
        return metadata
    log = tuple(entry for entry in metadata.snapshot_log if entry.snapshot_id not in unseen)
    return replace(metadata, snapshot_log=log)


def remove_ref(metadata: TableMetadata, name: str, *, now_ms: int) -> TableMetadata:
    """The metadata without a reference; without ``main`` there is no current snapshot, and its log stays.

    A name that is not there changes nothing.
    """
    if name not in metadata.refs:
        return metadata
    refs = {other: ref for other, ref in metadata.refs.items() if other != name}
    current_id = None if name == MAIN_BRANCH else metadata.current_snapshot_id
    return replace(
        metadata, refs=refs, current_snapshot_id=current_id, last_updated_ms=next_timestamp_ms(metadata, now_ms)
    )


def remove_snapshots(metadata: TableMetadata, snapshot_ids: Collection[int], *, now_ms: int) -> TableMetadata:
    """The metadata without some snapshots and their statistics.

    The snapshot log loses everything up to the last entry of a removed snapshot: with only that entry gone, readers
    would take the snapshot before it for current at a time when it was not. Ids that are not there change nothing.
    Raises InvalidMetadata for a snapshot that a reference names: dropping a branch must be said, not implied.
    """
    removed = {snapshot_id for snapshot_id in snapshot_ids if metadata.snapshot_by_id(snapshot_id) is not None}
    if not removed:
        return metadata
    for name, ref in metadata.refs.items():
        if ref.snapshot_id in removed:
            raise InvalidMetadata(f"cannot remove snapshot {ref.snapshot_id}: still referenced", where=f"refs.{name}")
    log: list[SnapshotLogEntry] = []
    for entry in metadata.snapshot_log:
        if entry.snapshot_id in removed or metadata.snapshot_by_id(entry.snapshot_id) is None:
            log.clear()
        else:
            log.append(entry)
    return replace(
        metadata,
        snapshots=tuple(snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in removed),
        snapshot_log=tuple(log),
        statistics=tuple(item for item in metadata.statistics if item["snapshot-id"] not in removed),
        partition_statistics=tuple(
            item for item in metadata.partition_statistics if item["snapshot-id"] not in removed
        ),
        last_updated_ms=next_timestamp_ms(metadata, now_ms),
    )


def assign_uuid(metadata: TableMetadata, uuid: str, *, now_ms: int) -> TableMetadata:
    """The metadata with a UUID, for a v1 table that has none; a table never changes the one it has."""
    if metadata.table_uuid == uuid:
        return metadata
    check_uuid(uuid, where="table-uuid")
    if metadata.table_uuid:
        raise InvalidMetadata(f"cannot be reassigned from {metadata.table_uuid} to {uuid}", where="table-uuid")
    return replace(metadata, table_uuid=uuid, last_updated_ms=next_timestamp_ms(metadata, now_ms))


def upgrade(metadata: TableMetadata, format_version: int, *, now_ms: int) -> TableMetadata:
    """The metadata in a newer format version; old snapshots stay as they are, row lineage starts at 0 with v3.

    Raises InvalidMetadata for a downgrade or a table without UUID, Unsupported for a version beyond the newest.
    """
    if format_version == metadata.format_version:
        return metadata
    if format_version < metadata.format_version:
        raise InvalidMetadata(
            f"cannot downgrade v{metadata.format_version} table to v{format_version}", where="format-version"
        )
    if format_version > FORMAT_VERSION_MAX:
        raise Unsupported(
            f"cannot upgrade table to unsupported format v{format_version}, the newest is v{FORMAT_VERSION_MAX}",
            where="format-version",
        )
    if not metadata.table_uuid:
        raise InvalidMetadata(f"required in format v{format_version}: assign one first", where="table-uuid")
    return replace(
        metadata,
        format_version=format_version,
        next_row_id=0 if format_version > 2 else None,
        last_updated_ms=next_timestamp_ms(metadata, now_ms),
    )


def set_location(metadata: TableMetadata, location: str, *, now_ms: int) -> TableMetadata:
    """The metadata with another base location for new files; existing files stay where they are."""
    stripped = strip_slashes(location)
    if not stripped:
        raise InvalidMetadata("must not be empty", where="location")
    if stripped == metadata.location:
        return metadata
    return replace(metadata, location=stripped, last_updated_ms=next_timestamp_ms(metadata, now_ms))


def set_properties(metadata: TableMetadata, updates: Mapping[str, str], *, now_ms: int) -> TableMetadata:
    """The metadata with properties set; ``format-version`` among them upgrades the table and is not stored.

    Raises InvalidMetadata for a value that the property's type refuses, or for another reserved name.
    """
    stored = without_reserved(updates)
    reserved = sorted(set(updates) - set(stored) - {FORMAT_VERSION.name})
    if reserved:
        raise InvalidMetadata(f"cannot set reserved properties: {', '.join(reserved)}", where="properties")
    check_properties(stored)
    if FORMAT_VERSION.name in updates:
        metadata = upgrade(metadata, FORMAT_VERSION.of(updates), now_ms=now_ms)
    if all(metadata.properties.get(name) == value for name, value in stored.items()):
        return metadata
    return replace(
        metadata,
        properties={**metadata.properties, **stored},
        last_updated_ms=next_timestamp_ms(metadata, now_ms),
    )


def remove_properties(metadata: TableMetadata, names: Collection[str], *, now_ms: int) -> TableMetadata:
    """The metadata without some properties; names that are not set change nothing."""
    kept = {name: value for name, value in metadata.properties.items() if name not in names}
    if len(kept) == len(metadata.properties):
        return metadata
    return replace(metadata, properties=kept, last_updated_ms=next_timestamp_ms(metadata, now_ms))


def set_statistics(
    metadata: TableMetadata, statistics: Mapping[str, Any], *, partition: bool = False, now_ms: int
) -> TableMetadata:
    """The metadata with a snapshot's statistics file (or `partition` statistics file), replacing the one it had.

    Raises InvalidMetadata when the snapshot does not exist: nobody would ever remove such an entry, or its file.
    """
    added = dict(statistics)
    check_statistics(added, partition=partition, where="statistics")
    snapshot_id = added["snapshot-id"]
    if metadata.snapshot_by_id(snapshot_id) is None:
        raise InvalidMetadata(f"snapshot {snapshot_id} does not exist", where="statistics.snapshot-id")
    return _with_statistics(metadata, snapshot_id, (added,), partition=partition, now_ms=now_ms)


def remove_statistics(
    metadata: TableMetadata, snapshot_id: int, *, partition: bool = False, now_ms: int
) -> TableMetadata:
    """The metadata without a snapshot's statistics (or `partition` statistics); a no-op when it has none."""
    listed = metadata.partition_statistics if partition else metadata.statistics
    if all(item["snapshot-id"] != snapshot_id for item in listed):
        return metadata
    return _with_statistics(metadata, snapshot_id, (), partition=partition, now_ms=now_ms)


def _with_statistics(
    metadata: TableMetadata, snapshot_id: int, added: tuple[dict[str, Any], ...], *, partition: bool, now_ms: int
) -> TableMetadata:
    listed = metadata.partition_statistics if partition else metadata.statistics
    kept = (*(item for item in listed if item["snapshot-id"] != snapshot_id), *added)
    updated_ms = next_timestamp_ms(metadata, now_ms)
    if partition:
        return replace(metadata, partition_statistics=kept, last_updated_ms=updated_ms)
    return replace(metadata, statistics=kept, last_updated_ms=updated_ms)


def add_encryption_key(metadata: TableMetadata, key: Mapping[str, Any], *, now_ms: int) -> TableMetadata:
    """The metadata with an encryption key (v3); a key id that is there already changes nothing."""
    if metadata.format_version < 3:
        raise InvalidMetadata("encryption keys need format v3", where="encryption-keys")
    added = dict(key)
    check_encryption_key(added, where="encryption-key")
    if any(other["key-id"] == added["key-id"] for other in metadata.encryption_keys):
        return metadata
    return replace(
        metadata,
        encryption_keys=(*metadata.encryption_keys, added),
        last_updated_ms=next_timestamp_ms(metadata, now_ms),
    )


def remove_encryption_key(metadata: TableMetadata, key_id: str, *, now_ms: int) -> TableMetadata:
    """The metadata without an encryption key; a no-op when it has none such."""
    kept = tuple(key for key in metadata.encryption_keys if key["key-id"] != key_id)
    if len(kept) == len(metadata.encryption_keys):
        return metadata
    return replace(metadata, encryption_keys=kept, last_updated_ms=next_timestamp_ms(metadata, now_ms))
