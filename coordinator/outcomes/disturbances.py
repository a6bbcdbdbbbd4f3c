"""Telling the holders of reservations that a commit has touched what they reserved, behind the commits' backs.

A reservation decides nothing, so no commit waits for this: what lanes have committed is queued here, compared with the
reservations of its table, and told as events and to whoever renews. Reservations that an intent was submitted under end
with its commit.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.outcomes.reservations import Reservations
from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Refusal
from firn.coordinator.replay.draft import DraftManifest, DraftSnapshot
from firn.coordinator.replay.file_filter import FileFilter
from firn.coordinator.replay.working import Working
from firn.model.amounts import agreeing, plural
from firn.model.content_file import bind_content_file
from firn.model.datafile import DataFile
from firn.model.delete_index import PartitionKey, partition_key, referenced_data_file
from firn.model.errors import FirnError, InvalidIntent
from firn.model.event import disturbance_event
from firn.model.journal import Segment
from firn.model.manifest import Status
from firn.model.metadata import TableMetadata
from firn.model.operations.common import ContentFile
from firn.model.outcome import Committed
from firn.model.reservation import FILES_LISTED_MAX, Disturbance, Reservation, Scope
from firn.storage.intent_streams import IntentStreams
from firn.storage.locations import canonical
from firn.storage.log import get_logger

QUEUE_MAX: Final = 1_000
"""Commits that wait to be looked at; the oldest go when there are more, and nobody is told of them."""

PACE_S: Final = 0.05
"""How long what lands is gathered: a busy table's reservations are read so often, not after each of its commits."""

TABLES_AT_ONCE: Final = 64
"""Tables whose reservations are asked for together, where there are any: with many busy ones a round trip for each
would be too slow, and what landed would be kept meanwhile.
"""

INTENTS_LISTED_MAX: Final = 20


class Landing(msgspec.Struct, frozen=True, eq=False):
    """A batch that was committed: what it did, and by whom. `under` are reservations by the intents that named them.

    `at` is when, by the monotonic clock (s). Not all of what it was replayed on: that is more than what it did.
    """

    table: str
    metadata: TableMetadata | None
    snapshots: tuple[DraftSnapshot, ...]
    segment: Segment
    under: dict[str, str]
    at: float


class Touched(msgspec.Struct, frozen=True):
    """How a commit touched what was reserved, for people, and the files concerned."""

    what: str
    files: tuple[str, ...] = ()


class Disturbances:
    """Compares what was committed with what is reserved."""

    def __init__(
        self, reservations: Reservations, streams: IntentStreams, *, daemon: str, wall_ms: Callable[[], int]
    ) -> None:
        self._reservations = reservations
        self._streams = streams
        self._daemon = daemon
        self._wall_ms = wall_ms
        self._queue: deque[Landing] = deque(maxlen=QUEUE_MAX)
        self._arrived = asyncio.Event()
        self._log = get_logger()

    def landed(self, working: Working, segment: Segment, pendings: Sequence[Pending]) -> None:
        """A batch was committed: look at it by and by."""
        intents = [pending.decoded.intent for pending in pendings]
        under = {i.intent_id: i.reservation_id for i in intents if i.reservation_id is not None}
        if working.snapshots or under:
            changes = working.metadata, tuple(working.snapshots)
            self._queue.append(Landing(working.table, *changes, segment, under, time.monotonic()))
            self._arrived.set()

    async def run(self) -> None:
        """Look at what landed, until cancelled. What fails is advice that nobody gets."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(PACE_S)
            self._arrived.clear()
            landings: dict[str, list[Landing]] = {}
            while self._queue:
                landing = self._queue.popleft()
                landings.setdefault(landing.table, []).append(landing)
            tables = list(landings)
            for first in range(0, len(tables), TABLES_AT_ONCE):
                some = tables[first : first + TABLES_AT_ONCE]
                await self._look_at_all({table: landings.pop(table) for table in some})

    async def _look_at_all(self, landings: Mapping[str, Sequence[Landing]]) -> None:
        """Most of the time nobody has reserved anything, which one question tells of all tables."""
        try:
            if not await self._reservations.any_of(list(landings)):
                return
        except (FirnError, OSError) as error:
            self._log.warning("reservations not looked at", tables=len(landings), reason=str(error))
            return
        await asyncio.gather(*(self._try_to_look_at(table, some) for table, some in landings.items()))

    async def _try_to_look_at(self, table: str, landings: Sequence[Landing]) -> None:
        try:
            await self._look_at(table, landings)
        except (FirnError, OSError) as error:
            self._log.warning("reservations not looked at", table=table, reason=str(error))

    async def _look_at(self, table: str, landings: Sequence[Landing]) -> None:
        board = await self._reservations.of(table)
        if not board.standings:
            return
        told: dict[str, Disturbance] = {}
        ended: set[str] = set()
        now = time.monotonic()
        for landing in landings:
            ended |= _ended_by(landing)
            landed_ms = board.now_ms - (now - landing.at) * 1000  # by Redis's clock, as reservations are
            for one in board.reservations:
                if one.scope.is_nothing or one.reservation_id in told:
                    continue
                if one.base_snapshot_id is None and landed_ms < one.begun_ms:
                    continue  # what came before work without a base began was there for whoever planned it
                found = await asyncio.to_thread(self._disturbance, one, landing)
                if found is not None:
                    told[one.reservation_id] = found
        told = {one: disturbance for one, disturbance in told.items() if one not in ended}
        if ended:
            await self._reservations.end(table, *ended)
        if told:
            await self._reservations.disturb(table, told)
            by_id = {one.reservation_id: one for one in board.reservations}
            events = [disturbance_event(by_id[one], found, daemon=self._daemon) for one, found in told.items()]
            await self._streams.publish([msgspec.json.encode(event) for event in events])

    def _disturbance(self, reservation: Reservation, landing: Landing) -> Disturbance | None:
        metadata = landing.metadata
        if metadata is None:
            return None
        for draft in landing.snapshots:
            others = [one for one in draft.intent_ids if landing.under.get(one) != reservation.reservation_id]
            if not others or _is_in_base(draft, reservation, metadata):
                continue
            found = touched(metadata, reservation.scope, draft)
            if found is not None:
                return Disturbance(
                    snapshot_id=draft.snapshot.snapshot_id,
                    batch=landing.segment.batch.batch,
                    intents=tuple(others[:INTENTS_LISTED_MAX]),
                    writer=(draft.snapshot.summary or {}).get("firn.writer"),
                    timestamp_ms=self._wall_ms(),
                    what=found.what,
                    files=found.files[:FILES_LISTED_MAX],
                )
        return None


def _ended_by(landing: Landing) -> set[str]:
    """Reservations under which something was committed."""
    done = {d.intent_id for d in landing.segment.decided if isinstance(d.outcome, Committed)}
    return {reservation for intent, reservation in landing.under.items() if intent in done}


def _is_in_base(draft: DraftSnapshot, reservation: Reservation, metadata: TableMetadata) -> bool:
    """Whether the work was planned on the snapshot, or on one that came after it."""
    if reservation.base_snapshot_id is None:
        return False
    base = metadata.snapshot_by_id(reservation.base_snapshot_id)
    mine = draft.snapshot
    if base is None:
        return False
    return (base.sequence_number, base.timestamp_ms) >= (mine.sequence_number, mine.timestamp_ms)


def touched(metadata: TableMetadata, scope: Scope, draft: DraftSnapshot) -> Touched | None:
    """How a snapshot touched what is reserved, None if it did not as far as its own manifests tell.

    A rewrite brings no rows, so it does not touch rows; it does touch the files and partitions that it rewrites.
    """
    if draft.branch != scope.branch:
        return None
    if scope.is_whole:
        return Touched(f"{draft.snapshot.operation or 'a change'} on {draft.branch}")
    if scope.files:
        return _files_touched(frozenset(map(canonical, scope.files)), draft)
    if scope.partitions:
        return _partitions_touched(metadata, scope, draft)
    return _rows_touched(metadata, scope, draft)


def _changed(draft: DraftSnapshot) -> Iterator[tuple[DataFile, bool]]:
    """The files that a snapshot added or removed itself, and whether it added them."""
    for manifest in draft.manifests:
        if isinstance(manifest, DraftManifest) and manifest.snapshot_id == draft.snapshot.snapshot_id:
            for entry in manifest.changes:
                yield entry.data_file, entry.status is Status.ADDED


def _files_touched(reserved: frozenset[str], draft: DraftSnapshot) -> Touched | None:
    removed: set[str] = set()
    deleted_from: set[str] = set()
    for file, added in _changed(draft):
        target = referenced_data_file(file)
        if file.content == "data" and not added and canonical(file.file_path) in reserved:
            removed.add(file.file_path)
        elif added and target is not None and canonical(target) in reserved:
            deleted_from.add(target)
    if removed:
        return Touched(
            f"{len(removed):,} of the reserved files {agreeing(len(removed), 'was', 'were')} removed",
            tuple(sorted(removed)),
        )
    if deleted_from:
        return Touched(f"rows of {len(deleted_from)} of the reserved files were deleted", tuple(sorted(deleted_from)))
    return None


def _partitions_touched(metadata: TableMetadata, scope: Scope, draft: DraftSnapshot) -> Touched | None:
    keys = set(_partition_keys(metadata, scope))
    files = [file.file_path for file, _ in _changed(draft) if partition_key(file.spec_id, file.partition) in keys]
    return _came_or_went("of the reserved partitions", files)


def _partition_keys(metadata: TableMetadata, scope: Scope) -> Iterator[PartitionKey]:
    for one in scope.partitions:
        stand_in = ContentFile(
            file_path="reserved", file_format="parquet", spec_id=one.spec_id, partition=one.partition,
            record_count=0, file_size_in_bytes=0,
        )  # fmt: skip
        try:
            file = bind_content_file(stand_in, metadata, where="partitions")
        except InvalidIntent:
            continue  # no such partition: nothing can touch it
        yield partition_key(file.spec_id, file.partition)


def _rows_touched(metadata: TableMetadata, scope: Scope, draft: DraftSnapshot) -> Touched | None:
    if draft.snapshot.operation == "replace":
        return None
    try:
        reserved = FileFilter.parse(metadata, scope.row_filter, case_sensitive=True, where="row-filter")
    except Refusal:
        return None  # it means nothing for the table as it is
    files = [file.file_path for file, _ in _changed(draft) if reserved.may_match(file)]
    return _came_or_went("that may hold reserved rows", files)


def _came_or_went(which: str, files: Sequence[str]) -> Touched | None:
    if not files:
        return None
    count = len(files)
    return Touched(f"{plural(count, 'file')} {which} {agreeing(count, 'was', 'were')} added or removed", tuple(files))
