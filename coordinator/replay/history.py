"""Moving a branch within what the table has: rollback, and any snapshot as the current one."""

from __future__ import annotations

from firn.coordinator.replay import rules
from firn.coordinator.replay.ancestry import is_ancestor_of
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.refs_rules import fallen_off, head_of, require_readable, require_snapshot
from firn.coordinator.replay.working import Working
from firn.model import refs
from firn.model.errors import NotFound
from firn.model.iso_time import timestamp_to_text
from firn.model.metadata import TableMetadata
from firn.model.operations.refs import Rollback, SetCurrentSnapshot


def roll_back(working: Working, intent: Rollback) -> Applied:
    """Move a branch back to an ancestor; what falls off it is named in the outcome.

    Prevents: a branch that lands in a history it never had (`not-an-ancestor`).
    """
    if (intent.snapshot_id is None) == (intent.timestamp_ms is None):
        rules.INVALID_FIELD.refuse("a rollback is given by its snapshot-id or its timestamp-ms, by one of them")
    metadata = working.require(table_uuid=intent.table_uuid)
    head = head_of(metadata, intent.branch, expected=intent.expected_snapshot_id)
    target = intent.snapshot_id
    if target is None:
        assert intent.timestamp_ms is not None
        try:
            target = refs.snapshot_before(metadata, intent.timestamp_ms, branch=intent.branch)
        except NotFound:
            rules.UNKNOWN_SNAPSHOT.refuse(
                f"{intent.branch!r} has no snapshot older than "
                f"{timestamp_to_text(intent.timestamp_ms, digits=3, zoned=True)} (any more)"
            )
    wanted = require_snapshot(metadata, target)
    if not is_ancestor_of(working, wanted, head):
        rules.NOT_AN_ANCESTOR.refuse(
            f"snapshot {target} is not in the history of {intent.branch!r}, which is at {head}",
            winner=None if head is None else metadata.snapshot_by_id(head),
        )
    return _moved(working, metadata, intent.branch, head=head, target=target)


def set_current_snapshot(working: Working, intent: SetCurrentSnapshot) -> Applied:
    """Move a branch to any snapshot of the table; what falls off it is named in the outcome."""
    metadata = working.require(table_uuid=intent.table_uuid)
    head = head_of(metadata, intent.branch, expected=intent.expected_snapshot_id)
    require_snapshot(metadata, intent.snapshot_id)
    return _moved(working, metadata, intent.branch, head=head, target=intent.snapshot_id)


def _moved(working: Working, metadata: TableMetadata, branch: str, *, head: int | None, target: int) -> Applied:
    require_readable(working, target)
    changed = refs.set_current(metadata, target, now_ms=working.attempt.now_ms, branch=branch)
    if changed is not metadata:
        working.change_metadata(changed)
    return Applied(snapshot_id=target, details=fallen_off(metadata, head, now_at=target))
