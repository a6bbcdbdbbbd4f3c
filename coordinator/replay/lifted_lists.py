"""What a client's snapshot changes, by the difference of its manifest list and its parent's (decision 39).

Only manifests that one of the two lists names alone are opened. Nothing that the client wrote is believed: the live
files show what came and went, and the statuses of entries have to agree with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.ancestry import reading_files_of
from firn.coordinator.replay.draft import ManifestRef, location_of
from firn.coordinator.replay.files_rules import require_allowed
from firn.coordinator.replay.live_deletes import DeleteKey, delete_key
from firn.coordinator.replay.working import Working
from firn.coordinator.replay.written_manifests import ReadManifest
from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile, InvalidInput, NotFound, Unsupported
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER, ManifestEntry, ManifestFile, Status
from firn.model.operations.files import WrittenManifest
from firn.model.snapshot import Snapshot
from firn.storage.locations import canonical

UNREADABLE: Final = (CorruptFile, InvalidInput, NotFound, Unsupported)

FileKey = tuple[bool, DeleteKey]
"""Whether a file is of data, and its name; of vectors with their offset."""


class Source(msgspec.Struct, frozen=True, eq=False):
    """A manifest of a list. `author` is the client's snapshot that brought it, None where the table has it."""

    manifest: ManifestRef
    author: Snapshot | None = None


Manifests = Mapping[str, Source]
"""A manifest list by the canonical names of its manifests."""


class ListDifference(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one snapshot of a client changes.

    `numbers` are the data sequence numbers that added files and equality deletes come with. `fresh` are manifests of
    added data files alone, exactly as they are stored. `put` and `dropped` are the manifests that only one of the lists
    has. `oldest` is the age of the oldest data file as far as the client's list says.
    """

    snapshot: Snapshot
    added: tuple[ManifestEntry, ...]
    removed: tuple[ManifestEntry, ...]
    numbers: frozenset[int]
    fresh: tuple[ReadManifest, ...]
    put: tuple[WrittenManifest, ...]
    dropped: tuple[str, ...]
    oldest: int

    def added_files(self, *, data: bool) -> list[DataFile]:
        """The added files, of data or of deletes."""
        return [one.data_file for one in self.added if (one.data_file.content == "data") == data]

    def removed_files(self, *, data: bool) -> list[DataFile]:
        """The removed files, of data or of deletes."""
        return [one.data_file for one in self.removed if (one.data_file.content == "data") == data]


def parent_manifests(working: Working, parent: Snapshot | None) -> Manifests:
    """The list of the snapshot that a client planned on; refuses `unknown-base` where its files are gone."""
    if parent is None:
        return {}
    with reading_files_of(working, parent):
        return {canonical(location_of(one)): Source(one) for one in working.manifests_of(parent)}


def client_manifests(working: Working, snapshot: Snapshot, before: Manifests) -> Manifests:
    """The list of a client's snapshot; of manifests that the list before it has, the row of that one counts."""
    metadata, location = working.metadata, snapshot.manifest_list
    assert metadata is not None
    if location is None or snapshot.key_id is not None:
        _refuse(f"snapshot {snapshot.snapshot_id} names no manifest list, or an encrypted one")
    require_allowed(working, location, where=f"snapshot {snapshot.snapshot_id}.manifest-list")
    try:
        listed = working.reader.manifests(metadata, snapshot)
    except UNREADABLE as error:
        _refuse(f"{location} cannot be read: {error}", location)
    manifests: dict[str, Source] = {}
    for row in listed:
        name = canonical(row.manifest_path)
        if name in manifests:
            _refuse(f"{location} lists {row.manifest_path} twice", row.manifest_path)
        known = before.get(name)
        if known is None:
            _require_openable(working, row)
        manifests[name] = Source(row, snapshot) if known is None else known
    return manifests


def _require_openable(working: Working, row: ManifestFile) -> None:
    metadata, path = working.metadata, row.manifest_path
    assert metadata is not None
    require_allowed(working, path, where="manifest-path")
    if row.key_metadata is not None:
        _refuse(f"{path} is encrypted", path)
    if metadata.spec_by_id(row.partition_spec_id) is None:
        _refuse(f"{path}: the table has no partition spec {row.partition_spec_id}", path)


def difference(
    working: Working, snapshot: Snapshot, before: Manifests, after: Manifests, *, parent: Snapshot | None
) -> ListDifference:
    """What came and went between the two lists; refuses where statuses and live files contradict each other.

    Prevents: files that go without anybody having removed them, because a list was cut or made on another base; files
    that come twice; rows that are taken for new because they stand in a new manifest.
    """
    had = _live_before(working, [one for name, one in before.items() if name not in after], parent)
    kept: set[FileKey] = set()
    added: dict[FileKey, ManifestEntry] = {}
    gone: set[FileKey] = set()
    numbers: set[int] = set()
    fresh: list[ReadManifest] = []
    put: list[WrittenManifest] = []
    for name, source in after.items():
        if name in before:
            continue
        row, stored = source.manifest, _stored(working, source)
        assert isinstance(row, ManifestFile)
        written = _written(row, stored)
        put.append(written)
        for entry in stored:
            key = _key(entry.data_file)
            _require_agreement(snapshot, row, entry, had.get(key))
            if entry.status is Status.DELETED:
                gone |= {key} if _author(entry, row) == snapshot.snapshot_id else set()
                continue
            if key in kept or key in added:
                _refuse(f"{entry.data_file.file_path} is listed twice", entry.data_file.file_path)
            if entry.status is Status.EXISTING:
                kept.add(key)
                continue
            added[key] = entry
            if entry.sequence_number not in {None, snapshot.sequence_number}:
                numbers |= {entry.sequence_number} if entry.data_file.content != "position-deletes" else set()
        if row.content == "data" and all(_is_fresh(entry) for entry in stored):
            fresh.append(ReadManifest(written, tuple(stored)))
    removed = {key: entry for key, entry in had.items() if key not in kept}
    if gone != removed.keys():
        ((_, (path, _)), *_) = sorted(gone ^ removed.keys(), key=str)
        _refuse(
            f"snapshot {snapshot.snapshot_id}: {path} is gone from its list without being deleted, or is deleted and "
            f"was not in its parent's list, or still is",
            path,
        )
    of_data = [one.manifest for one in after.values() if one.manifest.content == "data"]
    ages = [one.min_sequence_number if isinstance(one, ManifestFile) else 0 for one in of_data]
    return ListDifference(
        snapshot=snapshot,
        added=tuple(added.values()),
        removed=tuple(removed.values()),
        numbers=frozenset(numbers),
        fresh=tuple(fresh),
        put=tuple(put),
        dropped=tuple(location_of(one.manifest) for name, one in before.items() if name not in after),
        oldest=min((age for age in ages if age >= 0), default=0),
    )


def _live_before(working: Working, sources: Sequence[Source], parent: Snapshot | None) -> dict[FileKey, ManifestEntry]:
    had: dict[FileKey, ManifestEntry] = {}
    for source in sources:
        for entry in _entries(working, source, parent):
            if not entry.is_live:
                continue
            key = _key(entry.data_file)
            if key in had:
                _refuse(f"{entry.data_file.file_path} is listed twice in the parent", entry.data_file.file_path)
            had[key] = entry
    return had


def _entries(working: Working, source: Source, parent: Snapshot | None) -> Sequence[ManifestEntry]:
    """The entries of a manifest that was there before, with their ages."""
    author = source.author
    if author is not None:
        return [
            msgspec.structs.replace(entry, sequence_number=author.sequence_number)
            if entry.sequence_number is None
            else entry
            for entry in _stored(working, source)
        ]
    assert parent is not None
    with reading_files_of(working, parent):
        return working.entries(source.manifest)


def _stored(working: Working, source: Source) -> Sequence[ManifestEntry]:
    """The entries of a client's manifest as they are stored; what they leave to inherit is None."""
    metadata, row = working.metadata, source.manifest
    assert metadata is not None
    assert isinstance(row, ManifestFile)
    number = UNASSIGNED_SEQUENCE_NUMBER if metadata.format_version > 1 else 0
    bare = ManifestFile(
        manifest_path=row.manifest_path,
        manifest_length=row.manifest_length,
        partition_spec_id=row.partition_spec_id,
        content=row.content,
        sequence_number=number,
        min_sequence_number=number,
        added_snapshot_id=None,
    )
    try:
        return working.reader.written_entries(metadata, bare)
    except UNREADABLE as error:
        _refuse(f"{row.manifest_path} cannot be read: {error}", row.manifest_path)


def _require_agreement(snapshot: Snapshot, row: ManifestFile, entry: ManifestEntry, had: ManifestEntry | None) -> None:
    """Refuse an entry whose status is not what the lists show of its file."""
    file, status = entry.data_file, entry.status
    path = file.file_path
    if (file.content == "data") != (row.content == "data"):
        _refuse(f"{row.manifest_path} of {row.content} lists {path}, which is of {file.content}", path)
    if status is Status.ADDED:
        if _author(entry, row) != snapshot.snapshot_id:
            _refuse(f"{path} is listed as added by snapshot {_author(entry, row)}, in a manifest that is new", path)
        if had is not None:
            _refuse(f"{path} is listed as added, and was there before", path)
    elif status is Status.EXISTING:
        if had is None:
            _refuse(f"{path} is listed as existing, and was not in a manifest that the list replaces", path)
        same = (had.sequence_number or 0, had.data_file.record_count, had.data_file.file_size_in_bytes)
        if (entry.sequence_number or 0, file.record_count, file.file_size_in_bytes) != same:
            _refuse(f"{path} is listed as existing with another age, size or number of rows than it has", path)


def _author(entry: ManifestEntry, row: ManifestFile) -> int | None:
    return row.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id


def _is_fresh(entry: ManifestEntry) -> bool:
    """Whether an entry leaves its age and row ids to the commit, and so may stay in the manifest that it is in."""
    numbered = (entry.sequence_number, entry.file_sequence_number, entry.data_file.first_row_id) != (None,) * 3
    return entry.status is Status.ADDED and not numbered


def _written(row: ManifestFile, stored: Sequence[ManifestEntry]) -> WrittenManifest:
    return WrittenManifest(
        manifest_path=row.manifest_path,
        manifest_length=row.manifest_length,
        partition_spec_id=row.partition_spec_id,
        content=row.content,
        files_count=len(stored),
        rows_count=sum(entry.data_file.record_count for entry in stored),
    )


def _key(file: DataFile) -> FileKey:
    return file.content == "data", delete_key(file)


def _refuse(reason: str, *files: str) -> NoReturn:
    rules.LIST_CONTRADICTS.refuse(reason, files=files)
