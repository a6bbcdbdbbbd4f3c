"""A table has one lock, it is handed on in order, and losing it is noticed."""

import asyncio

import pytest

from firn.model.errors import Unavailable
from firn.storage.leases import LOCKS, Leases
from firn.storage.sessions import encode_name
from tests.contract.coordination_worlds import until


async def leases(world, member):
    session = await world.connect()
    return session, Leases(session, member=member)


async def in_queue(session, count):
    for _ in range(200):
        names = await session.children(f"{LOCKS}/db.t")
        if len(names) == count:
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"{names} are in the queue, not {count}")


async def test_one_holds_and_the_next_gets_it_when_it_is_released(world):
    (_, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    held = await first.acquire("db.t", timeout_s=5)
    assert first.is_held(held)
    assert not second.is_held(held)
    assert (await second.holder("db.t")).member == "one"
    assert (await second.holder("db.t")).token == held.token
    waiting = asyncio.create_task(second.acquire("db.t", timeout_s=10))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await first.release(held)
    assert not first.is_held(held)
    taken = await waiting
    assert second.is_held(taken)
    assert taken.token > held.token
    assert taken.path != held.path
    assert (await first.holder("db.t")).member == "two"
    await second.release(taken)
    assert await first.holder("db.t") is None


async def test_waiting_ends_in_time_and_leaves_nothing_in_the_queue(world):
    (session, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    held = await first.acquire("db.t", timeout_s=5)
    assert await second.acquire("db.t", timeout_s=0.2) is None
    assert len(await session.children(f"{LOCKS}/db.t")) == 1
    assert first.is_held(held)


async def test_a_waiter_that_is_cancelled_leaves_nothing_in_the_queue(world):
    (session, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    await first.acquire("db.t", timeout_s=5)
    waiting = asyncio.create_task(second.acquire("db.t", timeout_s=30))
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await in_queue(session, 1)


async def test_the_lock_is_handed_on_in_the_order_of_asking(world):
    members = [await leases(world, f"m{number}") for number in range(4)]
    order: list[int] = []

    async def use(number):
        lease = await members[number][1].acquire("db.t", timeout_s=20)
        order.append(number)
        await asyncio.sleep(0)
        await members[number][1].release(lease)

    blocker = await members[0][1].acquire("db.t", timeout_s=5)
    tasks = []
    for number in (2, 0, 3, 1):
        tasks.append(asyncio.create_task(use(number)))
        await in_queue(members[0][0], len(tasks) + 1)
    await members[0][1].release(blocker)
    await asyncio.gather(*tasks)
    assert order == [2, 0, 3, 1]


async def test_many_contenders_never_hold_it_together(world):
    members = [await leases(world, f"m{number}") for number in range(3)]
    inside = 0

    async def use(one):
        nonlocal inside
        for _ in range(5):
            lease = await one.acquire("db.t", timeout_s=30)
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1
            await one.release(lease)

    await asyncio.gather(*(use(one) for _, one in members for _ in range(2)))


async def test_tables_do_not_wait_for_one_another(world):
    _, one = await leases(world, "one")
    held = [await one.acquire(table, timeout_s=5) for table in ("a", "a.b", "A", "..", "é", "a/b")]
    assert all(one.is_held(lease) for lease in held)


async def test_the_end_of_the_holders_session_frees_the_lock(world):
    (session, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    held = await first.acquire("db.t", timeout_s=5)
    waiting = asyncio.create_task(second.acquire("db.t", timeout_s=20))
    await asyncio.sleep(0.1)
    await world.expire(session)
    assert not first.is_held(held)
    assert second.is_held(await waiting)
    await first.release(held)  # harmless: it must not take the other's lock away
    assert (await second.holder("db.t")).member == "two"


async def test_a_suspended_session_holds_nothing_until_it_is_back(world):
    session, one = await leases(world, "one")
    held = await one.acquire("db.t", timeout_s=5)
    await world.suspend(session)
    assert not one.is_held(held)
    await world.resume(session)
    await until(lambda: one.is_held(held))


async def test_a_lock_whose_node_was_removed_by_hand_is_no_longer_held(world):
    (_, one), operator = await leases(world, "one"), await world.connect()
    held = await one.acquire("db.t", timeout_s=5)
    await operator.delete(held.path)
    await until(lambda: not one.is_held(held))


async def test_a_removed_lock_is_noticed_even_after_a_reconnect(world):
    (session, one), operator = await leases(world, "one"), await world.connect()
    held = await one.acquire("db.t", timeout_s=5)
    await world.suspend(session)
    await operator.delete(held.path)
    await world.resume(session)
    await until(lambda: not one.is_held(held))


async def test_a_release_during_an_outage_takes_effect_after_it(world):
    (session, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    held = await first.acquire("db.t", timeout_s=5)
    await world.suspend(session)
    await first.release(held)
    assert not first.is_held(held)
    await world.resume(session)
    assert await second.acquire("db.t", timeout_s=15) is not None


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_reply_to_the_request_for_a_lock_does_not_block_the_table(world, when):
    (session, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    await first.release(await first.acquire("db.t", timeout_s=5))
    async with world.reply_lost(session, when):
        with pytest.raises(Unavailable):
            await first.acquire("db.t", timeout_s=10)
    assert await second.acquire("db.t", timeout_s=15) is not None


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_reply_to_a_release_does_not_block_the_table(world, when):
    (session, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    held = await first.acquire("db.t", timeout_s=5)
    async with world.reply_lost(session, when):
        await first.release(held)
    assert await second.acquire("db.t", timeout_s=15) is not None


async def test_a_dropped_tables_queue_is_forgotten_unless_it_is_in_use(world):
    session, one = await leases(world, "one")
    held = await one.acquire("db.t", timeout_s=5)
    await one.forget("db.t")
    assert one.is_held(held)
    await one.release(held)
    await one.forget("db.t")
    await one.forget("db.t")
    assert await session.exists(f"{LOCKS}/{encode_name('db.t')}") is None
    again = await one.acquire("db.t", timeout_s=5)
    assert again.token > held.token


async def test_a_holder_learns_that_another_waits_behind_it(world):
    (_, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    told = asyncio.Event()
    held = await first.acquire("db.t", timeout_s=5, on_wanted=told.set)
    await asyncio.sleep(0.1)
    assert not first.is_wanted(held)
    waiting = asyncio.create_task(second.acquire("db.t", timeout_s=10))
    async with asyncio.timeout(5):
        await told.wait()
    assert first.is_wanted(held)
    await first.release(held)
    assert not second.is_wanted(await waiting)


async def test_a_holder_that_had_waiters_behind_it_when_its_turn_came_knows_so(world):
    (_, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    session, third = await leases(world, "three")
    held = await first.acquire("db.t", timeout_s=5)
    told = asyncio.Event()
    second_waits = asyncio.create_task(second.acquire("db.t", timeout_s=10, on_wanted=told.set))
    await in_queue(session, 2)
    third_waits = asyncio.create_task(third.acquire("db.t", timeout_s=10))
    await in_queue(session, 3)
    await first.release(held)
    taken = await second_waits
    assert second.is_wanted(taken)
    assert told.is_set()
    await second.release(taken)
    assert not third.is_wanted(await third_waits)


async def test_who_waits_is_noticed_after_the_connection_was_gone(world):
    (session, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    told = asyncio.Event()
    held = await first.acquire("db.t", timeout_s=5, on_wanted=told.set)
    await world.suspend(session)
    await world.resume(session)
    await until(lambda: first.is_held(held))
    waiting = asyncio.create_task(second.acquire("db.t", timeout_s=20))
    async with asyncio.timeout(15):
        await told.wait()
    await first.release(held)
    assert await waiting is not None


async def test_all_locks_or_none_in_one_order(world):
    (session, first), (_, second) = await leases(world, "one"), await leases(world, "two")
    blocked = await second.acquire("db.t", timeout_s=5)
    assert await first.acquire_all([".all", "db.u", "db.t", "db.a"], timeout_s=0.3) is None
    for name in ("db.a", "db.u", ".all"):
        assert await first.holder(name) is None
    await second.release(blocked)
    held = await first.acquire_all([".all", "db.u", "db.t", "db.a", "db.a"], timeout_s=5)
    assert [lease.table for lease in held] == ["db.a", "db.t", "db.u", ".all"]
    await first.release_all(held)
    assert await session.children(f"{LOCKS}/db.t") == []


async def test_crossing_holders_of_several_locks_all_get_their_turn(world):
    members = [(await leases(world, f"m{number}"))[1] for number in range(4)]
    turns = []

    async def work(member, tables):
        for _ in range(5):
            held = await member.acquire_all(tables, timeout_s=30)
            turns.append(tables)
            await member.release_all(held)

    orders = [["a", "b"], ["b", "a"], ["c", "a", "b"], ["b", "c"]]
    async with asyncio.timeout(60):
        await asyncio.gather(*(work(member, tables) for member, tables in zip(members, orders, strict=True)))
    assert len(turns) == 20


class Counted:
    """A session that counts what is asked of it."""

    def __init__(self, session):
        self._session = session
        self.calls = 0

    def __getattr__(self, name):
        member = getattr(self._session, name)
        if name not in {"children", "delete", "get", "exists"}:
            return member

        def call(*args, **options):
            self.calls += 1
            return member(*args, **options)

        return call


async def test_giving_up_many_locks_at_once_costs_one_request_for_each(world):
    session = Counted(await world.connect())
    own = Leases(session, member="one")
    acquired = [await own.acquire(f"db.t{n}", timeout_s=5) for n in range(30)]
    held = [lease for lease in acquired if lease is not None]
    assert len(held) == len(acquired)
    session.calls = 0
    await asyncio.gather(*map(own.release, held))
    assert session.calls == len(held)
    assert [await own.holder(f"db.t{n}") for n in range(30)] == [None] * 30
