"""Proxies between one daemon and its servers, run by a thread, so that a test without a loop can hurt the network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Self

from tests.integration.tcp_proxy import Loss, TcpProxy


class FaultyNetwork:
    """A proxy for each of `servers` (``host:port``), to be connected to at `addresses`."""

    def __init__(self, *servers: str) -> None:
        self._servers = servers
        self._proxies: list[TcpProxy] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty network", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for server in self._servers:
            host, _, port = server.rpartition(":")
            proxy = TcpProxy(host, int(port))
            asyncio.run_coroutine_threadsafe(proxy.__aenter__(), self._loop).result()
            self._proxies.append(proxy)
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self._proxies:
            asyncio.run_coroutine_threadsafe(proxy.__aexit__(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def addresses(self) -> list[str]:
        """Where each proxy listens, in the order of the servers."""
        return [f"127.0.0.1:{proxy.port}" for proxy in self._proxies]

    def lose(self, number: int, loss: Loss) -> None:
        """Drop all bytes of one direction of a proxy, without closing its connections."""
        self._call(lambda: self._proxies[number].lose(loss))

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        for proxy in self._proxies:
            self._call(proxy.cut)

    def restore(self, number: int | None = None) -> None:
        """Close what has lost bytes, and let new connections through."""
        for proxy in self._proxies if number is None else [self._proxies[number]]:
            self._call(proxy.drop)
            self._call(proxy.restore)

    def _call(self, action: Callable[[], None]) -> None:
        """Run `action` on the loop, and raise what it raises."""

        async def act() -> None:
            action()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result()
