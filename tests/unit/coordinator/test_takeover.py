"""What daemons leave behind when they, Redis or ZooKeeper fail, and who takes it up: on in-memory twins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from firn.coordinator import daemon as daemon_module
from firn.coordinator.intake import quarantine as quarantine_module
from firn.coordinator.intake.backlog import PAGE
from firn.coordinator.pending import Pending
from firn.model.errors import Misconfigured, Unavailable
from firn.model.intent import encode_intent
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from firn.model.sharding import shard_of
from firn.storage.leases import Leases
from firn.storage.membership import Membership
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create

SOON_S = 12
"""Far below the minute after which anything that was forgotten is found again."""


async def until(condition: Any, *, timeout_s: float = SOON_S) -> None:
    """Wait until `condition()` holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - the twins tell nobody
            await asyncio.sleep(0.005)


def pendings(bench: Workbench, table: str = TABLE) -> dict[Any, Any]:
    """What was delivered and not acknowledged in the table's shard."""
    group = bench.redis.streams[f"firn:intents:{shard_of(table, shards=bench.shards)}"].group
    return {} if group is None else group.pending


async def test_all_that_a_dead_daemon_left_is_taken_up_at_once_and_counted_as_one_delivery() -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
    intents = [append(f"f{i}") for i in range(2 * PAGE + 10)]
    await bench.send(*intents)
    shard = shard_of(TABLE, shards=bench.shards)
    assert len(await bench.streams.take([shard], consumer="dead", count=10_000, block_ms=0)) == len(intents)
    seen: list[int] = []
    async with bench.daemon("b") as heir:
        put = heir.lanes.put

        def recorded(pending: Pending) -> None:
            seen.append(pending.entry.deliveries)
            put(pending)

        heir.lanes.put = recorded  # type: ignore[method-assign]
        outcomes = [await bench.outcome(intent, timeout_s=SOON_S) for intent in intents]
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert seen == [2] * len(intents)


async def test_entries_whose_delivery_got_lost_with_redis_are_found_when_it_is_back() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        streams = daemon.intake._streams
        take = streams.take

        async def lost_reply(*args: Any, **options: Any) -> Any:
            if not await take(*args, **options):
                return []
            streams.take = take  # type: ignore[method-assign]
            raise Unavailable("the connection broke")

        await asyncio.sleep(0)
        streams.take = lost_reply  # type: ignore[method-assign]
        await asyncio.sleep(0.6)  # the take that is under way ends
        intent = append("a")
        await bench.send(intent)
        assert isinstance(await bench.outcome(intent, timeout_s=SOON_S), Committed)


async def test_waiting_for_a_lock_or_a_server_does_not_make_an_intent_poison() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await daemon.lanes.retire()
        other = Leases(bench.zookeeper.connect(), member="another")
        lease = await other.acquire(TABLE, timeout_s=1)
        assert lease is not None
        intent = append("a")
        await bench.send(intent)
        await until(lambda: pendings(bench))
        for _ in range(20):
            daemon.intake._backlogs[shard_of(TABLE, shards=bench.shards)].start_over()
            await asyncio.sleep(0.01)
        assert [pending.deliveries for pending in pendings(bench).values()] == [1]
        await other.release(lease)
        assert isinstance(await bench.outcome(intent), Committed)


async def test_a_batch_that_was_given_up_with_its_shard_is_taken_up_when_the_shard_comes_back() -> None:
    bench = Workbench()
    intent = append("a")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        other = Leases(bench.zookeeper.connect(), member="another")
        await daemon.lanes.retire()
        lease = await other.acquire(TABLE, timeout_s=1)
        assert lease is not None
        await bench.send(intent)
        await until(lambda: pendings(bench))
        retiring = asyncio.create_task(daemon.lanes.retire())
        await asyncio.sleep(0)
        bench.zookeeper.expire(bench.sessions["a"])  # its shards go, and come back
        await retiring
        await other.release(lease)
        assert isinstance(await bench.outcome(intent, timeout_s=SOON_S), Committed)
    assert not any(daemon.lanes._under_way.values())


async def test_a_retired_lane_does_not_hold_its_daemon_up_while_another_has_the_lock() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await daemon.lanes.retire()
        other = Leases(bench.zookeeper.connect(), member="another")
        assert await other.acquire(TABLE, timeout_s=1) is not None
        await bench.send(append("a"))
        await until(lambda: pendings(bench))
        async with asyncio.timeout(SOON_S):
            await daemon.lanes.retire()
        assert not any(daemon.lanes._under_way.values())


async def test_a_repeat_in_a_batch_that_has_to_wait_is_answered_once() -> None:
    bench = Workbench()
    intent = append("a")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await bench.commit(intent)
        create_all, failures = bench.files.create_all, iter(range(5))

        def failing(files: Any) -> None:
            if next(failures, None) is not None:
                raise Unavailable("the disk does not answer")
            create_all(files)

        bench.files.create_all = failing  # type: ignore[method-assign]
        fresh = append("b")
        shard = shard_of(TABLE, shards=bench.shards)
        await asyncio.gather(*(bench.streams.submit(shard, encode_intent(i)) for i in (intent, fresh, fresh, fresh)))
        assert isinstance(await bench.outcome(fresh), Committed)
        await until(lambda: not pendings(bench))
        assert daemon.metrics.repeats._value.get() == 3
    assert await bench.live() == ["a", "b"]


async def test_a_daemon_that_ends_gives_its_shards_up_and_does_not_take_them_back() -> None:
    bench = Workbench()
    owners = Membership(bench.zookeeper.connect()).owners
    async with bench.daemon() as daemon:
        await bench.commit(create())
        assert len(await owners()) == bench.shards
        await daemon.stop()
        await asyncio.sleep(0.1)
        assert await owners() == {}


async def test_a_shard_that_could_not_be_given_up_is_given_up_later() -> None:
    bench = Workbench(shards=8)
    async with bench.daemon("a") as first:
        await until(lambda: len(first.ownership.owned()) == 8)
        release, failures = first._membership.release_shard, iter(range(3))

        async def failing(shard: int) -> None:
            if next(failures, None) is not None:
                first._membership._owned.pop(shard, None)
                raise Unavailable("ZooKeeper does not answer")
            await release(shard)

        first._membership.release_shard = failing  # type: ignore[method-assign]
        async with bench.daemon("b") as second:
            await until(lambda: len(second.ownership.owned()) == 4 and len(first.ownership.owned()) == 4, timeout_s=8)


async def test_a_daemon_killed_and_started_under_its_old_id_waits_for_its_old_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_module, "JOIN_RETRY_S", 0.01)
    bench = Workbench()
    session = bench.zookeeper.connect()
    await Membership(session).join("a")
    asyncio.get_running_loop().call_later(0.2, bench.zookeeper.end, session.session_id)
    async with bench.daemon("a"):
        await bench.commit(create())


async def test_two_daemons_that_live_cannot_have_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_module, "JOIN_RETRY_S", 0.01)
    monkeypatch.setattr(daemon_module, "JOIN_MARGIN_S", -19.9)
    bench = Workbench()
    await Membership(bench.zookeeper.connect()).join("a")
    with pytest.raises(Misconfigured, match=r"daemon\.id.*'a'"):
        async with bench.daemon("a"):
            pass


DELIVERIES_MAX = 6


async def lives_until(
    bench: Workbench, done: Callable[[], Awaitable[bool]], fatal: Callable[[Any], bool], *, stage: str
) -> int:
    """Daemons one after the other, each of which stops where a fatal intent comes up; how many it took."""
    for life in range(8 * DELIVERIES_MAX):
        async with bench.daemon(f"life-{life}", drain_s=0.01) as daemon:
            hit = asyncio.Event()
            put, decode = daemon.lanes.put, daemon.intake._decode

            def dying_put(pending: Pending, *, hit: asyncio.Event = hit, put: Any = put) -> None:
                if fatal(pending.decoded.intent) and pending.verdict is None:
                    hit.set()
                    raise asyncio.CancelledError  # the intake ends, and with it the daemon does
                put(pending)

            def dying_decode(entry: Any, *, hit: asyncio.Event = hit, decode: Any = decode) -> Any:
                decoded = decode(entry)
                if fatal(decoded.intent):
                    hit.set()
                    raise asyncio.CancelledError
                return decoded

            if stage == "decode":
                daemon.intake._decode = dying_decode  # type: ignore[method-assign]
            else:
                daemon.lanes.put = dying_put  # type: ignore[method-assign]
            async with asyncio.timeout(SOON_S):
                while not hit.is_set() and not await done():  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        if await done():
            return life + 1
    raise AssertionError("the poison was never set aside")


@pytest.mark.parametrize("stage", ["lane", "decode"])
async def test_only_the_intent_that_takes_daemons_down_becomes_poison(stage: str) -> None:
    bench = Workbench(limits=Limits(deliveries_max=DELIVERIES_MAX))
    async with bench.daemon():
        await bench.commit(create())
    before, after = [append(f"b{n}") for n in range(5)], [append(f"a{n}") for n in range(20)]
    poison = append("poison")
    await bench.send(*before, poison, *after)

    async def all_told() -> bool:
        return all([await bench.streams.outcome(one.intent_id) is not None for one in (*before, *after)])

    lives = await lives_until(bench, all_told, lambda one: bool(one.intent_id == poison.intent_id), stage=stage)
    outcomes = [await bench.outcome(one) for one in (*before, *after)]
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    if stage == "lane":
        refused = await bench.outcome(poison)
        assert isinstance(refused, Rejected)
        assert refused.rule == "poison"
        (letter,) = await bench.streams.dead_letters()
        assert poison.intent_id.encode() in letter.data
        assert lives <= DELIVERIES_MAX + 2
    else:
        assert await bench.streams.outcome(poison.intent_id) is None  # nobody dared to look at it
        (letter,) = await bench.streams.dead_letters()
        assert b"could not even be refused" in letter.data
        assert lives <= 2 * DELIVERIES_MAX + 2
    assert await bench.live() == sorted([*(f"b{n}" for n in range(5)), *(f"a{n}" for n in range(20))])


async def test_a_suspect_that_waits_for_a_lock_keeps_others_waiting_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quarantine_module, "ALONE_S", 0.3)
    bench = Workbench(shards=1)
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(create("db.other"))
    stuck, free = append("stuck"), append("free", table="db.other")
    await bench.send(stuck, free)
    entries = await bench.streams.take([0], consumer="dead", count=10, block_ms=0)
    for _ in range(8):  # so often that each is handed over alone
        entries = await bench.streams.count_delivery(0, entries, consumer="dead")
    other = Leases(bench.zookeeper.connect(), member="another")
    lease = await other.acquire(TABLE, timeout_s=1)
    assert lease is not None
    async with bench.daemon():
        assert isinstance(await bench.outcome(free, timeout_s=SOON_S), Committed)
        assert await bench.streams.outcome(stuck.intent_id) is None
        await other.release(lease)
        assert isinstance(await bench.outcome(stuck, timeout_s=SOON_S), Committed)


async def test_what_a_lane_that_died_held_is_taken_up_at_once() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        lane = daemon.lanes._lanes[TABLE]

        def broken(**_now: int) -> list[Pending]:
            raise RuntimeError("a mistake of ours")

        lane._queue.next_batch = broken  # type: ignore[method-assign]
        intents = [append(f"f{n}") for n in range(5)]
        await bench.send(*intents)
        outcomes = [await bench.outcome(intent, timeout_s=SOON_S) for intent in intents]
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert not any(daemon.lanes._under_way.values())


async def test_a_daemon_that_comes_back_while_another_has_its_id_takes_nothing_and_loses_nothing() -> None:
    """Stopped past its session and replaced under its name; it comes back, and has its part again when that ends."""
    bench = Workbench(shards=2)
    names = [f"f{number}" for number in range(8)]
    async with bench.daemon("a") as zombie:
        await bench.commit(create())
        bench.zookeeper.expire(bench.sessions["a"], told=False)
        async with bench.daemon("a") as replacement:
            for name in names[:4]:
                await bench.commit(append(name))
                await asyncio.sleep(0.2)
            assert zombie.ownership.owned() == []
            assert replacement.ownership.owned() == [0, 1]
        for name in names[4:]:
            await bench.commit(append(name))
        assert zombie.ownership.owned() == [0, 1]
    assert await bench.live() == names
    decided = [decided.intent_id for segment in await bench.journal() for decided in segment.decided]
    assert len(decided) == len(set(decided)) == 9
