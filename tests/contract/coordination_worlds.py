"""ZooKeeper and its twin, with the same ways to break them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, Protocol

from kazoo.client import KazooClient

from firn.storage.memory_coordination import MemorySession, MemoryZooKeeper
from firn.storage.sessions import Session
from firn.storage.zookeeper import ZooKeeperSession
from firn.storage.zookeeper_place import ZooKeeperOptions
from tests.integration.tcp_proxy import TcpProxy

Moment = Literal["before", "after"]


class World(Protocol):
    """A ZooKeeper that tests can break."""

    async def connect(self) -> Session: ...

    async def expire(self, session: Session) -> None:
        """End a session on the server; returns when its client has a new one."""
        ...

    async def suspend(self, session: Session) -> None: ...

    async def resume(self, session: Session) -> None: ...

    async def freeze_past_expiry(self, session: Session) -> None:
        """End a session on the server without its client hearing of it, as a stopped process does not."""
        ...

    def reply_lost(self, session: Session, when: Moment) -> contextlib.AbstractAsyncContextManager[None]:
        """Within: the reply of the next write is lost, ``before`` or ``after`` it took effect."""
        ...


async def until(condition: Callable[[], bool], *, seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - any condition at all, most of them set by other threads
            await asyncio.sleep(0.01)


class MemoryWorld:
    def __init__(self) -> None:
        self.server = MemoryZooKeeper(now_ms=lambda: 1_700_000_000_000)

    async def connect(self) -> Session:
        return self.server.connect()

    async def expire(self, session: Session) -> None:
        assert isinstance(session, MemorySession)
        self.server.expire(session)
        await asyncio.sleep(0)

    async def suspend(self, session: Session) -> None:
        assert isinstance(session, MemorySession)
        session.suspend()

    async def resume(self, session: Session) -> None:
        assert isinstance(session, MemorySession)
        session.resume()
        await asyncio.sleep(0)

    async def freeze_past_expiry(self, session: Session) -> None:
        assert isinstance(session, MemorySession)
        self.server.expire(session, told=False)

    @asynccontextmanager
    async def reply_lost(self, session: Session, when: Moment) -> AsyncIterator[None]:
        assert isinstance(session, MemorySession)
        session.drop_next_write(when)
        yield


class ZooKeeperWorld:
    """Every session has a proxy of its own between itself and the server."""

    def __init__(self, hosts: str, stack: AsyncExitStack) -> None:
        address, slash, chroot = hosts.partition("/")
        host, _, port = address.partition(":")
        self._address = (host, int(port))
        self._chroot = slash + chroot
        self._stack = stack
        self._proxies: dict[int, TcpProxy] = {}

    async def connect(self) -> Session:
        proxy = await self._stack.enter_async_context(TcpProxy(*self._address))
        session = ZooKeeperSession(
            ZooKeeperOptions(
                hosts=f"127.0.0.1:{proxy.port}{self._chroot}", session_timeout_s=6.0, operation_timeout_s=8.0
            )
        )
        await session.start(timeout_s=10)
        self._stack.push_async_callback(session.close)
        self._proxies[id(session)] = proxy
        return session

    async def expire(self, session: Session) -> None:
        epoch = session.epoch
        await self._end(session)
        await until(lambda: session.epoch > epoch and session.state == "connected")

    async def suspend(self, session: Session) -> None:
        self._proxies[id(session)].cut()
        await until(lambda: session.state != "connected")

    async def resume(self, session: Session) -> None:
        self._proxies[id(session)].restore()
        await until(lambda: session.state == "connected")

    async def freeze_past_expiry(self, session: Session) -> None:
        # What the server says no longer reaches the client, so it goes on believing.
        self._proxies[id(session)].lose("replies")
        await self._end(session)
        asyncio.get_running_loop().call_later(1.0, self._thaw, session)

    @asynccontextmanager
    async def reply_lost(self, session: Session, when: Moment) -> AsyncIterator[None]:
        proxy = self._proxies[id(session)]
        proxy.lose("requests" if when == "before" else "replies")

        def drop() -> None:
            proxy.restore()
            proxy.drop()

        asyncio.get_running_loop().call_later(0.3, drop)
        yield

    def _thaw(self, session: Session) -> None:
        self._proxies[id(session)].restore()
        self._proxies[id(session)].drop()

    async def _end(self, session: Session) -> None:
        """Close the session on the server, by opening it once more from elsewhere."""
        assert isinstance(session, ZooKeeperSession)
        client_id = session._client.client_id
        host, port = self._address

        def take_and_close() -> None:
            double = KazooClient(hosts=f"{host}:{port}", client_id=client_id, timeout=6.0)
            double.start(timeout=10)
            double.stop()
            double.close()

        await asyncio.to_thread(take_and_close)
