"""Requests of REST clients to change or create a table (decision 39): as they were sent, lifted, or refused.

Exact: all requirements hold, so the updates are applied as they are, with the manifest lists that the client wrote.
Everything else that a request names is looked at first: nothing of it is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied, Decision, Refusal
from firn.coordinator.replay.lifting import lift, plan_lifting
from firn.coordinator.replay.properties import require_few_properties
from firn.coordinator.replay.rest_changes import changes_between, sent_by
from firn.coordinator.replay.rest_snapshots import NewHeads, require_next_numbers, require_sound_snapshots
from firn.coordinator.replay.rest_updates import permitted, require_places, require_statistics, require_unneeded
from firn.coordinator.replay.working import Working
from firn.model import rest_updates as rest
from firn.model.errors import FirnError
from firn.model.metadata import TableMetadata
from firn.model.operations.rest import RestCommit
from firn.model.rest_apply import apply_updates
from firn.model.rest_request_check import requirements_of, updates_of
from firn.model.rest_requirements import (
    AssertCreate,
    AssertRefSnapshotId,
    AssertTableUuid,
    Requirement,
    Unmet,
    check_requirements,
)


def rest_commit(working: Working, intent: RestCommit) -> Decision:
    """Change or create the table, by the first of the three ways that is open.

    Prevents: a change that was planned on another table than there is, and snapshots that no reader can read.
    """
    try:
        decision = _decided(working, intent)
    except Refusal as refusal:
        refused = refusal.refused
        return msgspec.structs.replace(refused, details={**refused.details, **sent_by(intent)})
    return msgspec.structs.replace(decision, details={**decision.details, **sent_by(intent)})


def _decided(working: Working, intent: RestCommit) -> Decision:
    if intent.creates and working.view is not None:
        working.require_free()
    if not intent.creates or working.metadata is not None:
        working.require(table_uuid=intent.table_uuid)
    requirements, updates = requirements_of(intent), updates_of(intent)
    metadata = working.metadata
    if metadata is not None and _is_there(metadata, requirements, updates):
        return _unchanged(updates)
    unmet = check_requirements(metadata, requirements)
    # Another branch may have taken the numbers: then the request was made on older metadata, too.
    failed = require_next_numbers(metadata, updates) if unmet is None else unmet.message
    if failed is None:
        return _exact(working, intent, updates)
    lifting = None if metadata is None else plan_lifting(metadata, requirements, updates)
    if lifting is not None:
        return lift(working, intent, lifting, updates, failed=failed)
    if unmet is not None:
        _refuse_unmet(working, unmet)
    return rules.REQUIREMENT_FAILED.refuse(failed)


def _refuse_unmet(working: Working, unmet: Unmet) -> NoReturn:
    winner = None
    if isinstance(unmet.requirement, AssertRefSnapshotId) and working.metadata is not None:
        ref = working.metadata.ref(unmet.requirement.ref)
        winner = None if ref is None else working.metadata.snapshot_by_id(ref.snapshot_id)
    rules.REQUIREMENT_FAILED.refuse(unmet.message, winner=winner)


# ---------------------------------------------------------------------------------------------------------------------
# The same request again


def _is_there(metadata: TableMetadata, requirements: Sequence[Requirement], updates: Sequence[rest.Update]) -> bool:
    """Whether the table has what the request brings: clients send one again whose answer they did not get.

    A snapshot keeps its id over all attempts of a client. Prevents: files deleted by a client that is refused because
    its own first attempt came first.
    """
    same_table = [one for one in requirements if isinstance(one, AssertTableUuid)]
    if check_requirements(metadata, same_table) is not None:
        return False
    added = [update.snapshot for update in updates if isinstance(update, rest.AddSnapshot)]
    known = [metadata.snapshot_by_id(snapshot.snapshot_id) for snapshot in added]
    if any(found is not None for found in known):
        for snapshot, found in zip(added, known, strict=True):
            if found is not None and found.operation != snapshot.operation:
                rules.INVALID_SNAPSHOT.refuse(
                    f"Snapshot already exists for id {snapshot.snapshot_id}, and is another one: give it another id"
                )
        return True
    creates = any(isinstance(one, AssertCreate) for one in requirements)
    return creates and any(isinstance(u, rest.AssignUuid) and u.uuid == metadata.table_uuid for u in updates)


def _unchanged(updates: Sequence[rest.Update]) -> Applied:
    added = [update.snapshot.snapshot_id for update in updates if isinstance(update, rest.AddSnapshot)]
    return Applied(snapshot_id=added[-1] if added else None, details={"how": "exact", "unchanged": True})


# ---------------------------------------------------------------------------------------------------------------------
# Exact


def _exact(working: Working, intent: RestCommit, updates: Sequence[rest.Update]) -> Applied:
    """Apply the updates as they were sent, once all that they name has been looked at."""
    before, change, catalog = working.metadata, working.change, working.catalog
    if before is None:
        working.require_free()
        working.catalog = "metastore"
    try:
        updates = permitted(working, updates)
        require_unneeded(working, updates)
        changed = _applied(working, before, updates)
        if before is None and intent.table_uuid not in {None, changed.table_uuid}:
            rules.TABLE_UUID_MISMATCH.refuse(f"the request makes table {changed.table_uuid}, not {intent.table_uuid}")
        require_few_properties(working, changed.properties)
        require_places(working, changed, before=before)
        working.metadata = changed  # what is looked at from here on may be in places that the request gives it
        heads = require_sound_snapshots(working, updates, before=before)
        require_statistics(working, updates)
    except Refusal:
        working.metadata, working.change, working.catalog = before, change, catalog
        raise
    working.metadata = before
    _take_over(working, changed, updates, heads)
    added = [update.snapshot for update in updates if isinstance(update, rest.AddSnapshot)]
    details: dict[str, Any] = {"how": "exact", **changes_between(before, changed, updates)}
    return Applied(
        snapshot_id=added[-1].snapshot_id if added else None,
        sequence_number=added[-1].sequence_number if added else None,
        details=details,
    )


def _applied(working: Working, before: TableMetadata | None, updates: Sequence[rest.Update]) -> TableMetadata:
    try:
        return apply_updates(before, updates, now_ms=working.attempt.now_ms)
    except FirnError as error:
        rules.INVALID_UPDATE.refuse(str(error))


def _take_over(working: Working, changed: TableMetadata, updates: Sequence[rest.Update], heads: NewHeads) -> None:
    if working.metadata is None:
        working.metadata, working.change = changed, "created"
    elif changed is not working.metadata:
        working.change_metadata(changed)
    working.accepted += [u.snapshot.snapshot_id for u in updates if isinstance(u, rest.AddSnapshot)]
    for branch, head in heads.items():
        working.take_head(branch, head)
