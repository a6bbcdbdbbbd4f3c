"""The loop over a batch: each intent in order, on the state that the ones before it left."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay.append import AppendGroup, bind_append
from firn.coordinator.replay.decision import Decision, Refusal
from firn.coordinator.replay.delete_files import delete_files
from firn.coordinator.replay.replace import replace
from firn.coordinator.replay.tables import create_table, drop_table, register_table
from firn.coordinator.replay.working import Working
from firn.model.intent import Append, CreateTable, DeleteFiles, DropTable, Intent, RegisterTable, Replace


def replay(working: Working, intents: Sequence[Intent]) -> list[Decision]:
    """Apply the intents in order; one decision each, in the same order.

    A refused intent leaves no trace in `working`; the ones after it go on. Reads of immutable files may raise
    CorruptFile or Unavailable: then nothing is decided.
    """
    decisions: list[Decision] = []
    group: AppendGroup | None = None
    for intent in intents:
        try:
            if isinstance(intent, Append):
                files = bind_append(working, intent)
                if group is None or not group.accepts(intent):
                    _close(group)
                    group = AppendGroup(working, branch=intent.branch, leader=intent.intent_id)
                decisions.append(group.add(intent, files))
            else:
                _close(group)
                group = None
                decisions.append(_apply(working, intent))
        except Refusal as refusal:
            decisions.append(refusal.refused)
    _close(group)
    return decisions


def _close(group: AppendGroup | None) -> None:
    if group is not None and group.intents:
        group.close()


def _apply(working: Working, intent: Intent) -> Decision:
    match intent:
        case DeleteFiles():
            return delete_files(working, intent)
        case Replace():
            return replace(working, intent)
        case CreateTable():
            return create_table(working, intent)
        case RegisterTable():
            return register_table(working, intent)
        case DropTable():
            return drop_table(working, intent)
        case Append():
            raise AssertionError("appends are grouped, not applied one by one")
