"""The intent streams' in-memory twin, with hooks to lose what Redis can lose.

One `MemoryRedis` is the server; every daemon and writer has its own `MemoryStreams` on it. Waiting is done with the
event loop's clock; entry ids and idle times come from `now_ms`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from firn.model.deployment import is_foreign_mark
from firn.model.errors import Unavailable, UnknownOutcome
from firn.storage.intent_streams import (
    BOOK_VERSION,
    COUNTED_MAX,
    DEAD_LETTER_FIELD,
    DEAD_LETTERS_LENGTH_MAX,
    EVENT_FIELD,
    EVENTS_LENGTH_MAX,
    FIRST_ID,
    INTENT_FIELD,
    OUTCOME_FIELD,
    PAYLOAD_BYTES_MAX,
    REPLY_LENGTH_MAX,
    Book,
    Delivered,
    Deliveries,
    Entry,
    Message,
    Settlement,
    ShardLag,
    Standing,
    StreamNames,
    book_of,
    check_book,
    check_payload,
    entry_of,
    id_order,
    outcome_to_send,
)
from firn.storage.memory_redis import Claim, Group, RedisContent, Stream, text_of
from firn.storage.redis_vitals import RedisVitals
from firn.storage.store_faults import StoreFaults

_Result = TypeVar("_Result")

Drop = Literal["before", "after"]

_POLL_S = 0.001  # how long a waiting reader sleeps when nobody wakes it


class MemoryRedis(RedisContent):
    """The server. Every daemon and writer has a client of its own."""

    def connect(self, *, names: StreamNames | None = None, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> MemoryStreams:
        """A client."""
        return MemoryStreams(self, names=names or StreamNames(), payload_bytes_max=payload_bytes_max)


class MemoryStreams:
    """An `IntentStreams` on a `MemoryRedis`."""

    def __init__(self, server: MemoryRedis, *, names: StreamNames, payload_bytes_max: int) -> None:
        self._server = server
        self._names = names
        self._payload_bytes_max = payload_bytes_max
        self._groups_created = 0
        self._entries_lost = 0
        self._faults = StoreFaults()
        self._drops: list[Drop] = []
        self._expected: str | None = None

    def drop_next_write(self, when: Drop) -> None:
        """Lose the reply of the next write, ``before`` it takes effect or ``after``."""
        self._drops.append(when)

    @property
    def names(self) -> StreamNames:
        return self._names

    @property
    def groups_created(self) -> int:
        return self._groups_created

    @property
    def entries_lost(self) -> int:
        return self._entries_lost

    @property
    def faults(self) -> StoreFaults:
        return self._faults

    async def probe(self) -> None:
        await self._turn()

    async def submit(self, shard: int, payload: bytes) -> str:
        check_payload(payload, bytes_max=self._payload_bytes_max)
        stream = self._names.intents(shard)
        return await self._write(lambda: self._server.add(stream, {INTENT_FIELD.encode(): payload}))

    async def submit_fields(self, shard: int, fields: dict[bytes, bytes]) -> str:
        """Add an entry that no client of ours would (tests of what daemons do with it)."""
        return await self._write(lambda: self._server.add(self._names.intents(shard), fields))

    async def holds(self, shard: int, entry_id: str) -> bool:
        await self._turn()
        stream = self._server.streams.get(self._names.intents(shard))
        return stream is not None and id_order(entry_id) in stream.entries

    async def take(self, shards: Sequence[int], *, consumer: str, count: int, block_ms: int) -> list[Entry]:
        deadline, groups = asyncio.get_running_loop().time() + block_ms / 1000, self._groups_created
        while True:
            await self._turn()
            taken = [entry for shard in shards for entry in self._take_new(shard, consumer=consumer, count=count)]
            if taken or self._groups_created > groups or asyncio.get_running_loop().time() >= deadline:
                return taken
            await asyncio.sleep(_POLL_S)

    async def pending(self, shard: int, *, start: str = FIRST_ID, count: int, min_idle_ms: int = 0) -> list[Delivered]:
        await self._turn()
        _, group = self._group(shard)
        now_ms = self._server.now_ms()
        found = [
            Delivered(text_of(entry_id), pending.deliveries)
            for entry_id, pending in sorted(group.pending.items())
            if entry_id >= id_order(start) and now_ms - pending.since_ms >= min_idle_ms
        ]
        return found[:count]

    async def read_again(self, shard: int, found: Sequence[Delivered], *, consumer: str) -> list[Entry]:
        await self._turn()
        stream, group = self._group(shard)
        entries: list[Entry] = []
        for one in found:
            entry_id = id_order(one.entry_id)
            pending = group.pending.get(entry_id)
            if pending is None:
                continue
            if entry_id not in stream.entries:
                del group.pending[entry_id]
                self._entries_lost += 1
                continue
            pending.consumer, pending.since_ms = consumer, self._server.now_ms()
            group.seen_ms[consumer] = pending.since_ms
            entries.append(entry_of(shard, one.entry_id, stream.entries[entry_id], deliveries=pending.deliveries))
        return entries

    async def count_delivery(self, shard: int, entries: Sequence[Entry], *, consumer: str) -> list[Entry]:
        await self._turn()
        _, group = self._group(shard)
        for entry in entries:
            pending = group.pending.get(id_order(entry.entry_id))
            if pending is not None:
                pending.consumer, pending.deliveries = consumer, entry.deliveries + 1
        return [msgspec.structs.replace(entry, deliveries=entry.deliveries + 1) for entry in entries]

    async def reclaim(self, shard: int, entry_ids: Sequence[str], *, consumer: str) -> list[str]:
        await self._turn()
        stream, group = self._group(shard)
        there = [entry_id for entry_id in entry_ids if id_order(entry_id) in stream.entries]
        for entry_id in there:
            group.pending[id_order(entry_id)] = Claim(consumer=consumer, since_ms=self._server.now_ms(), deliveries=1)
            group.seen_ms[consumer] = self._server.now_ms()
        return there

    async def remove_idle_consumers(self, shard: int, *, keep: str, idle_ms: int) -> list[str]:
        await self._turn()
        stream = self._server.streams.get(self._names.intents(shard))
        if stream is None or stream.group is None:
            return []
        busy = {claim.consumer for claim in stream.group.pending.values()}
        before_ms = self._server.now_ms() - idle_ms
        idle = [
            name for name, seen_ms in stream.group.seen_ms.items()
            if name != keep and name not in busy and seen_ms <= before_ms
        ]  # fmt: skip
        for name in idle:
            del stream.group.seen_ms[name]
        return idle

    async def foreign_keys(self, shards: Sequence[int]) -> dict[int, str]:
        await self._turn()
        return {shard: "string" for shard in shards if self._server.get(self._names.intents(shard)) is not None}

    async def settle(
        self,
        batch: Sequence[Settlement],
        *,
        events: Sequence[bytes] = (),
        places: Mapping[str, bytes | None] | None = None,
    ) -> None:
        def effect() -> None:
            for event in events:
                self._tell(event)
            for name, place in (places or {}).items():
                self._server.put(self._names.table(name), place)
            for settlement in batch:
                self._settle(settlement)

        await self._write(effect)

    async def publish(self, events: Sequence[bytes]) -> None:
        def effect() -> None:
            for event in events:
                self._tell(event)

        await self._write(effect)

    async def outcome(self, intent_id: str) -> bytes | None:
        await self._turn()
        return self._server.get(self._names.outcome(intent_id))

    async def outcomes(self, intent_ids: Sequence[str]) -> list[bytes | None]:
        await self._turn()
        return [self._server.get(self._names.outcome(intent_id)) for intent_id in intent_ids]

    async def replies(self, stream: str, *, after: str = FIRST_ID, block_ms: int, count: int = 100) -> list[Message]:
        return await self._read(stream, OUTCOME_FIELD, after=after, block_ms=block_ms, count=count)

    async def events(self, *, after: str = FIRST_ID, block_ms: int, count: int = 100) -> list[Message]:
        return await self._read(self._names.events, EVENT_FIELD, after=after, block_ms=block_ms, count=count)

    async def newest_events(self, *, count: int) -> list[Message]:
        await self._turn()
        return self._server.after(self._names.events, FIRST_ID, count=EVENTS_LENGTH_MAX, field=EVENT_FIELD)[-count:]

    async def dead_letters(self, *, after: str = FIRST_ID, count: int = 100) -> list[Message]:
        return await self._read(self._names.dead_letters, DEAD_LETTER_FIELD, after=after, block_ms=0, count=count)

    async def drop_dead_letters(self, letter_ids: Sequence[str]) -> int:
        def effect() -> int:
            stream = self._server.streams.get(self._names.dead_letters)
            if stream is None:
                return 0
            return sum(stream.entries.pop(id_order(one), None) is not None for one in letter_ids)

        return await self._write(effect)

    async def trim(self, shard: int) -> int:
        await self._turn()
        stream = self._server.streams.get(self._names.intents(shard))
        if stream is None or stream.group is None:
            return 0
        group = stream.group
        keep_from = min([group.last, *group.pending])
        settled = [entry_id for entry_id in stream.entries if entry_id < keep_from]
        for entry_id in settled:
            del stream.entries[entry_id]
        return len(settled)

    async def lag(self, shard: int) -> ShardLag:
        await self._turn()
        stream, group = self._group(shard)
        undelivered = [entry_id for entry_id in stream.entries if entry_id > group.last]
        oldest = min([*undelivered, *group.pending], default=None)
        return ShardLag(
            length=len(stream.entries),
            undelivered=len(undelivered),
            pending=len(group.pending),
            entries_added=stream.added,
            oldest_entry_ms=None if oldest is None else oldest[0],
            oldest_undelivered_ms=min(undelivered)[0] if undelivered else None,
        )

    async def deliveries(self, shard: int) -> Deliveries | None:
        await self._turn()
        stream = self._server.streams.get(self._names.intents(shard))
        if stream is None or stream.group is None:
            return None
        undelivered = sum(entry_id > stream.group.last for entry_id in stream.entries)
        return Deliveries(
            added=stream.added,
            removed=stream.added - len(stream.entries),
            pending=len(stream.group.pending),
            undelivered=undelivered if undelivered <= COUNTED_MAX else None,
            delivered_id=text_of(stream.group.last),
            delivered_there=stream.group.last in stream.entries,
            delivered=stream.group.delivered,
        )

    async def standing(self, shard: int, *, after: str = FIRST_ID, count: int = 100) -> list[Standing]:
        await self._turn()
        stream = self._server.streams.get(self._names.intents(shard), Stream())
        group = stream.group or Group()
        found: list[Standing] = []
        for entry_id in sorted(known for known in stream.entries if known > id_order(after))[:count]:
            pending = group.pending.get(entry_id)
            payload = stream.entries[entry_id].get(INTENT_FIELD.encode())
            one = Standing(entry_id=text_of(entry_id), payload=payload, state="settled")
            if entry_id > group.last:
                one = msgspec.structs.replace(one, state="waiting")
            elif pending is not None:
                one = msgspec.structs.replace(
                    one,
                    state="taken",
                    consumer=pending.consumer,
                    deliveries=pending.deliveries,
                    idle_ms=self._server.now_ms() - pending.since_ms,
                )
            found.append(one)
        return found

    async def move(self, entry: Entry, *, to_shard: int) -> str:
        fields = entry.fields if entry.payload is None else {INTENT_FIELD.encode(): entry.payload}

        def effect() -> str:
            new_id = self._server.add(self._names.intents(to_shard), fields)
            self._ack(entry.shard, entry.entry_id)
            return new_id

        return await self._write(effect)

    async def epoch(self) -> str:
        await self._turn()
        if self._server.get(self._names.epoch) is None:
            self._server.keys[self._names.epoch] = (self._server.new_epoch(), None)
        return (self._server.get(self._names.epoch) or b"").decode()

    async def deployment(self) -> bytes | None:
        await self._answer()
        return self._server.get(self._names.deployment)

    async def mark(self, deployment: bytes, *, replacing: bytes | None) -> bool:
        def effect() -> bool:
            if self._server.get(self._names.deployment) != replacing:
                return False
            self._server.put(self._names.deployment, deployment)
            return True

        await self._answer()
        return effect()

    def expect(self, deployment: str | None) -> None:
        self._expected = deployment

    async def clock_ms(self) -> int:
        return self._server.now_ms()

    async def persistence_warnings(self) -> list[str]:
        await self._turn()
        return []

    async def vitals(self) -> RedisVitals | None:
        await self._turn()
        return None

    async def announce(self, settings: bytes) -> None:
        await self._write(lambda: self._server.put(self._names.settings, settings))

    async def settings(self) -> bytes | None:
        await self._turn()
        return self._server.get(self._names.settings)

    async def announce_tables(self, places: Mapping[str, bytes | None]) -> None:
        def effect() -> None:
            for name, place in places.items():
                self._server.put(self._names.table(name), place)

        await self._write(effect)

    async def table(self, name: str) -> bytes | None:
        await self._turn()
        return self._server.get(self._names.table(name))

    async def book(self, table: str) -> Book:
        await self._turn()
        found = self._server.hash(self._names.book(table))
        check_book(table, len(found))
        return book_of(found, now_ms=self._server.now_ms())

    async def any_notes(self, tables: Sequence[str]) -> bool:
        await self._turn()
        return any(self._server.hash(self._names.book(table)) for table in tables)

    async def note(self, table: str, changes: Mapping[str, bytes | None], *, version: int, lives_ms: int) -> bool:
        key = self._names.book(table)

        def effect() -> bool:
            fields = self._server.hash(key)
            if int(fields.get(BOOK_VERSION.encode(), b"0")) != version:
                return False
            for name, value in changes.items():
                fields.pop(name.encode(), None)
                if value is not None:
                    fields[name.encode()] = value
            fields[BOOK_VERSION.encode()] = b"%d" % (version + 1)
            self._server.hashes[key] = (fields, self._server.now_ms() + lives_ms)
            return True

        return await self._write(effect)

    async def close(self) -> None:
        return

    # ------------------------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        await self._answer()
        if is_foreign_mark(self._server.get(self._names.deployment), self._expected):
            raise Unavailable("Redis is another deployment's")

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self._server.down:
            raise Unavailable("Redis is down")

    async def _write(self, effect: Callable[[], _Result]) -> _Result:
        await self._turn()
        drop = self._drops.pop(0) if self._drops else None
        if drop == "before":
            raise UnknownOutcome("connection lost")
        result = effect()
        if drop == "after":
            raise UnknownOutcome("connection lost")
        return result

    async def _read(self, stream: str, field: str, *, after: str, block_ms: int, count: int) -> list[Message]:
        deadline = asyncio.get_running_loop().time() + block_ms / 1000
        while True:
            await self._turn()
            found = self._server.after(stream, after, count=count, field=field)
            if found or asyncio.get_running_loop().time() >= deadline:
                return found
            await asyncio.sleep(_POLL_S)

    def _group(self, shard: int) -> tuple[Stream, Group]:
        stream = self._server.streams.setdefault(self._names.intents(shard), Stream())
        if stream.group is None:
            stream.group = Group()
            self._groups_created += 1
        return stream, stream.group

    def _take_new(self, shard: int, *, consumer: str, count: int) -> list[Entry]:
        if self._server.get(self._names.intents(shard)) is not None:
            raise Unavailable("take: Redis refuses: WRONGTYPE Operation against a key holding the wrong kind of value")
        known = self._server.streams.get(self._names.intents(shard))
        if known is None or known.group is None:
            self._group(shard)
            return []  # so that the caller sees `groups_created` before any entry
        group = known.group
        group.seen_ms[consumer] = self._server.now_ms()
        ids = sorted(entry_id for entry_id in known.entries if entry_id > group.last)[:count]
        for entry_id in ids:
            group.pending[entry_id] = Claim(consumer=consumer, since_ms=self._server.now_ms(), deliveries=1)
            group.last = entry_id
            group.delivered = None if group.delivered is None else group.delivered + 1
        return [entry_of(shard, text_of(entry_id), known.entries[entry_id], deliveries=1) for entry_id in ids]

    def _settle(self, told: Settlement) -> None:
        outcome = told.outcome
        if told.intent_id is not None:
            key = self._names.outcome(told.intent_id)
            outcome, is_put = outcome_to_send(told, self._server.get(key))
            if is_put:
                self._server.keys[key] = (outcome, self._server.now_ms() + told.outcome_ttl_s * 1000)
        if told.reply_to is not None and self._names.is_reply(told.reply_to):
            self._server.add(told.reply_to, {OUTCOME_FIELD.encode(): outcome}, length_max=REPLY_LENGTH_MAX)
        if told.event is not None:
            self._tell(told.event)
        if told.dead_letter is not None:
            fields = {DEAD_LETTER_FIELD.encode(): told.dead_letter}
            self._server.add(self._names.dead_letters, fields, length_max=DEAD_LETTERS_LENGTH_MAX)
        self._ack(told.shard, told.entry_id)

    def _tell(self, event: bytes) -> None:
        self._server.add(self._names.events, {EVENT_FIELD.encode(): event}, length_max=EVENTS_LENGTH_MAX)

    def _ack(self, shard: int, entry_id: str) -> None:
        stream = self._server.streams.get(self._names.intents(shard))
        if stream is not None and stream.group is not None:
            stream.group.pending.pop(id_order(entry_id), None)
