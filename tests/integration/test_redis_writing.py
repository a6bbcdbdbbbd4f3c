"""The connections that a writer keeps: nothing is sent twice, nobody waits for ever, and what breaks is made anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from firn.model.errors import Misconfigured, Unavailable, UnknownOutcome
from firn.storage.redis_streams import RedisStreams
from tests.integration.tcp_proxy import TcpProxy

STREAM = "firn:intents:0"
REPLIES = "firn:replies:w"


@pytest_asyncio.fixture
async def admin(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as client:
        yield client


@pytest_asyncio.fixture
async def proxy(redis_url: str) -> AsyncIterator[TcpProxy]:
    parts = urlsplit(redis_url)
    async with TcpProxy(parts.hostname or "", parts.port or 0) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def streams(redis_url: str, proxy: TcpProxy) -> AsyncIterator[RedisStreams]:
    """Through the proxy."""
    streams = RedisStreams(redis_url.replace(f":{urlsplit(redis_url).port}", f":{proxy.port}"))
    yield streams
    await streams.close()


async def added(admin: Redis) -> dict[str, bytes]:
    """Payloads by entry id, in their order."""
    entries: Any = await admin.xrange(STREAM)
    return {entry_id.decode(): fields[b"intent"] for entry_id, fields in entries}


async def test_many_intents_at_once_take_one_connection_and_each_its_own_answer(
    streams: RedisStreams, proxy: TcpProxy, admin: Redis
) -> None:
    payloads = [b"%d" % number * 1000 for number in range(500)]
    entry_ids = await asyncio.gather(*(streams.submit(0, payload) for payload in payloads))
    assert proxy.connections == 1
    stored = await added(admin)
    assert [stored[entry_id] for entry_id in entry_ids] == payloads
    assert list(stored) == entry_ids, "in the order in which they were submitted"


async def test_one_that_is_refused_costs_its_neighbours_nothing(
    streams: RedisStreams, proxy: TcpProxy, admin: Redis
) -> None:
    await admin.set("firn:intents:1", "no stream")
    found = await asyncio.gather(
        streams.submit(0, b"a"), streams.submit(1, b"b"), streams.submit(0, b"c"), return_exceptions=True
    )
    assert isinstance(found[1], Unavailable)
    assert not isinstance(found[1], UnknownOutcome)
    assert await added(admin) == {found[0]: b"a", found[2]: b"c"}
    assert proxy.connections == 1


async def test_who_is_not_let_in_hears_of_it_and_is_let_in_later(redis_url: str, admin: Redis) -> None:
    await admin.acl_setuser("writer", enabled=True, nopass=True, keys=["*"], commands=["+xread"])
    streams = RedisStreams(redis_url, username="writer", password="any")
    try:
        with pytest.raises(Misconfigured):
            await streams.submit(0, b"a")
        await admin.acl_setuser("writer", enabled=True, nopass=True, keys=["*"], commands=["+xread", "+xadd"])
        assert await streams.submit(0, b"a")
    finally:
        await streams.close()
        await admin.acl_deluser("writer")


async def test_answers_that_are_lost_with_the_connection_leave_it_open_what_happened(
    streams: RedisStreams, proxy: TcpProxy, admin: Redis
) -> None:
    await streams.submit(0, b"a")
    proxy.lose("replies")
    waiting = [asyncio.create_task(streams.submit(0, b"%d" % number)) for number in range(5)]
    while await admin.xlen(STREAM) < 6:  # noqa: ASYNC110 - Redis has no event for it
        await asyncio.sleep(0.01)
    proxy.restore()
    proxy.drop()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in found] == [UnknownOutcome] * 5
    assert await streams.submit(0, b"again")
    assert await admin.xlen(STREAM) == 7, "none was sent twice"


async def test_a_connection_that_broke_while_nobody_used_it_is_made_anew(
    streams: RedisStreams, proxy: TcpProxy, admin: Redis
) -> None:
    await streams.submit(0, b"a")
    await streams.replies(REPLIES, block_ms=1)
    proxy.drop()
    await asyncio.sleep(0.05)
    await admin.xadd(REPLIES, {"outcome": "{}"})
    assert await streams.submit(0, b"b")
    assert [message.data for message in await streams.replies(REPLIES, block_ms=1000)] == [b"{}"]


async def test_who_gives_up_early_disturbs_nobody(streams: RedisStreams, proxy: TcpProxy, admin: Redis) -> None:
    await streams.submit(0, b"first")
    given_up = asyncio.create_task(streams.submit(0, b"given up"))
    others = [asyncio.create_task(streams.submit(0, b"%d" % number)) for number in range(3)]
    await asyncio.sleep(0)
    given_up.cancel()
    entry_ids = await asyncio.gather(*others)
    with pytest.raises(asyncio.CancelledError):
        await given_up
    stored = await added(admin)
    assert [stored[entry_id] for entry_id in entry_ids] == [b"0", b"1", b"2"]
    assert b"given up" in stored.values(), "it was sent before: the test means it"
    assert proxy.connections == 1


async def test_a_server_that_hangs_is_left_for_a_new_connection(
    streams: RedisStreams, proxy: TcpProxy, admin: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firn.storage.redis_errors.ANSWER_TIMEOUT_S", 0.3)
    monkeypatch.setattr("firn.storage.redis_lines.SILENCE_S", 0.2)
    await streams.submit(0, b"a")
    proxy.lose("replies")
    with pytest.raises(UnknownOutcome, match="nothing within"):
        await streams.submit(0, b"b")
    proxy.restore()
    entry_id = await streams.submit(0, b"c")
    assert (await added(admin))[entry_id] == b"c"


async def test_outcomes_are_waited_for_on_one_connection_or_on_several(streams: RedisStreams, admin: Redis) -> None:
    waiting = [asyncio.create_task(streams.replies(f"{REPLIES}{number}", block_ms=5000)) for number in range(3)]
    await asyncio.sleep(0.05)
    for number in reversed(range(3)):
        await admin.xadd(f"{REPLIES}{number}", {"outcome": f"{number}", "more": "x"})
    found = await asyncio.wait_for(asyncio.gather(*waiting), 3)
    assert [[message.data for message in messages] for messages in found] == [[b"0"], [b"1"], [b"2"]]
    after = found[0][0].entry_id
    assert await streams.replies(f"{REPLIES}0", after=after, block_ms=1) == []
    broken_off = asyncio.create_task(streams.replies(f"{REPLIES}0", after=after, block_ms=5000))
    await asyncio.sleep(0.05)
    broken_off.cancel()
    await asyncio.gather(broken_off, return_exceptions=True)
    await admin.xadd(f"{REPLIES}0", {"outcome": "later"})
    assert [message.data for message in await streams.replies(f"{REPLIES}0", after=after, block_ms=1)] == [b"later"]


async def test_a_waiting_connection_that_breaks_is_no_answer(
    streams: RedisStreams, proxy: TcpProxy, admin: Redis
) -> None:
    waiting = asyncio.create_task(streams.replies(REPLIES, block_ms=5000))
    await asyncio.sleep(0.05)
    proxy.drop()
    with pytest.raises(Unavailable):
        await waiting
    await admin.xadd(REPLIES, {"outcome": "{}"})
    assert [message.data for message in await streams.replies(REPLIES, block_ms=1000)] == [b"{}"]


async def test_protocol_3_says_the_same(redis_url: str, admin: Redis) -> None:
    streams = RedisStreams(f"{redis_url}?protocol=3")
    try:
        assert await streams.submit(0, b"a")
        await admin.xadd(REPLIES, {"outcome": "{}"})
        assert [message.data for message in await streams.replies(REPLIES, block_ms=1000)] == [b"{}"]
    finally:
        await streams.close()


async def test_closing_leaves_no_connection_and_nobody_waiting(streams: RedisStreams, proxy: TcpProxy) -> None:
    await streams.submit(0, b"a")
    await streams.replies(REPLIES, block_ms=1)
    proxy.lose("replies")
    waiting = asyncio.create_task(streams.submit(0, b"b"))
    await asyncio.sleep(0.05)
    await streams.close()
    with pytest.raises(UnknownOutcome):
        await waiting
    proxy.restore()
    for _ in range(100):
        if not proxy.connections:
            break
        await asyncio.sleep(0.02)
    assert proxy.connections == 0
