"""What a segment's swap needed: its metadata, manifest lists and manifests, all of which were durable before it."""

from __future__ import annotations

from typing import Final

from firn.coordinator.recovery.journals import Link
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import uuid_of
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.metadata import TableMetadata
from firn.model.table_properties import JOURNAL_HEAD
from firn.model.view import ViewMetadata
from firn.storage.content_digests import digest_of_bytes
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.files import FileStore
from firn.storage.journal import is_same_segment

UNREADABLE: Final = (CorruptFile, InvalidInput, NotFound)


class Contents:
    """Reads what segments name. Raises Unavailable; whatever else is wrong with a file is an answer."""

    def __init__(self, files: FileStore, *, reader: TableReader, metadata_bytes_max: int) -> None:
        self._files = files
        self._reader = reader
        self._file_system = FileSystemTables(files)
        self._metadata_bytes_max = metadata_bytes_max
        self._newest: dict[str, tuple[str, TableMetadata] | None] = {}
        self._missing: dict[str, str | None] = {}

    def what_is_missing(self, link: Link) -> str | None:
        """What the segment's swap would have needed and is not there, or not whole; None when it could be made."""
        if link.location not in self._missing:
            self._missing[link.location] = self._look_for(link)
        return self._missing[link.location]

    def _look_for(self, link: Link) -> str | None:
        batch = link.batch
        if batch.new_metadata is None:
            return None  # a drop writes nothing else
        try:
            current = self.current(link, batch.new_metadata)
            if isinstance(current, ViewMetadata):
                return None
            if batch.catalog == "file-system" and batch.base_metadata is not None:
                named = current.properties.get(JOURNAL_HEAD)
                if not is_same_segment(named, link.location):
                    return f"{batch.new_metadata} was put by another, which names {named}"
            self._check_manifests(current)
        except UNREADABLE as error:
            return str(error)
        return None

    def is_named_by_table(self, link: Link) -> bool:
        """Whether a file-system table, which moves by its metadata file, names the segment."""
        if link.batch.catalog != "file-system" or link.batch.new_metadata is None:
            return False
        newest = self.newest(link.home)
        return newest is not None and is_same_segment(newest[1].properties.get(JOURNAL_HEAD), link.location)

    def newest(self, home: str) -> tuple[str, TableMetadata] | None:
        """A file-system table's newest metadata file that can be read."""
        if home not in self._newest:
            self._newest[home] = None
            try:
                location = self._file_system.newest(home)
                if location is not None:
                    self._newest[home] = location, self._reader.metadata(location)
            except UNREADABLE:
                pass
        return self._newest[home]

    def current(self, link: Link, location: str) -> TableMetadata | ViewMetadata:
        """The metadata that a segment names. Raises what reading raises, CorruptFile for another table's."""
        is_view = link.batch.kind == "view"
        current = self._reader.view(location) if is_view else self._reader.metadata(location)
        if uuid_of(current) != link.batch.table_uuid:
            raise CorruptFile(location, f"is of {uuid_of(current)}, the journal says {link.batch.table_uuid}")
        return current

    def digest(self, location: str) -> str:
        """The digest of a metadata file, as a pointer has it."""
        return digest_of_bytes(self._files.read(location, bytes_max=self._metadata_bytes_max))

    def _check_manifests(self, metadata: TableMetadata) -> None:
        """Read the manifest lists of all branches and tags; their manifests have to be there at their length."""
        snapshots = {ref.snapshot_id for ref in metadata.refs.values()} | {metadata.current_snapshot_id}
        for snapshot_id in snapshots:
            snapshot = None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
            for manifest in () if snapshot is None else self._reader.manifests(metadata, snapshot):
                size = self._files.size(manifest.manifest_path)
                if size != manifest.manifest_length:
                    raise CorruptFile(
                        manifest.manifest_path, f"has {size} bytes, its list says {manifest.manifest_length}"
                    )
