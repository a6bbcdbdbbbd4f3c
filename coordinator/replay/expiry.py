"""Expire snapshots: decided on the table as it is now, whatever the intent was planned on. No file is deleted here."""

from __future__ import annotations

from typing import Any

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.holds import Hold, holds_of, refs_held, snapshots_held
from firn.coordinator.replay.refs_rules import LISTED_MAX
from firn.coordinator.replay.unused_layout import clean_layout
from firn.coordinator.replay.working import Working
from firn.model.errors import InvalidInput
from firn.model.metadata import TableMetadata
from firn.model.operations.upkeep import ExpireSnapshots
from firn.model.retention import Criteria, Expiry, apply_expiry, plan_expiry
from firn.model.table_properties import GC_ENABLED


def expire_snapshots(working: Working, intent: ExpireSnapshots) -> Applied:
    """Forget what retention allows to forget; what was asked for and is kept, and why, is named in the outcome.

    Prevents: a branch that loses its snapshot because it was made while the expiry waited, and intents that cannot be
    validated any more because the snapshot they were planned on is gone.
    """
    metadata = working.require(table_uuid=intent.table_uuid)
    if not GC_ENABLED.of(metadata.properties):
        rules.GC_DISABLED.refuse(f"the table's {GC_ENABLED.name} is off: other tables may share its files")
    known = tuple(i for i in intent.snapshot_ids if metadata.snapshot_by_id(i) is not None)
    holds = holds_on(working)
    in_use = {**working.made_here, **snapshots_held(metadata, holds)}
    try:
        expiry = plan_expiry(
            metadata,
            Criteria(
                older_than_ms=intent.older_than_ms,
                retain_last=intent.retain_last,
                snapshot_ids=known,
                keep_referenced=True,
            ),
            now_ms=working.attempt.expiry_ms,
            in_use=in_use,
            refs_in_use=refs_held(metadata, holds),
        )
    except InvalidInput as error:
        rules.INVALID_PROPERTY.refuse(str(error))
    if not expiry.is_empty:
        metadata = apply_expiry(metadata, expiry, now_ms=working.attempt.now_ms)
        working.change_metadata(metadata)
    details = _details(intent, expiry, in_use=in_use)
    return Applied(details=details | (_clean(working, metadata) if intent.clean_expired_metadata else {}))


def _clean(working: Working, metadata: TableMetadata) -> dict[str, Any]:
    """Take unused specs and schemas away; what is told of it."""
    cleaned = clean_layout(working, metadata, now_ms=working.attempt.now_ms)
    if cleaned.metadata is not metadata:
        working.change_metadata(cleaned.metadata)
    details: dict[str, Any] = {
        "removed-specs": list(cleaned.spec_ids)[:LISTED_MAX],
        "removed-schemas": list(cleaned.schema_ids)[:LISTED_MAX],
        "specs-and-schemas-kept": cleaned.kept,
    }
    return {name: value for name, value in details.items() if value}


def _details(intent: ExpireSnapshots, expiry: Expiry, *, in_use: dict[int, str]) -> dict[str, Any]:
    """What went, and why what was asked for or would have gone did not. JSON keys are text, so pairs are listed."""
    asked = set(intent.snapshot_ids)
    kept = [[number, why] for number, why in expiry.kept.items() if number in asked or number in in_use]
    gone = [number for number in intent.snapshot_ids if number not in expiry.kept and number not in expiry.removed]
    details: dict[str, Any] = {
        "removed": list(expiry.removed)[:LISTED_MAX],
        "removed-count": len(expiry.removed),
        "removed-refs": dict(list(expiry.removed_refs.items())[:LISTED_MAX]),
        "kept": kept[:LISTED_MAX],
        "kept-refs": dict(list(expiry.kept_refs.items())[:LISTED_MAX]),
        "already-gone": gone[:LISTED_MAX],
    }
    return {name: value for name, value in details.items() if value or name == "removed-count"}


def holds_on(working: Working) -> tuple[Hold, ...]:
    """What work that is under way needs: what follows in the batch, and what waits behind it."""
    return (*(hold for intent in working.following for hold in holds_of(intent)), *working.waiting)
