"""Looking at tables beside the commits. A store may hang under some of them: the others are looked at all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from firn.coordinator.cancellation import cancel_all
from firn.storage.log import get_logger

PATIENCE_S: Final = 30.0
"""How long the next look waits for one: a large table on a slow store takes seconds."""

UNDER_WAY_MAX: Final = 16
"""Looks that hang, each with a thread; with so many no other table is looked at."""

_log: Any = get_logger()


class Looks:
    """Looks at one table after the other, at each anew only when the last look at it has come back."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def at(self, table: str, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have a table looked at, and wait until that is done, or for `PATIENCE_S`: then it goes on alone.

        Raises what the look raises while it is waited for.
        """
        if table in self._under_way or len(self._under_way) >= UNDER_WAY_MAX:
            return
        task = self._under_way[table] = asyncio.create_task(look(), name=f"look at {table}")
        task.add_done_callback(lambda done: self._came_back(table, done))
        await asyncio.wait({task}, timeout=PATIENCE_S)
        if task.done():
            task.result()
        else:
            _log.warning("a look at a table hangs", table=table, seconds=PATIENCE_S)

    async def close(self) -> None:
        """Give up all that hang. Their threads come back when the store does."""
        await cancel_all(list(self._under_way.values()))

    def _came_back(self, table: str, task: asyncio.Task[None]) -> None:
        del self._under_way[table]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("a look at a table failed", table=table, reason=str(error))
