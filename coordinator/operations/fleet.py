"""The fleet: which daemons there are, who reads which shard, and how far behind that is. Reads only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from firn.coordinator.operations.notices import Notice, notice_in
from firn.coordinator.operations.recent_work import RecentWork, together
from firn.model.amounts import plural
from firn.model.errors import FirnError, NotFound, Unavailable
from firn.model.pause import Pause
from firn.model.trouble import Trouble
from firn.storage.intent_streams import IntentStreams, ShardLag
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers
from firn.storage.store_faults import StoreFault

T = TypeVar("T")

ANSWER_S: Final = 3.0
"""How long a server is waited for: whoever looks wants to know that it does not answer."""

NOT_KNOWN: Final = "?"
"""Who reads a shard, while nobody can say."""

DAEMONS: Final = "docs/runbooks/daemons.md"
SERVERS: Final = "docs/runbooks/servers.md"
TABLES: Final = "docs/runbooks/tables.md"


class Member(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A daemon: its id, what it says of itself, the shards it owns. `troubles` are the tables that it is stuck on.

    `unmerged` are those with manifests that it cannot merge, with the reason; `stores` is what it sees wrong with Redis
    and ZooKeeper, `work` what it did in the last minute (None: not known).
    """

    id: str
    version: str = "?"
    http: str | None = None
    shards: tuple[int, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    troubles_in_all: int = 0
    unmerged: dict[str, str] = {}
    stores: tuple[StoreFault, ...] = ()
    work: RecentWork | None = None


class Cause(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Something that is wrong, in words, with the document that says what to do, and the table that it is about."""

    text: str
    runbook: str | None = None
    table: str | None = None


class Shard(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A stream of intents: who reads it, how far behind that is, and how long the oldest intent waits (s)."""

    number: int
    owner: str | None
    lag: ShardLag | None
    oldest_s: float | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Daemons, shards, tables that are paused, and what is wrong (`causes`).

    `unmerged` are tables with manifests that cannot be merged, each with the reason; commits to them go on.
    Without `zookeeper_answers`, nobody knows what daemons, tables and pauses there are: none are listed.
    """

    members: tuple[Member, ...]
    shards: tuple[Shard, ...]
    tables: int | None
    causes: tuple[Cause, ...]
    paused: dict[str, Pause] = {}
    unmerged: dict[str, str] = {}
    zookeeper_answers: bool = True

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        return tuple(cause.text for cause in self.causes)

    @property
    def redis_answers(self) -> bool:
        """Whether Redis answered for every shard; without shards nobody knows how many there are."""
        return bool(self.shards) and all(shard.lag is not None for shard in self.shards)

    @property
    def waiting(self) -> int | None:
        """Intents that are not settled; None where Redis does not tell of every shard."""
        waiting = 0
        for shard in self.shards:
            if shard.lag is None or shard.lag.undelivered is None:
                return None
            waiting += shard.lag.undelivered + shard.lag.pending
        return waiting if self.shards else None

    @property
    def oldest_s(self) -> float | None:
        """How long the oldest of them waits, as far as Redis answered; None when there are none."""
        return max((shard.oldest_s for shard in self.shards if shard.oldest_s is not None), default=None)

    @property
    def work(self) -> RecentWork | None:
        """What all daemons did in the last minute; None where one of them does not say."""
        return together(member.work for member in self.members) if self.zookeeper_answers else None


async def fleet_of(
    *, membership: Membership, pointers: Pointers, pauses: Pauses, streams: IntentStreams | None, shards: int
) -> Fleet:
    """Look at everything. A server that does not answer, or not in time, is a trouble, not an error.

    `streams` None: Redis is known not to answer, and whoever asks says so.
    """
    causes: list[Cause] = []
    known, ids, tables, paused, lags = await asyncio.gather(
        _told(membership.owners(), causes, server="ZooKeeper"),
        _told(membership.members(), causes, server="ZooKeeper"),
        _told(pointers.list(), causes, server="ZooKeeper"),
        _told(pauses.all(), causes, server="ZooKeeper"),
        _told(_lags(streams, shards), causes, server="Redis"),
    )
    owners: Mapping[int, str] = dict.fromkeys(range(shards), NOT_KNOWN) if known is None else known
    members = await asyncio.gather(*(_member(membership, member, owners) for member in ids or ()))
    now_ms = time.time() * 1000
    looked_at = []
    for number in range(shards):
        lag = None if lags is None else lags[number]
        oldest = None if lag is None or lag.oldest_entry_ms is None else max(0.0, now_ms - lag.oldest_entry_ms) / 1000
        looked_at.append(Shard(number=number, owner=owners.get(number), lag=lag, oldest_s=oldest))
    causes += _of_shards([shard.number for shard in looked_at if shard.owner is None], shards)
    causes += _of_members(members)
    return Fleet(
        members=tuple(members), shards=tuple(looked_at), tables=None if tables is None else len(tables),
        causes=tuple(dict.fromkeys(causes)), paused=paused or {},
        unmerged={table: why for member in members for table, why in member.unmerged.items()},
        zookeeper_answers=None not in (known, ids, tables, paused),
    )  # fmt: skip


def _of_shards(unowned: Sequence[int], shards: int) -> Iterator[Cause]:
    if unowned and len(unowned) == shards:
        yield Cause(text="no daemon reads any shard: all intents wait", runbook=f"{DAEMONS}#firnnodaemon")
    elif unowned:
        numbers = f"shard{'s' if unowned[1:] else ''} {', '.join(map(str, unowned))}"
        yield Cause(text=f"no daemon reads {numbers}: intents there wait", runbook=f"{DAEMONS}#firnshardsunread")


def _of_members(members: Sequence[Member]) -> Iterator[Cause]:
    versions = sorted({member.version for member in members})
    if len(versions) > 1:
        yield Cause(text=f"daemons of several versions: {', '.join(versions)}", runbook=f"{DAEMONS}#firnversionsmixed")
    for member in members:
        for fault in member.stores:
            yield Cause(text=f"{member.id}: {fault}", runbook=f"{SERVERS}#firnstoretrouble")
        yield from map(cause_of, member.troubles)
        if member.troubles_in_all > len(member.troubles):
            left = plural(member.troubles_in_all - len(member.troubles), "more table")
            yield Cause(text=f"{member.id}: and {left}", runbook=f"{TABLES}#firntablesstalled")


def cause_of(trouble: Trouble) -> Cause:
    """Return what a daemon is stuck on as a cause."""
    anchor = "firntableunreadable" if trouble.state == "unreadable" else "firntablesstalled"
    return Cause(text=str(trouble), runbook=f"{TABLES}#{anchor}", table=trouble.table)


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


async def answer_of(work: Awaitable[T], *, server: str) -> T:
    """Wait for what a server answers. Raises what it raises, and Unavailable after `ANSWER_S`."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await work
    except TimeoutError:
        raise Unavailable(f"{server} does not answer within {ANSWER_S:g} s: nothing is committed without it") from None


async def _told(work: Awaitable[T], causes: list[Cause], *, server: str) -> T | None:
    try:
        return await answer_of(work, server=server)
    except FirnError as error:
        causes.append(cause_of_silence(server, error))
    return None


def cause_of_silence(server: str, error: FirnError) -> Cause:
    """Return that a server does not answer as a cause: without what it was asked, which nobody cares about here."""
    _, named, said = str(error).partition(f"{server} ")
    return Cause(text=f"{server} {said}" if named else str(error), runbook=runbook_of_server(server))


def runbook_of_server(server: str) -> str:
    """Return the document on a server that does not answer."""
    return f"{SERVERS}#firn{server.lower()}away"


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
        work=notice.work,
    )  # fmt: skip
