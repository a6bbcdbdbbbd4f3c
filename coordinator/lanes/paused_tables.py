"""The tables that are paused, as one daemon knows them: kept by a watch, so that asking costs a look into a dict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from firn.coordinator.metrics import Metrics
from firn.model.errors import FirnError
from firn.model.pause import Pause
from firn.storage.log import get_logger
from firn.storage.pauses import Pauses

RETRY_S: Final = 0.5


class TablePausedError(Exception):
    """The table's pointer says that it is paused: nothing is to be decided on it."""

    def __init__(self, table: str, pause: Pause) -> None:
        super().__init__(f"table {table!r} is paused by {pause.by}: {pause.reason}")
        self.table = table
        self.pause = pause


class PausedTables:
    """Follows the pauses. While ZooKeeper does not answer, what was known last holds: nothing can be swapped then."""

    def __init__(self, pauses: Pauses, *, metrics: Metrics) -> None:
        self._pauses = pauses
        self._metrics = metrics
        self._tables: dict[str, Pause] = {}
        self._callbacks: list[Callable[[], None]] = []
        self._log = get_logger()

    @property
    def tables(self) -> Mapping[str, Pause]:
        """Pauses by table."""
        return self._tables

    def __contains__(self, table: str) -> bool:
        return table in self._tables

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the event loop whenever a table was paused or resumed."""
        self._callbacks.append(callback)

    async def look_again(self) -> None:
        """Read what is paused now."""
        self._take(await self._pauses.all())

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            changed = asyncio.Event()
            try:
                self._take(await self._pauses.all(watch=changed.set))
            except FirnError as error:
                self._log.warning("pauses not read", reason=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                await changed.wait()

    def _take(self, found: dict[str, Pause]) -> None:
        if found == self._tables:
            return
        before, self._tables = self._tables, found
        self._metrics.tables_paused.set(len(found))
        for table in found.keys() - before.keys():
            self._log.info("table paused", table=table, by=found[table].by, reason=found[table].reason)
        for table in before.keys() - found.keys():
            self._log.info("table resumed", table=table)
        for callback in self._callbacks:
            callback()
