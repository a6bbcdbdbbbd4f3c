"""Daemons know of each other, share the shards, and hear of every change."""

import asyncio

import pytest

from firn.model.errors import AlreadyExists, NotFound, Unavailable
from firn.storage.membership import MEMBERS, SHARDS, Membership
from tests.contract.coordination_worlds import until


async def member(world, name, *, info=b""):
    session = await world.connect()
    membership = Membership(session)
    await membership.join(name, info)
    return session, membership


async def test_members_come_and_go_with_their_sessions(world):
    (session, one), (_, two) = await member(world, "host-1/é", info=b"{}"), await member(world, "host-2")
    assert await one.members() == await two.members() == ["host-1/é", "host-2"]
    assert await two.info("host-1/é") == b"{}"
    await one.close()
    await session.close()
    assert await two.members() == ["host-2"]
    with pytest.raises(NotFound):
        await two.info("host-1/é")


async def test_what_a_member_says_of_itself_changes_and_outlives_its_session(world):
    (session, one), (_, two) = await member(world, "one", info=b"well"), await member(world, "two")
    await one.restate(b"stuck")
    assert await two.info("one") == b"stuck"
    await world.expire(session)
    await one.restate(b"stuck again")
    for _ in range(200):
        if await two.members() == ["one", "two"]:
            break
        await asyncio.sleep(0.05)
    assert await two.info("one") == b"stuck again"


async def test_a_member_leaves_and_comes_back_and_joins_no_session_that_it_may_not(world):
    (_, watching) = await member(world, "watching")
    admitted, session = [True], await world.connect()

    async def admit():
        if not admitted[0]:
            raise Unavailable("not ours")

    one = Membership(session, admit=admit)
    await one.join("one", b"there")
    assert await watching.members() == ["one", "watching"]
    await one.leave()
    await one.leave()
    assert await watching.members() == ["watching"]
    await one.restate(b"changed")
    await one.join("one", b"back")
    assert await watching.info("one") == b"back"
    admitted[0] = False
    await world.expire(session)
    await asyncio.sleep(0.3)
    assert await watching.members() == ["watching"]
    admitted[0] = True
    async with asyncio.timeout(15):
        while await watching.members() != ["one", "watching"]:  # noqa: ASYNC110 - two sessions, which may be threads
            await asyncio.sleep(0.05)


async def test_two_sessions_cannot_be_one_member_but_one_may_join_again(world):
    _, one = await member(world, "same")
    await one.join("same")
    with pytest.raises(AlreadyExists):
        await member(world, "same")


async def test_a_shard_has_one_owner(world):
    (_, one), (_, two) = await member(world, "one"), await member(world, "two")
    taken = await asyncio.gather(*(each.take_shard(shard) for shard in range(4) for each in (one, two)))
    assert [sum(pair) for pair in zip(taken[::2], taken[1::2], strict=True)] == [1, 1, 1, 1]
    owners = await one.owners()
    assert {shard: one.owns(shard) for shard in range(4)} == {shard: owners[shard] == "one" for shard in range(4)}
    owner = one if "one" in owners.values() else two  # one of the two may have been the faster four times
    assert await owner.take_shard(next(shard for shard in range(4) if owner.owns(shard)))


async def test_a_released_shard_is_free_and_only_its_owner_releases_it(world):
    (_, one), (_, two) = await member(world, "one"), await member(world, "two")
    assert await one.take_shard(0)
    await two.release_shard(0)
    assert await two.owners() == {0: "one"}
    await one.release_shard(0)
    assert not one.owns(0)
    assert await two.take_shard(0)
    assert await one.owners() == {0: "two"}


async def test_a_lost_session_frees_its_shards_and_its_member_joins_again(world):
    (session, one), (_, two) = await member(world, "one", info=b"i"), await member(world, "two")
    assert await one.take_shard(3)
    await world.expire(session)
    assert not one.owns(3)
    assert await two.take_shard(3)
    for _ in range(200):
        if await two.members() == ["one", "two"]:
            break
        await asyncio.sleep(0.05)
    assert await two.members() == ["one", "two"]
    assert await two.info("one") == b"i"
    assert not await one.take_shard(3)


async def test_a_suspended_session_owns_nothing_until_it_is_back(world):
    session, one = await member(world, "one")
    await one.take_shard(0)
    await world.suspend(session)
    assert not one.owns(0)
    await world.resume(session)
    assert one.owns(0)


async def test_the_server_knows_of_a_lost_shard_before_a_process_that_was_stopped_does(world):
    session, one = await member(world, "one")
    assert not await one.still_owns(0)
    await one.take_shard(0)
    assert await one.still_owns(0)
    await world.freeze_past_expiry(session)
    assert one.owns(0), "it knows already: the test proves nothing"
    assert not await one.still_owns(0)


async def test_a_shard_whose_node_somebody_removed_is_the_next_ones(world):
    (_, one), (session, two) = await member(world, "one"), await member(world, "two")
    await one.take_shard(0)
    await session.delete(f"{SHARDS}/0")
    assert not await one.still_owns(0)
    assert await two.take_shard(0)
    assert not await one.still_owns(0)
    assert await two.still_owns(0)


async def test_whose_shard_it_is_cannot_be_said_without_an_answer(world):
    session, one = await member(world, "one")
    await one.take_shard(0)
    await world.suspend(session)
    assert not await one.still_owns(0)
    await world.resume(session)
    assert await one.still_owns(0)


async def test_changes_are_told_and_told_again_after_a_reconnect(world):
    session, one = await member(world, "one")
    calls = 0

    def changed():
        nonlocal calls
        calls += 1

    async def told_of(action):
        before = calls
        await action
        await until(lambda: calls > before)

    await one.on_change(changed)
    _, two = await member(world, "two")
    await until(lambda: calls > 0)
    await asyncio.sleep(0.2)
    await told_of(two.take_shard(1))
    await asyncio.sleep(0.2)
    await told_of(two.release_shard(1))
    for _ in range(3):
        await world.suspend(session)
        await asyncio.sleep(0.1)
        await told_of(world.resume(session))
    await asyncio.sleep(0.3)
    before = calls
    await told_of(two.take_shard(2))
    await asyncio.sleep(0.3)
    assert calls == before + 1  # watches do not multiply with reconnects
    await one.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_reply_to_taking_a_shard_is_settled_by_reading(world, when):
    session, one = await member(world, "one")
    taken = False
    async with world.reply_lost(session, when):
        for _ in range(100):
            try:
                taken = await one.take_shard(5)
                break
            except Unavailable:
                await asyncio.sleep(0.1)
    assert taken
    assert one.owns(5)
    assert await one.owners() == {5: "one"}


async def test_foreign_nodes_are_no_members(world):
    session, one = await member(world, "one")
    await session.create(f"{MEMBERS}/not a member")
    assert await one.members() == ["one"]
