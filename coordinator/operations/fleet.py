"""The fleet: which daemons there are, who reads which shard, and how far behind that is. Reads only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

import msgspec

from firn.coordinator.operations.bulletin import Notice, notice_in
from firn.model.amounts import plural
from firn.model.errors import FirnError, NotFound
from firn.model.pause import Pause
from firn.model.trouble import Trouble
from firn.storage.intent_streams import IntentStreams, ShardLag
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers
from firn.storage.store_faults import StoreFault

T = TypeVar("T")
U = TypeVar("U")

ANSWER_S: Final = 3.0
"""How long a server is waited for: whoever looks wants to know that it does not answer."""

NOT_KNOWN: Final = "?"
"""Who reads a shard, while nobody can say."""


class Member(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A daemon: its id, what it says of itself, the shards it owns. `troubles` are the tables that it is stuck on.

    `unmerged` are those with manifests that it cannot merge, with the reason; `stores` is what it sees wrong with Redis
    and ZooKeeper.
    """

    id: str
    version: str = "?"
    http: str | None = None
    shards: tuple[int, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    troubles_in_all: int = 0
    unmerged: dict[str, str] = {}
    stores: tuple[StoreFault, ...] = ()


class Shard(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A stream of intents: who reads it, how far behind that is, and how long the oldest intent waits (s)."""

    number: int
    owner: str | None
    lag: ShardLag | None
    oldest_s: float | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Daemons, shards, tables that are paused, and what is wrong (`troubles`, in words).

    `unmerged` are tables with manifests that cannot be merged, each with the reason; commits to them go on.
    Without `zookeeper_answers`, nobody knows what daemons and tables there are: none are listed.
    """

    members: tuple[Member, ...]
    shards: tuple[Shard, ...]
    tables: int
    troubles: tuple[str, ...]
    paused: dict[str, Pause] = {}
    unmerged: dict[str, str] = {}
    zookeeper_answers: bool = True

    @property
    def waiting(self) -> int:
        """Intents that are not settled, as far as Redis told."""
        return sum((shard.lag.undelivered or 0) + shard.lag.pending for shard in self.shards if shard.lag is not None)

    @property
    def oldest_s(self) -> float | None:
        """How long the oldest of them waits; None when there are none."""
        return max((shard.oldest_s for shard in self.shards if shard.oldest_s is not None), default=None)


async def fleet_of(
    *, membership: Membership, pointers: Pointers, pauses: Pauses, streams: IntentStreams | None, shards: int
) -> Fleet:
    """Look at everything. A server that does not answer, or not in time, is a trouble, not an error.

    `streams` None: Redis is known not to answer, and whoever asks says so.
    """
    troubles: list[str] = []
    known, ids, tables, paused, lags = await asyncio.gather(
        _told(membership.owners(), None, troubles, server="ZooKeeper"),
        _told(membership.members(), [], troubles, server="ZooKeeper"),
        _told(pointers.list(), [], troubles, server="ZooKeeper"),
        _told(pauses.all(), {}, troubles, server="ZooKeeper"),
        _told(_lags(streams, shards), None, troubles, server="Redis"),
    )
    owners: Mapping[int, str] = dict.fromkeys(range(shards), NOT_KNOWN) if known is None else known
    members = await asyncio.gather(*(_member(membership, member, owners) for member in ids))
    now_ms = time.time() * 1000
    looked_at = []
    for number in range(shards):
        lag = None if lags is None else lags[number]
        oldest = None if lag is None or lag.oldest_entry_ms is None else max(0.0, now_ms - lag.oldest_entry_ms) / 1000
        looked_at.append(Shard(number=number, owner=owners.get(number), lag=lag, oldest_s=oldest))
    unowned = [shard.number for shard in looked_at if shard.owner is None]
    if unowned and len(unowned) == shards:
        troubles.append("no daemon reads any shard: all intents wait")
    elif unowned:
        troubles.append(
            f"no daemon reads shard{'s' if unowned[1:] else ''} {', '.join(map(str, unowned))}: intents there wait"
        )
    versions = sorted({member.version for member in members})
    if len(versions) > 1:
        troubles.append(f"daemons of several versions: {', '.join(versions)}")
    for member in members:
        troubles.extend(f"{member.id}: {fault}" for fault in member.stores)
        troubles.extend(map(str, member.troubles))
        if member.troubles_in_all > len(member.troubles):
            troubles.append(f"{member.id}: and {plural(member.troubles_in_all - len(member.troubles), 'more table')}")
    return Fleet(
        members=tuple(members), shards=tuple(looked_at), tables=len(tables), troubles=tuple(dict.fromkeys(troubles)),
        paused=paused, unmerged={table: why for member in members for table, why in member.unmerged.items()},
        zookeeper_answers=known is not None,
    )  # fmt: skip


async def _lags(streams: IntentStreams | None, shards: int) -> list[ShardLag] | None:
    return None if streams is None else await asyncio.gather(*(streams.lag(shard) for shard in range(shards)))


async def notices(membership: Membership) -> dict[str, Notice]:
    """What every daemon says of itself, by its id. Raises as ZooKeeper does."""
    ids = await membership.members()
    found = await asyncio.gather(*(_notice(membership, member) for member in ids))
    return dict(zip(ids, found, strict=True))


def troubles_in(told: Mapping[str, Notice]) -> dict[str, Trouble]:
    """What daemons are stuck on, by table."""
    return {trouble.table: trouble for notice in told.values() for trouble in notice.troubles}


async def _notice(membership: Membership, member: str) -> Notice:
    try:
        return notice_in(await membership.info(member))
    except NotFound:
        return Notice()  # it has just gone


async def _told(work: Awaitable[T], otherwise: U, troubles: list[str], *, server: str) -> T | U:
    try:
        async with asyncio.timeout(ANSWER_S):
            return await work
    except FirnError as error:
        _, named, said = str(error).partition(f"{server} ")  # without what it was asked, which nobody cares about here
        troubles.append(f"{server} {said}" if named else str(error))
    except TimeoutError:
        troubles.append(f"{server} does not answer within {ANSWER_S:g} s: nothing is committed without it")
    return otherwise


async def _member(membership: Membership, member: str, owners: Mapping[int, str]) -> Member:
    shards = tuple(shard for shard, owner in owners.items() if owner == member)
    try:
        async with asyncio.timeout(ANSWER_S):
            notice = await _notice(membership, member)
    except (FirnError, TimeoutError):
        notice = Notice()
    return Member(
        id=member, version=notice.version, http=notice.http, shards=shards, troubles=notice.troubles,
        troubles_in_all=notice.troubles_in_all, unmerged=notice.unmerged, stores=notice.stores,
    )  # fmt: skip
