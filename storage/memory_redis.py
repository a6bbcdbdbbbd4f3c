"""What an in-memory Redis holds: streams and keys, the commands on them, and the ways to lose them."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from firn.storage.intent_streams import Message, id_order

Id = tuple[int, int]


def wall_clock_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


class Claim(msgspec.Struct):
    """An entry that was handed out and is not acknowledged."""

    consumer: str
    since_ms: int
    deliveries: int


class Group(msgspec.Struct):
    """A consumer group: the last entry that it handed out, how many it did, what is pending, and its consumers."""

    last: Id = (0, 0)
    delivered: int | None = 0
    pending: dict[Id, Claim] = {}
    seen_ms: dict[str, int] = {}
    """When each consumer asked for something the last time."""


class Stream(msgspec.Struct):
    """A stream with its one group."""

    entries: dict[Id, dict[bytes, bytes]] = {}
    last: Id = (0, 0)
    added: int = 0
    group: Group | None = None


class RedisContent:
    """What the server holds, the commands on it that the twin needs, and the ways to lose it."""

    def __init__(self, *, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.now_ms = now_ms
        self.streams: dict[str, Stream] = {}
        self.keys: dict[str, tuple[bytes, int | None]] = {}  # value, and when it expires
        self.hashes: dict[str, tuple[dict[bytes, bytes], int]] = {}  # fields, and when they expire
        self.down = False
        self._epochs = 0

    # Faults ----------------------------------------------------------------------------------------------------------

    def flush_all(self) -> None:
        """Lose everything, as FLUSHALL or a disk does."""
        self.streams.clear()
        self.keys.clear()
        self.hashes.clear()

    def lose_tail(self, stream: str, count: int) -> None:
        """Lose the last `count` entries of a stream and set its last id back, as a torn append-only file does."""
        found = self.streams[stream]
        for entry_id in sorted(found.entries)[-count:]:
            del found.entries[entry_id]
            if found.group is not None:
                found.group.pending.pop(entry_id, None)
        found.last = max(found.entries, default=(0, 0))
        if found.group is not None:
            found.group.last = min(found.group.last, found.last)

    def lose_groups(self) -> None:
        """Lose every consumer group and keep the entries."""
        for stream in self.streams.values():
            stream.group = None

    def delete_entry(self, stream: str, entry_id: str) -> None:
        """Delete an entry, pending or not, as XDEL and MAXLEN do."""
        self.streams[stream].entries.pop(id_order(entry_id), None)

    def cut(self, stream: str, *, keep: int) -> None:
        """Remove all but the newest entries, whoever has read them, as XTRIM MAXLEN does."""
        entries = self.streams[stream].entries
        for entry_id in sorted(entries)[: len(entries) - keep]:
            del entries[entry_id]

    def set_position(self, stream: str, entry_id: str) -> None:
        """Set what the group was handed last, as XGROUP SETID does."""
        group = self.streams[stream].group
        if group is not None:
            group.last, group.delivered = id_order(entry_id), None

    def acknowledge(self, stream: str, entry_id: str) -> None:
        """Take an entry for settled, as XACK by another does."""
        group = self.streams[stream].group
        if group is not None:
            group.pending.pop(id_order(entry_id), None)

    def delete_consumer(self, stream: str, consumer: str) -> None:
        """Remove a consumer with all that is pending for it, as XGROUP DELCONSUMER does."""
        group = self.streams[stream].group
        if group is not None:
            group.seen_ms.pop(consumer, None)
            for entry_id in [known for known, claim in group.pending.items() if claim.consumer == consumer]:
                del group.pending[entry_id]

    def delete_stream(self, stream: str) -> None:
        """Delete a stream with its group, as DEL and an eviction do."""
        self.streams.pop(stream, None)

    def replace_by_text(self, stream: str) -> None:
        """Put a string where a stream was."""
        self.streams.pop(stream, None)
        self.keys[stream] = (b"text", None)

    # Commands --------------------------------------------------------------------------------------------------------

    def add(self, stream: str, fields: dict[bytes, bytes], *, length_max: int | None = None) -> str:
        """XADD."""
        found = self.streams.setdefault(stream, Stream())
        entry_id = max((self.now_ms(), 0), (found.last[0], found.last[1] + 1))
        found.entries[entry_id] = fields
        found.last = entry_id
        found.added += 1
        if length_max is not None:
            for old in sorted(found.entries)[:-length_max]:
                del found.entries[old]
        return text_of(entry_id)

    def after(self, stream: str, after: str, *, count: int, field: str) -> list[Message]:
        """XREAD of streams with one field."""
        found = self.streams.get(stream)
        if found is None:
            return []
        start = id_order(after)
        ids = sorted(entry_id for entry_id in found.entries if entry_id > start)[:count]
        return [Message(text_of(entry_id), found.entries[entry_id].get(field.encode(), b"")) for entry_id in ids]

    def get(self, key: str) -> bytes | None:
        """GET."""
        value, expires_ms = self.keys.get(key, (None, None))
        if expires_ms is not None and expires_ms <= self.now_ms():
            del self.keys[key]
            return None
        return value

    def put(self, key: str, value: bytes | None) -> None:
        """SET without expiry; DEL for None."""
        if value is None:
            self.keys.pop(key, None)
        else:
            self.keys[key] = (value, None)

    def hash(self, key: str) -> dict[bytes, bytes]:
        """HGETALL."""
        fields, expires_ms = self.hashes.get(key, ({}, 0))
        return dict(fields) if expires_ms > self.now_ms() else {}

    def new_epoch(self) -> bytes:
        """A value that no earlier epoch had."""
        self._epochs += 1
        return f"epoch-{self._epochs}".encode()


def text_of(entry_id: Id) -> str:
    """An entry id as Redis spells it."""
    return f"{entry_id[0]}-{entry_id[1]}"
