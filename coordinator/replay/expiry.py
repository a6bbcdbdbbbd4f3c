"""Expire snapshots: decided on the table as it is now, whatever the intent was planned on. No file is deleted here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.refs_rules import LISTED_MAX
from firn.coordinator.replay.working import Working
from firn.model.ancestry import ancestors_of
from firn.model.cherry_pick import snapshot_staged_as
from firn.model.errors import InvalidInput
from firn.model.intent import Intent
from firn.model.metadata import TableMetadata
from firn.model.operations.refs import CherryPick, Publish
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
    in_use = snapshots_in_use(working, metadata)
    try:
        expiry = plan_expiry(
            metadata,
            Criteria(
                older_than_ms=intent.older_than_ms,
                retain_last=intent.retain_last,
                snapshot_ids=known,
                keep_referenced=True,
            ),
            now_ms=working.attempt.now_ms,
            in_use=in_use,
        )
    except InvalidInput as error:
        rules.INVALID_PROPERTY.refuse(str(error))
    if not expiry.is_empty:
        working.change_metadata(apply_expiry(metadata, expiry, now_ms=working.attempt.now_ms))
    return Applied(details=_details(intent, expiry, in_use=in_use))


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
        "already-gone": gone[:LISTED_MAX],
    }
    return {name: value for name, value in details.items() if value or name == "removed-count"}


def snapshots_in_use(working: Working, metadata: TableMetadata) -> dict[int, str]:
    """Snapshots that must stay because of what is under way, with the reason.

    Of an intent's base not only the snapshot is needed but the whole history from there to the branch's head: it is
    what the intent is validated against.
    """
    reasons = {draft.snapshot.snapshot_id: "made by the same commit" for draft in working.snapshots}
    bases: dict[int, str] = {}
    for intent in (*working.following, *working.waiting):
        for snapshot_id in _planned_on(intent, metadata):
            bases.setdefault(snapshot_id, f"intent {intent.intent_id}, which waits, was planned on it")
    for ref in metadata.refs.values() if bases else ():
        path: list[int] = []
        for snapshot in ancestors_of(metadata, ref.snapshot_id):
            path.append(snapshot.snapshot_id)
            why = bases.get(snapshot.snapshot_id)
            if why is not None:
                for number in path[:-1]:
                    reasons.setdefault(number, f"between a branch's head and {snapshot.snapshot_id}, which is in use")
                path.clear()
    return {**reasons, **bases}


def _planned_on(intent: Intent, metadata: TableMetadata) -> Iterator[int]:
    """The snapshots that an intent names as its base or its target."""
    for member in ("base_snapshot_id", "snapshot_id"):
        snapshot_id = getattr(intent, member, None)
        if isinstance(snapshot_id, int):
            yield snapshot_id
    picked = None
    if isinstance(intent, Publish):
        picked = snapshot_staged_as(metadata, intent.wap_id)
    elif isinstance(intent, CherryPick):
        picked = metadata.snapshot_by_id(intent.snapshot_id)
    if picked is not None:  # its parent tells whether it can be picked
        yield from (i for i in (picked.snapshot_id, picked.parent_snapshot_id) if i is not None)
