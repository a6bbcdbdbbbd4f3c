"""What only a real ZooKeeper does: refuse credentials, restart, hang, and end a session behind a client's back."""

import asyncio
import contextlib
import shutil
import sys
import time

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from firn.coordinator.embedded import ZooKeeperServer
from firn.model.errors import AlreadyExists, Fenced, Misconfigured, NotFound, Unavailable
from firn.storage.leases import Leases
from firn.storage.membership import Membership
from firn.storage.pointers import Pointer, PointerChange, Pointers, Unknown, Won
from firn.storage.sessions import Create, Delete
from firn.storage.zookeeper import ZooKeeperSession
from firn.storage.zookeeper_place import ZooKeeperOptions
from tests.contract.coordination_worlds import until

SESSION_TIMEOUT_S = 2.0
HOLDER = f"""
import asyncio, sys
from firn.storage.leases import Leases
from firn.storage.zookeeper import ZooKeeperSession
from firn.storage.zookeeper_place import ZooKeeperOptions

async def main():
    session = ZooKeeperSession(ZooKeeperOptions(hosts=sys.argv[1], session_timeout_s={SESSION_TIMEOUT_S}))
    await session.start()
    assert await Leases(session, member="dies").acquire("t", timeout_s=5)
    sys.stderr.write("holding\\n")
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest_asyncio.fixture
async def connect(zk_hosts):
    """Starts sessions, and ends them after the test."""
    opened = []

    async def start(**options):
        settings = {"session_timeout_s": 4.0, "operation_timeout_s": 3.0, "hosts": zk_hosts, **options}
        session = ZooKeeperSession(ZooKeeperOptions(**settings))
        opened.append(session)
        await session.start(timeout_s=10)
        return session

    yield start
    opened.append(await start())
    for session in opened:  # with the credentials that made each node
        if session.state == "connected":
            await remove_all(session, "/")
        await session.close()


async def remove_all(session, path):
    with contextlib.suppress(Misconfigured, NotFound):
        for name in await session.children(path):
            await remove_all(session, f"{path.rstrip('/')}/{name}")
    with contextlib.suppress(Misconfigured, NotFound):
        if path != "/":
            await session.delete(path)


async def hold(leases):
    lease = await leases.acquire("t", timeout_s=15)
    assert lease is not None
    return lease


def change(metadata="m0", *, expected=None):
    pointer = Pointer(table="t", uuid="u", location="/wh/t", metadata_location=metadata)
    return PointerChange(table="t", pointer=pointer, expected=expected)


async def test_nodes_made_with_a_digest_are_closed_to_everybody_else(connect, zk_hosts):
    owner = await connect(digest="firn:secret", hosts=f"{zk_hosts}/closed")
    path, _ = await owner.create("/a", b"1")
    await owner.multi([Create("/b", b"2")])
    stranger = await connect(hosts=zk_hosts)
    wrong = await connect(digest="firn:guess", hosts=zk_hosts)
    for other in (stranger, wrong):
        for attempt in (
            other.get(f"/closed{path}"),
            other.set("/closed/a", b"x", version=-1),
            other.create("/closed/c"),
            other.children("/closed"),
        ):
            with pytest.raises(Misconfigured):
                await attempt
        (result,) = await other.multi([Delete("/closed/b")])
        assert result.reason == "no-auth"
    again = await connect(digest="firn:secret", hosts=f"{zk_hosts}/closed")
    assert await again.children("/") == ["a", "b"]


async def test_a_swap_that_the_acl_forbids_is_a_matter_of_configuration(connect, zk_hosts):
    owner = await connect(digest="firn:secret")
    await Pointers(owner).swap([change()], leases=[])
    stranger = await connect()
    with pytest.raises(Misconfigured):
        await Pointers(stranger).swap([change("m1", expected=0)], leases=[])


async def test_open_nodes_are_warned_of_and_closed_ones_are_not(connect, zk_hosts):
    with capture_logs() as logs:
        await connect(hosts=f"{zk_hosts}/open")
    assert [log["event"] for log in logs] == ["zookeeper.world-writable"]
    with capture_logs() as logs:
        await connect(digest="firn:secret", hosts=f"{zk_hosts}/closed")
    assert logs == []
    with capture_logs() as logs:
        await connect(digest="firn:secret", hosts=f"{zk_hosts}/open")
    assert [log["event"] for log in logs] == ["zookeeper.world-writable"]


def test_secrets_are_in_no_representation():
    options = ZooKeeperOptions(hosts="h:1", digest="firn:secret", tls_key_password="hidden")
    assert "secret" not in f"{options!r}{options}"
    assert "hidden" not in f"{options!r}{options}"


async def test_no_server_is_said_within_the_time_given():
    session = ZooKeeperSession(ZooKeeperOptions(hosts="127.0.0.1:1"))
    started = time.monotonic()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        await session.start(timeout_s=0.5)
    assert time.monotonic() - started < 5


async def test_a_restarted_server_is_found_again_with_the_session_and_its_lock(connect, zookeeper_server):
    session = await connect(session_timeout_s=10.0)
    leases, pointers = Leases(session, member="one"), Pointers(session)
    lease = await hold(leases)
    await pointers.swap([change()], leases=[lease])
    await asyncio.to_thread(zookeeper_server.kill)
    await until(lambda: session.state == "suspended")
    assert not leases.is_held(lease)
    with pytest.raises(Unavailable):
        await pointers.swap([change("m1", expected=0)], leases=[lease])
    await asyncio.to_thread(zookeeper_server.start)
    await until(lambda: session.state == "connected")
    assert session.epoch == 0
    assert leases.is_held(lease)
    assert await pointers.swap([change("m1", expected=0)], leases=[lease]) == Won({"t": 1})


async def test_a_server_that_hangs_makes_a_swap_unknown_and_a_read_unavailable_in_time(connect, zookeeper_server):
    session = await connect()
    leases, pointers = Leases(session, member="one"), Pointers(session)
    lease = await hold(leases)
    await pointers.swap([change()], leases=[lease])
    zookeeper_server.pause()
    try:
        started = time.monotonic()
        outcomes = await asyncio.gather(
            pointers.swap([change("m1", expected=0)], leases=[lease]), pointers.read("t"), return_exceptions=True
        )
        assert time.monotonic() - started < 6
        assert isinstance(outcomes[0], Unknown)
        assert isinstance(outcomes[1], Unavailable)
    finally:
        zookeeper_server.resume()
    await until(lambda: session.state == "connected")
    # The answer is only in what is there now, and it does not change any more.
    first = await pointers.read("t")
    await asyncio.sleep(0.5)
    assert await pointers.read("t") == first


async def test_operations_in_flight_when_the_session_is_closed_end(connect, zookeeper_server):
    session = await connect()
    zookeeper_server.pause()
    try:
        waiting = [asyncio.ensure_future(session.get("/")), asyncio.ensure_future(session.create("/x"))]
        await asyncio.sleep(0.1)
        closing = asyncio.ensure_future(session.close())
        results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        assert all(isinstance(result, Unavailable | Fenced) for result in results)
    finally:
        zookeeper_server.resume()
    await closing


async def test_many_operations_at_once_are_all_answered(connect):
    session = await connect()
    await asyncio.gather(*(session.create(f"/n{number}", b"%d" % number) for number in range(300)))
    values = await asyncio.gather(*(session.get(f"/n{number}") for number in range(300)))
    assert [data for data, _ in values] == [b"%d" % number for number in range(300)]
    assert len(await session.children("/")) == 300


async def test_the_lock_of_a_killed_process_is_free_after_its_session_timeout(connect, zk_hosts):
    session = await connect()
    leases = Leases(session, member="two")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, zk_hosts, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    assert await process.stderr.readline() == b"holding\n"
    holder = await leases.holder("t")
    assert holder is not None
    assert holder.member == "dies"
    process.kill()
    await process.wait()
    started = time.monotonic()
    lease = await hold(leases)
    assert time.monotonic() - started < SESSION_TIMEOUT_S + 2.0
    assert lease.token > holder.token


async def test_a_member_of_a_former_process_is_waited_for_by_name(connect):
    first, second = await connect(), await connect()
    await Membership(first).join("same")
    later = Membership(second)
    with pytest.raises(AlreadyExists, match="same"):
        await later.join("same")
    await first.close()
    await later.join("same")
    assert await later.members() == ["same"]
    with pytest.raises(NotFound):
        await later.info("other")


async def test_a_server_that_began_anew_gets_a_new_session(tmp_path):
    """It refuses a client that has seen later changes than it has, and does not tell it so."""
    with ZooKeeperServer(tmp_path) as server:
        session = ZooKeeperSession(ZooKeeperOptions(hosts=server.hosts, session_timeout_s=1.0))
        await session.start()
        states: list[str] = []
        session.add_listener(states.append)
        for number in range(20):
            await session.create(f"/n{number}")
        server.kill()
        shutil.rmtree(tmp_path / "zookeeper")
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(20):
            while session.state != "connected" or session.epoch == 0:  # noqa: ASYNC110 - kazoo's thread says it
                await asyncio.sleep(0.1)
        assert await session.exists("/n0") is None
        assert states[-2:] == ["lost", "connected"], "what the old session held is known to be gone"
        await session.close()
