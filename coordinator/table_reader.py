"""Reading tables: metadata, manifest lists, manifests, with a bounded cache of what is immutable.

Synchronous, for worker threads. One reader serves all lanes of a daemon; a lock guards its cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.live_files import LiveFiles
from firn.coordinator.replay.working import Head
from firn.model.errors import CorruptFile
from firn.model.limits import Limits
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.manifest_inheritance import inherit
from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot
from firn.storage.files import FileStore
from firn.storage.manifest_lists import decode_manifest_list
from firn.storage.manifests import decode_manifest
from firn.storage.metadata_files import decode_metadata


class _Cached(msgspec.Struct, frozen=True):
    """Entries of a manifest and about how many bytes they take; `inherited` says whether they are complete."""

    size: int
    entries: Sequence[ManifestEntry]
    inherited: bool


class TableReader:
    """Implements `firn.coordinator.replay.working.TableReader` on a file store."""

    def __init__(self, files: FileStore, *, limits: Limits) -> None:
        self._files = files
        self._limits = limits
        self._cache: OrderedDict[str, _Cached] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()
        self.cache_hits = 0
        self.cache_misses = 0

    def metadata(self, location: str) -> TableMetadata:
        """One metadata file. Raises NotFound, CorruptFile, InvalidMetadata, Unsupported, Unavailable."""
        data = self._files.read(location, bytes_max=self._limits.metadata_bytes_max)
        return decode_metadata(data, location=location)

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifest list of a snapshot of the table."""
        if snapshot.manifest_list is None:
            raise CorruptFile(
                metadata.location, f"snapshot {snapshot.snapshot_id} has no manifest list (embedded manifests)"
            )
        data = self._files.read(snapshot.manifest_list, bytes_max=self._limits.manifest_list_bytes_max)
        return tuple(decode_manifest_list(data, location=snapshot.manifest_list, snapshot_id=snapshot.snapshot_id))

    def entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Entries of one manifest with what they inherit; checked against what the manifest list says of it."""
        with self._lock:
            cached = self._cache.get(manifest.manifest_path)
            if cached is not None:
                self._cache.move_to_end(manifest.manifest_path)
                self.cache_hits += 1
                return self._resolved(manifest, cached)
            self.cache_misses += 1
        data = self._files.read(manifest.manifest_path, bytes_max=self._limits.manifest_bytes_max)
        entries = decode_manifest(
            data,
            manifest=manifest,
            specs={spec.spec_id: spec for spec in metadata.partition_specs},
            schemas=metadata.schemas,
        )
        self._keep(manifest.manifest_path, _Cached(_memory_of(len(data)), entries, inherited=True))
        return entries

    def remember(self, manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> None:
        """Cache a manifest that was just written; `entries` are as they were stored, nothing inherited yet."""
        self._keep(manifest.manifest_path, _Cached(_memory_of(manifest.manifest_length), entries, inherited=False))

    def head(self, metadata: TableMetadata, snapshot_id: int | None) -> Head:
        """Manifests and live data files of a snapshot; reads every data manifest that may have live files."""
        if snapshot_id is None:
            return Head(snapshot_id=None, manifests=(), live=LiveFiles())
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise CorruptFile(metadata.location, f"a reference names snapshot {snapshot_id}, which is not there")
        manifests: tuple[ManifestRef, ...] = self.manifests(metadata, snapshot)
        live: dict[str, str] = {}
        for manifest in manifests:
            assert isinstance(manifest, ManifestFile)
            if manifest.content != "data" or not manifest.may_have_live_files:
                continue
            for entry in self.entries(metadata, manifest):
                if entry.is_live:
                    live[entry.data_file.file_path] = manifest.manifest_path
        return Head(snapshot_id=snapshot_id, manifests=manifests, live=LiveFiles(live))

    def _resolved(self, manifest: ManifestFile, cached: _Cached) -> Sequence[ManifestEntry]:
        """The cached entries; what a written manifest leaves to inherit is filled in when it is first asked for."""
        if cached.inherited:
            return cached.entries
        entries = inherit(cached.entries, manifest)
        self._cache[manifest.manifest_path] = _Cached(cached.size, entries, inherited=True)
        return entries

    def _keep(self, location: str, cached: _Cached) -> None:
        if cached.size > self._limits.manifest_cache_bytes_max // 4:
            return  # one huge manifest must not push out all others
        with self._lock:
            if location in self._cache:
                return
            self._cache[location] = cached
            self._cached_bytes += cached.size
            while self._cached_bytes > self._limits.manifest_cache_bytes_max:
                _, freed = self._cache.popitem(last=False)
                self._cached_bytes -= freed.size


def _memory_of(file_bytes: int) -> int:
    """Bytes of decoded entries held for a manifest file of this size: an estimate (deflate, then Python objects)."""
    return file_bytes * 20
