"""The intent streams on Redis (or Valkey) 7 and later, alone or as a cluster."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import redis.exceptions as rx

from firn.model.errors import Unavailable
from firn.storage.intent_streams import (
    DEAD_LETTER_FIELD,
    EVENT_FIELD,
    FIRST_ID,
    GROUP,
    INTENT_FIELD,
    OUTCOME_FIELD,
    PAYLOAD_BYTES_MAX,
    Book,
    Delivered,
    Deliveries,
    Entry,
    Message,
    Settlement,
    ShardLag,
    Standing,
    StreamNames,
    check_payload,
    id_after,
    id_order,
)
from firn.storage.log import get_logger
from firn.storage.redis_books import RedisBooks
from firn.storage.redis_claims import RedisClaims
from firn.storage.redis_deliveries import deliveries_of, group_of, lag_of
from firn.storage.redis_dialling import CONNECT_TIMEOUT_S, Dialler, client_of
from firn.storage.redis_errors import ANSWER_TIMEOUT_S, RedisErrors
from firn.storage.redis_owner import ForeignRedisError, RedisOwner
from firn.storage.redis_place import place_of
from firn.storage.redis_taking import RedisTaking
from firn.storage.redis_telling import RedisTelling
from firn.storage.redis_vitals import INFO_SECTIONS, RedisVitals, vitals_of
from firn.storage.redis_writing import RedisWriting
from firn.storage.store_faults import StoreFaults

BLOCK_MS_MAX: Final = int(ANSWER_TIMEOUT_S * 500)
"""The wait to ask the server for: well below the time after which it counts as not answering."""

READ_BYTES: Final = 256 * 1024
"""What is taken of an answer at a time: as much as the event loop reads of a socket at once."""

_WANTED: Final = {
    "appendonly": ("yes", "intents that were accepted are lost when Redis restarts"),
    "appendfsync": ("always", "the last second of accepted intents is lost with the machine"),
    "maxmemory-policy": ("noeviction", "Redis may evict outcomes and streams"),
}

_log: Any = get_logger()


class RedisStreams:
    """`IntentStreams` on a real server.

    Commands are never repeated by the client library: a repeated XADD is a second entry. With a URL of a cluster
    (`firn.storage.redis_place`) nothing is in one transaction, and entries are acknowledged in a second round trip.
    """

    def __init__(
        self,
        url: str,
        *,
        names: StreamNames | None = None,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
        **connection_options: Any,
    ) -> None:
        place = place_of(url)
        self._cluster = place.kind == "cluster"
        self._faults = StoreFaults()
        dialler = Dialler(place, self._faults)
        self._owner = RedisOwner(names or StreamNames())
        dialler.owner = self._owner.check
        self._errors = RedisErrors(dialler, self._faults)
        self._redis: Any = client_of(
            dialler,
            **{
                "socket_connect_timeout": CONNECT_TIMEOUT_S,
                "socket_timeout": None,  # `RedisErrors` has one for all
                "protocol": 2,
                "socket_read_size": READ_BYTES,
                **connection_options,
            },
        )
        self._names = names or StreamNames()
        self._payload_bytes_max = payload_bytes_max
        self._groups_created = 0
        self._claims = RedisClaims(self._redis, self._names)
        self._books = RedisBooks(self._redis, cluster=self._cluster)
        self._telling = RedisTelling(self._redis, self._names, cluster=self._cluster, errors=self._errors)
        self._writing = RedisWriting(self._redis, self._names, cluster=self._cluster, errors=self._errors)
        self._taking = RedisTaking(self._redis, self._names, cluster=self._cluster)

    @property
    def names(self) -> StreamNames:
        return self._names

    @property
    def groups_created(self) -> int:
        return self._groups_created

    @property
    def entries_lost(self) -> int:
        return self._claims.lost

    @property
    def faults(self) -> StoreFaults:
        return self._faults

    async def probe(self) -> None:
        # Never written: there is no such key. Asked as a write, for a server that answers and takes none.
        async with self._errors("probe", write=True):
            await self._redis.set(self._names.probe, b"", xx=True)

    async def submit(self, shard: int, payload: bytes) -> str:
        check_payload(payload, bytes_max=self._payload_bytes_max)
        return await self._writing.submit(shard, payload)

    async def holds(self, shard: int, entry_id: str) -> bool:
        async with self._errors("holds"):
            return bool(await self._redis.xrange(self._names.intents(shard), min=entry_id, max=entry_id, count=1))

    async def take(self, shards: Sequence[int], *, consumer: str, count: int, block_ms: int) -> list[Entry]:
        if not shards:
            return []
        async with self._errors("take"):
            try:
                return await self._taking.take(shards, consumer=consumer, count=count, block_ms=_block(block_ms))
            except rx.ResponseError as error:
                if not str(error).startswith(("NOGROUP", "UNBLOCKED")):  # the latter: it went while we waited on it
                    raise
            for shard in shards:
                await self._ensure_group(shard)
            return []  # so that the caller sees `groups_created` before any entry

    async def pending(self, shard: int, *, start: str = FIRST_ID, count: int, min_idle_ms: int = 0) -> list[Delivered]:
        async with self._errors("pending"):
            try:
                found = await self._redis.xpending_range(
                    self._names.intents(shard), GROUP, min=start, max="+", count=count, idle=min_idle_ms or None
                )
            except rx.ResponseError as error:
                if not str(error).startswith("NOGROUP"):
                    raise
                await self._ensure_group(shard)
                return []
        return [Delivered(_text(one["message_id"]), one["times_delivered"]) for one in found]

    async def read_again(self, shard: int, found: Sequence[Delivered], *, consumer: str) -> list[Entry]:
        async with self._errors("read_again"):
            return await self._claims.take_over(shard, found, consumer=consumer)

    async def count_delivery(self, shard: int, entries: Sequence[Entry], *, consumer: str) -> list[Entry]:
        async with self._errors("count_delivery"):
            return await self._claims.count(shard, entries, consumer=consumer)

    async def reclaim(self, shard: int, entry_ids: Sequence[str], *, consumer: str) -> list[str]:
        if not entry_ids:
            return []
        async with self._errors("reclaim"):
            return await self._claims.reclaim(shard, entry_ids, consumer=consumer)

    async def remove_idle_consumers(self, shard: int, *, keep: str, idle_ms: int) -> list[str]:
        async with self._errors("remove_idle_consumers"):
            return await self._claims.remove_idle(shard, keep=keep, idle_ms=idle_ms)

    async def foreign_keys(self, shards: Sequence[int]) -> dict[int, str]:
        async with self._errors("foreign_keys"):
            pipeline = self._redis.pipeline(transaction=False)
            for shard in shards:
                pipeline.type(self._names.intents(shard))
            try:
                kinds = [_text(kind) for kind in await pipeline.execute()] if shards else []
            except rx.NoPermissionError:
                return {}  # with the users of an older firn nobody can tell
        return {shard: kind for shard, kind in zip(shards, kinds, strict=True) if kind not in ("stream", "none")}

    async def settle(
        self,
        batch: Sequence[Settlement],
        *,
        events: Sequence[bytes] = (),
        places: Mapping[str, bytes | None] | None = None,
    ) -> None:
        await self._telling.settle(batch, events=events, places=places or {})

    async def publish(self, events: Sequence[bytes]) -> None:
        await self._telling.publish(events)

    async def outcome(self, intent_id: str) -> bytes | None:
        return await self._get("outcome", self._names.outcome(intent_id))

    async def outcomes(self, intent_ids: Sequence[str]) -> list[bytes | None]:
        return await self._telling.outcomes(intent_ids)

    async def replies(self, stream: str, *, after: str = FIRST_ID, block_ms: int, count: int = 100) -> list[Message]:
        block = _block(block_ms)
        if block is None:
            return await self._read(stream, OUTCOME_FIELD, after=after, block_ms=block_ms, count=count)
        return await self._writing.replies(stream, after=after, block_ms=block, count=count)

    async def events(self, *, after: str = FIRST_ID, block_ms: int, count: int = 100) -> list[Message]:
        return await self._read(self._names.events, EVENT_FIELD, after=after, block_ms=block_ms, count=count)

    async def newest_events(self, *, count: int) -> list[Message]:
        async with self._errors("read"):
            found = await self._redis.xrevrange(self._names.events, count=count)
        return [_message(entry, EVENT_FIELD) for entry in reversed(found or [])]

    async def dead_letters(self, *, after: str = FIRST_ID, count: int = 100) -> list[Message]:
        return await self._read(self._names.dead_letters, DEAD_LETTER_FIELD, after=after, block_ms=0, count=count)

    async def drop_dead_letters(self, letter_ids: Sequence[str]) -> int:
        if not letter_ids:
            return 0
        async with self._errors("drop_dead_letters", write=True):
            return int(await self._redis.xdel(self._names.dead_letters, *letter_ids))

    async def trim(self, shard: int) -> int:
        stream = self._names.intents(shard)
        async with self._errors("trim"):
            group = await group_of(self._redis, stream)
            if group is None:
                return 0
            # Pending entries only come from beyond what was delivered, so neither bound can be too high by the time
            # that the trim arrives. What was delivered last stays, to show that nobody has removed more than this.
            pending = await self._redis.xpending(stream, GROUP)
            keep_from = _text(group["last-delivered-id"])
            if pending["min"] is not None:
                keep_from = min(keep_from, _text(pending["min"]), key=id_order)
            removed: int = await self._redis.xtrim(stream, minid=keep_from, approximate=False)
            return removed

    async def lag(self, shard: int) -> ShardLag:
        async with self._errors("lag"):
            found = await lag_of(self._redis, self._names.intents(shard))
            if found is None:
                await self._ensure_group(shard)
                found = await lag_of(self._redis, self._names.intents(shard))
        return found or ShardLag(length=0, undelivered=0, pending=0, entries_added=0, oldest_entry_ms=None)

    async def deliveries(self, shard: int) -> Deliveries | None:
        async with self._errors("deliveries"):
            return await deliveries_of(self._redis, self._names.intents(shard), atomic=not self._cluster)

    async def standing(self, shard: int, *, after: str = FIRST_ID, count: int = 100) -> list[Standing]:
        stream = self._names.intents(shard)
        async with self._errors("standing"):
            group = await group_of(self._redis, stream)
            entries = await self._redis.xrange(stream, min=id_after(after), count=count)
            if not entries:
                return []
            pending: dict[str, Any] = {}
            if group is not None:
                listed = await self._redis.xpending_range(
                    stream, GROUP, min=entries[0][0], max=entries[-1][0], count=len(entries)
                )
                pending = {_text(found["message_id"]): found for found in listed}
        last = id_order(FIRST_ID if group is None else _text(group["last-delivered-id"]))
        return [_standing(_text(entry_id), fields, pending, last=last) for entry_id, fields in entries]

    async def move(self, entry: Entry, *, to_shard: int) -> str:
        fields: dict[Any, Any] = dict(entry.fields) if entry.payload is None else {INTENT_FIELD: entry.payload}
        async with self._errors("move", write=True):
            pipeline = self._redis.pipeline(transaction=not self._cluster)
            pipeline.xadd(self._names.intents(to_shard), fields)
            if not self._cluster:
                pipeline.xack(self._names.intents(entry.shard), GROUP, entry.entry_id)
            added = _text((await pipeline.execute())[0])
            if self._cluster:
                await self._redis.xack(self._names.intents(entry.shard), GROUP, entry.entry_id)
            return added

    async def epoch(self) -> str:
        async with self._errors("epoch"):
            pipeline = self._redis.pipeline(transaction=False)
            pipeline.set(self._names.epoch, uuid.uuid4().hex, nx=True)
            pipeline.get(self._names.epoch)
            _, value = await pipeline.execute()
            return _text(value)

    async def deployment(self) -> bytes | None:
        try:
            return await self._get("deployment", self._names.deployment)
        except Unavailable as error:
            if isinstance(error.__cause__, ForeignRedisError):
                return error.__cause__.found
            raise

    async def mark(self, deployment: bytes, *, replacing: bytes | None) -> bool:
        async with self._errors("mark", write=True):
            if replacing is None:
                return bool(await self._redis.set(self._names.deployment, deployment, nx=True))
            if await self._redis.get(self._names.deployment) != replacing:
                return False
            await self._redis.set(self._names.deployment, deployment)
            return True

    def expect(self, deployment: str | None) -> None:
        self._owner.expected = deployment

    async def clock_ms(self) -> int:
        async with self._errors("clock"):
            seconds, microseconds = await self._redis.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def persistence_warnings(self) -> list[str]:
        warnings = []
        async with self._errors("persistence"):
            for setting, (wanted, otherwise) in _WANTED.items():
                try:
                    answer = await self._redis.config_get(setting)
                except (rx.NoPermissionError, rx.ResponseError):
                    return []  # managed servers hide their settings
                value = answer.get(setting, wanted)
                if value != wanted:
                    warnings.append(f"Redis has {setting} {value}, wanted {wanted}: {otherwise}")
        return warnings

    async def vitals(self) -> RedisVitals | None:
        if self._cluster:
            return None
        async with self._errors("vitals"):
            try:
                return vitals_of(await self._redis.info(*INFO_SECTIONS))
            except (rx.NoPermissionError, rx.ResponseError):
                return None  # managed servers hide themselves

    async def announce(self, settings: bytes) -> None:
        async with self._errors("announce", write=True):
            await self._redis.set(self._names.settings, settings)

    async def settings(self) -> bytes | None:
        return await self._get("settings", self._names.settings)

    async def announce_tables(self, places: Mapping[str, bytes | None]) -> None:
        await self._telling.announce_tables(places)

    async def table(self, name: str) -> bytes | None:
        return await self._get("table", self._names.table(name))

    async def book(self, table: str) -> Book:
        async with self._errors("book"):
            return await self._books.read(self._names.book(table), table=table)

    async def any_notes(self, tables: Sequence[str]) -> bool:
        async with self._errors("any_notes"):
            return bool(await self._redis.exists(*map(self._names.book, tables)))

    async def note(self, table: str, changes: Mapping[str, bytes | None], *, version: int, lives_ms: int) -> bool:
        async with self._errors("note", write=True):
            return await self._books.change(self._names.book(table), changes, version=version, lives_ms=lives_ms)

    async def close(self) -> None:
        with contextlib.suppress(rx.RedisError, rx.RedisClusterException, OSError):
            await self._writing.close()
            await self._redis.aclose()

    # ------------------------------------------------------------------------------------------------------------------

    async def _get(self, doing: str, key: str) -> bytes | None:
        async with self._errors(doing):
            found: bytes | None = await self._redis.get(key)
            return found

    async def _read(self, stream: str, field: str, *, after: str, block_ms: int, count: int) -> list[Message]:
        async with self._errors("read"):
            found = await self._redis.xread({stream: after}, count=count, block=_block(block_ms))
        return [_message(entry, field) for _, entries in found or [] for entry in entries]

    async def _ensure_group(self, shard: int) -> None:
        """Make the group at the stream's beginning: what is decided already is known by the journal, not by Redis."""
        try:
            await self._redis.xgroup_create(self._names.intents(shard), GROUP, id="0", mkstream=True)
        except rx.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        else:
            self._groups_created += 1


def _standing(
    entry_id: str, fields: dict[bytes, bytes], pending: Mapping[str, Any], *, last: tuple[int, int]
) -> Standing:
    payload, taken = fields.get(INTENT_FIELD.encode()), pending.get(entry_id)
    if taken is None:
        waits = id_order(entry_id) > last
        return Standing(entry_id=entry_id, payload=payload, state="waiting" if waits else "settled")
    return Standing(
        entry_id=entry_id,
        payload=payload,
        state="taken",
        consumer=_text(taken["consumer"]),
        deliveries=taken["times_delivered"],
        idle_ms=taken["time_since_delivered"],
    )


def _message(entry: tuple[bytes, dict[bytes, bytes]], field: str) -> Message:
    entry_id, fields = entry
    return Message(_text(entry_id), fields.get(field.encode(), b""))


def _block(block_ms: int) -> int | None:
    return min(block_ms, BLOCK_MS_MAX) if block_ms > 0 else None  # 0 would wait for ever


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
