"""File-system tables as they are now: the pointer of one may be behind its newest metadata file."""

from __future__ import annotations

import asyncio

import msgspec

from firn.coordinator.tables.journal_heads import journal_head_of
from firn.coordinator.tables.metadata_reader import MetadataReader
from firn.coordinator.tables.table_catalogs import TableCatalogs
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.limits import Limits
from firn.model.pointer import Pointer
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.files import FileStore
from firn.storage.pointers import Pointers
from firn.storage.sessions import Session


class FollowedTables:
    """Finds tables for commands."""

    def __init__(self, files: FileStore, limits: Limits, session: Session) -> None:
        self._catalogs = TableCatalogs(Pointers(session), FileSystemTables(files))
        self._reader = MetadataReader(files, limits=limits)

    async def pointer(self, table: str) -> Pointer:
        """Return the pointer as the table's newest file would have it. Raises NotFound, Unavailable, CorruptFile."""
        pointer = (await self._catalogs.read(table)).pointer
        if pointer.catalog == "metastore" or pointer.dropped:
            return pointer
        try:
            metadata = await asyncio.to_thread(self._reader.metadata, pointer.metadata_location)
        except (NotFound, CorruptFile, InvalidInput):
            return pointer  # the error comes up where the table is read
        return msgspec.structs.replace(pointer, journal_head=journal_head_of(pointer, metadata))
