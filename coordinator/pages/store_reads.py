"""Reads of tables' files for pages.

A store may hang under some tables, and those are looked at again and again. Each costs one thread, and no other page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from firn.coordinator.lanes.lane_threads import under_name
from firn.coordinator.thread_calls import calls_under_way
from firn.model.errors import Unavailable

T = TypeVar("T")

PATIENCE_S: Final = 5.0
"""How long a page waits for a store. Whoever looks wants to know that it does not answer."""

THREADS_MAX: Final = 16
"""Of the pages alone: however many hang, commits have theirs."""


class StoreReads:
    """Runs blocking reads, and gives up on those that hang."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="firn-pages")
        self._hanging: dict[str, float] = {}
        """Since when a table's store has not answered, by table; time of the event loop."""

    async def read(self, table: str, work: Callable[[], T]) -> T:
        """What `work` reads of a table.

        Raises what it raises, and Unavailable when it takes longer than `PATIENCE_S`: at once while an earlier read of
        the table has not come back.
        """
        loop = asyncio.get_running_loop()
        if table not in self._hanging:
            began_at = loop.time()
            reading = loop.run_in_executor(self._threads, under_name, _thread_of(table), work)
            reading.add_done_callback(partial(self._came_back, table))
            done, _ = await asyncio.wait({reading}, timeout=PATIENCE_S)
            if done:
                return reading.result()
            self._hanging[table] = began_at
        raise Unavailable(_no_answer(table, loop.time() - self._hanging[table]))

    def _came_back(self, table: str, reading: asyncio.Future[Any]) -> None:
        self._hanging.pop(table, None)
        if not reading.cancelled():
            reading.exception()  # nobody may be there any more to hear of it


def _thread_of(table: str) -> str:
    return f"page of {table}"


def _no_answer(table: str, seconds: float) -> str:
    call = next((call for call in calls_under_way() if call.thread == _thread_of(table)), None)
    said = f"the store has not answered for {seconds:.0f} s"
    return said if call is None or call.location is None else f"{said}: {call.location}"
