"""What only a real Redis does: run out of memory, restart, refuse credentials, be a cluster."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from firn.coordinator.embedded import RedisServer
from firn.coordinator.embedded.server import free_port
from firn.model.errors import Misconfigured, Unavailable, UnknownOutcome
from firn.storage.intent_streams import Settlement
from firn.storage.redis_streams import RedisStreams
from tests.contract.stream_worlds import RedisWorld


def settled(entry, **changes):
    told = {"intent_id": "i", "outcome": b"{}", "outcome_ttl_s": 60, **changes}
    return Settlement(shard=entry.shard, entry_id=entry.entry_id, **told)


async def taken(streams, shard=0):
    found = []
    for _ in range(2):
        found += await streams.take([shard], consumer="c", count=100, block_ms=0)
    return found


@pytest_asyncio.fixture
async def admin(redis_url):
    async with Redis.from_url(redis_url) as client:
        yield client


@pytest_asyncio.fixture
async def streams(redis_url):
    streams = RedisStreams(redis_url)
    yield streams
    await streams.close()


async def test_a_redis_without_memory_is_unavailable_and_acknowledges_nothing_untold(streams, admin):
    await streams.submit(0, b"x")
    (entry,) = await taken(streams)
    await admin.config_set("maxmemory", "1")
    try:
        with pytest.raises(Unavailable) as raised:
            await streams.submit(0, b"y")
        assert not isinstance(raised.value, UnknownOutcome)
        with pytest.raises(Unavailable):
            await streams.settle([settled(entry)])
        assert await streams.outcome("i") is None
        assert (await streams.lag(0)).pending == 1
    finally:
        await admin.config_set("maxmemory", "0")
    await streams.settle([settled(entry)])
    assert (await streams.lag(0)).pending == 0


async def test_who_waits_for_the_first_entry_gets_those_that_came_with_it(streams, admin):
    for shard in (0, 1):
        await taken(streams, shard)
    waiting = asyncio.create_task(streams.take([0, 1], consumer="c", count=10, block_ms=4000))
    await asyncio.sleep(0.1)
    pipeline = admin.pipeline(transaction=False)
    for number in range(12):
        for shard in (1, 0):
            pipeline.xadd(streams.names.intents(shard), {"intent": b"%d" % number})
    await pipeline.execute()
    found = await waiting
    # It waited for one, which was of shard 1, and took nine of each behind it: ten at most are asked for.
    expected = [*((0, b"%d" % number) for number in range(9)), *((1, b"%d" % number) for number in range(10))]
    assert [(entry.shard, entry.payload) for entry in found] == expected
    rest = await streams.take([0, 1], consumer="c", count=100, block_ms=4000)
    assert len(found) + len(rest) == 24
    assert (await streams.lag(0)).pending + (await streams.lag(1)).pending == 24


async def test_a_group_that_goes_while_it_is_waited_on_is_made_anew_and_answers_keep_their_order(streams, admin):
    await taken(streams)
    for emptied in (admin.flushall, lambda: admin.delete(streams.names.intents(0))):
        waiting = asyncio.create_task(streams.take([0], consumer="c", count=10, block_ms=4000))
        await asyncio.sleep(0.1)
        created = streams.groups_created
        await emptied()
        assert await asyncio.wait_for(waiting, 3) == []
        assert streams.groups_created == created + 1
        await streams.submit(0, b"x")
        assert [entry.payload for entry in await streams.take([0], consumer="c", count=10, block_ms=1000)] == [b"x"]


async def test_a_reply_stream_that_is_no_stream_costs_nobody_else_anything(streams, admin):
    name = f"{streams.names.replies}odd"
    await admin.set(name, "a string")
    for _ in range(2):
        await streams.submit(0, b"x")
    first, second = await taken(streams)
    await streams.settle([settled(first, intent_id="1", reply_to=name), settled(second, intent_id="2")])
    assert await streams.outcome("1") == await streams.outcome("2") == b"{}"
    assert (await streams.lag(0)).pending == 0


async def test_no_redis_is_unavailable_and_nothing_was_sent():
    streams = RedisStreams("redis://127.0.0.1:1")
    with pytest.raises(Unavailable) as raised:
        await streams.submit(0, b"x")
    assert not isinstance(raised.value, UnknownOutcome)
    with pytest.raises(Unavailable):
        await streams.take([0], consumer="c", count=1, block_ms=0)
    await streams.close()


async def test_what_is_pending_survives_a_crash_of_redis(streams, redis_server):
    ids = [await streams.submit(0, b"%d" % number) for number in range(3)]
    entries = await taken(streams)
    await streams.settle([settled(entries[0])])
    epoch = await streams.epoch()
    await asyncio.to_thread(redis_server.kill)
    with pytest.raises(Unavailable):
        await streams.submit(0, b"down")
    await asyncio.to_thread(redis_server.start)
    again = []
    for _ in range(20):
        try:
            again = await streams.read_again(0, await streams.pending(0, count=10), consumer="heir")
            break
        except Unavailable:
            await asyncio.sleep(0.1)
    assert [entry.entry_id for entry in again] == ids[1:]
    assert await streams.epoch() == epoch
    assert await streams.outcome("i") == b"{}"


async def test_a_redis_that_hangs_is_noticed_in_time(redis_url, redis_server, monkeypatch):
    monkeypatch.setattr("firn.storage.redis_errors.ANSWER_TIMEOUT_S", 0.5)
    streams = RedisStreams(redis_url)
    await streams.submit(0, b"x")
    redis_server.pause()
    try:
        started = time.monotonic()
        with pytest.raises(UnknownOutcome, match=r"^submit: no answer from Redis: nothing within 0\.5 s$"):
            await streams.submit(0, b"y")
        with pytest.raises(Unavailable, match=r"^take: Redis does not answer: nothing within 0\.5 s$"):
            await streams.take([0], consumer="c", count=1, block_ms=0)
        assert time.monotonic() - started < 5
        redis_server.resume()
        assert await streams.epoch() == await streams.epoch(), "it heard the answer to another command"
    finally:
        redis_server.resume()
        await streams.close()


async def test_a_wait_longer_than_the_answer_timeout_is_no_failure(redis_url, monkeypatch):
    monkeypatch.setattr("firn.storage.redis_errors.ANSWER_TIMEOUT_S", 0.6)
    monkeypatch.setattr("firn.storage.redis_streams.BLOCK_MS_MAX", 300)
    streams = RedisStreams(redis_url)
    await taken(streams)
    assert await streams.take([0], consumer="c", count=1, block_ms=60_000) == []
    assert await streams.events(block_ms=60_000) == []
    await streams.close()


async def test_settings_that_lose_intents_are_named(redis_url, admin):
    streams = RedisStreams(redis_url)
    before = await admin.config_get("appendfsync", "maxmemory-policy")
    try:
        await admin.config_set("appendfsync", "everysec")
        await admin.config_set("maxmemory-policy", "allkeys-lru")
        warnings = await streams.persistence_warnings()
        assert [warning.split()[2:4] for warning in warnings] == [
            ["appendfsync", "everysec,"],
            ["maxmemory-policy", "allkeys-lru,"],
        ]
        await admin.config_set("appendfsync", "always")
        await admin.config_set("maxmemory-policy", "noeviction")
        assert await streams.persistence_warnings() == []
    finally:
        for setting, value in before.items():
            await admin.config_set(setting, value)
        await streams.close()


async def test_redis_tells_of_its_memory_and_its_files(redis_url, admin):
    streams = RedisStreams(redis_url)
    before = await admin.config_get("maxmemory", "appendonly")
    try:
        await admin.config_set("maxmemory", 500_000_000)
        await admin.config_set("appendonly", "yes")
        vitals = await streams.vitals()
        assert vitals is not None
        assert 0 < vitals.memory_used < vitals.memory_max == 500_000_000
        assert vitals.append_only
        await admin.config_set("appendonly", "no")
        vitals = await streams.vitals()
        assert vitals is not None
        assert not vitals.append_only
    finally:
        for setting, value in before.items():
            await admin.config_set(setting, value)
        await streams.close()


async def test_credentials_that_are_wrong_or_allow_too_little_are_a_matter_of_configuration(redis_url, admin):
    await admin.execute_command("ACL", "SETUSER", "writer", "on", ">secret", "~firn:intents:*", "+xadd")
    try:
        address = redis_url.removeprefix("redis://")
        writer = RedisStreams(f"redis://writer:secret@{address}")
        await writer.submit(0, b"x")
        with pytest.raises(Misconfigured):
            await writer.epoch()
        assert await writer.persistence_warnings() == []
        assert await writer.vitals() is None
        wrong = RedisStreams(f"redis://writer:guess@{address}")
        with pytest.raises(Misconfigured):
            await wrong.submit(0, b"x")
        await writer.close()
        await wrong.close()
    finally:
        await admin.execute_command("ACL", "DELUSER", "writer")


async def test_a_server_that_allows_no_scripts_is_told_the_longer_way(redis_url, admin):
    rights = ["reset", "on", ">secret", "~*", "+@all", "-@scripting"]
    await admin.execute_command("ACL", "SETUSER", "no-scripts", *rights)
    host = redis_url.removeprefix("redis://")
    streams = RedisStreams(f"redis://no-scripts:secret@{host}")
    try:
        await streams.submit(0, b"x")
        (entry,) = await taken(streams)
        assert await streams.outcomes(["i"]) == [None]
        reply_to = f"{streams.names.replies}etl"
        told = settled(entry, intent_id="i", outcome=b"done", reply_to=reply_to)
        await streams.settle([told], events=[b"e"], places={"db.t": b"{}"})
        assert await streams.outcomes(["nobody", "i"]) == [None, b"done"]
        assert await streams.outcome("i") == b"done"
        assert [message.data for message in await streams.replies(reply_to, block_ms=0)] == [b"done"]
        assert [message.data for message in await streams.newest_events(count=1)] == [b"e"]
        assert await streams.table("db.t") == b"{}"
        assert (await streams.lag(0)).pending == 0
    finally:
        await streams.close()
        await admin.execute_command("ACL", "DELUSER", "no-scripts")


class ClusterServer(RedisServer):
    """A cluster of one node: every slot is there, and commands over two of them are refused all the same."""

    name = "redis-cluster"

    def _command(self, *, folder, port):
        bus = ["--cluster-port", str(free_port())]
        return [*super()._command(folder=folder, port=port), "--cluster-enabled", "yes", *bus]


@pytest_asyncio.fixture
async def cluster():
    with ClusterServer(fsync="no") as server:
        async with Redis.from_url(server.url) as client:
            await client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            for _ in range(200):
                if b"cluster_state:ok" in await client.execute_command("CLUSTER", "INFO"):
                    break
                await asyncio.sleep(0.05)
        async with AsyncExitStack() as stack:
            yield RedisWorld(server.url, stack, cluster=True)


async def test_a_cluster_carries_intents_and_outcomes_of_many_shards(cluster):
    streams = await cluster.connect()
    shards = [0, 1, 2, 3]
    assert await streams.take(shards, consumer="c", count=10, block_ms=0) == []
    assert streams.groups_created == 4
    for shard in [*shards, *shards]:
        await streams.submit(shard, b"%d" % shard)
    entries = await streams.take(shards, consumer="c", count=10, block_ms=1000)
    assert sorted(entry.payload for entry in entries) == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]
    await streams.settle(
        [
            settled(entry, intent_id=entry.entry_id, reply_to=f"{streams.names.replies}w", event=b"e", dead_letter=b"d")
            for entry in entries
        ]
    )
    for entry in entries:
        assert await streams.outcome(entry.entry_id) == b"{}"
    for shard in shards:
        assert (await streams.lag(shard)).pending == 0
        assert await streams.trim(shard) == 1  # the last that was handed out stays
    assert len(await streams.replies(f"{streams.names.replies}w", block_ms=0)) == 8
    assert len(await streams.events(block_ms=0)) == 8
    assert len(await streams.dead_letters()) == 8
    await streams.publish([b"x", b"y"])
    assert len(await streams.events(block_ms=0)) == 10


async def test_a_cluster_waits_moves_reclaims_and_starts_anew(cluster):
    streams = await cluster.connect()
    await streams.take([0, 1], consumer="c", count=10, block_ms=0)
    waiting = asyncio.create_task(streams.take([0, 1], consumer="c", count=10, block_ms=3000))
    await asyncio.sleep(0.1)
    await streams.submit(1, b"late")
    (entry,) = await waiting
    await streams.move(entry, to_shard=0)
    assert (await streams.lag(1)).pending == 0
    (moved,) = await streams.take([0, 1], consumer="c", count=10, block_ms=0)
    assert (moved.shard, moved.payload) == (0, b"late")
    again = await streams.read_again(0, await streams.pending(0, count=10), consumer="d")
    assert [e.deliveries for e in await streams.count_delivery(0, again, consumer="d")] == [2]
    assert await streams.note("db.t", {"a": b"1", "b": None}, version=0, lives_ms=60_000)
    book = await streams.book("db.t")
    assert (book.notes, book.version) == ({"a": b"1"}, 1)
    epoch = await streams.epoch()
    await streams.announce_tables({"a": b"1", "b": b"2"})
    assert await streams.table("b") == b"2"
    await cluster.flush_all()
    assert await streams.take([0, 1], consumer="c", count=10, block_ms=0) == []
    assert await streams.epoch() != epoch
