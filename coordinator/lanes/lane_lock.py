"""The lock of a lane's table: held while the lane is busy, given up when another waits for it.

A transaction or a rename needs the locks of other names too (`LaneLock.together`). Everybody takes several locks in
the one order of `firn.storage.leases.lock_order`; so a lane gives its own up first when others come before it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeVar

from firn.coordinator.metrics import Metrics
from firn.model.errors import Fenced, Unavailable
from firn.storage.leases import Lease, Leases, is_shared, lock_order
from firn.storage.log import get_logger

LOCK_TIMEOUT_S = 30.0
"""Wait for a lock before the lane backs off and says so."""

RETIRED_GRACE_S = 0.5
"""How long a lane that is retired still waits for what it waits for."""

T = TypeVar("T")


class LaneLock:
    """One table's lease, as its lane has it.

    `connected` waits for the ZooKeeper session, `retired` is set when the lane is to end; `on_wanted` is called when
    another begins to wait for the lock.
    """

    def __init__(
        self,
        table: str,
        *,
        leases: Leases,
        metrics: Metrics,
        connected: Callable[[], Awaitable[None]],
        retired: asyncio.Event,
        on_wanted: Callable[[], None],
    ) -> None:
        self._table = table
        self._leases = leases
        self._metrics = metrics
        self._connected = connected
        self._retired = retired
        self._on_wanted = on_wanted
        self._lease: Lease | None = None
        self._held_since = 0.0
        self._log = get_logger().bind(table=table)

    @property
    def has_lease(self) -> bool:
        """Whether the lane has a lease, which may have been lost without its knowing."""
        return self._lease is not None

    @property
    def is_wanted(self) -> bool:
        """Whether another waits for the lock that the lane holds."""
        return self._lease is not None and self._leases.is_wanted(self._lease)

    def lost(self) -> None:
        """A swap was refused because of the lease: it is gone."""
        self._metrics.lock_losses.inc()
        self._lease = None

    @asynccontextmanager
    async def together(self, others: Collection[str] = ()) -> AsyncIterator[tuple[Lease, ...]]:
        """Hold the lane's own lease and those of `others` (names of tables and other locks); its own is the first.

        On leaving, the own one is kept and the others are given up. Raises Unavailable when one is not to be had.
        """
        names = sorted({*others} - {self._table}, key=lock_order)
        before = [name for name in names if lock_order(name) < lock_order(self._table)]
        if before and self._lease is not None:
            await self.let_go()
        taken: list[Lease] = []
        turns: list[asyncio.Lock] = []

        async def take(wanted: Collection[str]) -> None:
            for name in wanted:
                if is_shared(name):
                    turns.append(await self._take_turn(name))
                taken.append(await self._acquire(name))

        try:
            await take(before)
            own = await self._hold()
            await take(names[len(before) :])
            yield (own, *taken)
        finally:
            try:
                await self._leases.release_all(taken)
            finally:
                for turn in turns:
                    turn.release()

    async def _take_turn(self, name: str) -> asyncio.Lock:
        """Wait among this daemon's own lanes first: a thousand of them in one queue in ZooKeeper would be read by each.

        There is no limit on this wait: whoever has the turn moves on.
        """
        turn = self._leases.turn(name)
        taking = asyncio.ensure_future(turn.acquire())
        try:
            await self._unless_retired(taking)
        except BaseException:
            if taking.done() and not taking.cancelled() and taking.exception() is None:
                turn.release()
            raise
        return turn

    async def _hold(self) -> Lease:
        """The table's lease, acquired if need be."""
        if self._lease is not None and self._leases.is_held(self._lease):
            return self._lease
        await self._unless_retired(self._connected())
        if self._lease is not None and self._leases.is_held(self._lease):
            return self._lease
        self._lease = None
        self._lease = await self._acquire(self._table, on_wanted=self._on_wanted)
        self._held_since = time.monotonic()
        return self._lease

    async def _acquire(self, name: str, *, on_wanted: Callable[[], None] | None = None) -> Lease:
        started = time.monotonic()
        lease = await self._unless_retired(self._leases.acquire(name, timeout_s=LOCK_TIMEOUT_S, on_wanted=on_wanted))
        waited = time.monotonic() - started
        self._metrics.lock_wait_seconds.observe(waited)
        self._metrics.stage_seconds.labels("lock").observe(waited)
        if lease is None:
            raise Unavailable(f"the lock of {name!r} was not free within {LOCK_TIMEOUT_S:.0f} s")
        return lease

    async def give_way(self) -> None:
        """Give the lease up if another waits for it; the lane queues up again behind it."""
        if self.is_wanted:
            self._metrics.lock_yields.inc()
            await self.let_go()

    async def let_go(self) -> None:
        """Give the lease up, if there is one."""
        if self._lease is None:
            return
        lease, self._lease = self._lease, None
        self._metrics.lock_hold_seconds.observe(time.monotonic() - self._held_since)
        try:
            await self._leases.release(lease)
        except (Unavailable, Fenced) as error:
            # The node goes with the session at the latest.
            self._log.warning("lock not released", reason=str(error))

    async def _unless_retired(self, waiting: Awaitable[T]) -> T:
        """Wait for ZooKeeper or a lock, but not for long once the lane is retired: others may need what it holds up."""
        work, retired = asyncio.ensure_future(waiting), asyncio.ensure_future(self._retired.wait())
        try:
            await asyncio.wait({work, retired}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait({work}, timeout=RETIRED_GRACE_S)
            if not work.done():
                raise Unavailable("the lane is retired")
            return work.result()
        finally:
            for task in (work, retired):
                task.cancel()
            await asyncio.gather(work, retired, return_exceptions=True)
