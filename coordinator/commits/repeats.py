"""Telling new intents from ones that were decided before: the second layer of exactly-once.

Identity is the intent id with the digest of its content; for a streaming writer also its rising sequence number. Where
an entry stands in the queue says nothing about identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from firn.coordinator.journal.decisions import Decisions, Known
from firn.coordinator.journal.old_segments import UNREADABLE
from firn.coordinator.outcomes.refusals import OfAnotherTable
from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Refused
from firn.model.intent import digest_as_spelled
from firn.model.journal import Decided, Segment
from firn.model.outcome import Outcome, Rejected


class Unpublished(msgspec.Struct, frozen=True):
    """Decisions of one segment that were never published, with their entries."""

    segment: Segment
    decided: list[tuple[Pending, Decided]] = []


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """A batch, sorted.

    `open` are to be decided now, each identity once. `repeats` have been decided: with the outcome to send again.
    `unpublished` have been, too, by these very entries, and nobody was sent anything: by their journal segments.
    `reused` carry the id of another intent: refused, but not put on record, because the record is the other's.
    `later` say the same as an open one of this batch: to be looked at again when that is decided. `held` may have been
    decided: what would tell cannot be read, and why. They are neither to be decided nor to be told anything.
    """

    open: list[Pending]
    repeats: list[tuple[Pending, Outcome]]
    unpublished: dict[str, Unpublished]
    reused: list[tuple[Pending, Refused]]
    later: list[Pending]
    held: list[tuple[Pending, str]]


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
        self.result = Sorted(open=[], repeats=[], unpublished={}, reused=[], later=[], held=[])
        self._decisions = decisions
        self._ids: set[str] = set()
        self._epochs: dict[str, int] = {}
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
            _sort_epoch(decisions, pending, intent.writer, intent.writer_sequence, result)
            self._ids.add(intent.intent_id)
            self._epochs[intent.writer] = intent.writer_sequence

    def _repeat(self, pending: Pending, known: Known) -> None:
        """Outcome, event and acknowledgement of an entry are one step: if it is still there, none of it was done."""
        decided = self._decisions.decided(known, pending.decoded.intent.intent_id)
        if decided.entry != pending.entry_name:
            self.result.repeats.append((pending, decided.outcome))
            return
        segment = self._decisions.segment(known)
        unpublished = self.result.unpublished.setdefault(segment.location, Unpublished(segment))
        unpublished.decided.append((pending, decided))

    def hold(self, pending: Pending, reason: str) -> None:
        """Set one aside of which it cannot be known."""
        intent = pending.decoded.intent
        self.result.held.append((pending, reason))
        if intent.writer is not None and intent.writer_sequence is not None:
            self._waiting.setdefault(intent.writer, reason)


def sort_refused(known: Mapping[str, Rejected | OfAnotherTable], batch: Sequence[Pending]) -> Sorted:
    """Sort what the journal does not know by what `firn.coordinator.outcomes.refusals` does, by id."""
    result = Sorted(open=[], repeats=[], unpublished={}, reused=[], later=[], held=[])
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


def _sort_epoch(decisions: Decisions, pending: Pending, writer: str, sequence: int, result: Sorted) -> None:
    last = decisions.last_of_writer(writer)
    if last is None or sequence > last[0]:
        result.open.append(pending)
    elif sequence == last[0]:
        first = decisions.decided_in(last[2], last[1]).outcome
        result.repeats.append((pending, msgspec.structs.replace(first, intent_id=pending.decoded.intent.intent_id)))
    else:
        refused = Refused(
            rule="writer-sequence-passed",
            message=f"writer {writer!r} has committed its sequence number {last[0]}; {sequence} comes too late",
            hint="replan",
            conflicting_intent_id=last[1],
            conflicting_writer=writer,
        )
        result.open.append(msgspec.structs.replace(pending, verdict=refused))


def _other_content(digest: str, pending: Pending) -> str:
    return f"with other content (digest {digest}, here {pending.decoded.digest})"


def _reused(which: str, pending: Pending) -> Refused:
    return Refused(
        rule="intent-id-reuse",
        message=f"this id belongs to an intent {which}",
        hint="fix",
        conflicting_intent_id=pending.decoded.intent.intent_id,
    )
