"""Upkeep of a table history without a daemon: the queue is Redis's twin, and nobody commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec

from firn.coordinator.client.sync_client import Client
from firn.coordinator.outcomes.reservations import Board, Reservations
from firn.model.intent import Intent, encode_intent
from firn.pipeline.upkeep import TableNow, Upkeep
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams, SharedSettings
from firn.storage.memory_streams import MemoryRedis
from firn.storage.pointers import Pointer
from tests.strategies.table_histories import History

_Result = TypeVar("_Result")


class _Board:
    """As much of a client as upkeep without commits asks for."""

    def __init__(self, streams: IntentStreams) -> None:
        self._reservations = Reservations(streams)

    def reserved(self, table: str) -> Board:
        return asyncio.run(self._reservations.of(table))


class QuietUpkeep(Upkeep):
    """`before_looking` is called before each look at the table, which may change meanwhile."""

    def __init__(self, history: History, *, files: FileStore | None = None) -> None:
        self.streams = MemoryRedis().connect()
        self.reservations = Reservations(self.streams)
        unused: Any = None
        super().__init__(
            client=cast("Client", _Board(self.streams)),
            files=history.files if files is None else files,
            session=unused,
            streams=unused,
        )
        self.history = history
        self.others: tuple[Pointer, ...] = ()
        self.announce(history.metadata.location.rpartition("/")[0])
        self.before_looking: Callable[[], None] = lambda: None

    def table(self, name: str) -> TableNow:
        self.before_looking()
        return self.history.now

    def tables(self) -> tuple[Pointer, ...]:
        return (self.history.now.pointer, *self.others)

    def with_streams(self, work: Callable[[IntentStreams], Awaitable[_Result]]) -> _Result:
        async def run() -> _Result:
            return await work(self.streams)

        return asyncio.run(run())

    def announce(self, *allowed: str) -> None:
        """Tell, as a daemon does, in which places tables may be."""
        asyncio.run(self.streams.announce(msgspec.json.encode(SharedSettings(allowed=allowed))))

    def submit(self, intent: Intent) -> None:
        """Put an intent into the queue, where it waits."""
        asyncio.run(self.streams.submit(3, encode_intent(intent)))
