"""Handing out entries of intent streams: who waits for the first gets what has come by then with the same answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from firn.storage.intent_streams import GROUP, Entry, StreamNames, new_entries
from firn.storage.redis_lines import WaitingLine

CLUSTER_POLL_S: Final = 0.02


class RedisTaking:
    """Reads of the group, on a connection that is kept; a `cluster` reads each stream by itself.

    What is raised is the client library's.
    """

    def __init__(self, redis: Any, names: StreamNames, *, cluster: bool) -> None:
        redis.set_response_callback("XREADGROUP", _as_it_came)
        self._redis = redis
        self._names = names
        self._line = None if cluster else WaitingLine(redis)

    async def take(self, shards: Sequence[int], *, consumer: str, count: int, block_ms: int | None) -> list[Entry]:
        """As `IntentStreams.take`; `block_ms` is None for no wait."""
        if self._line is None:
            return await self._take_each(shards, consumer=consumer, count=count, block_ms=block_ms or 0)
        if self._line.taken:
            return await self._take(shards, consumer=consumer, count=count, block_ms=block_ms)
        streams = {self._names.intents(shard): shard for shard in shards}
        group = ("XREADGROUP", "GROUP", GROUP, consumer)
        which = ("STREAMS", *streams, *(">" for _ in streams))
        if block_ms is None or count == 1:
            blocking = () if block_ms is None else ("BLOCK", block_ms)
            return _entries(streams, await self._line.ask(*group, "COUNT", count, *blocking, *which))
        # A read that waits is answered with the first entry that comes, although others may be right behind it: the
        # server answers before it looks at the next command, even of the same connection. The second read is looked at
        # when there is nothing more to do.
        first, others = await self._line.ask_together(
            (*group, "COUNT", 1, "BLOCK", block_ms, *which), (*group, "COUNT", count - 1, *which)
        )
        taken = _entries(streams, first) + _entries(streams, others)
        return taken if len(streams) == 1 else sorted(taken, key=lambda entry: shards.index(entry.shard))

    async def _take(self, shards: Sequence[int], *, consumer: str, count: int, block_ms: int | None) -> list[Entry]:
        streams = {self._names.intents(shard): shard for shard in shards}
        found = await self._redis.xreadgroup(GROUP, consumer, dict.fromkeys(streams, ">"), count=count, block=block_ms)
        return _entries(streams, found)

    async def _take_each(self, shards: Sequence[int], *, consumer: str, count: int, block_ms: int) -> list[Entry]:
        """A cluster reads no two streams in one command, and to block on one would leave the others waiting."""
        deadline = asyncio.get_running_loop().time() + block_ms / 1000
        while True:
            parts = await asyncio.gather(
                *(self._take([shard], consumer=consumer, count=count, block_ms=None) for shard in shards)
            )
            taken = [entry for part in parts for entry in part]
            if taken or asyncio.get_running_loop().time() >= deadline:
                return taken
            await asyncio.sleep(CLUSTER_POLL_S)


def _entries(streams: dict[str, int], found: Any) -> list[Entry]:
    taken: list[Entry] = []
    for stream, entries in found.items() if isinstance(found, dict) else found or ():
        taken += new_entries(streams[stream.decode() if isinstance(stream, bytes) else stream], entries)
    return taken


def _as_it_came(answer: Any, **_: Any) -> Any:
    return answer
