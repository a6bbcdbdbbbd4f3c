"""Redis and its twin, with the same ways to break them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from redis.asyncio import Redis, RedisCluster

from firn.storage.intent_streams import GROUP, IntentStreams, StreamNames
from firn.storage.memory_streams import MemoryRedis, MemoryStreams
from firn.storage.redis_streams import RedisStreams
from tests.integration.tcp_proxy import TcpProxy

Moment = Literal["before", "after"]


class StreamWorld(Protocol):
    """A Redis that tests can break."""

    async def connect(self, **options: Any) -> IntentStreams: ...

    async def flush_all(self) -> None: ...

    async def lose_group(self, shard: int) -> None: ...

    async def delete_entry(self, shard: int, entry_id: str) -> None: ...

    async def cut(self, shard: int, *, keep: int) -> None: ...

    async def set_position(self, shard: int, entry_id: str) -> None: ...

    async def acknowledge(self, shard: int, entry_id: str) -> None: ...

    async def delete_consumer(self, shard: int, consumer: str) -> None: ...

    async def delete_stream(self, shard: int) -> None: ...

    async def replace_by_text(self, shard: int) -> None: ...

    async def add_fields(self, stream: str, fields: dict[bytes, bytes]) -> str: ...

    async def pass_ms(self, milliseconds: int) -> None: ...

    def reply_lost(self, streams: IntentStreams, when: Moment) -> contextlib.AbstractAsyncContextManager[None]: ...


class MemoryStreamWorld:
    def __init__(self) -> None:
        self._now_ms = 1_700_000_000_000
        self._server = MemoryRedis(now_ms=lambda: self._now_ms)

    async def connect(self, **options: Any) -> IntentStreams:
        return self._server.connect(**options)

    async def flush_all(self) -> None:
        self._server.flush_all()

    async def lose_group(self, shard: int) -> None:
        self._server.lose_groups()

    async def delete_entry(self, shard: int, entry_id: str) -> None:
        self._server.delete_entry(StreamNames().intents(shard), entry_id)

    async def cut(self, shard: int, *, keep: int) -> None:
        self._server.cut(StreamNames().intents(shard), keep=keep)

    async def set_position(self, shard: int, entry_id: str) -> None:
        self._server.set_position(StreamNames().intents(shard), entry_id)

    async def acknowledge(self, shard: int, entry_id: str) -> None:
        self._server.acknowledge(StreamNames().intents(shard), entry_id)

    async def delete_consumer(self, shard: int, consumer: str) -> None:
        self._server.delete_consumer(StreamNames().intents(shard), consumer)

    async def delete_stream(self, shard: int) -> None:
        self._server.delete_stream(StreamNames().intents(shard))

    async def replace_by_text(self, shard: int) -> None:
        self._server.replace_by_text(StreamNames().intents(shard))

    async def add_fields(self, stream: str, fields: dict[bytes, bytes]) -> str:
        return self._server.add(stream, fields)

    async def pass_ms(self, milliseconds: int) -> None:
        self._now_ms += milliseconds

    @asynccontextmanager
    async def reply_lost(self, streams: IntentStreams, when: Moment) -> AsyncIterator[None]:
        assert isinstance(streams, MemoryStreams)
        streams.drop_next_write(when)
        yield


class RedisWorld:
    """Every client of a single server has a proxy of its own; a cluster sends its clients to the nodes themselves."""

    def __init__(self, url: str, stack: AsyncExitStack, *, cluster: bool = False) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 6379)
        self._database = parts.path
        self._cluster = cluster
        self._stack = stack
        self._proxies: dict[int, TcpProxy] = {}
        self._admin: Any = RedisCluster.from_url(url) if cluster else Redis.from_url(url)
        stack.push_async_callback(self._admin.aclose)

    async def connect(self, **options: Any) -> IntentStreams:
        host, port = self._address
        proxy = None
        if not self._cluster:
            proxy = await self._stack.enter_async_context(TcpProxy(host, port))
            host, port = "127.0.0.1", proxy.port
        scheme = "redis+cluster" if self._cluster else "redis"
        streams = RedisStreams(f"{scheme}://{host}:{port}{self._database}", **options)
        if proxy is not None:
            self._proxies[id(streams)] = proxy
        self._stack.push_async_callback(streams.close)
        return streams

    async def flush_all(self) -> None:
        await self._admin.flushall()

    async def lose_group(self, shard: int) -> None:
        await self._admin.xgroup_destroy(StreamNames().intents(shard), GROUP)

    async def delete_entry(self, shard: int, entry_id: str) -> None:
        await self._admin.xdel(StreamNames().intents(shard), entry_id)

    async def cut(self, shard: int, *, keep: int) -> None:
        await self._admin.xtrim(StreamNames().intents(shard), maxlen=keep, approximate=False)

    async def set_position(self, shard: int, entry_id: str) -> None:
        await self._admin.xgroup_setid(StreamNames().intents(shard), GROUP, entry_id)

    async def acknowledge(self, shard: int, entry_id: str) -> None:
        await self._admin.xack(StreamNames().intents(shard), GROUP, entry_id)

    async def delete_consumer(self, shard: int, consumer: str) -> None:
        await self._admin.xgroup_delconsumer(StreamNames().intents(shard), GROUP, consumer)

    async def delete_stream(self, shard: int) -> None:
        await self._admin.delete(StreamNames().intents(shard))

    async def replace_by_text(self, shard: int) -> None:
        await self._admin.set(StreamNames().intents(shard), b"text")

    async def add_fields(self, stream: str, fields: dict[bytes, bytes]) -> str:
        added: bytes = await self._admin.xadd(stream, fields)
        return added.decode()

    async def pass_ms(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)

    @asynccontextmanager
    async def reply_lost(self, streams: IntentStreams, when: Moment) -> AsyncIterator[None]:
        await streams.outcome("warm up the connection")
        proxy = self._proxies[id(streams)]
        proxy.lose("requests" if when == "before" else "replies")

        def drop() -> None:
            proxy.restore()
            proxy.drop()

        asyncio.get_running_loop().call_later(0.2, drop)
        yield
