"""Where all tables are: read when a table is created, so that no two tables overlap.

A table's location hardly ever changes, so it is read once and remembered; only the list of names is read each time.
Creations hold `LOCATIONS_LOCK` from this reading to their swap, on whichever daemon they run.
"""

from __future__ import annotations

import asyncio
from typing import Final

from firn.model.errors import NotFound
from firn.storage.pointers import Pointers

LOCATIONS_LOCK: Final = ".locations"
"""A lock name that no table can have: its first part is empty."""

READS_AT_ONCE: Final = 64


class TableLocations:
    """Locations by table name."""

    def __init__(self, pointers: Pointers) -> None:
        self._pointers = pointers
        self._known: dict[str, str] = {}

    async def all(self) -> dict[str, str]:
        """The location of every table that exists now."""
        names = await self._pointers.list()
        missing = [name for name in names if name not in self._known]
        for start in range(0, len(missing), READS_AT_ONCE):
            await asyncio.gather(*(self._learn(name) for name in missing[start : start + READS_AT_ONCE]))
        return {name: self._known[name] for name in names if self._known.get(name)}

    async def _learn(self, name: str) -> None:
        try:
            pointer = (await self._pointers.read(name)).pointer
        except NotFound:
            return
        if not pointer.dropped:  # a dropped name may come back somewhere else: do not remember it
            self._known[name] = pointer.location

    def forget(self, name: str) -> None:
        """The table was created, dropped or moved: read it again next time."""
        self._known.pop(name, None)
