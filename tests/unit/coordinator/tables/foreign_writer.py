"""Another engine that commits to a table: its own manifests, its own lists, in any order that the format allows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from firn.model.datafile import DataFile
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot
from firn.model.snapshot import MAIN_BRANCH, Snapshot
from firn.storage.files import FileStore
from firn.storage.manifest_lists import assign_first_row_ids, assign_sequence_numbers, encode_manifest_list
from firn.storage.manifest_reader import StoredManifests
from firn.storage.manifests import encode_manifest, manifest_file

FIRST_ID = 900_000
_numbers = itertools.count(FIRST_ID)


class ForeignWriter:
    """Writes snapshots of an unpartitioned table into a store; `metadata` is the table as it would commit it.

    `listed` may change the rows of a manifest list before it is written.
    """

    def __init__(
        self,
        files: FileStore,
        metadata: TableMetadata,
        *,
        listed: Callable[[Sequence[ManifestFile]], Sequence[ManifestFile]] = tuple,
    ) -> None:
        self.metadata = metadata
        self._files = files
        self._stored = StoredManifests(files)
        self._listed = listed

    def manifests(self, branch: str = MAIN_BRANCH) -> list[ManifestFile]:
        """What the head of a branch lists."""
        head = self.metadata.head(branch)
        return [] if head is None else list(self._stored.manifests(self.metadata, head))

    def live(self, manifest: ManifestFile) -> list[str]:
        """Locations of a manifest's live files."""
        entries = self._stored.entries(self.metadata, manifest)
        return [entry.data_file.file_path for entry in entries if entry.is_live]

    def append(self, paths: Iterable[str], *, branch: str = MAIN_BRANCH, content: ManifestContent = "data") -> int:
        """Files in a manifest before all others, whether they are live already or not."""
        number = next(_numbers)
        added = [ManifestEntry(status=Status.ADDED, data_file=_file(path, content)) for path in paths]
        return self.list([self._manifest(added, number, content), *self.manifests(branch)], number, branch=branch)

    def delete(self, paths: Collection[str], *, branch: str = MAIN_BRANCH) -> int:
        """Data files are not live any more; their manifests are written anew, with a tombstone for each."""
        number = next(_numbers)
        return self.list(
            [self._without(manifest, paths, number) for manifest in self.manifests(branch)], number, branch=branch
        )

    def merge(self, places: Collection[int], *, branch: str = MAIN_BRANCH) -> int:
        """Some of the data manifests are made into one, which stands where the first of them did."""
        number, manifests = next(_numbers), self.manifests(branch)
        chosen = [one for at, one in enumerate(manifests) if at in places and one.content == "data"]
        if not chosen:
            return self.list(manifests, number, branch=branch)
        entries = [
            msgspec.structs.replace(entry, status=Status.EXISTING)
            for manifest in chosen
            for entry in self._stored.entries(self.metadata, manifest)
            if entry.is_live
        ]
        merged = [] if not entries else [self._manifest(entries, number, "data")]
        at = manifests.index(chosen[0])
        rest = [*manifests[:at], *merged, *(one for one in manifests[at:] if one not in chosen)]
        return self.list(rest, number, branch=branch)

    def list(self, manifests: Sequence[ManifestFile], number: int | None = None, *, branch: str = MAIN_BRANCH) -> int:
        """A snapshot of these manifests, the head of a branch; its id."""
        metadata, number = self.metadata, next(_numbers) if number is None else number
        sequence_number, parent = metadata.next_sequence_number, metadata.head(branch)
        numbered = assign_sequence_numbers(manifests, snapshot_id=number, sequence_number=sequence_number)
        first = added = None
        if metadata.format_version > 2:
            first = metadata.next_row_id or 0
            numbered, end = assign_first_row_ids(numbered, first)
            added = end - first
        rows = self._listed(numbered)
        location = f"{metadata.location}/metadata/snap-{number}-foreign.avro"
        data = encode_manifest_list(
            rows,
            format_version=metadata.format_version,
            snapshot_id=number,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence_number,
            first_row_id=first,
        )
        self._files.create(location, data)
        snapshot = Snapshot(
            snapshot_id=number,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=sequence_number,
            timestamp_ms=metadata.last_updated_ms + 1,
            manifest_list=location,
            summary={"operation": "overwrite"},
            schema_id=metadata.current_schema_id,
            first_row_id=first,
            added_rows=added,
        )
        self.metadata = add_snapshot(metadata, snapshot, branch=branch, now_ms=snapshot.timestamp_ms)
        return number

    def _without(self, manifest: ManifestFile, paths: Collection[str], number: int) -> ManifestFile:
        entries = [entry for entry in self._stored.entries(self.metadata, manifest) if entry.is_live]
        if manifest.content == "deletes" or not any(entry.data_file.file_path in paths for entry in entries):
            return manifest
        return self._manifest(
            [
                msgspec.structs.replace(entry, status=Status.DELETED, snapshot_id=number)
                if entry.data_file.file_path in paths
                else msgspec.structs.replace(entry, status=Status.EXISTING)
                for entry in entries
            ],
            number,
            manifest.content,
        )

    def _manifest(self, entries: Sequence[ManifestEntry], number: int, content: ManifestContent) -> ManifestFile:
        encoded = encode_manifest(
            entries,
            schema=self.metadata.current_schema,
            spec=self.metadata.default_spec,
            content=content,
            format_version=self.metadata.format_version,
            snapshot_id=number,
        )
        location = f"{self.metadata.location}/metadata/{next(_numbers)}-foreign.avro"
        self._files.create(location, encoded.data)
        return manifest_file(encoded, location)


def _file(path: str, content: ManifestContent) -> DataFile:
    return DataFile(
        content="data" if content == "data" else "position-deletes",
        file_path=path,
        file_format="parquet",
        spec_id=0,
        partition=(),
        record_count=1,
        file_size_in_bytes=100,
    )
