"""A lock's node that nobody heard of, on a server that has not heard of it yet either: it is removed all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.model.errors import Unavailable, UnknownOutcome
from firn.storage.leases import LOCKS, Leases
from firn.storage.memory_coordination import MemorySession, MemoryZooKeeper
from firn.storage.sessions import NodeStat, Watch


class Behind(MemorySession):
    """A session that came to another server of the ensemble, behind the others until told to catch up."""

    seen: list[str] | None = None

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        found = await super().children(path, watch=watch)
        return found if self.seen is None else self.seen

    async def sync_get(self, path: str) -> tuple[bytes, NodeStat]:
        self.seen = None
        return await super().sync_get(path)


async def test_a_lock_whose_making_was_not_answered_is_not_left_standing_on_a_server_that_is_behind() -> None:
    zookeeper = MemoryZooKeeper()
    session, other = Behind(zookeeper), zookeeper.connect()
    await other.ensure_path(f"{LOCKS}/db.t")
    leases = Leases(session, member="one")
    session.seen = []
    session.drop_next_write("after")
    with pytest.raises(UnknownOutcome):
        await leases.acquire("db.t", timeout_s=5)
    async with asyncio.timeout(5):
        while await other.children(f"{LOCKS}/db.t"):  # noqa: ASYNC110 - any node at all
            await asyncio.sleep(0.01)
    assert await Leases(other, member="two").acquire("db.t", timeout_s=1) is not None


class Replaced(MemorySession):
    """A session that is replaced by another while it queues up for a lock, and then does not answer once."""

    zookeeper: MemoryZooKeeper
    silent = 0

    async def create(self, *arguments: Any, **options: Any) -> tuple[str, NodeStat]:
        epoch = self.epoch
        self.zookeeper.expire(self)
        while self.epoch == epoch or self.state != "connected":  # noqa: ASYNC110 - as it comes back by itself
            await asyncio.sleep(0)
        self.silent = 1
        return await super().create(*arguments, **options)

    async def sync_get(self, path: str) -> tuple[bytes, NodeStat]:
        if self.silent:
            self.silent -= 1
            raise Unavailable("no answer")
        return await super().sync_get(path)


async def test_a_lock_that_was_made_in_a_session_that_began_meanwhile_is_not_left_standing() -> None:
    zookeeper = MemoryZooKeeper()
    session, other = Replaced(zookeeper), zookeeper.connect()
    session.zookeeper = zookeeper
    await other.ensure_path(f"{LOCKS}/db.t")
    with pytest.raises(Unavailable, match="is lost"):
        await Leases(session, member="one").acquire("db.t", timeout_s=5)
    async with asyncio.timeout(5):
        while await other.children(f"{LOCKS}/db.t"):  # noqa: ASYNC110 - any node at all
            await asyncio.sleep(0.01)
