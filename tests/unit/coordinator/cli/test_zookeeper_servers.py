"""Each ZooKeeper server is asked by itself: one that is gone is named, though the others would hide it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from firn.coordinator.cli.zookeeper_servers import servers_of
from firn.coordinator.embedded.server import free_port


@asynccontextmanager
async def answering(text: bytes) -> AsyncIterator[str]:
    """Something that answers ``srvr`` with this; its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(4) == b"srvr"
        writer.write(text)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("text", "mode", "trouble"),
    [
        (b"Zookeeper version: 3.9.3\nMode: follower\nNode count: 7\n", "follower", ""),
        (b"srvr is not executed because it is not in the whitelist.\n", "?", ""),
        (b"This ZooKeeper instance is not currently serving requests\n", None, "no leader to follow"),
    ],
)
async def test_a_server_says_what_it_is(text: bytes, mode: str | None, trouble: str) -> None:
    async with answering(text) as address:
        (server,) = await servers_of(f"{address}/chroot", tls=False)
    assert server.address == address
    assert server.mode == mode
    assert trouble in server.trouble


async def test_a_server_that_is_gone_is_named_among_those_that_are_there() -> None:
    gone = f"127.0.0.1:{free_port()}"
    async with answering(b"Mode: leader\n") as there:
        servers = await servers_of(f"{gone}, {there}", tls=False)
    assert [(server.address, server.mode) for server in servers] == [(gone, None), (there, "leader")]
    assert "refused" in servers[0].trouble
