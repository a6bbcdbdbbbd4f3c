"""Rename: a table or view gets another, free name. Its files stay where they are, and its uuid is what it was."""

from __future__ import annotations

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied, Refusal, Refused
from firn.coordinator.replay.refusals import placed
from firn.coordinator.replay.views import require_base
from firn.coordinator.replay.working import Working
from firn.model.operations.tables import RenameTable
from firn.model.operations.views import RenameView

Rename = RenameTable | RenameView


def rename(working: Working, target: Working, intent: Rename, *, at: str | None) -> Applied | Refused:
    """Give what `working` has to `target`, the new name; `at` is its metadata file. A refusal leaves no trace.

    Prevents: a name that stands for two tables; a table that engines open by its path and cannot find any more.
    """
    try:
        if isinstance(intent, RenameView):
            require_base(working, intent)
        else:
            working.require(table_uuid=intent.table_uuid)
        if working.catalog != "metastore":
            rules.LOCATION_FIXED.refuse(f"{working.table!r} is opened by its path: that is its name")
        target.require_free()
    except Refusal as refusal:
        return placed(working, intent, refusal.refused)
    target.metadata, target.view = working.metadata, working.view
    target.change, target.registered_at = "registered", at
    working.metadata, working.view = None, None
    working.change = "dropped"
    return Applied(details={"renamed-to": target.table})
