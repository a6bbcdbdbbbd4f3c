"""What replay may read: files that never change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from firn.coordinator.replay.head import Head
from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector
from firn.model.dropped_snapshots import Record
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.puffin import StatisticsFile
from firn.model.snapshot import Snapshot
from firn.model.view import ViewMetadata
from firn.storage.manifest_pieces import Piece


class TableReader(Protocol):
    """Reads of immutable files that replay may make."""

    def metadata(self, location: str) -> TableMetadata:
        """One metadata file."""

    def newest_metadata(self, table_location: str) -> str | None:
        """Return the location of a file-system table's newest metadata file, None where the folder has none."""

    def head(self, metadata: TableMetadata, snapshot_id: int | None, *, known: Sequence[Head] = ()) -> Head:
        """Manifests and live files of a snapshot; what one of the `known` heads has as well is not read again."""

    def pieces(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[Piece] | None:
        """The entries of a stored manifest as they are stored; None where it has to be decoded."""

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifest list of a snapshot."""

    def view(self, location: str) -> ViewMetadata:
        """One view metadata file."""

    def entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """The entries of a stored manifest, with what they inherit filled in."""

    def stored_entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """As `entries`, from the file itself, whatever is known of it."""

    def written_entries(self, metadata: TableMetadata, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """The entries of a manifest that no snapshot has yet, exactly as a writer wrote them."""

    def deletion_vector(self, file: DataFile) -> DeletionVector:
        """The positions in a deletion vector of at most `Limits.deletion_vector_bytes_max` bytes."""

    def position_deletes(self, file: DataFile) -> Mapping[str, DeletionVector]:
        """The positions in a position delete file of at most as many bytes, by data file."""

    def statistics_file(self, location: str, *, partition: bool) -> StatisticsFile:
        """Size and footer of a statistics file, or of one of partition statistics; CorruptFile for another kind."""

    def dropped_snapshots(self, location: str, *, table_uuid: str) -> Record:
        """A record of snapshots that a table has dropped; raises NotFound, CorruptFile, InvalidInput, Unavailable."""
