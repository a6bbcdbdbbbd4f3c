"""Dry runs of what is about several tables: transactions and renames."""

from __future__ import annotations

from typing import Final

import msgspec

from firn.coordinator.commits.transaction_tables import Others
from firn.coordinator.insight.dry_run import Setting, future, judged, known_already, pending_of
from firn.coordinator.insight.forecast import Forecast
from firn.coordinator.replay.rename import rename
from firn.coordinator.replay.transaction import Drafts, replay_transaction
from firn.model.operations.tables import RenameTable
from firn.model.operations.transaction import Transaction
from firn.model.operations.views import RenameView
from firn.storage.pointers import Versioned

Together = Transaction | RenameTable | RenameView
TOGETHER: Final = (Transaction, RenameTable, RenameView)


def forecast_together(
    intent: Together, *, versioned: Versioned | None, others: Others | None, target: Versioned | None, setting: Setting
) -> Forecast:
    """What would become of a transaction or a rename now.

    `others` are a transaction's other tables, `target` what a rename's new name stands for. Raises as reading does.
    """
    state = setting.state(intent.table, versioned)
    pending = pending_of(intent, limits=setting.limits, now_ms=setting.now_ms)
    known, opened = known_already([pending], state, limits=setting.limits)
    if not opened:
        return known[id(pending)]
    (pending,) = opened
    if pending.verdict is not None:
        return judged(pending, pending.verdict, state, setting.draft(state))
    if not isinstance(intent, Transaction):
        at = None if state.pointer is None else state.pointer.metadata_location
        there = setting.draft(setting.state(intent.new_name, target))
        return judged(pending, rename(setting.draft(state), there, intent, at=at), state, setting.draft(state))
    assert others is not None
    places = dict(setting.placement.taken)
    shared = msgspec.structs.replace(setting.placement, taken=places)
    tables = {name: setting.draft(one, shared) for name, one in {state.table: state, **others.states}.items()}
    decision = replay_transaction(Drafts(tables, places), intent, others.seen)
    told = judged(pending, decision, state, tables[state.table])
    besides = [future(draft, one) for one in tables.values() for draft in one.snapshots]
    first = None if told.snapshot is None else told.snapshot.snapshot_id
    rest = tuple(one for one in besides if (one.table, one.snapshot_id) != (state.table, first))
    return msgspec.structs.replace(told, other_snapshots=rest if told.is_yes else ())
