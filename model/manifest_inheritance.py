"""What entries take over from their manifest (table specification, "Sequence Number Inheritance", "First Row ID
Inheritance").

Manifests are written before a commit knows its sequence number and row ids, so that a retry rewrites only the manifest
list. The price is paid here, on every read.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from firn.model.errors import InvalidInput
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER, ManifestEntry, ManifestFile, Status


def inherit(entries: Iterable[ManifestEntry], manifest: ManifestFile, *, committed: bool = True) -> list[ManifestEntry]:
    """The entries of a manifest, in its order, with what they leave to the manifest filled in.

    `committed` is false for a manifest that no snapshot names yet: its files keep the row ids that they come with.
    Raises InvalidInput for a live file whose age cannot be known.
    """
    numbered = (_with_numbers(entry, manifest) for entry in entries)
    if manifest.content == "data" and manifest.first_row_id is not None:
        return _with_row_ids(numbered, manifest.first_row_id)
    if not committed:
        return list(numbered)
    # The snapshot is from before row lineage: a row id that a file has all the same was never the table's.
    return [_with_first_row_id(entry, None) for entry in numbered]


def _with_numbers(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    snapshot_id, number, file_number = entry.snapshot_id, entry.sequence_number, entry.file_sequence_number
    if snapshot_id is not None and number is not None and file_number is not None:
        return entry
    if snapshot_id is None:
        snapshot_id = manifest.added_snapshot_id
    commit = manifest.sequence_number
    # Files of v1 tables are of age 0 whatever their status; later, only added files are as old as their manifest.
    if commit == 0 or (entry.status is Status.ADDED and commit != UNASSIGNED_SEQUENCE_NUMBER):
        number = commit if number is None else number
        file_number = commit if file_number is None else file_number
    elif number is None and entry.status is Status.EXISTING:
        raise InvalidInput("an existing file without a data sequence number", where=entry.data_file.file_path)
    return ManifestEntry(
        status=entry.status,
        snapshot_id=snapshot_id,
        sequence_number=number,
        file_sequence_number=file_number,
        data_file=entry.data_file,
    )


def _with_row_ids(entries: Iterable[ManifestEntry], first_row_id: int) -> list[ManifestEntry]:
    """Live files without row ids take ranges one after the other.

    Tombstones take none: the manifest list reserved ids for added and existing rows, and more would run into the next
    manifest's.
    """
    assigned: list[ManifestEntry] = []
    next_row_id = first_row_id
    for entry in entries:
        if entry.is_live and entry.data_file.first_row_id is None:
            assigned.append(_with_first_row_id(entry, next_row_id))
            next_row_id += entry.data_file.record_count
        else:
            assigned.append(entry)
    return assigned


def _with_first_row_id(entry: ManifestEntry, first_row_id: int | None) -> ManifestEntry:
    if entry.data_file.first_row_id == first_row_id:
        return entry
    data_file = msgspec.structs.replace(entry.data_file, first_row_id=first_row_id)
    return msgspec.structs.replace(entry, data_file=data_file)
