"""The event loop that an `AsyncClient` belongs to: the first that it is used on."""

from __future__ import annotations

import asyncio

from firn.model.errors import Misconfigured


class HomeLoop:
    """Connections and tasks are one loop's; on another an outcome would never be heard."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise Misconfigured on another loop than the first."""
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        if self._loop is not running:
            which = "which has ended" if self._loop.is_closed() else "and this is another"
            raise Misconfigured(
                f"this AsyncClient belongs to the event loop that it was first used on, {which}: make one for "
                f"each loop (each asyncio.run), or use Client, which works everywhere"
            )
