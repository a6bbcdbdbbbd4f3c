"""What a batch says for good: the outcome of each intent, and the journal segment that keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from firn.coordinator.commits.pointer_move import Moved, also_at_after, catalog_after
from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Applied, Decision, Refused
from firn.coordinator.replay.refusals import placed
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.table_state import TableState, uuid_of
from firn.model.epoch import epoch_content
from firn.model.intent import OPERATIONS, Intent
from firn.model.journal import Batch, Decided, OtherPart, Retried, Segment
from firn.model.limits import Limits
from firn.model.outcome import Committed, Outcome, Rejected
from firn.model.planned_on import base_of, ref_of, trace_of
from firn.storage.journal import segment_location


def outcome_of(
    pending: Pending,
    decision: Decision,
    *,
    working: Working,
    location: str | None,
    decided_at: float,
) -> Outcome:
    """Return the outcome of one intent as the journal keeps it.

    `location` is of the metadata file after the batch; `decided_at` is the monotonic clock (s) when it was decided.
    What comes after (the commit's duration, the whole latency) is added when the outcome is sent.
    """
    intent = pending.decoded.intent
    attempt = working.attempt
    decision_ms = to_ms(decided_at - pending.taken_at)
    if pending.repeats is not None:
        repeated = repeat_of(pending.repeats, intent)
        return msgspec.structs.replace(repeated, queued_ms=pending.queued_ms, decision_ms=decision_ms)
    match decision:
        case Applied():
            return Committed(
                intent_id=intent.intent_id,
                table=intent.table,
                snapshot_id=decision.snapshot_id,
                sequence_number=decision.sequence_number,
                metadata_location=location,
                batch=attempt.batch,
                replays=attempt.number,
                latency_ms=0.0,
                queued_ms=pending.queued_ms,
                decision_ms=decision_ms,
                details=decision.details,
                traceparent=intent.traceparent,
            )
        case Refused():
            return rejected_as(
                intent,
                placed(working, intent, decision),
                limits=working.limits,
                batch=attempt.batch,
                queued_ms=pending.queued_ms,
                decision_ms=decision_ms,
            )


def repeat_of(first: Decided, intent: Intent) -> Committed:
    """Return the outcome of an intent that repeats the epoch which `first` committed."""
    outcome = first.outcome
    assert isinstance(outcome, Committed)
    return msgspec.structs.replace(
        outcome,
        intent_id=intent.intent_id,
        table=intent.table,
        repeats=outcome.repeats or first.intent_id,
        latency_ms=0.0,
        queued_ms=None,
        decision_ms=None,
        commit_ms=None,
        traceparent=intent.traceparent,
        digest=None,
    )


def to_ms(seconds: float) -> float:
    """Return milliseconds to three places (`round` with places takes longer)."""
    return round(seconds * 1_000_000) / 1000


def rejected_as(
    intent: Intent,
    refused: Refused,
    *,
    limits: Limits,
    batch: str | None = None,
    queued_ms: float | None = None,
    decision_ms: float | None = None,
) -> Rejected:
    """A refusal as the outcome of an intent."""
    return Rejected(
        intent_id=intent.intent_id,
        table=intent.table,
        rule=refused.rule,
        message=refused.message,
        hint=refused.hint,
        conflicting_snapshot_id=refused.conflicting_snapshot_id,
        conflicting_intent_id=refused.conflicting_intent_id,
        conflicting_writer=refused.conflicting_writer,
        conflicting_operation=refused.conflicting_operation,
        conflicting_metadata_location=refused.conflicting_metadata_location,
        files=refused.files[: limits.rejection_files_max],
        files_count=len(refused.files),
        columns=refused.columns[: limits.rejection_files_max],
        partitions=refused.partitions[: limits.rejection_files_max],
        branch=refused.branch or ref_of(intent),
        base_snapshot_id=base_of(intent) if refused.base_snapshot_id is None else refused.base_snapshot_id,
        head_snapshot_id=refused.head_snapshot_id,
        details=refused.details,
        batch=batch,
        queued_ms=queued_ms,
        decision_ms=decision_ms,
        traceparent=intent.traceparent,
    )


def segment_place(state: TableState, working: Working) -> str:
    """Where the attempt's journal segment of a table will be."""
    current = working.current
    home = current.location if current is not None else state.pointer.location if state.pointer is not None else ""
    return segment_location(home, sequence=state.decisions.sequence + 1, token=working.attempt.token)


def segment_of(  # noqa: PLR0913 - a segment is made of all these, and each has a name
    pendings: Sequence[Pending],
    state: TableState,
    working: Working,
    *,
    daemon: str,
    outcomes: Sequence[Outcome],
    retried: Sequence[Retried],
    lock_token: int,
    moved: Moved,
    others: Sequence[OtherPart] | None = None,
) -> Segment:
    """The journal segment of a batch: which intents were decided, how, and what it follows.

    `others` are the other tables' parts of a transaction that was applied, None for any other batch.
    """
    attempt = working.attempt
    decisions = state.decisions
    current = working.current
    uuid = uuid_of(current) if current is not None else state.pointer.uuid if state.pointer is not None else ""
    location = segment_place(state, working)
    decided = tuple([_decided(p, outcome) for p, outcome in zip(pendings, outcomes, strict=True)])
    return Segment(
        location=location,
        batch=Batch(
            batch=attempt.batch,
            table=state.table,
            table_uuid=uuid,
            kind=_kind(state, working),
            sequence=decisions.sequence + 1,
            daemon=daemon,
            lock_token=lock_token,
            timestamp_ms=attempt.now_ms,
            base_metadata=moved.base,
            new_metadata=moved.new,
            previous_segment=decisions.head,
            previous_checkpoint=decisions.last_checkpoint,
            since_checkpoint=decisions.since_checkpoint + len(decided),
            transaction=None if others is None else pendings[0].decoded.intent.intent_id,
            others=tuple(others or ()),
            catalog=catalog_after(state, working),
            purge=working.purge,
            also_at=also_at_after(state, working),
        ),
        decided=decided,
        retried=tuple(retried),
        checkpoint=(
            decisions.checkpoint_with(decided, location=location) if decisions.checkpoint_due(len(decided)) else None
        ),
    )


def _decided(pending: Pending, outcome: Outcome) -> Decided:
    decoded, entry = pending.decoded, pending.entry
    intent = decoded.intent
    return Decided(
        intent_id=intent.intent_id,
        digest=decoded.digest,
        operation=OPERATIONS[type(intent)],
        outcome=outcome,
        entry=pending.entry_name,
        entry_ms=pending.entry_ms,
        branch=ref_of(intent),
        writer=intent.writer,
        writer_sequence=intent.writer_sequence,
        epoch_content=None if intent.writer_sequence is None else epoch_content(intent),
        epoch_label=intent.epoch_label,
        base_snapshot_id=base_of(intent),
        priority=intent.priority,
        deliveries=entry.deliveries,
        trace_id=trace_of(intent),
    )


def _kind(state: TableState, working: Working) -> Literal["table", "view"]:
    """What the batch was about: what the name stands for after it, or did before it was dropped."""
    if working.current is not None:
        return "table" if working.view is None else "view"
    return "table" if state.pointer is None else state.pointer.kind
