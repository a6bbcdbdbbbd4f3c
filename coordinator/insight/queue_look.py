"""Looking for intents in the queue, without touching it: where one stands, and how many stand before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal

import msgspec

from firn.storage.intent_streams import FIRST_ID, IntentStreams, Standing, id_order

PAGE: Final = 500
ENTRIES_MAX: Final = 50_000
"""Entries of one stream that are looked at; behind them nothing is found."""


class Member(msgspec.Struct, frozen=True):
    """A member of a transaction, as far as it says whom it concerns."""

    table: str


class Glance(msgspec.Struct, frozen=True, rename="kebab"):
    """What can be told of an intent without checking it."""

    intent_id: str
    table: str
    operation: str
    writer: str | None = None
    priority: str = "ingest"
    base_snapshot_id: int | None = None
    branch: str | None = None
    members: tuple[Member, ...] = ()


class Place(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """Where an entry of an intent stands.

    ``waiting`` for a daemon, ``taken`` by `daemon`, or ``settled``. `before_table` and `before_shard` count undecided
    intents that stand before it, of its table and of its stream; `submitted_ms` is the queue's clock.
    """

    stream: str
    entry_id: str
    state: Literal["waiting", "taken", "settled"]
    submitted_ms: int
    daemon: str | None = None
    deliveries: int = 0
    idle_ms: int = 0
    before_table: int = 0
    before_shard: int = 0
    intent: Glance


_DECODER: Final = msgspec.json.Decoder(Glance)


async def places_of(streams: IntentStreams, intent_id: str, *, shards: Sequence[int]) -> list[Place]:
    """Every entry that carries the intent, oldest first: more than one when it was submitted again."""
    found: list[Place] = []
    for shard in shards:
        before: dict[str, int] = {}
        async for standing, glance in _entries(streams, shard):
            if glance is not None and glance.intent_id == intent_id:
                found.append(_place(streams.names.intents(shard), standing, glance, before))
            if standing.state != "settled":
                table = "" if glance is None else glance.table
                before[table] = before.get(table, 0) + 1
    return sorted(found, key=lambda place: place.submitted_ms)


async def payload_at(streams: IntentStreams, place: Place) -> bytes | None:
    """What an entry holds that was found; None when it is not there any more."""
    shard = int(place.stream.rpartition(":")[2])
    milliseconds, sequence = id_order(place.entry_id)
    before = f"{milliseconds}-{sequence - 1}" if sequence else f"{milliseconds - 1}-{2**63}"
    found = await streams.standing(shard, after=before, count=1)
    return next((one.payload for one in found if one.entry_id == place.entry_id), None)


async def undecided(streams: IntentStreams, table: str, *, shard: int) -> int:
    """How many intents of a table stand in its stream and are not settled."""
    return sum([
        1
        async for standing, glance in _entries(streams, shard)
        if standing.state != "settled" and glance is not None and glance.table == table
    ])  # fmt: skip


async def waiting_by_table(streams: IntentStreams, *, shards: int) -> Counter[str]:
    """How many intents of each table stand in the streams and are not settled."""
    found: Counter[str] = Counter()
    for shard in range(shards):
        async for standing, glance in _entries(streams, shard):
            if standing.state != "settled" and glance is not None:
                found[glance.table] += 1
    return found


async def _entries(streams: IntentStreams, shard: int) -> AsyncIterator[tuple[Standing, Glance | None]]:
    after, seen = FIRST_ID, 0
    while seen < ENTRIES_MAX and (page := await streams.standing(shard, after=after, count=PAGE)):
        for standing in page:
            yield standing, glance_at(standing.payload)
        after, seen = page[-1].entry_id, seen + len(page)


def glance_at(payload: bytes | str | None) -> Glance | None:
    """What can be told of a payload; None for what is no intent."""
    try:
        return None if payload is None else _DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # no intent: it will be set aside


def _place(stream: str, standing: Standing, glance: Glance, before: dict[str, int]) -> Place:
    return Place(
        stream=stream,
        entry_id=standing.entry_id,
        state=standing.state,
        submitted_ms=int(standing.entry_id.partition("-")[0]),
        daemon=standing.consumer,
        deliveries=standing.deliveries,
        idle_ms=standing.idle_ms,
        before_table=before.get(glance.table, 0),
        before_shard=sum(before.values()),
        intent=glance,
    )
