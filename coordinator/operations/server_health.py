"""The health of the servers and the disk that a daemon depends on: asked for regularly, shown as metrics.

A failure changes nothing: whoever needs a server waits for it by itself. It is counted, and its cause is named: in
readiness, status, log and metrics.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from firn.coordinator.cancellation import cancel_all
from firn.coordinator.metrics import Metrics
from firn.model.errors import FirnError
from firn.storage.disk_space import disk_space
from firn.storage.intent_streams import IntentStreams
from firn.storage.log import get_logger
from firn.storage.sessions import Session
from firn.storage.store_faults import StoreFault

PING_S: Final = 5.0
"""How often the servers are asked."""

DISK_S: Final = 15.0
"""How often the disk is asked."""


class ServerHealth:
    """Asks Redis and ZooKeeper how they are, each on its own: one that hangs does not hide the other.

    The disk under `warehouse`, if it is a local folder, is asked beside them, and not again while it does not answer.
    """

    def __init__(
        self,
        session: Session,
        streams: IntentStreams,
        *,
        metrics: Metrics,
        warehouse: str | None = None,
        every_s: float = PING_S,
    ) -> None:
        self._session = session
        self._streams = streams
        self._metrics = metrics
        self._every_s = every_s
        self._warehouse = warehouse
        self._logger = get_logger()
        session.faults.listener = streams.faults.listener = self._log
        metrics.watch_stores(self.faults)

    async def run(self) -> None:
        """Ask until cancelled."""
        disk = asyncio.create_task(self._watch_disk(), name="disk health")
        try:
            while True:
                await self.look()
                await asyncio.sleep(self._every_s)
        finally:
            await cancel_all([disk])

    async def _watch_disk(self) -> None:
        while self._warehouse is not None:
            await self.look_at_disk(self._warehouse)
            await asyncio.sleep(DISK_S)

    async def look_at_disk(self, warehouse: str) -> None:
        """Ask once how much space is left under a folder. A disk that fails keeps the last numbers."""
        try:
            space = await asyncio.to_thread(disk_space, warehouse)
        except (FirnError, OSError):
            return
        if space is not None:
            self._metrics.warehouse_free_bytes.set(space.free)
            self._metrics.warehouse_size_bytes.set(space.size)

    async def look(self) -> None:
        """Ask each server once."""
        await asyncio.gather(
            self._ping("zookeeper", self._session.probe),
            self._ping("redis", self._streams.probe),
            self._vitals(),
        )
        self.faults()  # what is over, the log says

    def faults(self) -> tuple[StoreFault, ...]:
        """What is wrong with the servers now."""
        return (*self._session.faults.current(), *self._streams.faults.current())

    def _log(self, fault: StoreFault, change: Literal["begins", "over"]) -> None:
        named = {"store": fault.store, "cause": fault.cause, "found": fault.found}
        if change == "over":
            self._logger.info("store trouble is over", **named)
        else:
            self._logger.warning("store trouble", **named, said=fault.said, hint=fault.do)

    async def _ping(self, server: str, question: Callable[[], Awaitable[object]]) -> None:
        asked_at = time.monotonic()
        try:
            await question()  # made here: a daemon that ends before this begins would leave it behind
        except (FirnError, OSError):
            self._metrics.ping_failures.labels(server).inc()
        else:
            self._metrics.ping_seconds.labels(server).observe(time.monotonic() - asked_at)

    async def _vitals(self) -> None:
        try:
            vitals = await self._streams.vitals()
        except (FirnError, OSError):
            return  # the ping has counted it
        if vitals is None:
            return
        self._metrics.redis_memory_bytes.set(vitals.memory_used)
        self._metrics.redis_memory_max_bytes.set(vitals.memory_max)
        self._metrics.redis_persisting.labels("append-only").set(vitals.append_only and vitals.append_ok)
        self._metrics.redis_persisting.labels("snapshot").set(vitals.snapshot_ok)
