"""Reading tables: metadata, manifest lists, manifests, with a bounded cache of what is immutable.

Synchronous, for worker threads. One reader serves all lanes of a daemon; a lock guards its cache.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.replay.file_index import FileIndex
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.live_files import LiveFiles
from firn.coordinator.tables.head_basis import head_basis, known_counts, known_deletes
from firn.coordinator.tables.manifest_cache import ManifestCache
from firn.coordinator.tables.metadata_reader import MetadataReader
from firn.coordinator.tables.read_ahead import ReadAhead
from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector, from_blob
from firn.model.dropped_snapshots import Record
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.history import SUMMARY_BATCH
from firn.model.limits import Limits
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.manifest_inheritance import inherit
from firn.model.manifest_summary import ManifestCounts, count_entries
from firn.model.metadata import TableMetadata
from firn.model.puffin import StatisticsFile
from firn.model.snapshot import Snapshot
from firn.storage.dropped_snapshots import RecordFiles
from firn.storage.files import FileStore
from firn.storage.locations import canonical
from firn.storage.manifest_lists import check_totals
from firn.storage.manifest_paths import live_paths
from firn.storage.manifest_pieces import Layout, Piece, layout_of, read_pieces
from firn.storage.manifest_reader import StoredManifests
from firn.storage.merged_manifests import Source
from firn.storage.packed_entries import PackedEntries, unpack
from firn.storage.path_walkers import listed_paths
from firn.storage.statistics_files import read_statistics_file

PACKED_FILES_MAX: Final = 2_000
"""Files of a manifest that is rewritten from memory; of a larger one whole blocks are taken over as they are stored."""


class TableReader(MetadataReader):
    """Implements `firn.coordinator.replay.working.TableReader` on a file store."""

    def __init__(self, files: FileStore, *, limits: Limits) -> None:
        super().__init__(files, limits=limits)
        self._stored = StoredManifests(files, limits=limits)
        self._reads = ReadAhead(self._read)
        self._cache = ManifestCache(bytes_max=limits.manifest_cache_bytes_max)
        self._records = RecordFiles(files, bytes_max=limits.journal_bytes_max)

    @property
    def cache(self) -> ManifestCache:
        """What was read before, with its hits and misses."""
        return self._cache

    def manifests(
        self, metadata: TableMetadata, snapshot: Snapshot, *, known: Sequence[Head] = ()
    ) -> tuple[ManifestFile, ...]:
        """The manifests of a snapshot, checked against its summary, with counts where an old list has none.

        A list that was cut between two blocks reads as a shorter valid one: only the totals show it. Those that firn
        wrote are exact, so a difference is damage; other writers' drift, and are not held against them.
        """
        manifests = self._stored.manifests(metadata, snapshot)
        if snapshot.summary is not None and SUMMARY_BATCH in snapshot.summary:
            check_totals(snapshot, manifests)
        uncounted = {
            one.manifest_path for one in manifests if one.live_files_count is None or one.live_rows_count is None
        }
        if not uncounted:
            return manifests
        counted = known_counts(uncounted, known)
        return tuple(
            self._counted(metadata, manifest, counted.get(manifest.manifest_path))
            if manifest.manifest_path in uncounted
            else manifest
            for manifest in manifests
        )

    def _counted(self, metadata: TableMetadata, manifest: ManifestFile, known: ManifestCounts | None) -> ManifestFile:
        """A manifest of a v1 list may come without counts; lists of later versions need them."""
        counts = count_entries(self.entries(metadata, manifest)) if known is None else known
        return msgspec.structs.replace(
            manifest,
            added_files_count=counts.added_files,
            existing_files_count=counts.existing_files,
            deleted_files_count=counts.deleted_files,
            added_rows_count=counts.added_rows,
            existing_rows_count=counts.existing_rows,
            deleted_rows_count=counts.deleted_rows,
        )

    def entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Entries of one manifest with what they inherit; checked against what the manifest list says of it."""
        cached = self._cache.decoded(manifest)
        if cached is not None:
            return cached
        packed = self._cache.packed(manifest.manifest_path)
        if packed is None:
            entries = self._stored.entries(metadata, manifest)
        else:
            entries = inherit(unpack(packed, spec_id=manifest.partition_spec_id), manifest)
        self._cache.keep_decoded(manifest, entries)
        return entries

    def stored_entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Read the entries of a manifest from its file, whatever is cached; checked as `entries` is."""
        return self._stored.entries(metadata, manifest)

    def written_entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """The entries of a manifest that no snapshot has yet, exactly as a writer wrote them; not cached."""
        return self._stored.written_entries(metadata, manifest)

    def deletion_vector(self, file: DataFile) -> DeletionVector:
        """The positions in a deletion vector.

        Raises InvalidInput for one that is too large, NotFound, CorruptFile, Unavailable.
        """
        assert file.content_offset is not None
        assert file.content_size_in_bytes is not None
        self._require_readable(file, file.content_size_in_bytes)
        blob = self._files.read_range(file.file_path, offset=file.content_offset, length=file.content_size_in_bytes)
        return from_blob(blob, location=file.file_path, cardinality=file.record_count)

    def position_deletes(self, file: DataFile) -> Mapping[str, DeletionVector]:
        """The positions in a position delete file, by data file; raises as `deletion_vector`."""
        self._require_readable(file, file.file_size_in_bytes)
        data = self._files.read(file.file_path, bytes_max=self._limits.deletion_vector_bytes_max)
        decoder = importlib.import_module("firn.storage.position_deletes")  # Arrow, as much memory as a daemon without
        vectors: Mapping[str, DeletionVector] = decoder.decode_position_deletes(
            data, file_format=file.file_format, location=file.file_path
        )
        return vectors

    def statistics_file(self, location: str, *, partition: bool) -> StatisticsFile:
        """Return what a statistics file shows of itself; raises as `firn.storage.statistics_files`. Not cached."""
        return read_statistics_file(self._files, location, partition=partition)

    def dropped_snapshots(self, location: str, *, table_uuid: str) -> Record:
        """Return a record of dropped snapshots; raises as `RecordFiles.read`."""
        return self._records.read(location, table_uuid=table_uuid)

    def _require_readable(self, file: DataFile, size: int) -> None:
        limit = self._limits.deletion_vector_bytes_max
        if size > limit:
            raise InvalidInput(
                f"positions of deleted rows in {size} bytes, at most {limit} are read", where=file.file_path
            )

    def remember(self, location: str, packed: PackedEntries) -> None:
        """Keep the entries of a manifest that was just written."""
        self._cache.keep_packed(location, packed)

    def pieces(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[Piece] | None:
        """The entries of a manifest as they are stored; None for one that is laid out in another way than firn's."""
        layout = layout_of(metadata, manifest)
        if layout is None:
            return None
        packed = self._cache.packed(manifest.manifest_path)
        if packed is None or len(packed.files) > PACKED_FILES_MAX:
            return read_pieces(self._read(manifest), manifest, layout)
        return (packed,) if Layout(packed.partition_type, packed.format_version) == layout else None

    @property
    def merge_source(self) -> Source:
        """Where merges get the entries of manifests from."""
        return Source(packed=lambda part: self._cache.packed(part.manifest_path), read=self._read, entries=self.entries)

    def head(self, metadata: TableMetadata, snapshot_id: int | None, *, known: Sequence[Head] = ()) -> Head:
        """Manifests and live data files of a snapshot.

        Reads every data manifest that may have live files, but for those whose files one of the `known` heads has.
        """
        if snapshot_id is None:
            return Head(snapshot_id=None, manifests=(), live=LiveFiles())
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise CorruptFile(metadata.location, f"a reference names snapshot {snapshot_id}, which is not there")
        manifests = self.manifests(metadata, snapshot, known=known)
        wanted = [manifest for manifest in manifests if manifest.content == "data" and manifest.may_have_live_files]
        basis = head_basis(wanted, known)
        live = basis.index.copy()
        places = {manifest.manifest_path: place for place, manifest in enumerate(wanted)}
        files = sum(manifest.live_files_count or 0 for manifest in basis.unread)
        for manifest, paths in listed_paths(self._reads.ahead(basis.unread), files=files):
            names = list(map(canonical, paths))
            live.has_aliases = live.has_aliases or names != paths
            live.put_all(names, manifest.manifest_path, order=places)
        live.keep_only(places)
        doubles = frozenset(self._doubles(wanted, live))
        head = Head(snapshot_id=snapshot_id, manifests=manifests, live=LiveFiles(live), doubles=doubles)
        head.known_deletes = known_deletes(manifests, known)
        return head

    def _doubles(self, wanted: Sequence[ManifestFile], live: FileIndex) -> Iterator[str]:
        """Files that are listed more than once, by their canonical names.

        A manifest with such a file has more live files than the index knows of.
        """
        for manifest in wanted:
            if live.count_of(manifest.manifest_path) != manifest.live_files_count:
                names = Counter(map(canonical, live_paths(self._read(manifest), manifest=manifest)))
                yield from (
                    name for name, count in names.items() if count > 1 or live.get(name) != manifest.manifest_path
                )

    def _read(self, manifest: ManifestFile) -> bytes:
        return self._files.read(manifest.manifest_path, bytes_max=self._limits.manifest_bytes_max)
