"""What must hold of a table that other writers made before it is taken over.

The manifests of its branches and tags are read once, and the manifest lists of these and of its newest snapshots: a
table that cannot be read is refused at once, and not with every commit. Manifests that only older snapshots list are
not opened: only time travel reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from firn.coordinator.replay import rules
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile, FirnError, InvalidInput, NotFound, Unsupported
from firn.model.json_members import INT_MAX, LONG_MAX
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.reserved import TABLE_FIELD_ID_MAX
from firn.model.snapshot import Snapshot

UNREADABLE: Final = (CorruptFile, InvalidInput, NotFound, Unsupported)
COLUMNS_LEFT_MIN: Final = 1_000_000
PARTITION_FIELDS_LEFT_MIN: Final = 1_000_000
COMMITS_LEFT_MIN: Final = 10**12

LISTS_READ_MAX: Final = 1_000
"""Newest snapshots whose manifest lists are read, beside those that branches and tags name."""

_METRICS: Final = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")


def require_sound(working: Working, metadata: TableMetadata, *, at: str) -> None:
    """Refuse a table with files that cannot be read, or with counters that its files have passed.

    `at` is its metadata file. Counters that the metadata itself disproves have been raised, as with every reading
    (`firn.model.metadata_counters`); what only manifests show would be forgotten with the next one. Prevents: tables
    that every commit fails on; columns, rows and sequence numbers that share an id with older ones.
    """
    _require_numbers_left(metadata, at=at)
    heads = {ref.snapshot_id for ref in metadata.refs.values()}
    manifests: dict[str, ManifestFile] = {}
    newest = {snapshot.snapshot_id for snapshot in metadata.snapshots[-LISTS_READ_MAX:]}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in newest | heads:
            continue
        listed = _read_list(working, metadata, snapshot)
        _require_listed_in_order(metadata, snapshot, listed)
        if snapshot.snapshot_id in heads:
            manifests |= {manifest.manifest_path: manifest for manifest in listed}
    for manifest in manifests.values():
        _require_counted(metadata, manifest, _read(working, metadata, manifest))


def _require_numbers_left(metadata: TableMetadata, *, at: str) -> None:
    for member, value, left, most in (
        ("last-column-id", metadata.last_column_id, COLUMNS_LEFT_MIN, TABLE_FIELD_ID_MAX),
        ("last-partition-id", metadata.last_partition_id, PARTITION_FIELDS_LEFT_MIN, INT_MAX),
        ("last-sequence-number", metadata.last_sequence_number, COMMITS_LEFT_MIN, LONG_MAX),
    ):
        if value > most - left:
            rules.INVALID_TABLE.refuse(
                f"{at}: {member} is {value:,}, which leaves fewer than {left:,} numbers up to {most:,}", files=(at,)
            )


def _read_list(working: Working, metadata: TableMetadata, snapshot: Snapshot) -> Sequence[ManifestFile]:
    try:
        return working.reader.manifests(metadata, snapshot)
    except UNREADABLE as error:
        location = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
        _refuse(f"the manifest list of snapshot {snapshot.snapshot_id}", location, error)


def _read(working: Working, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
    try:
        return working.reader.stored_entries(metadata, manifest)
    except UNREADABLE as error:
        _refuse("a manifest of the table", manifest.manifest_path, error)


def _refuse(what: str, location: str, error: FirnError) -> NoReturn:
    rules.INVALID_TABLE.refuse(
        f"{what} cannot be read: {error}; bring the file back, or register metadata that does not name it",
        files=(location,),
    )


def _require_listed_in_order(metadata: TableMetadata, snapshot: Snapshot, listed: Sequence[ManifestFile]) -> None:
    """Refuse rows of a manifest list that are younger than their snapshot, or have row ids that others will get."""
    where = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
    for manifest in listed:
        if max(manifest.sequence_number, manifest.min_sequence_number) > snapshot.sequence_number:
            rules.INVALID_TABLE.refuse(
                f"{where}: {manifest.manifest_path} has sequence number {manifest.sequence_number} (least "
                f"{manifest.min_sequence_number}), its snapshot {snapshot.snapshot_id} has {snapshot.sequence_number}",
                files=(where,),
            )
        if metadata.next_row_id is not None and manifest.first_row_id is not None:
            _require_given(metadata, manifest.first_row_id, manifest.live_rows_count or 0, where=where, of=manifest)


def _require_counted(metadata: TableMetadata, manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> None:
    """Refuse files that show a counter to be too low."""
    where = manifest.manifest_path
    for entry in entries:
        file = entry.data_file
        number = max(entry.sequence_number or 0, entry.file_sequence_number or 0)
        if number > metadata.last_sequence_number:
            rules.INVALID_TABLE.refuse(
                f"{where}: {file.file_path} has sequence number {number}, last-sequence-number is "
                f"{metadata.last_sequence_number}",
                files=(where,),
            )
        column = max(_columns(file), default=0)
        if column > metadata.last_column_id:
            rules.INVALID_TABLE.refuse(
                f"{where}: {file.file_path} has metrics of column {column}, last-column-id is "
                f"{metadata.last_column_id}: the next column would take the id of one that was there before",
                files=(where,),
            )
        if metadata.next_row_id is not None and file.first_row_id is not None and entry.is_live:
            _require_given(metadata, file.first_row_id, file.record_count, where=where, of=file)


def _columns(file: DataFile) -> Iterator[int]:
    return (i for name in _METRICS for i in getattr(file, name) or () if i <= TABLE_FIELD_ID_MAX)


def _require_given(
    metadata: TableMetadata, first_row_id: int, rows: int, *, where: str, of: ManifestFile | DataFile
) -> None:
    if not 0 <= first_row_id <= first_row_id + rows <= (metadata.next_row_id or 0):
        path = of.manifest_path if isinstance(of, ManifestFile) else of.file_path
        rules.INVALID_TABLE.refuse(
            f"{where}: the row ids of {path} go from {first_row_id} to {first_row_id + rows}, next-row-id is "
            f"{metadata.next_row_id}: the next rows would take ids that rows have",
            files=(where,),
        )
