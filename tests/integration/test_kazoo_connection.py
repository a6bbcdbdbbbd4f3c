"""The event loop has kazoo's connection, and kazoo's thread takes it where it has to: no answer goes astray."""

import asyncio
import time

import pytest_asyncio

from firn.model.errors import Unavailable, UnknownOutcome
from firn.storage import kazoo_connection
from firn.storage.sessions import Create
from firn.storage.zookeeper import ZooKeeperSession
from firn.storage.zookeeper_place import ZooKeeperOptions
from tests.contract.coordination_worlds import until
from tests.integration.tcp_proxy import TcpProxy

SESSION_TIMEOUT_S = 2.0


class Known:
    """A session, and every state that it was in."""

    def __init__(self, session):
        self.session = session
        self.states: list[str] = []
        session.add_listener(self.states.append)

    @property
    def attended(self):
        """Whether the event loop has the connection."""
        return self.session._client.handler.attended is not None


@pytest_asyncio.fixture
async def connect(zk_hosts):
    opened = []

    async def start(hosts=zk_hosts, **options):
        settings = {"session_timeout_s": SESSION_TIMEOUT_S, "operation_timeout_s": 5.0, **options}
        session = ZooKeeperSession(ZooKeeperOptions(hosts=hosts, **settings))
        opened.append(session)
        await session.start(timeout_s=10)
        known = Known(session)
        await until(lambda: known.attended)
        return known

    yield start
    for session in opened:
        await session.close()


@pytest_asyncio.fixture
async def proxy(zookeeper_server):
    host, port = zookeeper_server.hosts.rsplit(":", 1)
    async with TcpProxy(host, int(port)) as proxy:
        yield proxy


def stand_still(seconds):
    """The event loop does nothing for so long."""
    time.sleep(seconds)


def through(proxy, zk_hosts):
    return f"127.0.0.1:{proxy.port}/{zk_hosts.partition('/')[2]}"


async def test_an_event_loop_that_stands_still_keeps_its_connection_and_has_it_again(connect):
    known = await connect()
    session, epoch = known.session, known.session.epoch
    await session.create("/alive", b"", ephemeral=True)
    stand_still(3 * SESSION_TIMEOUT_S)  # nobody reads the answers to pings but kazoo's thread
    assert (await session.get("/alive"))[0] == b""
    assert known.states == []
    assert session.epoch == epoch
    await until(lambda: known.attended)
    assert (await session.get("/alive"))[1].ephemeral_owner == session.session_id


async def test_answers_that_stand_still_with_the_loop_are_told_afterwards(connect):
    known = await connect()
    asked = [asyncio.ensure_future(known.session.create(f"/n{number}", b"%d" % number)) for number in range(50)]
    await asyncio.sleep(0)  # they are sent
    stand_still(1.5 * SESSION_TIMEOUT_S)
    assert [path for path, _ in await asyncio.gather(*asked)] == [f"/n{number}" for number in range(50)]
    assert known.states == []


async def test_answers_in_pieces_are_each_their_own_request(connect, proxy, zk_hosts):
    known = await connect(through(proxy, zk_hosts), session_timeout_s=10.0)
    for piece_bytes in (1, 3, 7):
        proxy.mince(piece_bytes)
        paths = [f"/p{piece_bytes}-{number}" for number in range(12)]
        await asyncio.gather(*(known.session.create(path, path.encode()) for path in paths))
        found = await asyncio.gather(*(known.session.get(path) for path in paths))
        assert [data.decode() for data, _ in found] == paths
    assert known.attended
    assert known.states == []


async def test_a_connection_that_ends_within_an_answer_fails_those_that_wait_and_nothing_after(
    connect, proxy, zk_hosts
):
    known = await connect(through(proxy, zk_hosts), session_timeout_s=10.0)
    session = known.session
    await asyncio.gather(*(session.create(f"/d{number}", b"%d" % number) for number in range(20)))
    for reply_bytes in (1, 5, 30, 90, 200):
        proxy.drop_within(reply_bytes)
        results = await asyncio.gather(
            *(session.set(f"/d{number}", b"%d" % number, version=-1) for number in range(20)), return_exceptions=True
        )
        failed = [result for result in results if isinstance(result, BaseException)]
        assert failed
        assert all(isinstance(error, UnknownOutcome | Unavailable) for error in failed)
        await until(lambda: session.state == "connected")
        found = await asyncio.gather(*(session.get(f"/d{number}") for number in range(20)))
        assert [data for data, _ in found] == [b"%d" % number for number in range(20)]
        await until(lambda: known.attended)
    assert session.epoch == 0


async def test_large_requests_and_small_ones_are_answered_each_with_its_own(connect):
    session = (await connect(session_timeout_s=10.0)).session
    large = kazoo_connection.SENT_BYTES_MAX
    values = [b"%03d" % number * (large if number % 3 == 0 else 1) for number in range(30)]
    await asyncio.gather(*(session.create(f"/l{number}", value) for number, value in enumerate(values)))
    found = await asyncio.gather(*(session.get(f"/l{number}") for number in range(30)))
    assert [data for data, _ in found] == values


async def test_a_request_that_follows_a_queued_one_is_answered_after_it(connect):
    session = (await connect(session_timeout_s=10.0)).session
    large = b"x" * (kazoo_connection.SENT_BYTES_MAX + 1)  # goes through the queue
    for number in range(50):
        first = asyncio.ensure_future(session.multi([Create(f"/q{number}", large)]))
        second = asyncio.ensure_future(session.create(f"/q{number}/child", b""))
        await first
        await second


async def test_a_closed_session_is_at_once_gone_at_the_server(connect):
    known, other = await connect(session_timeout_s=30.0), await connect(session_timeout_s=30.0)
    await known.session.create("/held", b"", ephemeral=True)
    asked = [asyncio.ensure_future(known.session.exists("/held")) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.wait_for(known.session.close(), 5)
    assert await other.session.exists("/held") is None
    await asyncio.gather(*asked, return_exceptions=True)
    await until(lambda: known.states)
    assert known.states == ["lost"], "not as if its connection had broken"


async def test_a_connection_that_only_kazoo_finds_dead_is_not_used_again(connect, proxy, zk_hosts):
    known = await connect(through(proxy, zk_hosts))
    session = known.session
    await session.create("/here", b"1")
    proxy.lose("replies")
    asked = asyncio.ensure_future(session.set("/here", b"2", version=0))
    await until(lambda: "suspended" in known.states)  # no answer to a ping came
    assert not known.attended
    assert isinstance((await asyncio.gather(asked, return_exceptions=True))[0], UnknownOutcome)
    proxy.restore()
    await until(lambda: session.state == "connected" and known.attended)
    assert (await session.get("/here"))[0] in (b"1", b"2")
    await session.set("/here", b"3", version=-1)
    assert (await session.get("/here"))[0] == b"3"
