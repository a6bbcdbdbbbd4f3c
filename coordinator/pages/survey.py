"""What the pages show, gathered from ZooKeeper, Redis and the tables' own files. Reads only."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import Final, Literal

import msgspec

from firn.coordinator.insight.explain import Sources, Story, story_of
from firn.coordinator.insight.queue_look import Place, places_of
from firn.coordinator.insight.table_history import HistoryItem, history_of
from firn.coordinator.lanes.lane import AtWork
from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.operations.fleet import (
    Fleet,
    answer_of,
    cause_of,
    cause_of_silence,
    fleet_of,
    notices,
    troubles_in,
)
from firn.coordinator.pages.event_log import EVENTS_SHOWN, EventFilter, EventLine, event_in, lines_of
from firn.coordinator.pages.snapshot_graph import SNAPSHOTS_MAX, Graph, graph_of
from firn.coordinator.pages.store_reads import StoreReads
from firn.coordinator.pages.table_list import TableList
from firn.coordinator.tables.journal_heads import journal_head_of
from firn.model.consumer import Consumer, ConsumerStatus, status_of
from firn.model.errors import CorruptFile, FirnError, NotFound, Unavailable
from firn.model.event import Event
from firn.model.history import HistoryReach, reach_of
from firn.model.journal import Segment
from firn.model.metadata import TableMetadata
from firn.model.outcome import Outcome, Rejected, decode_outcome, is_final
from firn.model.pause import Pause
from firn.model.sharding import shard_of
from firn.model.snapshot import MAIN_BRANCH
from firn.model.table_properties import unusable_properties
from firn.model.trouble import Trouble
from firn.model.view import ViewMetadata
from firn.storage.consumers import Consumers
from firn.storage.intent_streams import IntentStreams
from firn.storage.leases import HolderInfo
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointer

EVENTS_MAX: Final = 5_000
"""Newest events that the conflict log is made of; `firn conflicts` reads the journals, which go back for ever."""

CONFLICTS_MAX: Final = 200
BATCHES_MAX: Final = 30


class Ref(msgspec.Struct, frozen=True, kw_only=True):
    """A branch or tag, and when the snapshot that it points at was made; None when that is not there."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot_id: int
    made_ms: int | None


class TablePage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one table or view. `metadata` is None when it is dropped, unreadable (see `trouble`), or in a
    store that does not answer now: `unread` says so.
    """

    pointer: Pointer
    shard: int
    owner: str | None
    owner_http: str | None = None
    holder: HolderInfo | None
    depth: int | None
    at_work: AtWork | None = None
    paused: Pause | None = None
    metadata: TableMetadata | None = None
    view: ViewMetadata | None = None
    graph: Graph | None = None
    reach: HistoryReach | None = None
    refs: tuple[Ref, ...] = ()
    history: tuple[HistoryItem, ...] = ()
    batches: tuple[Segment, ...] = ()
    trouble: str | None = None
    unread: str | None = None
    unusable_properties: tuple[str, ...] = ()
    unmerged: str | None = None
    """Why some manifests are not merged; commits go on."""
    named_consumers: tuple[Consumer, ...] = ()
    consumers: tuple[ConsumerStatus, ...] = ()
    """The named consumers, compared with the metadata; empty while that is not read."""
    consumers_unread: str | None = None


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A rejection as it was announced."""

    time: str
    table: str
    operation: str | None
    writer: str | None
    outcome: Rejected
    dead_letter: bool


class Survey:
    """Answers the pages' questions from what one daemon is connected to; of other daemons it knows what they say of
    themselves.
    """

    def __init__(
        self,
        shop: Workshop,
        lanes: Lanes,
        *,
        shards: int,
        membership: Membership,
        pauses: Pauses,
        streams: IntentStreams,
        consumers: Consumers,
    ) -> None:
        self._daemon = shop.daemon
        self._shards = shards
        self._membership = membership
        self._pointers = shop.pointers
        self._pauses = pauses
        self._paused = shop.paused
        self._leases = shop.leases
        self._streams = streams
        self._consumers = consumers
        self._reader = shop.reader
        self._journal = shop.journal
        self._skew_ms = shop.limits.clock_skew_minutes_max * 60_000
        self._lanes = lanes
        self._reads = StoreReads()
        self.tables = TableList(shop, lanes, shards=shards, membership=membership, reads=self._reads)

    async def fleet(self) -> tuple[Fleet, list[Conflict] | None]:
        """Daemons, shards, lag, and the newest conflicts, None where Redis does not tell them.

        A server that does not answer is a cause in the fleet, not an error.
        """
        fleet, conflicts = await asyncio.gather(
            fleet_of(
                membership=self._membership, pointers=self._pointers, pauses=self._pauses, streams=self._streams,
                shards=self._shards,
            ),
            self.conflicts(table="", rule="", writer="", limit=CONFLICTS_MAX),
            return_exceptions=True,
        )  # fmt: skip
        if isinstance(fleet, BaseException):
            raise fleet
        causes = list(fleet.causes)
        if isinstance(conflicts, FirnError):
            causes += [] if not fleet.redis_answers else [cause_of_silence("Redis", conflicts)]
        elif isinstance(conflicts, BaseException):
            raise conflicts
        told = {cause.table for cause in causes}
        causes += [cause_of(trouble) for trouble in self._lanes.troubles if trouble.table not in told]
        found = None if isinstance(conflicts, FirnError) else conflicts
        return msgspec.structs.replace(fleet, causes=tuple(causes)), found

    async def close(self) -> None:
        """Wait for no store any longer."""
        await self.tables.close()

    def depths(self) -> dict[str, int]:
        """Intents that wait in this daemon's lanes, by table."""
        return {table: depth for table, depth in self._lanes.depths.items() if depth}

    async def table(self, name: str) -> TablePage:
        """One table. Raises NotFound, and Unavailable when ZooKeeper does not answer."""
        page = await answer_of(self._page_of(name), server="ZooKeeper")
        try:
            return await self._reads.read(name, partial(self._with_content, page))
        except Unavailable as error:
            return msgspec.structs.replace(page, unread=str(error))

    async def _page_of(self, name: str) -> TablePage:
        try:
            pointer = (await self._pointers.read_cached(name)).pointer
        except NotFound as error:
            raise NotFound(f"there is no table or view {name!r}, and never was one") from error
        shard = shard_of(name, shards=self._shards)
        owner = (await self._membership.owners()).get(shard)
        told = await notices(self._membership)
        trouble = troubles_in(told).get(name)
        consumers, unread = await self._consumers_of(pointer)
        return TablePage(
            named_consumers=consumers,
            consumers_unread=unread,
            pointer=pointer,
            shard=shard,
            owner=owner,
            owner_http=None if owner not in told else told[owner].http,
            holder=await self._leases.holder(name),
            trouble=None if trouble is None else _said(trouble),
            depth=self._lanes.depths.get(name, 0) if owner == self._daemon else None,
            at_work=next((batch for batch in self._lanes.at_work() if batch.table == name), None),
            paused=self._paused.tables.get(name),
            unmerged=next((notice.unmerged[name] for notice in told.values() if name in notice.unmerged), None),
        )

    async def _consumers_of(self, pointer: Pointer) -> tuple[tuple[Consumer, ...], str | None]:
        try:
            found = await self._consumers.of(pointer.uuid)
        except CorruptFile as error:
            return (), str(error)
        return () if found is None else found.consumers, None

    async def conflicts(self, *, table: str, rule: str, writer: str, limit: int) -> list[Conflict]:
        """The newest rejections that were announced, newest first."""
        found = []
        for event in await self.events(limit=EVENTS_MAX):
            conflict = conflict_of(event)
            if conflict is None or (table and conflict.table != table) or (rule and conflict.outcome.rule != rule):
                continue
            if writer and writer not in (conflict.writer, conflict.outcome.conflicting_writer):
                continue
            found.append(conflict)
            if len(found) == limit:
                break
        return found

    async def intent(self, intent_id: str, *, table: str = "") -> tuple[Story, tuple[str, ...]]:
        """The whole story of an intent, and what of it could not be asked, with the reasons.

        Without its table, only what Redis still knows leads to the journal. Raises Unavailable when neither is known.
        """
        outcome: Outcome | None = None
        entries: list[Place] = []
        unread: list[str] = []
        try:
            outcome, entries = await answer_of(self._in_redis(intent_id, table), server="Redis")
        except Unavailable as error:
            if not table:
                raise
            unread.append(str(error))
        table = table or (outcome.table if outcome is not None and is_final(outcome) else "")
        table = table or (entries[0].intent.table if entries else "")
        pointer = None
        if table:
            with contextlib.suppress(NotFound):
                pointer = (await answer_of(self._pointers.read_cached(table), server="ZooKeeper")).pointer
        story = partial(self._story, intent_id, outcome, entries)
        if pointer is None:
            return story(None), tuple(unread)
        try:
            return await self._reads.read(pointer.table, partial(story, pointer)), tuple(unread)
        except FirnError as error:
            return story(None), (*unread, f"The table's journal was not read: {error}")

    async def _in_redis(self, intent_id: str, table: str) -> tuple[Outcome | None, list[Place]]:
        data = await self._streams.outcome(intent_id)
        outcome = None if data is None else decode_outcome(data)
        table = table or (outcome.table if outcome is not None and is_final(outcome) else "")
        shards = range(self._shards) if not table else (shard_of(table, shards=self._shards),)
        return outcome, await places_of(self._streams, intent_id, shards=shards)

    def _story(self, intent_id: str, outcome: Outcome | None, entries: list[Place], pointer: Pointer | None) -> Story:
        sources = []
        if pointer is not None:
            is_there = not pointer.dropped and pointer.kind == "table"
            metadata = self._reader.metadata(pointer.metadata_location) if is_there else None
            head = journal_head_of(pointer, metadata)
            sources = [
                Sources(table=pointer.table, journal=self._journal, head=head, metadata=metadata, skew_ms=self._skew_ms)
            ]
        return story_of(intent_id, sources=sources, outcome=outcome, entries=entries, pauses=self._paused.tables)

    async def events(self, *, limit: int) -> list[Event]:
        """The newest events, newest first."""
        messages = await answer_of(self._streams.newest_events(count=limit), server="Redis")
        return [event for message in reversed(messages) if (event := event_in(message.data)) is not None]

    async def event_lines(self, wanted: EventFilter) -> tuple[EventLine, ...]:
        """The newest events that are wanted, newest first. Raises Unavailable when Redis does not answer."""
        count = EVENTS_MAX if wanted.is_set else EVENTS_SHOWN
        messages = await answer_of(self._streams.newest_events(count=count), server="Redis")
        return await asyncio.to_thread(lines_of, messages, wanted, limit=EVENTS_SHOWN)

    def _with_content(self, page: TablePage) -> TablePage:
        """What the files say: blocking, for a worker thread. A table that cannot be read is shown with the reason."""
        pointer, replace = page.pointer, msgspec.structs.replace
        now_ms = time.time_ns() // 1_000_000
        try:
            if pointer.dropped:
                return replace(page, batches=self._batches(pointer.journal_head))
            if pointer.kind == "view":
                view = self._reader.view(pointer.metadata_location, digest=pointer.digest)
                return replace(page, view=view, batches=self._batches(pointer.journal_head))
            metadata = self._reader.metadata(pointer.metadata_location, digest=pointer.digest)
            head = journal_head_of(pointer, metadata)
            return replace(
                page,
                metadata=metadata,
                graph=graph_of(metadata),
                reach=reach_of(metadata),
                refs=refs_of(metadata),
                history=tuple(history_of(metadata, journal=self._journal, journal_head=head, limit=SNAPSHOTS_MAX)),
                batches=self._batches(head),
                unusable_properties=unusable_properties(metadata.properties),
                consumers=tuple(status_of(one, metadata, now_ms=now_ms) for one in page.named_consumers),
            )
        except Unavailable:
            raise
        except FirnError as error:
            return replace(page, trouble=f"It cannot be read: {error}")

    def _batches(self, head: str | None) -> tuple[Segment, ...]:
        found: list[Segment] = []
        for segment in self._journal.walk(head):
            found.append(segment)
            if len(found) == BATCHES_MAX:
                break
        return tuple(found)


def _said(trouble: Trouble) -> str:
    said = "It cannot be read" if trouble.state == "unreadable" else "Its intents wait, and are tried again"
    return f"{said}: {trouble.why}"


def refs_of(metadata: TableMetadata) -> tuple[Ref, ...]:
    """Branches, ``main`` first, then tags, by name."""
    made = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    refs = (
        Ref(name=name, kind=ref.type, snapshot_id=ref.snapshot_id, made_ms=made.get(ref.snapshot_id))
        for name, ref in metadata.refs.items()
    )
    return tuple(sorted(refs, key=lambda ref: (ref.kind, ref.name != MAIN_BRANCH, ref.name)))


def conflict_of(event: Event) -> Conflict | None:
    """The rejection that an event announces, if it does."""
    if event.type not in {"firn.intent.rejected", "firn.intent.dead-lettered"}:
        return None
    try:
        outcome = msgspec.convert(event.data, Rejected)
    except msgspec.ValidationError:
        return None
    return Conflict(
        time=event.time,
        table=event.subject,
        operation=event.data.get("operation"),
        writer=event.data.get("writer"),
        outcome=outcome,
        dead_letter=event.type == "firn.intent.dead-lettered",
    )
