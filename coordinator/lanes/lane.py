"""A lane: one table's intents, in order, one batch after the other.

The next batch gathers while this one commits, and for a moment after it (`firn.coordinator.lanes.gathering`). The lane
holds the table's lock as a lease while it is busy, and gives it up between batches when another waits for it. How a
batch is committed is `firn.coordinator.lanes.table_commits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

import msgspec

from firn.coordinator.lanes.gathering import ENOUGH, Gathering
from firn.coordinator.lanes.held_intents import HeldIntents
from firn.coordinator.lanes.lane_lock import LaneLock
from firn.coordinator.lanes.lane_queue import LaneQueue
from firn.coordinator.lanes.paused_tables import TablePausedError
from firn.coordinator.lanes.table_commits import TableCommits, UnpreparedBatchError
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.metrics import TableSize
from firn.coordinator.pending import Pending, transaction_in
from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Refused
from firn.coordinator.replay.transaction import UnreadableTableError
from firn.model.errors import CorruptFile, Fenced, FirnError, InvalidInput, Misconfigured, NotFound, Unavailable
from firn.storage.log import get_logger

BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Waits after a failure that says nothing about the intents (a server does not answer)."""
FAILURES_PER_WARNING = 10
"""A batch that waits says so at once, then every 20 s or so: a server that is away must not fill the log."""

READING_S_MAX = 0.02
"""How long a batch waits for intents that are being read: a page takes a fraction of it."""


class AtWork(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that has no outcome yet: of which table, at what for how long, and what was in its way the last time."""

    table: str
    stage: str
    seconds: float
    reason: str | None


class Lane:
    """The queue and the commit loop of one table. `give_back` takes what waits in the stream until a pause ends."""

    def __init__(
        self,
        table: str,
        shop: Workshop,
        *,
        coming: Callable[[], int],
        give_back: Callable[[Sequence[Pending]], None],
    ) -> None:
        self.table = table
        self.unreadable: str | None = None
        self._in_the_way: str | None = None
        """What keeps the batch under way from its outcome, while it is tried again and again."""
        self._shop = shop
        self._coming = coming
        self._give_back = give_back
        self._queue = LaneQueue(limits=shop.limits, metrics=shop.metrics)
        self._arrived = asyncio.Event()
        self._retired = asyncio.Event()
        self._lock = LaneLock(
            table, leases=shop.leases, metrics=shop.metrics, connected=shop.connected, retired=self._retired,
            on_wanted=self._arrived.set,
        )  # fmt: skip
        self._held = HeldIntents(table, self._queue, look_again=self._look_again)
        self._commits = TableCommits(table, shop, lock=self._lock, queue=self._queue, held=self._held)
        self._busy = False
        self._began_at = 0.0
        self._gathering = Gathering()
        self.given_up: list[Pending] = []
        """What a lane left undecided of its last batch when it ended: for want of a server or the lock, or by dying."""
        self._log = get_logger().bind(table=table)

    # -- the queue -------------------------------------------------------------------------------------------------

    def put(self, pending: Pending) -> None:
        """Queue an intent behind the others."""
        self._queue.put(pending)
        self._arrived.set()

    @property
    def depth(self) -> int:
        """Intents queued and not yet in a batch."""
        return len(self._queue) + self._queue.parked

    @property
    def size(self) -> TableSize | None:
        """How much the table's last commit carried."""
        return self._commits.size

    @property
    def idle(self) -> bool:
        """Nothing queued, nothing under way, no lock held."""
        return not self.depth and not self._busy and not self._lock.has_lease

    @property
    def stalled(self) -> str | None:
        """What keeps intents from their outcomes, while they are tried again and again."""
        return self._in_the_way or self._held.reason

    @property
    def at_work(self) -> AtWork | None:
        """The batch under way, if there is one."""
        if not self._busy:
            return None
        seconds = time.monotonic() - self._began_at
        return AtWork(table=self.table, stage=self._commits.stage or "lock", seconds=seconds, reason=self._in_the_way)

    def put_away(self) -> None:
        """It has ended with nothing to do: what it knows of its table is kept for the next one, while there is room."""
        if self.unreadable is None and not self.given_up:
            self._commits.put_away()

    def retire(self) -> list[Pending]:
        """Finish the batch under way, then end; what was queued behind it is returned, undecided.

        A batch that cannot go on, because a server does not answer or another holds the lock, is not waited for: it
        ends up in `given_up`.
        """
        self._retired.set()
        left = self._queue.clear()
        self._arrived.set()
        return left

    async def run(self) -> None:
        """Commit batches until the lane is retired."""
        try:
            while not (self._retired.is_set() and not self._queue):
                if not self._queue:
                    await self._wait()
                    continue
                if self.table in self._shop.paused:
                    self._give_back(self._queue.clear())
                    await self._lock.let_go()
                    continue
                await self._pace()
                await self._gather()
                batch = self._queue.next_batch(now_ms=self._shop.wall_ms())
                if not batch or self._waits_for_another(batch):
                    continue
                self._busy = True
                self._began_at = time.monotonic()
                taken = len(batch)
                try:
                    with self._shop.kept.using(self._commits):
                        await self._settle_somehow(batch)
                except BaseException:
                    self.given_up.extend(batch)
                    raise
                finally:
                    self._busy, self._in_the_way = False, None
                now, queued = time.monotonic(), len(self._queue) + self._coming()
                self._gathering.batch_ended(began_at=self._began_at, now=now, answered=taken, queued=queued)
                await self._lock.give_way()
        finally:
            self._held.end()
            self.given_up.extend(self._queue.clear())  # what its last batch has parked
            self._shop.kept.remove(self._commits)
            await self._lock.let_go()

    def look_at_pauses(self) -> None:
        """Tables were paused or resumed: what waits for one may be due now."""
        self._queue.unpark()
        self._arrived.set()

    def _look_again(self) -> None:
        """Intents are queued again whose past could not be read."""
        self._commits.look_again()
        self._arrived.set()

    def _waits_for_another(self, batch: Sequence[Pending]) -> bool:
        """Park a transaction that would change another table that is paused: the others of this table go on."""
        transaction = transaction_in(batch)
        if transaction is None or not any(table in self._shop.paused for table in transaction.changed_tables):
            return False
        self._queue.park(batch)
        return True

    async def _pace(self) -> None:
        """Let more gather, where the table does not want to be swapped so often (`firn.max-swaps-per-second`)."""
        swaps_max = self._commits.swaps_per_second_max
        wait_s = self._began_at + 1 / swaps_max - time.monotonic() if swaps_max else 0.0
        if wait_s > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._retired.wait(), wait_s)

    async def _gather(self) -> None:
        """Let those come back who have just been answered, and those be read whose reading has begun."""
        found = len(self._queue)
        if await self._more_come(lambda: self._gathering.wait_s(queued=len(self._queue), now=time.monotonic())):
            self._gathering.waited(found=found, queued=len(self._queue) + self._coming())
        if (look_s := self._gathering.look_s(queued=len(self._queue))) > 0:
            await asyncio.sleep(look_s)
        # Not those who come later: while many come all the time, there would be no end to it.
        wanted = min(len(self._queue) + self._coming(), ENOUGH)
        ends_at = time.monotonic() + READING_S_MAX
        await self._more_come(lambda: ends_at - time.monotonic() if len(self._queue) < wanted else 0.0)

    async def _more_come(self, wait_s: Callable[[], float]) -> bool:
        """Wait as long as `wait_s` says, which is asked anew whenever something comes; whether that was at all."""
        waited = False
        while not self._retired.is_set() and (for_s := wait_s()) > 0:
            waited = True
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(for_s):
                    await self._arrived.wait()
        return waited

    async def _wait(self) -> None:
        """Until something comes; the lock is given up after a while, and at once when another waits for it."""
        self._arrived.clear()
        await self._lock.give_way()
        timeout = self._shop.lease_idle_s if self._lock.has_lease else None
        try:
            async with asyncio.timeout(timeout):
                await self._arrived.wait()
        except TimeoutError:
            await self._lock.let_go()

    # -- one batch -------------------------------------------------------------------------------------------------

    async def _settle_somehow(self, batch: list[Pending]) -> None:
        """Bring a batch to its outcomes, however often servers fail; give up only when the lane is retired."""
        failures = 0
        while True:
            try:
                await self._settle(batch)
            except (Unavailable, Fenced, Misconfigured, OSError) as error:
                self._commits.doubt()
                self._in_the_way = str(error)
                if failures % FAILURES_PER_WARNING == 0:
                    self._log.warning("batch waits", reason=str(error), kind=type(error).__name__, intents=len(batch))
                if self._retired.is_set():
                    self.given_up.extend(batch)  # pending in their stream: whoever owns the shard takes them up
                    return
                await self._lock.give_way()
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
            except TablePausedError as error:
                self._commits.doubt()
                if await self._stands_still(batch, error):
                    return
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
            except Exception as error:  # noqa: BLE001 - a mistake of ours must not stop the other intents
                self._log.exception("batch failed", intents=len(batch))
                await self._isolate(batch, error)
                return
            else:
                return

    async def _settle(self, batch: list[Pending]) -> None:
        try:
            await self._commits.settle(batch)
        except UnreadableTableError as error:
            self._refuse_for_another(batch, error)
        except UnpreparedBatchError as error:
            if len(batch) == 1:
                await self._refuse_unreadable(batch, error.cause)
                return
            # One intent may need a file that the others do not: look for it by halves.
            self._commits.doubt()
            middle = len(batch) // 2
            await self._settle_somehow(batch[:middle])
            await self._settle_somehow(batch[middle:])
        except (CorruptFile, InvalidInput, NotFound) as error:
            await self._refuse_unreadable(batch, error)
        else:
            self.unreadable = None

    async def _stands_still(self, batch: list[Pending], error: TablePausedError) -> bool:
        """Found paused before this daemon had heard of it: the batch goes back to where it waits.

        False while the daemon cannot learn of it, or the pause has just ended: the batch is to be tried again.
        """
        await self._lock.let_go()
        if self._retired.is_set():
            self.given_up.extend(batch)
            return True
        try:
            await self._shop.paused.look_again()
        except FirnError as reading:
            self._log.warning("pauses not read", reason=str(reading))
        if error.table not in self._shop.paused:
            return False
        if error.table == self.table:
            self._give_back(batch)
        else:
            self._queue.park(batch)
        return True

    # -- what cannot be committed ----------------------------------------------------------------------------------

    async def _refuse_unreadable(self, batch: list[Pending], error: Exception) -> None:
        """The table's own files do not pass their checks: no commit is made on them, and the table is flagged.

        What was decided before stays decided, and is told again; what may have been, where the journal cannot be read,
        is held. Raises Unavailable while Redis would have to say what was and does not answer.
        """
        self.unreadable = str(error)
        self._log.error("table unreadable", reason=str(error))
        batch[:] = await self._commits.tell_as_known(batch, str(error))
        self._commits.forget()
        refused = unreadable(self.table, error)
        for pending in batch:
            self._shop.publisher.refuse(pending, pending.verdict or refused)

    def _refuse_for_another(self, batch: Sequence[Pending], error: UnreadableTableError) -> None:
        """Another table of a transaction does not pass its checks; this lane's is as good as it was."""
        self._commits.forget_others()
        refused = unreadable(error.table, error)
        for pending in batch:
            self._shop.publisher.refuse(pending, refused)

    async def _isolate(self, batch: Sequence[Pending], error: Exception) -> None:
        """A mistake of ours must cost one intent, not the queue: find it, refuse it, commit the others."""
        self._commits.forget()  # what was half done when it came out is not built on
        if len(batch) > 1:
            for pending in batch:
                await self._settle_somehow([pending])
            return
        (pending,) = batch
        refused = Refused(rule="internal-error", message=f"{type(error).__name__}: {error}"[:500], hint="retry")
        if pending.is_open:
            await self._settle_somehow([msgspec.structs.replace(pending, verdict=refused)])
        else:
            self._shop.publisher.refuse(pending, refused)


def unreadable(table: str, error: Exception) -> Refused:
    """Return the refusal of an intent on a table whose stored files are damaged or missing.

    Its hint is not `retry`: the same intent is refused until somebody has restored the files.
    """
    return rules.TABLE_UNREADABLE.refused(
        f"the stored state of table {table!r} does not pass its checks: {error}. Restore what it names; `firn fsck` "
        f"lists everything that is wrong with the table"
    )
