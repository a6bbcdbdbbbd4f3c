"""Reading the metadata of tables and views. Synchronous, for worker threads."""

from __future__ import annotations

from typing import Final

from firn.model.errors import CorruptFile, Unsupported
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.view import ViewMetadata
from firn.model.view_json import VIEW_METADATA_BYTES_MAX
from firn.storage.content_digests import digest_of_bytes, is_digest_of
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.files import FileStore
from firn.storage.metadata_files import decode_metadata
from firn.storage.view_files import decode_view

ENCRYPTION_KEY: Final = "encryption.key-id"
"""Table property of an encrypted table."""


class MetadataReader:
    """Reads metadata files from a file store; keeps nothing."""

    def __init__(self, files: FileStore, *, limits: Limits) -> None:
        self._files = files
        self._limits = limits
        self._file_system = FileSystemTables(files)

    def metadata(self, location: str, *, digest: str | None = None) -> TableMetadata:
        """One metadata file, compared with the digest that the pointer has of it.

        Raises NotFound, CorruptFile, InvalidMetadata, Unsupported, Unavailable.
        """
        limits = self._limits
        metadata = decode_metadata(
            self.checked(location, digest), location=location,
            bytes_max=limits.metadata_bytes_max, values_max=limits.json_values_max,
        )  # fmt: skip
        if ENCRYPTION_KEY in metadata.properties:
            raise Unsupported("the table is encrypted, which firn cannot read", where=location)
        return metadata

    def newest_metadata(self, table_location: str) -> str | None:
        """Return the location of a file-system table's newest metadata file, None where the folder has none.

        Raises Unavailable; CorruptFile when the folder cannot be right.
        """
        return self._file_system.newest(table_location)

    def view(self, location: str, *, digest: str | None = None) -> ViewMetadata:
        """One view metadata file, compared as `metadata` is; raises the same."""
        limits = self._limits
        return decode_view(
            self.checked(location, digest), location=location,
            bytes_max=min(limits.metadata_bytes_max, VIEW_METADATA_BYTES_MAX), values_max=limits.json_values_max,
        )  # fmt: skip

    def checked(self, location: str, digest: str | None) -> bytes:
        """The bytes of a metadata file, if they are those of the digest (None: any). Raises as `metadata`."""
        data = self._files.read(location, bytes_max=self._limits.metadata_bytes_max)
        if digest is not None and not is_digest_of(data, digest):
            raise CorruptFile(
                location, f"its content has the digest {digest_of_bytes(data)}, the pointer says {digest}"
            )
        return data
