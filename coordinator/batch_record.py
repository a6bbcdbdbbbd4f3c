"""What a batch says for good: the outcome of each intent, and the journal segment that keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.pending import Pending
from firn.coordinator.pointer_move import Moved
from firn.coordinator.replay.decision import Applied, Decision, Refused
from firn.coordinator.replay.working import Working
from firn.coordinator.table_state import TableState
from firn.model.intent import OPERATIONS
from firn.model.journal import Batch, Decided, Retried, Segment
from firn.model.outcome import Committed, Outcome, Rejected
from firn.storage.journal import segment_location


def outcome_of(
    pending: Pending,
    decision: Decision,
    *,
    working: Working,
    location: str | None,
    now: float,
) -> Outcome:
    """The final word on one intent.

    `location` is of the metadata file after the batch; `now` is the monotonic clock, for the latency.
    """
    intent = pending.decoded.intent
    attempt = working.attempt
    latency_ms = round((now - pending.taken_at) * 1000, 3)
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
                latency_ms=latency_ms,
                details=decision.details,
            )
        case Refused():
            head = None if working.metadata is None else working.metadata.current_snapshot_id
            return Rejected(
                intent_id=intent.intent_id,
                table=intent.table,
                rule=decision.rule,
                message=decision.message,
                hint=decision.hint,
                conflicting_snapshot_id=decision.conflicting_snapshot_id,
                conflicting_intent_id=decision.conflicting_intent_id,
                conflicting_writer=decision.conflicting_writer,
                files=decision.files[: working.limits.rejection_files_max],
                files_count=len(decision.files),
                base_snapshot_id=decision.base_snapshot_id,
                head_snapshot_id=head,
                batch=attempt.batch,
                latency_ms=latency_ms,
            )


def segment_of(
    pendings: Sequence[Pending],
    state: TableState,
    working: Working,
    *,
    daemon: str,
    outcomes: Sequence[Outcome],
    retried: Sequence[Retried],
    lock_token: int,
    moved: Moved,
) -> Segment:
    """The journal segment of a batch: which intents were decided, how, and what it follows."""
    attempt = working.attempt
    decisions = state.decisions
    metadata = working.metadata
    uuid = metadata.table_uuid if metadata is not None else state.pointer.uuid if state.pointer is not None else ""
    home = metadata.location if metadata is not None else state.pointer.location if state.pointer is not None else ""
    sequence = decisions.sequence + 1
    location = segment_location(home, sequence=sequence, token=attempt.token)
    decided = tuple(
        Decided(
            intent_id=p.decoded.intent.intent_id,
            digest=p.decoded.digest,
            operation=OPERATIONS[type(p.decoded.intent)],
            outcome=outcome,
            entry=p.entry_name,
            entry_ms=p.entry_ms,
            branch=getattr(p.decoded.intent, "branch", None),
            writer=p.decoded.intent.writer,
            writer_sequence=p.decoded.intent.writer_sequence,
        )
        for p, outcome in zip(pendings, outcomes, strict=True)
    )
    return Segment(
        location=location,
        batch=Batch(
            batch=attempt.batch,
            table=state.table,
            table_uuid=uuid,
            sequence=sequence,
            daemon=daemon,
            lock_token=lock_token,
            timestamp_ms=attempt.now_ms,
            base_metadata=moved.base,
            new_metadata=moved.new,
            previous_segment=decisions.head,
            previous_checkpoint=decisions.last_checkpoint,
            since_checkpoint=decisions.since_checkpoint + len(decided),
        ),
        decided=decided,
        retried=tuple(retried),
        checkpoint=(
            decisions.checkpoint_with(decided, location=location) if decisions.checkpoint_due(len(decided)) else None
        ),
    )
