"""Tables and views as they are stored: one pointer, and the bytes of one metadata file, which are sent as they are.

A pointer is read with a sync, since a client that has committed through one catalog may load through another.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from firn.coordinator.catalog.errors import NOT_THERE
from firn.coordinator.catalog.refusals import Kind, no_such
from firn.coordinator.catalog.statuses import CatalogError
from firn.coordinator.tables.metadata_reader import MetadataReader
from firn.coordinator.tables.table_catalogs import TableCatalogs
from firn.model.errors import NotFound
from firn.model.limits import Limits
from firn.model.pointer import Pointer
from firn.model.view import ViewMetadata
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.files import FileStore
from firn.storage.metadata_files import decompressed
from firn.storage.pointers import Pointers

NO_REF: Final = -1


class StoredTables:
    """Finds tables and views, and reads their metadata as text."""

    def __init__(self, pointers: Pointers, files: FileStore, *, limits: Limits) -> None:
        self._catalogs = TableCatalogs(pointers, FileSystemTables(files))
        self._reader = MetadataReader(files, limits=limits)
        self._limits = limits

    async def pointer(self, name: str, kind: Kind) -> Pointer:
        """Return where a table or view is now. Raises CatalogError where there is none of that kind."""
        found = await self.found(name)
        if found is None or found.kind != kind:
            raise CatalogError(*no_such(name, kind))
        return found

    async def found(self, name: str) -> Pointer | None:
        """Return the pointer of what has a name now; None where it is free."""
        try:
            pointer = (await self._catalogs.read(name)).pointer
        except NotFound:
            return None
        return None if pointer.dropped else pointer

    async def metadata(self, location: str, *, digest: str | None, kind: Kind) -> bytes:
        """Return the JSON text of a metadata file. Raises CatalogError where it is gone, CorruptFile, Unavailable."""
        return await asyncio.to_thread(self._metadata, location, digest, kind)

    async def view(self, pointer: Pointer) -> ViewMetadata:
        """Return a view's metadata. Raises as `metadata`."""
        try:
            return await asyncio.to_thread(self._reader.view, pointer.metadata_location, digest=pointer.digest)
        except NotFound as error:
            raise _gone(pointer.metadata_location) from error

    def _metadata(self, location: str, digest: str | None, kind: Kind) -> bytes:
        try:
            data = self._reader.checked(location, digest)
            if digest is None:  # nobody vouches for the text, which goes into a response as it is
                (self._reader.metadata if kind == "table" else self._reader.view)(location)
        except NotFound as error:
            raise _gone(location) from error
        return decompressed(data, location=location, bytes_max=self._limits.metadata_bytes_max)


class _Snapshot(msgspec.Struct, frozen=True, rename="kebab"):
    snapshot_id: int


def with_refs_only(metadata: bytes) -> bytes:
    """Return metadata with those snapshots only that a branch or tag points at (``snapshots=refs``)."""
    members = msgspec.json.decode(metadata, type=dict[str, msgspec.Raw])
    if "snapshots" not in members:
        return metadata
    refs = msgspec.json.decode(members.get("refs", b"{}"), type=dict[str, _Snapshot])
    kept = {ref.snapshot_id for ref in refs.values()}
    current = msgspec.json.decode(members.get("current-snapshot-id", b"null"), type=int | None)
    kept.add(NO_REF if current is None else current)
    snapshots = msgspec.json.decode(members["snapshots"], type=list[msgspec.Raw])
    left = [one for one in snapshots if msgspec.json.decode(one, type=_Snapshot).snapshot_id in kept]
    return msgspec.json.encode({**members, "snapshots": left})


def _gone(location: str) -> CatalogError:
    return CatalogError(NOT_THERE, f"Failed to open input stream for file: {location}")
