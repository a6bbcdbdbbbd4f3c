"""One attempt of one transaction: every table's files, journal segment and pointer change, for one swap of all.

Blocking (reads, encoding): call it in a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from firn.coordinator.commits.batch_record import outcome_of, segment_of, segment_place
from firn.coordinator.commits.commit import Part, Plan, Prepared, part_of, prepare, working_on
from firn.coordinator.commits.pointer_move import Moved, move
from firn.coordinator.commits.transaction_tables import Others
from firn.coordinator.replay import rules
from firn.coordinator.replay.attempt import Attempt
from firn.coordinator.replay.decision import Applied, Refused
from firn.coordinator.replay.history_limit import is_due, limit_history
from firn.coordinator.replay.holds import Hold
from firn.coordinator.replay.transaction import Drafts, replay_transaction
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.effects import MEMBERS
from firn.model.journal import OtherPart, Retried
from firn.model.operations.transaction import Transaction
from firn.model.outcome import Outcome
from firn.storage.pointers import SWAP_BYTES_MAX, swap_bytes


def prepare_transaction(
    plan: Plan,
    state: TableState,
    others: Others,
    *,
    reader: TableReader,
    attempt: Attempt,
    retried: Sequence[Retried],
    lock_tokens: Mapping[str, int],
    clock: Callable[[], float],
) -> Prepared:
    """Replay the plan's one intent, a transaction, and encode everything that its commit needs.

    A refusal is put on record as that of any intent: in the first table's journal, with that table as it was.
    `lock_tokens` are by table. Raises what reading a table raises: nothing is decided then.
    """
    (pending,) = plan.pendings
    transaction = pending.decoded.intent
    assert isinstance(transaction, Transaction)
    states = {state.table: state, **others.states}
    places = dict(plan.placement.taken)
    placement = msgspec.structs.replace(plan.placement, taken=places)
    tables = {
        name: working_on(one, reader=reader, attempt=attempt, placement=placement, limits=plan.limits)
        for name, one in states.items()
    }
    drafts = Drafts(tables, places)
    decision = replay_transaction(drafts, transaction, others.seen)
    decided_at = clock()
    if isinstance(decision, Applied):
        own = {} if plan.waiting is None else {state.table: plan.waiting}
        _limit_histories(drafts.tables, {**own, **others.waiting})
        parts, outcome = _parts(
            plan, drafts.tables, states, decision, retried=retried, lock_tokens=lock_tokens, decided_at=decided_at
        )
        if swap_bytes([part.change for part in parts]) <= SWAP_BYTES_MAX:
            return Prepared(outcomes=(outcome,), decided_at=decided_at, parts=parts, unmoved=others.unmoved)
        decision = rules.TRANSACTION_TOO_LARGE.refused(
            f"the pointers of its {len(parts)} tables have more than {SWAP_BYTES_MAX} bytes together"
        )
    assert isinstance(decision, Refused)
    refused = msgspec.structs.replace(plan, pendings=(msgspec.structs.replace(pending, verdict=decision),))
    return prepare(
        refused,
        state,
        reader=reader,
        attempt=attempt,
        retried=retried,
        lock_token=lock_tokens[state.table],
        clock=clock,
    )


def _limit_histories(drafts: Mapping[str, Working], waiting: Mapping[str, Sequence[Hold]]) -> None:
    """Cut histories back as a commit to each table alone would, of the tables whose needs are known.

    It comes after all members: none is refused for what only its own transaction has made too old.
    """
    for name, draft in drafts.items():
        if name in waiting and is_due(draft.base):
            draft.waiting = waiting[name]
            limit_history(draft)


def _parts(
    plan: Plan,
    drafts: Mapping[str, Working],
    states: Mapping[str, TableState],
    applied: Applied,
    *,
    retried: Sequence[Retried],
    lock_tokens: Mapping[str, int],
    decided_at: float,
) -> tuple[tuple[Part, ...], Outcome]:
    """The part of every table, and the outcome that stands in the journal of each."""
    (pending,) = plan.pendings
    first = pending.decoded.intent.table
    moved = {name: move(states[name], draft) for name, draft in drafts.items()}
    outcome = outcome_of(
        pending, _told(applied, moved), working=drafts[first], location=moved[first].new, decided_at=decided_at
    )  # fmt: skip
    segments = [OtherPart(table=name, segment=segment_place(states[name], draft)) for name, draft in drafts.items()]
    parts = []
    for name, draft in drafts.items():
        segment = segment_of(
            plan.pendings, states[name], draft,
            daemon=plan.daemon, outcomes=(outcome,), retried=retried, lock_token=lock_tokens.get(name, 0),
            moved=moved[name], others=[other for other in segments if other.table != name],
        )  # fmt: skip
        own = plan.pendings if name == first else ()
        parts.append(part_of(plan, states[name], draft, segment=segment, moved=moved[name], pendings=own))
    return tuple(parts), outcome


def _told(applied: Applied, moved: Mapping[str, Moved]) -> Applied:
    """The outcome with where each member's table is after the swap, as it is kept and sent (JSON)."""
    effects = [
        msgspec.structs.replace(effect, metadata_location=moved[effect.table].new)
        for effect in applied.details[MEMBERS]
    ]
    return msgspec.structs.replace(applied, details={**applied.details, MEMBERS: msgspec.to_builtins(effects)})
