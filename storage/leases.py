"""The table lock: who may work on a table now.

A holder is the lowest of the sequential ephemeral nodes below ``/locks/<table>``; the next in line watches only the one
before it. The lock saves work, it does not make a swap safe: the swap checks the lease's own node in the same ZooKeeper
multi that moves the pointer. Node names are never used twice, so a later holder's node cannot satisfy an old check.

A holder learns when another queues up behind it, and gives way (`Leases.is_wanted`). Several locks are taken in one
order by everybody (`lock_order`), so that no two can wait for each other.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec

from firn.model.errors import FirnError, NotFound, Unavailable
from firn.storage.log import get_logger
from firn.storage.sessions import Session, SessionState, encode_name

LOCKS: Final = "/locks"
SWEEP_RETRY_S: Final = 1.0
SWEEP_TRIES_MAX: Final = 3600

_log: Any = get_logger()


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A table lock as it was acquired. `token` grows from holder to holder: it is the fencing token."""

    table: str
    token: int
    path: str
    session_epoch: int


class HolderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a table's lock, and since when by the server's clock (when it queued up)."""

    member: str
    since_ms: int
    token: int


class _Hold(msgspec.Struct, eq=False):
    """A lease and who waits for it. `unseen`: the queue changed since it was last looked at."""

    lease: Lease
    on_wanted: Callable[[], None] | None = None
    wanted: bool = False
    unseen: bool = False


def is_shared(name: str) -> bool:
    """Whether the lock is one over many tables: those begin with a dot."""
    return name.startswith(".")


def lock_order(name: str) -> tuple[bool, str]:
    """Sort key in which locks are taken: tables by name, then the locks over many tables."""
    return is_shared(name), name


class Leases:
    """Table locks of one session. `new_id` makes node names unique; give a seeded one for repeatable runs."""

    def __init__(self, session: Session, *, member: str, new_id: Callable[[], str] = lambda: uuid.uuid4().hex) -> None:
        self._session = session
        self._member = member
        self._new_id = new_id
        self._held: dict[str, _Hold] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._unwatched: dict[str, _Hold] = {}  # held, and a watch could not be renewed
        # Nodes of ours that nobody wants any more and that could not be removed yet: (folder, id) → session epoch.
        self._unwanted: dict[tuple[str, str], int] = {}
        self._sweeping: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._remove_listener = session.add_listener(self._on_state)

    async def acquire(
        self, table: str, *, timeout_s: float, on_wanted: Callable[[], None] | None = None
    ) -> Lease | None:
        """Queue up for `table` and wait; None when it is not our turn within `timeout_s`.

        Holders follow one another in the order in which they asked; `on_wanted` is called, on the event loop, once
        somebody waits behind the lease. Raises `Unavailable` when ZooKeeper does not answer
        or the session was lost meanwhile. Whatever ends the wait, nothing of ours stays in the queue.
        """
        folder = f"{LOCKS}/{encode_name(table)}"
        node_id = self._new_id()
        epoch = self._session.epoch
        try:
            async with asyncio.timeout(timeout_s):
                hold = await self._queue_up(table, folder, node_id, epoch=epoch)
        except TimeoutError:
            await self._give_up(folder, node_id, remove=self._remove(folder, node_id))
            return None
        except BaseException:
            # Not the session in which the wait began: the node may have been made in one that has begun since.
            self._unwanted[folder, node_id] = self._session.epoch
            self._sweep_soon()
            raise
        hold.on_wanted = on_wanted
        self._held[hold.lease.path] = hold
        if hold.wanted and on_wanted is not None:
            on_wanted()
        elif hold.unseen:
            self._look_behind(hold)
        return hold.lease

    def turn(self, name: str) -> asyncio.Lock:
        """Whose turn it is among this session's own users of a shared lock: one of them at a time queues up for it."""
        return self._turns.setdefault(name, asyncio.Lock())

    async def acquire_all(self, tables: Iterable[str], *, timeout_s: float) -> tuple[Lease, ...] | None:
        """The locks of all `tables`, taken one after the other in `lock_order`.

        None, and none held, if one is not to be had within `timeout_s`. Whoever holds a lease already may only ask for
        ones that come after it in that order.
        """
        leases: list[Lease] = []
        try:
            for table in sorted(set(tables), key=lock_order):
                lease = await self.acquire(table, timeout_s=timeout_s)
                if lease is None:
                    await self.release_all(leases)
                    return None
                leases.append(lease)
        except BaseException:
            await self.release_all(leases)
            raise
        return tuple(leases)

    async def release_all(self, leases: Iterable[Lease]) -> None:
        """Give several locks up. One that cannot be removed now is removed later, as with `release`."""
        for lease in leases:
            try:
                await self.release(lease)
            except FirnError as error:
                _log.warning("lease.not-removed-yet", table=lease.table, error=str(error))

    def is_wanted(self, lease: Lease) -> bool:
        """Whether somebody, here or in another daemon, waits behind this lease, as far as this process knows."""
        hold = self._held.get(lease.path)
        return hold is not None and hold.wanted

    def is_held(self, lease: Lease) -> bool:
        """Is the lock, as far as this process knows, still ours? Asks nobody; False while the session is suspended."""
        return (
            self._session.state == "connected"
            and self._session.epoch == lease.session_epoch
            and lease.path in self._held
        )

    async def release(self, lease: Lease) -> None:
        """Give the lock up. When ZooKeeper does not answer now, it is removed as soon as it does; nothing is raised."""
        if self._held.pop(lease.path, None) is None or lease.session_epoch != self._session.epoch:
            return
        folder, _, name = lease.path.rpartition("/")
        await self._give_up(folder, name[:-11], remove=self._session.delete(lease.path))

    async def holder(self, table: str) -> HolderInfo | None:
        """Who holds the lock of `table` now."""
        folder = f"{LOCKS}/{encode_name(table)}"
        try:
            for name in _in_turn(await self._session.children(folder)):
                try:
                    data, stat = await self._session.get(f"{folder}/{name}")
                except NotFound:
                    continue
                member = data.decode(errors="replace")
                return HolderInfo(member=member, since_ms=stat.ctime_ms, token=stat.czxid)
        except NotFound:
            return None
        return None

    async def break_hold(self, table: str, *, token: int) -> None:
        """Take the lock of `table` away from the holder with this fencing token.

        It cannot commit any more: its swaps check the node that is removed here. Raises NotFound when it holds the lock
        no longer.
        """
        folder = f"{LOCKS}/{encode_name(table)}"
        for name in _in_turn(await self._session.children(folder)):
            try:
                _, stat = await self._session.get(f"{folder}/{name}")
            except NotFound:
                continue
            if stat.czxid != token:
                break
            await self._session.delete(f"{folder}/{name}")
            return
        raise NotFound(f"the lock of {table!r} is not held under token {token}")

    async def forget(self, table: str) -> None:
        """Remove the queue of a dropped table, unless somebody waits in it."""
        try:
            await self._session.delete(f"{LOCKS}/{encode_name(table)}")
        except NotFound:
            return

    async def close(self) -> None:
        """Stop watching the session; held locks end with it."""
        self._remove_listener()
        tasks = [*self._background, *([] if self._sweeping is None else [self._sweeping])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _queue_up(self, table: str, folder: str, node_id: str, *, epoch: int) -> _Hold:
        path, token = await self._enter(folder, node_id)
        while True:
            changed = asyncio.Event()
            hold = _Hold(Lease(table=table, token=token, path=path, session_epoch=epoch))
            names = _in_turn(await self._session.children(folder, watch=functools.partial(self._look_behind, hold)))
            own = path.rpartition("/")[2]
            if own not in names or self._session.epoch != epoch:
                raise Unavailable(f"{table}: the place in the lock's queue is lost (session ended or node removed)")
            place = names.index(own)
            try:  # `get` and not `exists`, which would leave a watch behind on a name that never comes again
                if place == 0:
                    # A lock whose node an operator deletes is gone, though the session lives.
                    await self._session.get(path, watch=functools.partial(self._recheck, hold))
                    hold.wanted = len(names) > 1
                    return hold
                await self._session.get(f"{folder}/{names[place - 1]}", watch=changed.set)
            except NotFound:
                continue
            await changed.wait()

    async def _enter(self, folder: str, node_id: str) -> tuple[str, int]:
        while True:
            try:
                path, stat = await self._session.create(
                    f"{folder}/{node_id}-", self._member.encode(), ephemeral=True, sequence=True
                )
            except NotFound:
                await self._session.ensure_path(folder)
            else:
                return path, stat.czxid

    def _recheck(self, hold: _Hold) -> None:
        """The held node changed or the connection did: look again, unless it is no longer of interest."""
        if self._held.get(hold.lease.path) is hold:
            self._in_background(self._verify(hold))

    async def _verify(self, hold: _Hold) -> None:
        lease = hold.lease
        try:
            await self._session.get(lease.path, watch=functools.partial(self._recheck, hold))
        except NotFound:
            if self._held.pop(lease.path, None) is not None:
                _log.warning("lease.node-removed", table=lease.table, token=lease.token)
        except FirnError:
            self._unwatched[lease.path] = hold

    def _look_behind(self, hold: _Hold) -> None:
        """The lock's queue changed, or the connection did: see whether somebody waits, unless that is known."""
        hold.unseen = True
        if self._held.get(hold.lease.path) is hold and not hold.wanted:
            self._in_background(self._see_who_waits(hold))

    async def _see_who_waits(self, hold: _Hold) -> None:
        folder, _, own = hold.lease.path.rpartition("/")
        hold.unseen = False
        try:
            names = _in_turn(await self._session.children(folder, watch=functools.partial(self._look_behind, hold)))
        except NotFound:
            return  # so is the lease's own node, which has a watch of its own
        except FirnError:
            self._unwatched[hold.lease.path] = hold
            return
        if own in names[:-1] and not hold.wanted:
            hold.wanted = True
            if hold.on_wanted is not None and self._held.get(hold.lease.path) is hold:
                hold.on_wanted()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(_report)

    def _on_state(self, state: SessionState) -> None:
        if state == "lost":
            self._held.clear()
        if state == "connected":
            self._sweep_soon()
            unwatched, self._unwatched = self._unwatched, {}
            for hold in unwatched.values():
                self._recheck(hold)
                self._look_behind(hold)

    def _sweep_soon(self) -> None:
        if self._unwanted and (self._sweeping is None or self._sweeping.done()):
            self._sweeping = asyncio.ensure_future(self._sweep_until_clean())
            self._sweeping.add_done_callback(_report)

    async def _sweep_until_clean(self) -> None:
        for _ in range(SWEEP_TRIES_MAX):
            if await self._sweep_pass() or self._session.state != "connected":
                return  # without a connection, its return starts the next sweep
            await asyncio.sleep(SWEEP_RETRY_S)

    async def _give_up(self, folder: str, node_id: str, *, remove: Coroutine[Any, Any, object]) -> None:
        """Remove a node of ours that nobody wants any more: now if that can be, otherwise in the background.

        Each caller removes its own: a thousand locks may be given up at once, and what is left of others is swept once.
        """
        self._unwanted[folder, node_id] = self._session.epoch
        if self._session.state != "connected":
            remove.close()
            return  # its return starts the sweep; waiting for it would hold up whoever gives a lock up
        try:
            await remove
        except NotFound:
            pass  # by an operator, or by an attempt whose answer was lost
        except FirnError as error:
            _log.warning("lease.not-removed-yet", folder=folder, error=str(error))
            self._sweep_soon()
            return
        except BaseException:
            self._sweep_soon()
            raise
        self._unwanted.pop((folder, node_id), None)

    async def _sweep_pass(self) -> bool:
        while self._unwanted:
            (folder, node_id), epoch = next(iter(self._unwanted.items()))
            if epoch == self._session.epoch:  # else they went with their session
                try:
                    await self._remove(folder, node_id)
                except FirnError as error:
                    _log.warning("lease.not-removed-yet", folder=folder, error=str(error))
                    return False
            self._unwanted.pop((folder, node_id), None)
        return True

    async def _remove(self, folder: str, node_id: str) -> None:
        try:
            # The node's own creation may be unanswered, and the server of the new connection not have heard of it yet.
            await self._session.sync_get(folder)
            names = await self._session.children(folder)
        except NotFound:
            return
        for name in names:
            if name.startswith(f"{node_id}-"):
                try:
                    await self._session.delete(f"{folder}/{name}")
                except NotFound:
                    continue


def _in_turn(names: list[str]) -> list[str]:
    """The queue in order: by the server's sequence number, the last ten digits. What is no queue node is left out."""
    return sorted((name for name in names if name[-10:].isdigit()), key=lambda name: name[-10:])


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("lease.background", error=repr(error))
