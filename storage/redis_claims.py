"""Taking over entries that were handed out and are not settled: the claims of a consumer group in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import redis.exceptions as rx

from firn.storage.intent_streams import GROUP, Delivered, Entry, StreamNames, entry_of
from firn.storage.log import get_logger

_log: Final = get_logger()


class RedisClaims:
    """Claims through one connection. Raises what the client library raises."""

    def __init__(self, redis: Any, names: StreamNames) -> None:
        self._redis = redis
        self._names = names
        self.lost = 0
        """Entries that were deleted from under the daemon while they were pending."""

    async def take_over(self, shard: int, found: Sequence[Delivered], *, consumer: str) -> list[Entry]:
        """The entries, which are the consumer's from now on; their deliveries stay what they are."""
        claimed: dict[str, tuple[dict[bytes, bytes], int]] = {}
        for deliveries, ids in _by_deliveries(found):
            entries = await self._claim(shard, ids, consumer=consumer, deliveries=deliveries)
            claimed |= {_text(entry_id): (fields, deliveries) for entry_id, fields in entries if fields is not None}
        await self._count_lost(shard, [one.entry_id for one in found if one.entry_id not in claimed])
        return [
            entry_of(shard, one.entry_id, claimed[one.entry_id][0], deliveries=claimed[one.entry_id][1])
            for one in found
            if one.entry_id in claimed
        ]

    async def reclaim(self, shard: int, entry_ids: Sequence[str], *, consumer: str) -> list[str]:
        """Make entries pending that are not; those that are still there."""
        claimed = await self._redis.xclaim(
            self._names.intents(shard), GROUP, consumer, 0, list(entry_ids), retrycount=1, force=True, justid=True
        )
        return [_text(entry_id) for entry_id in claimed]

    async def remove_idle(self, shard: int, *, keep: str, idle_ms: int) -> list[str]:
        """Remove consumers without pending entries; their names."""
        stream = self._names.intents(shard)
        try:
            consumers = await self._redis.xinfo_consumers(stream, GROUP)
        except rx.ResponseError as error:
            if isinstance(error, rx.NoPermissionError):
                return []  # with the users of an older firn they stay
            if "no such key" not in str(error) and "NOGROUP" not in str(error):
                raise
            return []
        removed: list[str] = []
        for one in consumers:
            name = _text(one["name"])
            if name != keep and one["pending"] == 0 and one["idle"] >= idle_ms:
                try:
                    pending = await self._redis.xgroup_delconsumer(stream, GROUP, name)
                except rx.NoPermissionError:
                    return removed
                removed.append(name)
                if pending:  # it was handed them between the two commands
                    _log.error("streams.consumer-was-alive", shard=shard, consumer=name, pending=pending)
        return removed

    async def count(self, shard: int, entries: Sequence[Entry], *, consumer: str) -> list[Entry]:
        """The entries, each delivered once more."""
        for deliveries, ids in _by_deliveries(entries):
            await self._claim(shard, ids, consumer=consumer, deliveries=deliveries + 1, justid=True)
        return [msgspec.structs.replace(entry, deliveries=entry.deliveries + 1) for entry in entries]

    async def _claim(
        self, shard: int, ids: Sequence[str], *, consumer: str, deliveries: int, justid: bool = False
    ) -> list[Any]:
        """Make pending entries the consumer's, and set how often they have been delivered."""
        claimed: list[Any] = await self._redis.xclaim(
            self._names.intents(shard), GROUP, consumer, 0, list(ids), retrycount=deliveries, justid=justid
        )
        return claimed

    async def _count_lost(self, shard: int, missing: Sequence[str]) -> None:
        """Of pending entries that could not be claimed, those that are not in the stream any more were deleted."""
        if not missing:
            return
        stream = self._names.intents(shard)
        pipeline = self._redis.pipeline(transaction=False)
        for entry_id in missing:
            pipeline.xrange(stream, min=entry_id, max=entry_id, count=1)
        lost = [entry_id for entry_id, found in zip(missing, await pipeline.execute(), strict=True) if not found]
        if lost:
            self.lost += len(lost)
            _log.error("streams.pending-entries-deleted", shard=shard, count=len(lost), entries=lost[:10])


def _by_deliveries(found: Sequence[Delivered] | Sequence[Entry]) -> list[tuple[int, list[str]]]:
    """Ids by how often they were delivered: one command sets one number."""
    grouped: dict[int, list[str]] = {}
    for one in found:
        grouped.setdefault(one.deliveries, []).append(one.entry_id)
    return list(grouped.items())


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
