"""Where all tables are: read when a table is given a place, so that no two tables overlap.

Places hardly ever change, so they are read once and remembered, also that a dropped name has none; only the list of
names, and which of them were moved (by whichever daemon), is read each time. Whoever gives a table a place, or makes a
dropped name anew, holds `LOCATIONS_LOCK` from this reading to the swap, and announces it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from firn.model.errors import NotFound
from firn.storage.pointers import Pointers

LOCATIONS_LOCK: Final = ".locations"
"""A lock name that no table can have: its first part is empty."""

READS_AT_ONCE: Final = 64


class TableLocations:
    """Places by table name: the location, then those where the table has files besides."""

    def __init__(self, pointers: Pointers) -> None:
        self._pointers = pointers
        self._known: dict[str, tuple[str, ...]] = {}
        self._moves = 0

    async def all(self) -> dict[str, tuple[str, ...]]:
        """The places of every table that exists now."""
        moves = await self._pointers.moves()
        moved = moves.since(self._moves)
        if moved is None:
            self._known.clear()
        for name in moved or ():
            self._known.pop(name, None)
        self._moves = moves.version
        names = await self._pointers.list()
        missing = [name for name in names if name not in self._known]
        for start in range(0, len(missing), READS_AT_ONCE):
            await asyncio.gather(*(self._learn(name) for name in missing[start : start + READS_AT_ONCE]))
        return {name: self._known[name] for name in names if self._known.get(name)}

    async def announce_move(self, names: Collection[str]) -> None:
        """Make every daemon read these names' places anew before it gives one away; call it before the swap."""
        await self._pointers.note_move(names)

    async def _learn(self, name: str) -> None:
        try:
            pointer = (await self._pointers.read(name)).pointer
        except NotFound:
            return
        self._known[name] = () if pointer.dropped else (pointer.location, *pointer.also_at)

    def forget(self, name: str) -> None:
        """The table was created or dropped: read it again next time."""
        self._known.pop(name, None)
