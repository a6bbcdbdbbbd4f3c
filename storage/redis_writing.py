"""What a writer does all the time: add an intent, and wait for outcomes. Each has a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import redis.exceptions as rx

from firn.storage.intent_streams import INTENT_FIELD, OUTCOME_FIELD, Message, StreamNames
from firn.storage.redis_errors import RedisErrors
from firn.storage.redis_lines import AddingLine, WaitingLine

CLUSTER_ADDITIONS_MAX: Final = 16
"""Intents that are added to a cluster at once: each takes a connection."""

_OUTCOME_FIELD: Final = OUTCOME_FIELD.encode()


class RedisWriting:
    """The two commands, on one server or a cluster."""

    def __init__(self, redis: Any, names: StreamNames, *, cluster: bool, errors: RedisErrors) -> None:
        self._errors = errors
        self._redis = redis
        self._names = names
        self._adding = None if cluster else AddingLine(redis)
        self._listening = None if cluster else WaitingLine(redis)
        self._additions = asyncio.Semaphore(CLUSTER_ADDITIONS_MAX)

    async def submit(self, shard: int, payload: bytes) -> str:
        """Add an intent; its entry id."""
        stream = self._names.intents(shard)
        if self._adding is None:
            async with self._additions, self._errors("submit", write=True):
                return _text(await self._redis.xadd(stream, {INTENT_FIELD: payload}))
        command = ("XADD", stream, "*", INTENT_FIELD, payload)
        async with self._errors("submit", write=True):
            try:
                return _text(await self._adding.ask(*command))
            except rx.ResponseError as error:
                if not self._errors.redials(error):
                    raise
            return _text(await self._adding.ask(*command))  # refused before: a replica adds nothing

    async def replies(self, stream: str, *, after: str, block_ms: int, count: int) -> list[Message]:
        """Outcomes after an entry id; wait for the first."""
        command = ("XREAD", "COUNT", count, "BLOCK", block_ms, "STREAMS", stream, after)
        async with self._errors("read"):
            if self._listening is None or self._listening.taken:
                found = await self._redis.xread({stream: after}, count=count, block=block_ms)
                return [_message(entry_id, fields) for _, entries in found or () for entry_id, fields in entries]
            found = await self._listening.ask(*command)
        return [_message(entry_id, _pairs(fields)) for entry_id, fields in _entries_of_one(found)]

    async def close(self) -> None:
        """Nobody gets an answer any more."""
        if self._adding is not None:
            await self._adding.close()


def _entries_of_one(found: Any) -> Sequence[Any]:
    """The entries of the one stream in the answer to XREAD, as it came: lists, or by protocol 3 a mapping."""
    if not found:
        return ()
    ((_, entries),) = found.items() if isinstance(found, dict) else found
    return entries  # type: ignore[no-any-return]


def _pairs(fields: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(fields[::2], fields[1::2], strict=True))


def _message(entry_id: bytes, fields: dict[bytes, bytes]) -> Message:
    return Message(_text(entry_id), fields.get(_OUTCOME_FIELD, b""))


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
