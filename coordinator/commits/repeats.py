"""Telling new intents from ones that were decided before: the second layer of exactly-once.

Identity is the intent id with the digest of its content; for a streaming writer also its rising sequence number. Where
an entry stands in the queue says nothing about identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from firn.coordinator.journal.decisions import Decisions, Known
from firn.coordinator.journal.old_segments import UNREADABLE
from firn.coordinator.journal.writers import LastEpoch
from firn.coordinator.outcomes.refusals import OfAnotherTable
from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Refused
from firn.coordinator.replay.rules import TOO_MANY_WRITERS, WRITER_SEQUENCE_PASSED, WRITER_SEQUENCE_REUSE
from firn.model.epoch import epoch_content, labelled
from firn.model.intent import OPERATIONS, digest_as_spelled
from firn.model.journal import Decided, Segment
from firn.model.outcome import Outcome, Rejected
from firn.model.planned_on import ref_of


class Unpublished(msgspec.Struct, frozen=True):
    """Decisions of one segment that were never published, with their entries."""

    segment: Segment
    decided: list[tuple[Pending, Decided]] = []


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """A batch, sorted.

    `open` are to be decided now, each identity once. `repeats` have been decided: with the outcome to send again.
    `epochs` repeat an epoch under another id: with its first decision, whose outcome is to be put on record for them.
    `unpublished` have been, too, by these very entries, and nobody was sent anything: by their journal segments.
    `unannounced` are segments, by location, whose repeated intents were queued before the queue was emptied: whether
    their events were sent before that is unknown.
    `reused` carry the id of another intent: refused, but not put on record, because the record is the other's.
    `later` say the same as an open one of this batch: to be looked at again when that is decided. `held` may have been
    decided: what would tell cannot be read, and why. They are neither to be decided nor to be told anything.
    """

    open: list[Pending] = []
    repeats: list[tuple[Pending, Outcome]] = []
    epochs: list[tuple[Pending, Decided]] = []
    unpublished: dict[str, Unpublished] = {}
    unannounced: dict[str, Segment] = {}
    reused: list[tuple[Pending, Refused]] = []
    later: list[Pending] = []
    held: list[tuple[Pending, str]] = []


def all_new(decisions: Decisions, batch: Sequence[Pending]) -> bool:
    """Whether all are intents of their own that were never decided, as far as that is known without reading anything.

    False says nothing: `sort_out` finds out.
    """
    intents = [pending.decoded.intent for pending in batch]
    ids = [intent.intent_id for intent in intents]
    return (
        len(set(ids)) == len(ids)
        and all(intent.writer_sequence is None or intent.writer is None for intent in intents)
        and decisions.are_new(ids)
    )


def sort_out(decisions: Decisions, batch: Sequence[Pending]) -> Sorted:
    """Sort a batch by what the journal knows. May read journal files: call it off the event loop."""
    sorting = _Sorting(decisions)
    for pending in batch:
        try:
            sorting.put(pending)
        except UNREADABLE as error:
            sorting.hold(pending, str(error))
    return sorting.result


class _Sorting:
    """A batch that is being sorted."""

    def __init__(self, decisions: Decisions) -> None:
        self.result = Sorted()
        self._decisions = decisions
        self._ids: set[str] = set()
        self._epochs: dict[str, int] = {}
        self._new_writers: set[str] = set()
        self._waiting: dict[str, str] = {}
        """Streaming writers one of whose epochs is held, and why: the later ones must not overtake it."""

    def put(self, pending: Pending) -> None:
        """Sort one. Raises one of `UNREADABLE` where it cannot be known whether it was decided, or how."""
        result, decisions, intent = self.result, self._decisions, pending.decoded.intent
        known = decisions.find(intent.intent_id)
        if known is not None and known.digest in {pending.decoded.digest, digest_as_spelled(intent)}:
            self._repeat(pending, known)
        elif known is not None:
            result.reused.append((pending, _reused(_other_content(known.digest, pending), pending)))
        elif intent.intent_id in self._ids:
            result.later.append(pending)
        elif intent.writer is None or intent.writer_sequence is None:
            self._ids.add(intent.intent_id)
            result.open.append(pending)
        elif intent.writer in self._waiting:
            result.held.append((pending, self._waiting[intent.writer]))
        elif self._epochs.get(intent.writer, -1) >= intent.writer_sequence:
            result.later.append(pending)
        else:
            self._sort_epoch(pending, intent.writer, intent.writer_sequence)
            self._ids.add(intent.intent_id)
            self._epochs[intent.writer] = intent.writer_sequence

    def _sort_epoch(self, pending: Pending, writer: str, sequence: int) -> None:
        decisions, result = self._decisions, self.result
        last = decisions.last_of_writer(writer)
        if last is None:
            result.open.append(self._admitted(pending, writer))
        elif sequence > last[0]:
            result.open.append(pending)
        elif sequence < last[0]:
            result.open.append(msgspec.structs.replace(pending, verdict=_passed(writer, sequence, last)))
        else:
            first = decisions.decided_in(last[2], last[1])
            other = _other_epoch(first, pending)
            if other is None:
                self._announce_if_emptied(pending, first, last[2])
                result.epochs.append((pending, first))
            else:
                result.open.append(msgspec.structs.replace(pending, verdict=other))

    def _admitted(self, pending: Pending, writer: str) -> Pending:
        """The first epoch of a writer, refused where there are as many writers as may be."""
        if self._decisions.writers + len(self._new_writers) < self._decisions.writers_max:
            self._new_writers.add(writer)
            return pending
        refused = TOO_MANY_WRITERS.refused(
            f"the table has {self._decisions.writers} streaming writers, and none is forgotten; "
            f"raise limits.writers-max ({self._decisions.writers_max}), or keep to the name of a writer"
        )
        return msgspec.structs.replace(pending, verdict=pending.verdict or refused)

    def _repeat(self, pending: Pending, known: Known) -> None:
        """Outcome, event and acknowledgement of an entry are one step: if it is still there, none of it was done."""
        decided = self._decisions.decided(known, pending.decoded.intent.intent_id)
        if decided.entry != pending.entry_name:
            self._announce_if_emptied(pending, decided, known.segment)
            self.result.repeats.append((pending, decided.outcome))
            return
        segment = self._decisions.segment(known.segment)
        unpublished = self.result.unpublished.setdefault(segment.location, Unpublished(segment))
        unpublished.decided.append((pending, decided))

    def _announce_if_emptied(self, repeat: Pending, first: Decided, location: str) -> None:
        """Note the segment of a first decision, if the queue was emptied between that and its repeat."""
        if not first.entry.startswith(f"{repeat.epoch}/"):
            self.result.unannounced[location] = self._decisions.segment(location)

    def hold(self, pending: Pending, reason: str) -> None:
        """Set one aside of which it cannot be known."""
        intent = pending.decoded.intent
        self.result.held.append((pending, reason))
        if intent.writer is not None and intent.writer_sequence is not None:
            self._waiting.setdefault(intent.writer, reason)


def sort_refused(known: Mapping[str, Rejected | OfAnotherTable], batch: Sequence[Pending]) -> Sorted:
    """Sort what the journal does not know by what `firn.coordinator.outcomes.refusals` does, by id."""
    result = Sorted()
    for pending in batch:
        first = known.get(pending.decoded.intent.intent_id)
        if first is None:
            result.open.append(pending)
        elif isinstance(first, OfAnotherTable):
            result.reused.append((pending, _reused(f"for table {first.table!r}", pending)))
        elif first.digest == pending.decoded.digest:
            result.repeats.append((pending, first))
        else:
            result.reused.append((pending, _reused(_other_content(str(first.digest), pending), pending)))
    return result


def _passed(writer: str, sequence: int, last: LastEpoch) -> Refused:
    return msgspec.structs.replace(
        WRITER_SEQUENCE_PASSED.refused(
            f"writer {writer!r} has committed its sequence number {last[0]}; {sequence} comes too late"
        ),
        conflicting_intent_id=last[1],
        conflicting_writer=writer,
    )


def _other_epoch(first: Decided, pending: Pending) -> Refused | None:
    """The refusal of an intent that is not the epoch which was committed under its number."""
    intent = pending.decoded.intent
    if pending.decoded.digest == first.digest:
        return None
    if first.epoch_content is None:  # an older version has put it on record
        if (first.operation, first.branch) == (OPERATIONS[type(intent)], ref_of(intent)):
            return None
        was = f"{first.operation} on {first.branch!r}"
    else:
        was = first.epoch_content
    content = epoch_content(intent)
    # A first intent without a label may be of a program that has learnt to give labels since.
    if content == first.epoch_content and first.epoch_label in {None, intent.epoch_label}:
        return None
    refused = WRITER_SEQUENCE_REUSE.refused(
        f"writer {intent.writer!r} has committed other content under its sequence number {intent.writer_sequence}: "
        f"{labelled(was, first.epoch_label)}, and this is {labelled(content, intent.epoch_label)}; "
        "name each write of an epoch as a writer of its own"
    )
    return msgspec.structs.replace(refused, conflicting_intent_id=first.intent_id, conflicting_writer=intent.writer)


def _other_content(digest: str, pending: Pending) -> str:
    return f"with other content (digest {digest}, here {pending.decoded.digest})"


def _reused(which: str, pending: Pending) -> Refused:
    return Refused(
        rule="intent-id-reuse",
        message=f"this id belongs to an intent {which}",
        hint="fix",
        conflicting_intent_id=pending.decoded.intent.intent_id,
    )
