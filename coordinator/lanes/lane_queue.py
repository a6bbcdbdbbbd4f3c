"""A lane's queue: the intents of one table that wait for a batch, and which of them go into the next one.

First come, first served within a priority; maintenance yields to ingest, for a bounded time. Never overtaken are what
changes where the table is (a batch of its own) and earlier intents of the same streaming writer. An intent whose
deadline has passed goes into the next batch, wherever it stands, with a refusal. See docs/decisions/0008-fairness.md.

A transaction that waits for another table to be resumed is *parked*: it keeps its place before the others, but they do
not wait for it, unless they are later epochs of its streaming writer. See docs/decisions/0013-pause-and-recovery.md.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from firn.coordinator.metrics import Metrics
from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Refused
from firn.coordinator.replay.places import chooses_places
from firn.model.intent import Append, DropTable, Intent, Transaction
from firn.model.limits import Limits
from firn.model.operations.views import DropView

MAINTENANCE_SHARE: Final = 4
"""Maintenance that has waited long enough is guaranteed one in so many places of a batch, and one at least."""


class _Place(msgspec.Struct, eq=False):
    """An intent's place in the queue; `taken` when it is in a batch already and only its place is left."""

    pending: Pending
    line: Line
    taken: bool = False


class Line:
    """One priority within a stretch, in order."""

    def __init__(self) -> None:
        self._places: deque[_Place] = deque()
        self._count = 0
        self._writers: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Pending]:
        return (place.pending for place in self._places if not place.taken)

    def put(self, pending: Pending, *, first: bool = False) -> _Place:
        """Queue an intent as the last one, or before all others."""
        place = _Place(pending, self)
        if first:
            self._places.appendleft(place)
        else:
            self._places.append(place)
        self._count += 1
        writer = _epochs_of(pending)
        if writer is not None:
            self._writers[writer] += 1
        return place

    def take_first(self, *, intents_max: int, bytes_max: int, at_least_one: bool) -> list[Pending]:
        """Take out those that are next, as many as may be together; the first, if so wanted, whatever its size."""
        found: list[Pending] = []
        size, places = 0, self._places
        while places and len(found) < intents_max:
            place = places[0]
            if not place.taken:
                size += place.pending.decoded.size
                if size > bytes_max and (found or not at_least_one):
                    break
                self.take(place)
                found.append(place.pending)
            places.popleft()
        return found

    def take(self, place: _Place) -> None:
        """Take an intent out of the line."""
        place.taken = True
        self._count -= 1
        writer = _epochs_of(place.pending) if self._writers else None
        if writer is not None:
            self._writers[writer] -= 1
            if not self._writers[writer]:
                del self._writers[writer]

    def of_writers(self, writers: Collection[str]) -> list[_Place]:
        """Where epochs of streaming writers wait in this line, in order."""
        return [place for place in self._places if not place.taken and _epochs_of(place.pending) in writers]

    def has_writer(self, writer: str) -> bool:
        """Whether an epoch of a streaming writer waits in this line."""
        return writer in self._writers


class _Stretch:
    """What waits between two intents that are batches of their own; one of those is a stretch, too."""

    def __init__(self, *, alone: bool) -> None:
        self.alone = alone
        self.ingest = Line()
        self.maintenance = Line()

    def __len__(self) -> int:
        return len(self.ingest) + len(self.maintenance)

    def line_of(self, pending: Pending) -> Line:
        """Where an intent belongs: by its priority, or where earlier epochs of its streaming writer wait."""
        writer = _epochs_of(pending)
        if writer is not None:
            for line in (self.ingest, self.maintenance):
                if line.has_writer(writer):
                    return line
        return self.maintenance if pending.decoded.intent.priority == "maintenance" else self.ingest


class LaneQueue:
    """The intents of one table that are not in a batch yet."""

    def __init__(self, *, limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._stretches: deque[_Stretch] = deque()
        self._deadlines: list[tuple[int, int, _Place]] = []
        self._numbers = itertools.count()
        self._count = 0
        self._bytes = 0
        self._parked: list[Pending] = []
        self._parked_writers: set[str] = set()
        """Streaming writers of whom an epoch is parked."""

    def __len__(self) -> int:
        """What may go into a batch: those that are parked do not count."""
        return self._count

    @property
    def parked(self) -> int:
        """How many wait for other tables."""
        return len(self._parked)

    def __iter__(self) -> Iterator[Pending]:
        lines = (line for stretch in self._stretches for line in (stretch.ingest, stretch.maintenance))
        return itertools.chain(self._parked, (p for line in lines for p in line))

    @property
    def bytes(self) -> int:
        """Payload bytes of what waits."""
        return self._bytes

    @property
    def intents(self) -> tuple[Intent, ...]:
        """What waits."""
        return tuple(pending.decoded.intent for pending in self)

    def put(self, pending: Pending) -> None:
        """Queue an intent behind the others of its priority."""
        if self._parked_writers and _epochs_of(pending) in self._parked_writers:
            self._parked.append(pending)
            return
        alone = is_alone(pending.decoded.intent)
        if alone or not self._stretches or self._stretches[-1].alone:
            self._stretches.append(_Stretch(alone=alone))
        stretch = self._stretches[-1]
        self._entered(stretch.line_of(pending).put(pending))

    def put_back(self, pendings: Sequence[Pending]) -> None:
        """Queue intents that were in a batch before all others of their priority, in their order."""
        for pending in reversed(pendings):
            alone = is_alone(pending.decoded.intent)
            if alone or not self._stretches or self._stretches[0].alone:
                self._stretches.appendleft(_Stretch(alone=alone))
            stretch = self._stretches[0]
            self._entered(stretch.line_of(pending).put(pending, first=True))

    def park(self, pendings: Sequence[Pending]) -> None:
        """Set intents that were in a batch aside until `unpark`, with the later epochs of their streaming writers."""
        self._parked.extend(pendings)
        self._parked_writers.update(writer for one in pendings if (writer := _epochs_of(one)) is not None)
        if not self._parked_writers:
            return
        for stretch in self._stretches:
            for line in (stretch.ingest, stretch.maintenance):
                for place in line.of_writers(self._parked_writers):
                    self._parked.append(self._remove(place))

    def unpark(self) -> None:
        """Queue what was parked again, before all others."""
        parked, self._parked, self._parked_writers = self._parked, [], set()
        self.put_back(parked)

    def clear(self) -> list[Pending]:
        """Take everything out."""
        left = list(self)
        self._stretches.clear()
        self._deadlines.clear()
        self._parked, self._parked_writers = [], set()
        self._count = self._bytes = 0
        return left

    def next_batch(self, *, now_ms: int) -> list[Pending]:
        """What is due, up to the limits; empty only if nothing waits. `now_ms` is the wall clock."""
        batch = self._due(now_ms)
        self._count_waits(batch)
        return batch

    def _due(self, now_ms: int) -> list[Pending]:
        batch = self._late(now_ms)
        while self._stretches and not self._stretches[0]:
            self._stretches.popleft()
        if not self._stretches or any(is_alone(p.decoded.intent) for p in batch):
            return batch
        stretch, limits = self._stretches[0], self._limits
        if stretch.alone:
            if not batch:
                self._fill(batch, stretch.maintenance or stretch.ingest, intents_max=1, bytes_max=0)
            return batch
        overdue, overdue_bytes = self._overdue(stretch.maintenance)
        room, room_bytes = limits.batch_intents_max, limits.batch_bytes_max
        self._fill(batch, stretch.ingest, intents_max=room - overdue, bytes_max=room_bytes - overdue_bytes)
        if stretch.ingest:
            room, room_bytes = min(room, len(batch) + overdue), max(overdue_bytes, room_bytes)
        self._fill(batch, stretch.maintenance, intents_max=room, bytes_max=room_bytes)
        return batch

    def _entered(self, place: _Place) -> None:
        pending = place.pending
        self._count += 1
        self._bytes += pending.decoded.size
        deadline_ms = pending.decoded.intent.deadline_ms
        if deadline_ms is not None and pending.verdict is None:
            heapq.heappush(self._deadlines, (deadline_ms, next(self._numbers), place))

    def _remove(self, place: _Place) -> Pending:
        place.line.take(place)
        self._count -= 1
        self._bytes -= place.pending.decoded.size
        return place.pending

    def _count_waits(self, batch: Sequence[Pending]) -> None:
        now = time.monotonic()
        self._metrics.stage_seconds.labels("wait").observe_all([now - pending.taken_at for pending in batch])
        for pending in batch:
            if pending.decoded.intent.priority == "maintenance":
                self._metrics.maintenance_wait_seconds.observe(now - pending.taken_at)

    def _late(self, now_ms: int) -> list[Pending]:
        """Those whose deadline has passed, refused: they cost a batch nothing, so they need not wait to be due.

        One that is a batch of its own is one now, too.
        """
        late: list[Pending] = []
        while self._deadlines and len(late) < self._limits.batch_intents_max:
            deadline_ms, _, place = self._deadlines[0]
            alone = is_alone(place.pending.decoded.intent)
            if not place.taken and (deadline_ms >= now_ms or (alone and late)):
                break
            heapq.heappop(self._deadlines)
            if not place.taken:
                late.append(unless_late(self._remove(place), now_ms=now_ms))
                if alone:
                    break
        return late

    def _overdue(self, line: Line) -> tuple[int, int]:
        """How many of a line have waited for so long that places are kept for them, and their payload bytes."""
        limits = self._limits
        before = time.monotonic() - limits.maintenance_wait_ms_max / 1000
        count = size = 0
        for pending in itertools.islice(line, max(1, limits.batch_intents_max // MAINTENANCE_SHARE)):
            if pending.taken_at > before:
                break
            if count and size + pending.decoded.size > limits.batch_bytes_max // MAINTENANCE_SHARE:
                break
            count += 1
            size += pending.decoded.size
        return count, size

    def _fill(self, batch: list[Pending], line: Line, *, intents_max: int, bytes_max: int) -> None:
        """Take from the front of a line until the batch is as large as it may be; its first intent always fits."""
        if not line:
            return
        taken = line.take_first(
            intents_max=intents_max - len(batch),
            bytes_max=bytes_max - sum([p.decoded.size for p in batch if p.verdict is None]),
            at_least_one=not batch,
        )
        self._count -= len(taken)
        self._bytes -= sum([pending.decoded.size for pending in taken])
        batch += taken


def is_alone(intent: Intent) -> bool:
    """Whether an intent shares its batch with no other: it changes whether there is a table, where, or other tables."""
    if isinstance(intent, Append):
        return False
    return isinstance(intent, DropTable | DropView | Transaction) or chooses_places(intent)


def unless_late(pending: Pending, *, now_ms: int) -> Pending:
    """The intent, refused if its deadline has passed; `now_ms` is the wall clock."""
    deadline_ms = pending.decoded.intent.deadline_ms
    if not pending.is_open or deadline_ms is None or now_ms <= deadline_ms:
        return pending
    refused = Refused(
        rule="deadline-passed", message=f"its deadline passed {now_ms - deadline_ms} ms before it was due", hint="retry"
    )
    return msgspec.structs.replace(pending, verdict=refused)


def _epochs_of(pending: Pending) -> str | None:
    """The streaming writer whose epochs have to stay in order, if it is one's."""
    intent = pending.decoded.intent
    return None if intent.writer_sequence is None else intent.writer
