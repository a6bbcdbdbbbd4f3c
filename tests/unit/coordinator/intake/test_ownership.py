"""Shards are taken whenever ZooKeeper lets a daemon: a session that breaks as it starts ends nothing."""

from __future__ import annotations

import asyncio

import pytest

from firn.coordinator.cancellation import cancel_all
from firn.coordinator.intake.ownership import Ownership
from firn.coordinator.metrics import Metrics
from firn.storage.membership import Membership
from firn.storage.memory_coordination import MemoryZooKeeper


async def nothing(_shards: set[int]) -> None:
    return


@pytest.mark.parametrize("writes", range(3))
async def test_a_connection_that_breaks_while_the_members_are_first_looked_at(
    monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    monkeypatch.setattr("firn.coordinator.intake.ownership.RECHECK_S", 0.05)
    session = MemoryZooKeeper().connect()
    membership = Membership(session)
    await membership.join("a", b"{}")
    for _ in range(writes):
        session.drop_next_write("before")
    if not writes:
        session.suspend()
    ownership = Ownership(
        membership, member="a", shards=4, metrics=Metrics(version="1", daemon="a"), on_release=nothing
    )
    running = asyncio.create_task(ownership.run())
    await asyncio.sleep(0.02)
    session.resume()
    async with asyncio.timeout(10):
        while len(ownership.owned()) < 4:
            assert not running.done(), running.exception()
            await asyncio.sleep(0.01)
    await cancel_all([running])


async def test_no_shard_is_taken_on_the_word_of_a_node_that_an_earlier_session_left() -> None:
    """A ZooKeeper that came back has the node of this daemon's last life, while the daemon itself has left."""
    zookeeper = MemoryZooKeeper()
    earlier = Membership(zookeeper.connect())
    await earlier.join("a", b"{}")
    membership = Membership(zookeeper.connect())
    assert not await membership.take_shard(0)
    ownership = Ownership(
        membership, member="a", shards=4, metrics=Metrics(version="1", daemon="a"), on_release=nothing
    )
    await ownership._rebalance()
    assert ownership.owned() == []
    await earlier.leave()
    await membership.join("a", b"{}")
    await ownership._rebalance()
    assert len(ownership.owned()) == 4
