"""The books of tables (`firn.storage.intent_streams.Book`) in Redis: a hash each, changed by version."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import redis.exceptions as rx

from firn.storage.intent_streams import BOOK_VERSION, Book, book_of, check_book


class RedisBooks:
    """Books by their keys, through one connection. Raises what the client library raises."""

    def __init__(self, redis: Any, *, cluster: bool) -> None:
        self._redis = redis
        self._cluster = cluster

    async def read(self, key: str, *, table: str) -> Book:
        """The notes of a table. Raises InvalidInput when there are too many."""
        count, now_ms = await asyncio.gather(self._redis.hlen(key), self._now_ms())
        check_book(table, count)
        found: dict[bytes, bytes] = await self._redis.hgetall(key) if count else {}
        return book_of(found, now_ms=now_ms)

    async def change(self, key: str, changes: Mapping[str, bytes | None], *, version: int, lives_ms: int) -> bool:
        """Change notes if the book is at `version`, which a cluster does not look at; whether it was."""
        async with self._redis.pipeline(transaction=not self._cluster) as pipeline:
            if not self._cluster:
                await pipeline.watch(key)
                if int(await pipeline.hget(key, BOOK_VERSION) or 0) != version:
                    return False
                pipeline.multi()
            for name, value in changes.items():
                if value is None:
                    pipeline.hdel(key, name)
                else:
                    pipeline.hset(key, name, value)
            pipeline.hset(key, BOOK_VERSION, version + 1)
            pipeline.pexpire(key, lives_ms)
            try:
                await pipeline.execute()
            except rx.WatchError:
                return False
        return True

    async def _now_ms(self) -> int:
        """Redis's clock; of a cluster, which has several, ours."""
        if self._cluster:
            return time.time_ns() // 1_000_000
        seconds, microseconds = await self._redis.time()
        return int(seconds) * 1_000 + int(microseconds) // 1_000
