"""Looking at tables that nobody commits to, so that damage is told before somebody needs them.

A daemon reads a table's metadata when it has something to commit, and knows its content from then on. Writers read it
themselves before they make data files, and submit nothing when they cannot: of a damaged table no daemon would hear.
So every daemon looks at the metadata files of the tables of its shards, one at a time, and at each again when it is
another or after an hour. Manifests and data files are for ``firn fsck``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.lanes.looks import Looks
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.tables.readability import read_metadata
from firn.model.errors import CorruptFile, FirnError, NotFound, Unavailable
from firn.model.sharding import shard_of
from firn.storage.log import get_logger
from firn.storage.pointers import Pointer

PAUSE_S = 1.0
"""Between two tables: what is spent on looking is no more than one file a second."""

ROUND_S = 60.0
"""How long a round through all tables takes at least."""

LOOK_AGAIN_S = 3_600.0
"""How long a file that was found well is believed to be so: files are immutable, and reading them costs."""


class TablePatrol:
    """The rounds of one daemon through the tables of its shards."""

    def __init__(self, shop: Workshop, lanes: Lanes, *, shards: int, owned: Callable[[], list[int]]) -> None:
        self._shop = shop
        self._lanes = lanes
        self._shards = shards
        self._owned = owned
        self._mine: list[int] = []
        self._ahead: deque[str] = deque()
        self._began_at = float("-inf")
        self._found_well: dict[str, tuple[str, float]] = {}
        """By table, the metadata file that was read last, and when."""
        self._looks = Looks()
        self._log = get_logger()

    async def run(self) -> None:
        """Look at one table after the other, until cancelled. A server that does not answer is no damage."""
        try:
            while True:
                await asyncio.sleep(PAUSE_S)
                try:
                    table = await self._next()
                    if table is not None:
                        await self._looks.at(table, partial(self._look_at, table))
                except (FirnError, OSError) as error:
                    self._log.debug("tables not looked at", reason=str(error))
        finally:
            await self._looks.close()

    async def _next(self) -> str | None:
        """The next table that no lane takes care of; a round begins anew when shards have come or gone."""
        mine = self._owned()
        if mine != self._mine or (not self._ahead and time.monotonic() - self._began_at >= ROUND_S):
            names = await self._shop.pointers.list()
            self._ahead = deque(name for name in names if shard_of(name, shards=self._shards) in mine)
            self._mine, self._began_at = mine, time.monotonic()
            self._found_well = {name: self._found_well[name] for name in self._ahead if name in self._found_well}
        while self._ahead:
            table = self._ahead.popleft()
            if not self._lanes.takes_care_of(table):
                return table
        return None

    async def _look_at(self, table: str) -> None:
        try:
            pointer = (await self._shop.catalogs.read(table)).pointer
        except NotFound:
            return
        except CorruptFile as error:
            self._lanes.found_unreadable(table, str(error))
            return
        location, looked_at = self._found_well.get(table, ("", 0.0))
        if location == pointer.metadata_location and time.monotonic() - looked_at < LOOK_AGAIN_S:
            return
        damage = await self._shop.threads.read(self._damage_of, pointer)
        if damage is None:
            self._found_well[table] = pointer.metadata_location, time.monotonic()
            return
        now = (await self._shop.catalogs.read(table)).pointer
        if now.metadata_location == pointer.metadata_location:  # or it has moved, and the file was removed since
            self._lanes.found_unreadable(table, damage)

    def _damage_of(self, pointer: Pointer) -> str | None:
        try:
            read_metadata(pointer, self._shop.reader)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever damage does to a decoder must not end the rounds
            return str(error) or repr(error)
        return None
