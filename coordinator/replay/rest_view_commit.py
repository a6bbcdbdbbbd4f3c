"""Requests of REST clients to change or create a view (decision 39): as they were sent, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied, Decision, Refusal
from firn.coordinator.replay.places import require_own, require_own_places
from firn.coordinator.replay.properties import require_few_properties
from firn.coordinator.replay.rest_changes import sent_by
from firn.coordinator.replay.views import change_time_ms, take_over
from firn.coordinator.replay.working import Working
from firn.model import rest_updates as rest
from firn.model.errors import FirnError, InvalidInput
from firn.model.new_names import check_new_names
from firn.model.operations.rest import RestViewCommit
from firn.model.rest_request_check import requirements_of, view_updates_of
from firn.model.rest_requirements import AssertCreate, Requirement, check_view_requirements
from firn.model.view import ViewMetadata
from firn.model.view_rest import ViewUpdate, apply_view_updates


def rest_view_commit(working: Working, intent: RestViewCommit) -> Decision:
    """Change or create the view if the requirements hold. Prevents: a definition undone that came meanwhile."""
    try:
        applied = _applied(working, intent)
    except Refusal as refusal:
        refused = refusal.refused
        return msgspec.structs.replace(refused, details={**refused.details, **sent_by(intent)})
    return msgspec.structs.replace(applied, details={**applied.details, **sent_by(intent)})


def _applied(working: Working, intent: RestViewCommit) -> Applied:
    requirements, updates = requirements_of(intent), view_updates_of(intent)
    if intent.creates and (working.metadata is not None or working.view is None):
        working.require_free()
    view = working.view if intent.creates else working.require_view(view_uuid=intent.table_uuid)
    if view is not None and _is_there(view, requirements, updates):
        return Applied(details={"how": "exact", "unchanged": True})
    unmet = check_view_requirements(None if view is None else view.view_uuid, requirements)
    if unmet is not None:
        rules.REQUIREMENT_FAILED.refuse(unmet.message)
    changed = _changed(working, view, [_permitted(working, update) for update in updates])
    if intent.table_uuid not in {None, changed.view_uuid}:
        rules.TABLE_UUID_MISMATCH.refuse(f"the request makes view {changed.view_uuid}, not {intent.table_uuid}")
    known = {} if view is None else view.properties
    new = {name: value for name, value in changed.properties.items() if known.get(name) != value}
    require_own_places(working, new, location=changed.location)
    require_few_properties(working, changed.properties)
    if view is None:
        working.view, working.change, working.catalog = changed, "created", "metastore"
    else:
        take_over(working, changed)
    return Applied(details=_details(view, changed, new=new))


def _is_there(view: ViewMetadata, requirements: Sequence[Requirement], updates: Sequence[ViewUpdate]) -> bool:
    """Whether the request is the one that made the view, sent again."""
    creates = any(isinstance(one, AssertCreate) for one in requirements)
    return creates and any(isinstance(u, rest.AssignUuid) and u.uuid == view.view_uuid for u in updates)


def _permitted(working: Working, update: ViewUpdate) -> ViewUpdate:
    """The update, with a location in its one spelling; refuses what firn's own operations refuse."""
    view = working.view
    if isinstance(update, rest.SetLocation) and (view is None or update.location.rstrip("/") != view.location):
        return msgspec.structs.replace(update, location=require_own(working, update.location, where="location"))
    if isinstance(update, rest.AddSchema):
        try:
            check_new_names(update.schema)
        except InvalidInput as error:
            rules.INVALID_VIEW.refuse(str(error))
    return update


def _changed(working: Working, view: ViewMetadata | None, updates: Sequence[ViewUpdate]) -> ViewMetadata:
    now_ms = working.attempt.now_ms if view is None else change_time_ms(working, view)
    try:
        return apply_view_updates(view, updates, now_ms=now_ms)
    except FirnError as error:
        rules.INVALID_VIEW.refuse(str(error))


def _details(before: ViewMetadata | None, view: ViewMetadata, *, new: dict[str, str]) -> dict[str, Any]:
    now = view.current_version
    details: dict[str, Any] = {"how": "exact", "properties": sorted(new)}
    if before is None:
        details["created"] = True
    if before is None or now != before.current_version:
        details |= {"version-id": now.version_id, "timestamp-ms": now.timestamp_ms}
    if view is before:
        details["unchanged"] = True
    return {name: value for name, value in details.items() if value != []}
