"""Publishing: outcomes to writers, events to consumers, then the acknowledgement; always in that order.

By the time something is published it is decided for good, so publishing is retried until Redis takes it. A daemon that
dies meanwhile loses nothing: the entries are redelivered, and get the same outcomes again.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from firn.coordinator.commits.batch_record import rejected_as, to_ms
from firn.coordinator.metrics import Metrics
from firn.coordinator.outcomes.keeping_time import LONGEST_S, KeepingTime, unjournaled_seconds
from firn.coordinator.outcomes.refusals import Refusals
from firn.coordinator.outcomes.rest_answers import WITH_REQUESTS, answers_in
from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Refused
from firn.model.errors import FirnError
from firn.model.event import rejection_event, repeat_event, table_event
from firn.model.intent import OPERATIONS, digest_in
from firn.model.journal import Batch, Decided, Segment, is_repeat
from firn.model.limits import Limits
from firn.model.outcome import OUR_MISTAKES, Committed, Outcome, Rejected, decision_ms_of, encode_outcome, from_journal
from firn.model.planned_on import trace_of
from firn.model.traceparent import trace_id_in
from firn.storage.intent_streams import Entry, IntentStreams, Settlement, TablePlace
from firn.storage.log import get_logger

SETTLE_BATCH_MAX = 1_000
RETRY_S = (0.05, 0.1, 0.2, 0.5, 1.0)
DEAD_LETTER_PAYLOAD_MAX = 64 * 1024
"""Bytes of the payload kept in a dead letter: the error says what is wrong, this shows where it came from."""

PUBLISHED_AGAIN_MAX = 1_000
"""Segments of which is remembered that their events were sent late: entries of one may come with several batches."""

TRACES_LOGGED = 20
"""Intents of a batch whose traces are logged."""

TRACE_CHARACTERS_MAX = 64
"""A trace's name has 32; in a summary it may be anything."""


class _Parcel(msgspec.Struct, frozen=True, eq=False):
    settlements: tuple[Settlement, ...]
    events: tuple[bytes, ...]
    taken_at: tuple[float, ...]
    places: dict[str, bytes | None] = {}


class Notice(msgspec.Struct, frozen=True, eq=False):
    """What was published of a batch that was won, to be counted; `refused` of `decided`.

    `commit_ms` is how long the batch took from its decision on; None where that is not known.
    """

    segment: Segment
    decided: tuple[Decided, ...]
    refused: tuple[_Refusal, ...]
    commit_ms: float | None = None


class _Refusal(msgspec.Struct, frozen=True, eq=False):
    outcome: Rejected
    operation: str
    for_people: bool


class Publisher:
    """Sends what has been decided, in the order in which it was decided."""

    def __init__(
        self,
        streams: IntentStreams,
        *,
        daemon: str,
        metrics: Metrics,
        limits: Limits,
        wall_ms: Callable[[], int],
        on_settled: Callable[[Sequence[tuple[int, str]]], None],
    ) -> None:
        self._streams = streams
        self._daemon = daemon
        self._metrics = metrics
        self._limits = limits
        self._wall_ms = wall_ms
        self._on_settled = on_settled
        self._queue: asyncio.Queue[_Parcel] = asyncio.Queue()
        self._keeping = KeepingTime(most=limits.outcomes_kept_max)
        self._unjournaled_s = unjournaled_seconds(limits)
        metrics.outcomes_kept_seconds.set(self._keeping.seconds)
        self._published_again: OrderedDict[str, None] = OrderedDict()
        """Segments whose events were sent again."""
        self.refusals = Refusals(streams)
        self._log = get_logger()

    def publish(self, segment: Segment, pendings: Sequence[Pending], *, decided_at: float) -> Notice:
        """Send the outcomes and the event of a batch whose swap was won; return what `count` is to count.

        A rejection because of a fault in firn becomes a dead letter as well; all others are outcomes only. Times that
        the journal could not have are added: `decided_at` is when the batch was decided.
        """
        now, kept_s = time.monotonic(), self._keeping.seconds
        commit_ms = to_ms(now - decided_at)
        settlements, refused = [], []
        for pending, decided in zip(pendings, segment.decided, strict=True):
            outcome = msgspec.structs.replace(
                decided.outcome, latency_ms=_latency_ms(pending, now), commit_ms=commit_ms, digest=decided.digest
            )
            settlement, refusal = self._decided(pending, decided, outcome, kept_s=kept_s)
            settlements.append(settlement)
            refused += [] if refusal is None else [refusal]
        self._put(tuple(settlements), self._event_of(segment), pendings, places=_places(segment.batch))
        return Notice(segment, segment.decided, tuple(refused), commit_ms)

    def publish_again(self, segment: Segment, repeats: Sequence[tuple[Pending, Decided]], *, is_head: bool) -> None:
        """Publish and count what stands in the journal and was never published: these entries of a segment.

        The answer of its swap was lost, or its daemon died before it could publish. The segment's event is sent with
        the first of them; `is_head`: its table has not moved since.
        """
        events = self._event_of(segment) if self._is_first_announcement(segment) else ()
        settlements, refused = [], []
        for pending, decided in repeats:
            outcome = from_journal(decided.outcome, digest=decided.digest)
            settlement, refusal = self._decided(pending, decided, outcome, kept_s=LONGEST_S)
            settlements.append(settlement)
            refused += [] if refusal is None else [refusal]
        pendings = [pending for pending, _ in repeats]
        self._put(tuple(settlements), events, pendings, places=_places(segment.batch) if is_head else {})
        self.count(Notice(segment, tuple([decided for _, decided in repeats]), tuple(refused)))

    def count(self, notice: Notice) -> None:
        """Count what was published."""
        self._keeping.count(len(notice.decided))
        self._metrics.outcomes_kept_seconds.set(self._keeping.seconds)
        for refusal in notice.refused:
            self._count_refusal(refusal)
        refused = Counter(refusal.operation for refusal in notice.refused)
        fresh = [decided.operation for decided in notice.decided if not is_repeat(decided)]
        self._count_requests(notice.decided, set(fresh))
        self._metrics.repeats.inc(len(notice.decided) - len(fresh))
        self._metrics.repeated_epochs.inc(len(notice.decided) - len(fresh))
        for operation, count in Counter(fresh).items():
            self._count(operation, "committed", count - refused[operation])
            self._count(operation, "rejected", refused[operation])
        self._count_phases(notice)
        self._log_traces(notice.segment)

    def announce(self, segment: Segment) -> None:
        """Send the event of a won transaction for a table other than its first, with which its outcome is sent."""
        self._put((), self._event_of(segment), (), places=_places(segment.batch))

    def announce_again(self, segment: Segment) -> None:
        """Send the event of a segment that may never have been sent, once; its table may have moved since."""
        events = self._event_of(segment)
        if events and self._is_first_announcement(segment):
            self._put((), events, ())

    def _is_first_announcement(self, segment: Segment) -> bool:
        """Remember that the event of a segment is sent again; return whether it was not yet."""
        if segment.location in self._published_again:
            return False
        self._published_again[segment.location] = None
        if len(self._published_again) > PUBLISHED_AGAIN_MAX:
            self._published_again.popitem(last=False)
        return True

    def repeat(self, pending: Pending, outcome: Outcome) -> None:
        """Send the first outcome again, for an intent that was redelivered or resubmitted."""
        self._metrics.repeats.inc()
        self._put((self._repeated(pending, outcome),), (), [pending])

    def repeat_epoch(self, pending: Pending, outcome: Committed) -> None:
        """As `repeat`, for another intent's epoch whose repetition cannot be put on record now."""
        self._metrics.repeats.inc()
        self._metrics.repeated_epochs.inc()
        settlement = self._repeated(pending, outcome)
        self._put((self._with_repeat_event(settlement, pending, outcome),), (), [pending])

    def _repeated(self, pending: Pending, outcome: Outcome) -> Settlement:
        if outcome.digest is None:
            outcome = from_journal(outcome, digest=pending.decoded.digest)
        if outcome.batch is None:
            return self._told(pending, outcome, kept_s=self._unjournaled_s)
        return self._told(pending, outcome, journaled=True)

    def refuse(self, pending: Pending, refused: Refused, *, own_id: bool = True) -> None:
        """A refusal that is not in the journal: there is no table to keep it, or the id on record is another intent's.

        With `own_id` False the outcome goes to the reply stream only, not under the intent's id.
        """
        intent = pending.decoded.intent
        decision_ms = to_ms(time.monotonic() - pending.taken_at)
        outcome = rejected_as(
            intent, refused, limits=self._limits, queued_ms=pending.queued_ms, decision_ms=decision_ms
        )
        self.unjournaled(pending, outcome, own_id=own_id)

    def unjournaled(self, pending: Pending, outcome: Rejected, *, own_id: bool = True) -> None:
        """As `refuse`, for a rejection that is made already."""
        outcome = msgspec.structs.replace(
            outcome, batch=None, digest=pending.decoded.digest, latency_ms=_latency_ms(pending, time.monotonic())
        )
        if own_id:
            self.refusals.add(outcome)
        refusal = _Refusal(outcome, OPERATIONS[type(pending.decoded.intent)], outcome.rule in OUR_MISTAKES)
        self._metrics.intents.labels(refusal.operation, "rejected").inc()
        self._count_refusal(refusal)
        settlement = self._rejection(pending, refusal, kept_s=self._unjournaled_s, own_id=own_id)
        if not own_id:
            settlement = msgspec.structs.replace(settlement, intent_id=None)
        self._put((settlement,), (), [pending])
        trace = trace_of(pending.decoded.intent)
        if trace is not None:
            self._log.info(
                "traced intent refused", table=outcome.table, intent_id=outcome.intent_id, rule=outcome.rule,
                trace_id=trace_id_in(trace)[:TRACE_CHARACTERS_MAX],
            )  # fmt: skip

    def dead_letter(
        self,
        entry: Entry,
        *,
        rule: str,
        message: str,
        identity: tuple[str | None, str | None, str | None],
        epoch: str,
        first: Outcome | None = None,
        own_id: bool = True,
    ) -> None:
        """Set an entry aside that is no intent, with the reason.

        `identity` is what could be made out of it: intent id, table, reply stream. Its writer is sent the `first`
        outcome of that id again, where there is one, and that it is set aside only where there is none. With `own_id`
        False the outcome goes to the reply stream only, not under the intent's id.
        """
        intent_id, table, reply_to = identity
        # Never "retry", whatever the rule: under a new id that would commit again what may have been committed.
        outcome = Rejected(
            intent_id=intent_id or "" if first is None else "",
            table=table or "",
            rule=rule,
            message=message,
            hint="fix",
            payload_digest=self._digest_of_bytes(entry),
        )
        event = rejection_event(outcome, daemon=self._daemon, timestamp_ms=self._wall_ms(), dead_letter=True)
        event = msgspec.structs.replace(event, id=f"{epoch}/{entry.shard}/{entry.entry_id}")
        self._metrics.dead_letters.labels(rule).inc()
        self._metrics.intents.labels("unreadable", "rejected").inc()
        self._metrics.conflicts.labels(rule, outcome.hint, "unreadable", "none").inc()
        settlement = Settlement(
            shard=entry.shard,
            entry_id=entry.entry_id,
            intent_id=intent_id if own_id else None,
            outcome=encode_outcome(first or outcome),
            outcome_ttl_s=self._unjournaled_s,
            reply_to=reply_to,
            event=msgspec.json.encode(event),
            dead_letter=_dead_letter(entry, outcome, epoch=epoch),
            journaled=first is not None and first.batch is not None,
        )
        self._put((settlement,), (), ())

    @property
    def depth(self) -> int:
        """Parcels that wait to be sent."""
        return self._queue.qsize()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            parcels = [await self._queue.get()]
            count = len(parcels[0].settlements)
            while not self._queue.empty() and count < SETTLE_BATCH_MAX:
                parcels.append(self._queue.get_nowait())
                count += len(parcels[-1].settlements)
            await self._send(parcels)
            for _ in parcels:
                self._queue.task_done()

    async def drain(self) -> None:
        """Wait until everything that was put in has been sent."""
        await self._queue.join()

    async def _send(self, parcels: Sequence[_Parcel]) -> None:
        settlements = [s for parcel in parcels for s in parcel.settlements]
        events = [e for parcel in parcels for e in parcel.events]
        places = {table: place for parcel in parcels for table, place in parcel.places.items()}
        started = time.monotonic()
        failures = 0
        while True:
            try:
                await self._streams.settle(settlements, events=events, places=places)
                break
            except (FirnError, OSError) as error:
                self._log.warning("outcomes wait", reason=str(error), outcomes=len(settlements))
                await asyncio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])
                failures += 1
        self._metrics.stage_seconds.labels("publish").observe(time.monotonic() - started)
        now = time.monotonic()
        self._metrics.intent_seconds.observe_all([now - at for parcel in parcels for at in parcel.taken_at])
        self._on_settled([(s.shard, s.entry_id) for s in settlements])

    def _log_traces(self, segment: Segment) -> None:
        """Which traces are in a batch, with what all other lines of the log about it have: its id, and its table."""
        traces = {d.intent_id: trace_id_in(d.trace_id) for d in segment.decided if d.trace_id is not None}
        if traces:
            shown = {intent_id: traces[intent_id][:TRACE_CHARACTERS_MAX] for intent_id in list(traces)[:TRACES_LOGGED]}
            batch = segment.batch
            self._log.info(
                "traced intents decided", table=batch.table, batch=batch.batch, traced=len(traces), traces=shown
            )

    def _put(
        self,
        settlements: tuple[Settlement, ...],
        events: tuple[bytes, ...],
        pendings: Sequence[Pending],
        *,
        places: dict[str, bytes | None] | None = None,
    ) -> None:
        self._queue.put_nowait(_Parcel(settlements, events, tuple([p.taken_at for p in pendings]), places or {}))

    def _digest_of_bytes(self, entry: Entry) -> str | None:
        """What is far too large, nobody's client has sent: it is not gone through."""
        payload = entry.payload
        return None if payload is None or len(payload) > self._limits.intent_bytes_max else digest_in(payload)

    def _event_of(self, segment: Segment) -> tuple[bytes, ...]:
        event = table_event(segment, events_bytes_max=self._limits.event_bytes_max)
        return () if event is None else (msgspec.json.encode(event),)

    def _decided(
        self, pending: Pending, decided: Decided, outcome: Outcome, *, kept_s: int
    ) -> tuple[Settlement, _Refusal | None]:
        """What is sent of a decision that stands in the journal; and its refusal, where it is one."""
        if isinstance(outcome, Committed):
            settlement = self._told(pending, outcome, kept_s=kept_s, journaled=True)
            return self._with_repeat_event(settlement, pending, outcome) if outcome.is_repeat else settlement, None
        refusal = _Refusal(outcome, decided.operation, outcome.rule in OUR_MISTAKES)
        return self._rejection(pending, refusal, journaled=True, kept_s=kept_s), refusal

    def _with_repeat_event(self, settlement: Settlement, pending: Pending, outcome: Committed) -> Settlement:
        intent = pending.decoded.intent
        event = repeat_event(
            outcome,
            operation=OPERATIONS[type(intent)],
            writer=intent.writer,
            writer_sequence=intent.writer_sequence,
            daemon=self._daemon,
            timestamp_ms=self._wall_ms(),
        )
        return msgspec.structs.replace(settlement, event=msgspec.json.encode(event))

    def _count_phases(self, notice: Notice) -> None:
        """Count how long each intent took by phase, as far as it is known."""
        outcomes = [decided.outcome for decided in notice.decided]
        phases = self._metrics.intent_phase_seconds
        phases.labels("queued").observe_all([one.queued_ms / 1000 for one in outcomes if one.queued_ms is not None])
        phases.labels("decision").observe_all([(decision_ms_of(one) or 0.0) / 1000 for one in outcomes])
        if notice.commit_ms is not None:
            phases.labels("commit").observe_all([notice.commit_ms / 1000] * len(outcomes))

    def _count(self, operation: str, status: str, count: int) -> None:
        if count:
            self._metrics.intents.labels(operation, status).inc(count)

    def _count_requests(self, decided: Sequence[Decided], operations: set[str]) -> None:
        """Count requests of REST clients that were committed; what is refused is counted with its refusal."""
        if operations.isdisjoint(WITH_REQUESTS):
            return
        for one in decided:
            if isinstance(one.outcome, Committed) and not is_repeat(one):
                for how, rule in answers_in(one.operation, one.outcome):
                    self._metrics.rest_commits.labels(how, rule).inc()

    def _count_refusal(self, refusal: _Refusal) -> None:
        outcome = refusal.outcome
        for how, rule in answers_in(refusal.operation, outcome):
            self._metrics.rest_commits.labels(how, rule).inc()
        self._metrics.conflicts.labels(outcome.rule, outcome.hint, refusal.operation, _against(outcome)).inc()
        if refusal.for_people:
            self._metrics.dead_letters.labels(outcome.rule).inc()

    def _rejection(
        self,
        pending: Pending,
        refusal: _Refusal,
        *,
        journaled: bool = False,
        kept_s: int = LONGEST_S,
        own_id: bool = True,
    ) -> Settlement:
        """With `own_id` False the digest is part of the event's id: the first event has the intent's id alone."""
        outcome = refusal.outcome
        event = rejection_event(
            outcome,
            daemon=self._daemon,
            timestamp_ms=self._wall_ms(),
            operation=refusal.operation,
            writer=pending.decoded.intent.writer,
        )
        if not own_id:
            event = msgspec.structs.replace(event, id=f"{outcome.intent_id}/{outcome.digest}")
        letter = None
        if refusal.for_people:
            letter = _dead_letter(pending.entry, outcome, epoch=pending.epoch, journaled=journaled)
        told = self._told(pending, outcome, kept_s=kept_s, journaled=journaled)
        return msgspec.structs.replace(told, event=msgspec.json.encode(event), dead_letter=letter)

    def _told(
        self, pending: Pending, outcome: Outcome, *, kept_s: int = LONGEST_S, journaled: bool = False
    ) -> Settlement:
        entry, intent = pending.entry, pending.decoded.intent
        return Settlement(
            shard=entry.shard,
            entry_id=entry.entry_id,
            intent_id=intent.intent_id,
            outcome=encode_outcome(outcome),
            outcome_ttl_s=kept_s,
            reply_to=intent.reply_to,
            journaled=journaled,
        )


def _latency_ms(pending: Pending, now: float) -> float:
    """The time from queueing an intent until now, when its outcome is sent."""
    return (pending.queued_ms or 0.0) + to_ms(now - pending.taken_at)


def _against(outcome: Rejected) -> str:
    """The operation that came first, for metrics: a closed set."""
    if outcome.conflicting_operation in _OPERATION_NAMES:
        return outcome.conflicting_operation
    return "unknown" if outcome.conflicting_snapshot_id is not None else "none"


_OPERATION_NAMES: Final = frozenset(OPERATIONS.values())


def _places(batch: Batch) -> dict[str, bytes | None]:
    """Where the batch left its table, for writers who have no ZooKeeper."""
    if batch.new_metadata is None:
        return {batch.table: None}
    place = TablePlace(table_uuid=batch.table_uuid, metadata_location=batch.new_metadata, kind=batch.kind)
    return {batch.table: msgspec.json.encode(place)}


def _dead_letter(entry: Entry, outcome: Rejected, *, epoch: str, journaled: bool = False) -> bytes:
    payload = entry.payload if entry.payload is not None else b""
    letter: dict[str, Any] = {
        "epoch": epoch,
        "shard": entry.shard,
        "entry-id": entry.entry_id,
        "deliveries": entry.deliveries,
        "journaled": journaled,
        "outcome": msgspec.to_builtins(outcome),
        "payload-bytes": len(payload),
    }
    cut = payload[:DEAD_LETTER_PAYLOAD_MAX]
    try:
        letter["payload"] = cut.decode("utf-8")
    except UnicodeDecodeError:
        letter["payload-base64"] = base64.b64encode(cut).decode("ascii")
    if entry.payload is None:
        letter["fields"] = sorted(name.decode("utf-8", "backslashreplace")[:100] for name in entry.fields)[:20]
    return msgspec.json.encode(letter)
