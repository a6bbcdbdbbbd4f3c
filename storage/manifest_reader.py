"""Manifests of a snapshot and entries of a manifest, read from a file store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.limits import Limits
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot
from firn.storage.files import FileStore
from firn.storage.manifest_lists import decode_manifest_list
from firn.storage.manifests import decode_manifest, manifest_file_of_v1

EMBEDDED_MANIFESTS_MAX: Final = 100_000
"""Manifests that a v1 snapshot may list itself; each has to be opened to know its spec."""


class ManifestReader(Protocol):
    """Reads of a table's immutable metadata, maybe from a cache."""

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of a snapshot, in the order of its manifest list."""
        ...

    def entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """The entries of a manifest, tombstones included, with what they inherit filled in."""
        ...


class StoredManifests:
    """A `ManifestReader` without a cache."""

    def __init__(self, files: FileStore, *, limits: Limits | None = None) -> None:
        self._files = files
        self._limits = Limits() if limits is None else limits

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """Raises NotFound, CorruptFile, Unsupported, Unavailable."""
        if snapshot.manifest_list is None:
            return self._embedded(snapshot)
        data = self._files.read(snapshot.manifest_list, bytes_max=self._limits.manifest_list_bytes_max)
        return tuple(decode_manifest_list(data, location=snapshot.manifest_list, snapshot_id=snapshot.snapshot_id))

    def entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Raises NotFound, CorruptFile, Unsupported, Unavailable."""
        return decode_manifest(
            self._read(manifest.manifest_path),
            manifest=manifest,
            specs={spec.spec_id: spec for spec in metadata.partition_specs},
            schemas=(metadata.current_schema, *metadata.schemas),
        )

    def written_entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """The entries of a manifest that no snapshot names yet; what they leave to inherit is None.

        `manifest` has an unassigned sequence number and no snapshot. Raises as `entries` does.
        """
        return decode_manifest(
            self._read(manifest.manifest_path),
            manifest=manifest,
            specs={spec.spec_id: spec for spec in metadata.partition_specs},
            schemas=(metadata.current_schema, *metadata.schemas),
            committed=False,
        )

    def _embedded(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifests that a v1 snapshot names itself: what a list would say of them is in their headers."""
        paths = snapshot.manifests or ()
        if len(paths) > EMBEDDED_MANIFESTS_MAX:
            raise InvalidInput(
                f"{plural(len(paths), 'manifest')}, over {EMBEDDED_MANIFESTS_MAX}",
                where=f"snapshot {snapshot.snapshot_id}",
            )
        if len(set(paths)) != len(paths):
            raise CorruptFile(f"snapshot {snapshot.snapshot_id}", "names a manifest twice")
        return tuple(
            manifest_file_of_v1(self._read(path), path=path, snapshot_id=snapshot.snapshot_id) for path in paths
        )

    def _read(self, location: str) -> bytes:
        return self._files.read(location, bytes_max=self._limits.manifest_bytes_max)
