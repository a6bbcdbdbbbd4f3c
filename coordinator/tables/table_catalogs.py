"""Where a table is now and how it is moved, for both kinds of tables.

A metastore table is its znode. A file-system table is its newest ``v<N>.metadata.json``; the znode follows it
(``docs/decisions/0005-file-system-tables.md``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from firn.coordinator.lanes.lane_threads import Run
from firn.model.errors import AlreadyExists, FirnError, Unavailable, UnknownOutcome
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.leases import Lease
from firn.storage.log import get_logger
from firn.storage.metadata_files import version_of
from firn.storage.pointers import (
    Lost,
    PointerChange,
    PointerCheck,
    Pointers,
    Swap,
    SwapOutcome,
    Unknown,
    Versioned,
    Won,
    with_digest,
)


class TableCatalogs:
    """Reads and swaps of all tables. `run` has threads for what blocks on a store."""

    def __init__(self, pointers: Pointers, file_system: FileSystemTables, *, run: Run = asyncio.to_thread) -> None:
        self._pointers = pointers
        self._file_system = file_system
        self._run = run
        self._log = get_logger()

    async def read(self, table: str) -> Versioned:
        """Where the table is now. Raises NotFound, Unavailable, CorruptFile."""
        versioned = await self._pointers.read(table)
        pointer = versioned.pointer
        if pointer.catalog == "metastore" or pointer.dropped:
            return versioned
        newest = await self._run(
            self._file_system.newest, pointer.location, at_least=version_of(pointer.metadata_location)
        )
        if newest is None or newest == pointer.metadata_location:
            return versioned  # a table whose files are gone is reported by whoever reads them
        return Versioned(
            with_digest(msgspec.structs.replace(pointer, metadata_location=newest), None), versioned.version
        )

    def worded(
        self, changes: Sequence[PointerChange], *, leases: Sequence[Lease], unmoved: Sequence[PointerCheck] = ()
    ) -> Swap:
        """What moves tables together, ready for `swap`. Raises InvalidInput."""
        return self._pointers.worded(changes, leases=leases, unmoved=unmoved)

    async def swap(self, swap: Swap, put: tuple[str, bytes] | None) -> SwapOutcome:
        """Move tables together. `put` is the metadata file that is the swap of a file-system table, which is alone."""
        if put is None:
            return await self._pointers.send(swap)
        (change,) = swap.moved
        assert isinstance(change, PointerChange)
        try:
            await self._run(self._file_system.put, *put)
        except AlreadyExists:
            return Lost((change.table,))
        except UnknownOutcome as error:
            return Unknown(str(error))
        return await self._follow(change, put[0], swap)

    async def _follow(self, change: PointerChange, location: str, swap: Swap) -> SwapOutcome:
        """After a put: hint and znode. The table has moved already, so nothing here can fail the commit."""
        assert change.pointer is not None
        version = version_of(location)
        assert version is not None
        try:
            await self._run(self._file_system.hint, change.pointer.location, version)
        except FirnError as error:
            self._log.warning("version hint not written", table=change.table, reason=str(error))
        try:
            outcome = await self._pointers.send(swap)
        except Unavailable as error:
            outcome = Unknown(str(error))
        if isinstance(outcome, Won):
            return outcome
        if change.expected is None:
            return outcome  # the name is not this table's yet, so nobody can have been told of it
        self._log.warning("pointer does not follow yet", table=change.table, outcome=type(outcome).__name__)
        return Won({})
