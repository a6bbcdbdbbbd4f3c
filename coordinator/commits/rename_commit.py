"""One attempt of one rename: the old name's pointer becomes a marker, the new name's the table's, in one swap.

Both names have journals of their own (``docs/decisions/0006-views-and-renames.md``). Blocking: call it in a worker
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.commits.batch_record import outcome_of, segment_of, segment_place
from firn.coordinator.commits.commit import Part, Plan, Prepared, part_of, prepare, working_on
from firn.coordinator.commits.pointer_move import move
from firn.coordinator.pending import Pending
from firn.coordinator.replay.attempt import Attempt
from firn.coordinator.replay.decision import Refused
from firn.coordinator.replay.rename import Rename, rename
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.journal import OtherPart, Retried, Segment
from firn.model.operations.tables import RenameTable
from firn.model.operations.views import RenameView
from firn.model.outcome import Outcome
from firn.storage.pointers import with_digest

TARGET: Final = "to"
"""Tells the new name's segment from the old one's: both are in the table's folder."""


def rename_in(batch: Sequence[Pending]) -> Rename | None:
    """The rename that the batch is, unless it is decided already."""
    first = batch[0]
    intent = first.decoded.intent
    return intent if isinstance(intent, RenameTable | RenameView) and first.is_open else None


def prepare_rename(
    plan: Plan,
    state: TableState,
    target: TableState,
    *,
    reader: TableReader,
    attempt: Attempt,
    retried: Sequence[Retried],
    lock_tokens: Mapping[str, int],
    clock: Callable[[], float],
) -> Prepared:
    """Replay the plan's one intent on the states of both names, and encode everything that its commit needs.

    A refusal is put on record in the old name's journal. `lock_tokens` are by name. Raises what reading raises.
    """
    (pending,) = plan.pendings
    intent = rename_in(plan.pendings)
    assert intent is not None
    there = msgspec.structs.replace(attempt, token=f"{attempt.token}-{TARGET}")
    old = working_on(state, reader=reader, attempt=attempt, placement=plan.placement, limits=plan.limits)
    new = working_on(target, reader=reader, attempt=there, placement=plan.placement, limits=plan.limits)
    before = state.pointer
    decision = rename(old, new, intent, at=None if before is None else before.metadata_location)
    if isinstance(decision, Refused):
        refused = msgspec.structs.replace(plan, pendings=(msgspec.structs.replace(pending, verdict=decision),))
        return prepare(
            refused, state, reader=reader, attempt=attempt, retried=retried, lock_token=lock_tokens[state.table],
            clock=clock,
        )  # fmt: skip
    assert before is not None
    decided_at = clock()
    outcome = outcome_of(pending, decision, working=old, location=before.metadata_location, decided_at=decided_at)
    parts = _parts(plan, (state, old), (target, new), outcome, retried=retried, lock_tokens=lock_tokens)
    return Prepared(outcomes=(outcome,), decided_at=decided_at, parts=parts)


def _parts(
    plan: Plan,
    source: tuple[TableState, Working],
    target: tuple[TableState, Working],
    outcome: Outcome,
    *,
    retried: Sequence[Retried],
    lock_tokens: Mapping[str, int],
) -> tuple[Part, Part]:
    """Old name and new name; each journal segment names the other."""
    names = [state.table for state, _ in (source, target)]
    places = [OtherPart(table=state.table, segment=segment_place(state, draft)) for state, draft in (source, target)]
    segments = []
    for at, (state, draft) in enumerate((source, target)):
        segment = segment_of(
            plan.pendings, state, draft,
            daemon=plan.daemon, outcomes=(outcome,), retried=retried, lock_token=lock_tokens[state.table],
            moved=move(state, draft),
        )  # fmt: skip
        renamed = {"renamed_to": names[1]} if at == 0 else {"renamed_from": names[0]}
        also_at = () if source[0].pointer is None else source[0].pointer.also_at
        batch = msgspec.structs.replace(segment.batch, others=(places[1 - at],), also_at=also_at, **renamed)
        segments.append(msgspec.structs.replace(segment, batch=batch))
    segments[1] = _with_history(segments[1], source[0], target[0])
    left = part_of(plan, *source, segment=segments[0], moved=move(*source), pendings=plan.pendings)
    arrived = part_of(plan, *target, segment=segments[1], moved=move(*target), pendings=())
    before, after = source[0].pointer, arrived.change.pointer
    assert before is not None
    assert after is not None
    assert left.change.pointer is not None
    marker = msgspec.structs.replace(left.change.pointer, renamed_to=names[1])
    after = msgspec.structs.replace(with_digest(after, before.digest), also_at=before.also_at)
    return (
        msgspec.structs.replace(left, change=msgspec.structs.replace(left.change, pointer=marker)),
        msgspec.structs.replace(arrived, change=msgspec.structs.replace(arrived.change, pointer=after)),
    )


def _with_history(segment: Segment, source: TableState, target: TableState) -> Segment:
    """The new name's segment with a checkpoint that knows what was decided under the old name."""
    own = target.decisions.checkpoint_with(segment.decided, location=segment.location)
    return msgspec.structs.replace(segment, checkpoint=source.decisions.handed_over(own))
