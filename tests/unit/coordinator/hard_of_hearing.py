"""Work that does not hear each cancellation, as a library may lose some."""

from __future__ import annotations

import asyncio


class HardOfHearing:
    """Goes on for ever, whether or not it is cancelled `lost` times; the next cancellation ends it."""

    def __init__(self, lost: int) -> None:
        self._lost = lost
        self.missed = 0
        """Cancellations that it has gone on after."""

    async def work(self) -> None:
        while self.missed < self._lost:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.missed += 1
        await asyncio.sleep(60)
