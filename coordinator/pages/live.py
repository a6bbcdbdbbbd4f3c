"""What happens, told to open pages: one reader of the event stream for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from firn.coordinator.pages.event_log import event_in
from firn.model.errors import Unavailable
from firn.storage.intent_streams import FIRST_ID, IntentStreams

LISTENERS_MAX: Final = 100
"""Open pages that are told; one more is asked to come again."""

BACKLOG_MAX: Final = 100
"""Events kept for a page that is slow; it is told of the newest, and asks for itself again anyway."""

BLOCK_MS: Final = 2_000
RETRY_S: Final = 1.0


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """What pages are told: what kind of event it was and of which table. They ask for the rest."""

    type: str
    subject: str


class LiveEvents:
    """Reads the event stream while anybody listens, and hands each event to all who do."""

    def __init__(self, streams: IntentStreams) -> None:
        self._streams = streams
        self._listeners: set[asyncio.Queue[Happened | None]] = set()
        self._reading: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Whether no more can listen."""
        return len(self._listeners) >= LISTENERS_MAX

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[asyncio.Queue[Happened | None]]:
        """A queue of what happens from now on; None ends it."""
        queue: asyncio.Queue[Happened | None] = asyncio.Queue(BACKLOG_MAX)
        self._listeners.add(queue)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(), name="live events")
        try:
            yield queue
        finally:
            self._listeners.discard(queue)
            if not self._listeners:
                await self._stop_reading()

    async def close(self) -> None:
        """Send everybody away: an open page must not hold up the daemon's end."""
        self._tell(None)
        await self._stop_reading()

    async def _stop_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self) -> None:
        after: str | None = None
        while True:
            try:
                if after is None:
                    newest = await self._streams.newest_events(count=1)
                    after = newest[-1].entry_id if newest else FIRST_ID
                messages = await self._streams.events(after=after, block_ms=BLOCK_MS)
            except Unavailable:
                await asyncio.sleep(RETRY_S)  # the fleet page says that Redis does not answer
                continue
            for message in messages:
                after = message.entry_id
                event = event_in(message.data)
                if event is not None:
                    self._tell(Happened(type=event.type, subject=event.subject))

    def _tell(self, happened: Happened | None) -> None:
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(happened)
