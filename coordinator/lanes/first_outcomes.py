"""What was decided before a batch: each such intent gets its first outcome again, and the others are still open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from firn.coordinator.commits.batch_record import repeat_of
from firn.coordinator.commits.repeats import Sorted, all_new, sort_out, sort_refused
from firn.coordinator.journal.old_segments import UNREADABLE
from firn.coordinator.lanes.held_intents import HeldIntents
from firn.coordinator.lanes.lane_queue import LaneQueue
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.outcomes.refusals import STATED_DIGEST
from firn.coordinator.pending import Pending
from firn.coordinator.replay.rules import PAST_LOST
from firn.coordinator.tables.table_state import TableState
from firn.model.journal import Segment
from firn.model.outcome import Committed
from firn.storage.given_up import Statement
from firn.storage.log import get_logger


class FirstOutcomes:
    """Tells first outcomes again, for one lane. `queue` takes back what has to wait for another of its batch, `held`
    what may have been decided where nothing can be read.
    """

    def __init__(self, shop: Workshop, *, queue: LaneQueue, held: HeldIntents) -> None:
        self._shop = shop
        self._queue = queue
        self._held = held
        self._log = get_logger()

    async def tell(self, batch: Sequence[Pending], state: TableState) -> list[Pending]:
        """Tell what the table's journal has, or Redis of what no journal keeps; the rest, each identity once.

        A repeat of an epoch under another id is of the rest, with its outcome (`Pending.repeats`).
        What is held costs the others nothing. Raises Unavailable where Redis would have to say it and does not answer.
        """
        if all_new(state.decisions, batch):
            self._held.let_go(batch)
            return await self.tell_refused(batch)
        result = await self._shop.threads.read(sort_out, state.decisions, batch)
        if result.held:
            waiting = [pending for pending, _ in result.held]
            stated = await self._shop.given_up.of(pending.decoded.intent.intent_id for pending in waiting)
            result = as_stated(result, stated, told=await self._shop.publisher.refusals.stated(waiting))
        epochs = [msgspec.structs.replace(pending, verdict=None, repeats=first) for pending, first in result.epochs]
        # First: it may raise, and the batch comes again then.
        still_open = await self.tell_refused([*result.open, *epochs])
        further = await self._further_segments(result)
        self._tell_again(result)
        self._publish(result, further, head=state.decisions.head)
        self._queue.put_back(result.later)
        self._held.hold(result.held)
        unpublished = [pair for one in result.unpublished.values() for pair in one.decided]
        told = (*result.repeats, *result.reused, *unpublished)
        self._held.let_go([*result.open, *epochs, *(pending for pending, _ in told)])
        return still_open

    async def tell_as_known(self, batch: Sequence[Pending], state: TableState, *, why: str) -> list[Pending]:
        """As `tell`, of a table that does not pass its checks; what is new of the batch.

        Where the journal cannot be read either, `why` says it, and whatever may have been decided before is held.
        """
        if state.knows_decisions:
            still_open = await self.tell(batch, state)
            for pending in still_open:
                if pending.repeats is not None:  # its own journal entry has to wait until the id comes again
                    self._shop.publisher.repeat_epoch(pending, repeat_of(pending.repeats, pending.decoded.intent))
            return [pending for pending in still_open if pending.repeats is None]
        still_open = await self.tell_refused(batch)
        doubtful = {id(p) for p in still_open if self._shop.publisher.refusals.may_be_known(p)}
        self._held.hold([(pending, why) for pending in still_open if id(pending) in doubtful])
        return [pending for pending in still_open if id(pending) not in doubtful]

    async def tell_refused(self, batch: Sequence[Pending]) -> list[Pending]:
        """Tell refusals that no journal keeps; the rest, of which no journal knows either. Raises as `tell`."""
        known = await self._shop.publisher.refusals.of(batch)
        if not known:
            return list(batch)
        result = sort_refused(known, batch)
        self._tell_again(result)
        return result.open

    async def _further_segments(self, result: Sorted) -> list[Segment]:
        """Read the segments of other tables that moved together with those that may never have been published."""
        found: list[Segment] = []
        segments = [*(one.segment for one in result.unpublished.values()), *result.unannounced.values()]
        for other in (other for segment in segments for other in segment.batch.others):
            try:
                found.append(await self._shop.threads.read(self._shop.journal.read, other.segment))
            except UNREADABLE as error:  # its own lane finds out; who asked for the commit is answered all the same
                self._log.warning("event not sent", table=other.table, segment=other.segment, reason=str(error))
        return found

    def _publish(self, result: Sorted, further: Sequence[Segment], *, head: str | None) -> None:
        """Publish what an earlier swap decided and nobody published."""
        for segment in (*further, *result.unannounced.values()):
            self._shop.publisher.announce_again(segment)
        for one in result.unpublished.values():
            self._shop.publisher.publish_again(one.segment, one.decided, is_head=one.segment.location == head)

    def _tell_again(self, result: Sorted) -> None:
        for pending, outcome in result.repeats:
            self._shop.publisher.repeat(pending, outcome)
        for pending, refused in result.reused:
            self._shop.publisher.refuse(pending, refused, own_id=False)


def as_stated(result: Sorted, stated: Mapping[str, Statement], *, told: Mapping[str, Committed]) -> Sorted:
    """Of those that are held, the ones of which somebody has stated what became of them, by intent id; or had before,
    and was `told`.

    One that was never committed is to be refused, and put on record so. One that was is told so: what it did stands in
    the table, and the record of it, lost as it is, is not made a second time.
    """
    still_open, repeats, held = list(result.open), list(result.repeats), []
    for pending, reason in result.held:
        intent_id = pending.decoded.intent.intent_id
        statement = stated.get(intent_id)
        if intent_id in told:
            repeats.append((pending, told[intent_id]))
        elif statement is None:
            held.append((pending, reason))
        elif statement.is_committed:
            repeats.append((pending, _committed(pending, statement)))
        else:
            refused = PAST_LOST.refused(
                f"what was decided on it before, if anything, is lost; {statement.by} states that it never was "
                f"committed: {statement.reason}"
            )
            still_open.append(msgspec.structs.replace(pending, verdict=refused))
    return msgspec.structs.replace(result, open=still_open, repeats=repeats, held=held)


def _committed(pending: Pending, statement: Statement) -> Committed:
    intent = pending.decoded.intent
    return Committed(
        intent_id=intent.intent_id,
        table=intent.table,
        snapshot_id=statement.snapshot_id,
        sequence_number=statement.sequence_number,
        batch=statement.batch or "",
        latency_ms=0.0,
        details={"stated-by": statement.by, "reason": statement.reason, STATED_DIGEST: pending.decoded.digest},
        traceparent=intent.traceparent,
    )
