"""The other tables of a lane's transactions: which of them to lock, and what they are once they are locked."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

from firn.coordinator.lanes.lane_threads import Run
from firn.coordinator.lanes.paused_tables import TablePausedError
from firn.coordinator.recovery.pointer_ages import PointerAges
from firn.coordinator.replay.holds import Hold
from firn.coordinator.replay.places import may_make
from firn.coordinator.replay.transaction import UNREADABLE, Seen, UnreadableTableError
from firn.coordinator.tables.table_catalogs import TableCatalogs
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.errors import CorruptFile, NotFound
from firn.model.limits import Limits
from firn.model.operations.transaction import Transaction, Unchanged
from firn.storage.journal import JournalFiles
from firn.storage.pointers import Pointer, PointerCheck, Pointers

STATES_KEPT: Final = 8
"""States of other tables that a lane keeps: the live-file index of each is in memory."""


class Others(msgspec.Struct, frozen=True, eq=False):
    """The other tables under their locks: states of those that are changed, and those that are to be unchanged.

    `waiting` is what work behind the transaction needs of those whose history is due to be cut back; no other is cut.
    """

    states: dict[str, TableState]
    seen: dict[str, Seen]
    unmoved: tuple[PointerCheck, ...]
    waiting: Mapping[str, tuple[Hold, ...]] = {}


class TransactionTables:
    """What one lane knows of the tables beside its own. Its states are no other lane's.

    `run` has threads for what blocks on a store. `ages` compares pointers with journals, where it is to be done.
    """

    def __init__(
        self,
        *,
        pointers: Pointers,
        catalogs: TableCatalogs,
        reader: TableReader,
        journal: JournalFiles,
        limits: Limits,
        run: Run = asyncio.to_thread,
        ages: PointerAges | None = None,
    ) -> None:
        self._pointers = pointers
        self._catalogs = catalogs
        self._reader = reader
        self._journal = journal
        self._limits = limits
        self._run = run
        self._ages = ages
        self._states: OrderedDict[str, TableState] = OrderedDict()

    async def to_lock(self, transaction: Transaction) -> tuple[str, ...]:
        """Its tables that exist, or that it makes: names that mean nothing get no lock."""
        made = {member.table for member in transaction.members if may_make(member)}
        names = [name for name in transaction.tables if name not in made]
        there = await asyncio.gather(*(self._exists(name) for name in names))
        return (*made, *(name for name, exists in zip(names, there, strict=True) if exists))

    async def _exists(self, name: str) -> bool:
        try:
            await self._pointers.read(name)
        except NotFound:
            return False
        except CorruptFile:
            return True
        return True

    async def read(self, transaction: Transaction) -> Others:
        """All tables but the first, as they are now; call it under their locks.

        Raises UnreadableTableError for one that does not pass its checks, TablePausedError for one that is to be
        changed and is paused, Unavailable.
        """
        changed = [name for name in transaction.changed_tables if name != transaction.table]
        states = {name: await self._follow(name) for name in changed}
        seen: dict[str, Seen] = {}
        unmoved: list[PointerCheck] = []
        for one in transaction.unchanged:
            seen[one.table], check = await self._look_at(one)
            if check is not None:
                unmoved.append(check)
        while len(self._states) > max(STATES_KEPT, len(states)):
            self._states.popitem(last=False)
        return Others(states=states, seen=seen, unmoved=tuple(unmoved))

    async def read_name(self, table: str) -> TableState:
        """What another name stands for now; call it under its lock. Raises as `read` does."""
        state = await self._follow(table)
        while len(self._states) > STATES_KEPT:
            self._states.popitem(last=False)
        return state

    def forget(self) -> None:
        """Something went wrong while the states were used: read them anew."""
        self._states.clear()

    async def _follow(self, table: str) -> TableState:
        state = self._states.pop(table, None)
        if state is None:
            state = TableState(table, reader=self._reader, journal=self._journal, limits=self._limits)
        try:
            try:
                versioned = await self._catalogs.read(table)
            except NotFound:
                versioned = None
                if self._ages is not None:
                    await self._ages.check_absent(table)
            if versioned is not None:
                await self._compare(versioned.pointer)
            if versioned is not None and versioned.pointer.paused is not None:
                raise TablePausedError(table, versioned.pointer.paused)
            await self._run(state.load, versioned)
        except UNREADABLE as error:
            raise UnreadableTableError(table, error) from error
        self._states[table] = state
        return state

    async def _compare(self, pointer: Pointer) -> None:
        """Raise Unavailable where the pointer is older than its journal; a file-system table goes by its files."""
        if self._ages is not None and (pointer.catalog == "metastore" or pointer.dropped):
            await self._ages.check(pointer.table, pointer, head=pointer.journal_head)

    async def _look_at(self, one: Unchanged) -> tuple[Seen, PointerCheck | None]:
        try:
            versioned = await self._catalogs.read(one.table)
            pointer, metadata = versioned.pointer, None
            await self._compare(pointer)
            if not isinstance(one.snapshot_id, msgspec.UnsetType) and not pointer.dropped and pointer.kind == "table":
                metadata = await self._run(self._reader.metadata, pointer.metadata_location, digest=pointer.digest)
        except NotFound:
            if self._ages is not None:
                await self._ages.check_absent(one.table)
            return Seen(None), None
        except UNREADABLE as error:
            raise UnreadableTableError(one.table, error) from error
        return Seen(pointer, metadata), PointerCheck(table=one.table, version=versioned.version)
