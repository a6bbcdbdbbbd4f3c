"""Create, replace, change and drop views. What changes a view is applied to the version that its writer saw, or not."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from firn.coordinator.replay import rules
from firn.coordinator.replay.attempt import as_found
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.places import require_inside, require_own, require_own_places
from firn.coordinator.replay.properties import require_expected, require_few_properties, require_no_contradiction
from firn.coordinator.replay.tables import own_location
from firn.coordinator.replay.working import Working
from firn.model import view_changes
from firn.model.errors import FirnError, InvalidInput, NotFound, TooLarge, Unavailable
from firn.model.history import SUMMARY_INTENT, SUMMARY_WRITER
from firn.model.landmark import VERSION
from firn.model.operations.views import (
    ChangeView,
    CreateView,
    DropView,
    RegisterView,
    ReplaceView,
    SetCurrentViewVersion,
    UpdateViewProperties,
)
from firn.model.schema import Schema, schema_from_json
from firn.model.view import ViewMetadata, ViewVersion
from firn.model.view_check import check_dialects_kept
from firn.model.view_json import view_version_from_json
from firn.model.view_properties import DROP_DIALECT_ALLOWED

VIEW_UUIDS: Final = uuid.UUID("2f8a0c6e-9d41-5f0b-b7c3-64d1f0a7e2c5")
"""Namespace from which view uuids are derived: the same create intent makes the same view on every attempt."""


def create_view(working: Working, intent: CreateView) -> Applied:
    """Make the view. Prevents: a table or view that another one stands in for; a definition that no engine can read."""
    working.require_free()
    location = own_location(working, intent.location, intent_id=intent.intent_id)
    require_own_places(working, intent.properties, location=location)
    version, schema = _definition(working, intent)
    try:
        working.view = view_changes.new_view_metadata(
            version,
            schema,
            location=location,
            view_uuid=intent.table_uuid or str(uuid.uuid5(VIEW_UUIDS, intent.intent_id)),
            properties=intent.properties,
            now_ms=working.attempt.now_ms,
        )
    except FirnError as error:
        rules.INVALID_VIEW.refuse(str(error))
    working.change = "created"
    return _applied(working.view)


def register_view(working: Working, intent: RegisterView) -> Applied:
    """Take over a view from storage. One of the oldest writers, who gave views no uuid, gets one.

    Prevents: a view whose metadata leads outside the places that tables may be in.
    """
    working.require_free()
    at = require_inside(working, intent.metadata_location, where="metadata-location")
    view = require_view_in(working, at)
    if intent.table_uuid is not None and intent.table_uuid != view.view_uuid:
        rules.TABLE_UUID_MISMATCH.refuse(f"{at} is of view {view.view_uuid or 'without uuid'}, not {intent.table_uuid}")
    own_location(working, view.location, intent_id=intent.intent_id)
    require_own_places(working, view.properties, location=view.location)
    if view.view_uuid:
        working.change, working.registered_at = "registered", at
    else:
        view = view_changes.assign_uuid(view, str(uuid.uuid5(VIEW_UUIDS, intent.intent_id)))
        working.change = "created"
    working.view = view
    return _applied(view)


def require_view_in(working: Working, location: str) -> ViewMetadata:
    """The view metadata in a file; refuses a file that is too large or that no view can be read from."""
    try:
        return as_found(working.placement.registered.get(location), ViewMetadata) or working.reader.view(location)
    except Unavailable:
        raise
    except TooLarge as error:
        rules.METADATA_TOO_LARGE.refuse(str(error))
    except FirnError as error:
        rules.INVALID_VIEW.refuse(str(error))


def replace_view(working: Working, intent: ReplaceView) -> Applied:
    """Give the view another definition; one that it had before comes back as the version that it was."""
    view = require_base(working, intent)
    location = None if intent.location is None else require_own(working, intent.location, where="location")
    require_own_places(working, intent.properties, location=location or view.location)
    version, schema = _definition(working, intent)
    require_dialects(view, version, properties={**view.properties, **intent.properties})
    try:
        changed = view_changes.replace_view(
            view, version, schema, location=location, properties=intent.properties, now_ms=change_time_ms(working, view)
        )
    except FirnError as error:
        rules.INVALID_VIEW.refuse(str(error))
    require_few_properties(working, changed.properties)
    take_over(working, changed)
    return _applied(changed, before=view)


def update_view_properties(working: Working, intent: UpdateViewProperties) -> Applied:
    """Set and remove properties key by key; the definition stays as it is, and is the one that the writer saw."""
    require_no_contradiction(intent.updates, intent.removals)
    view = require_base(working, intent)
    require_expected(view.properties, intent.expect)
    require_own_places(working, intent.updates, location=view.location)
    try:
        changed = view_changes.set_properties(view, intent.updates)
        changed = view_changes.remove_properties(changed, intent.removals)
        if changed is not view:
            changed = view_changes.finished(changed, base=view, now_ms=change_time_ms(working, view))
    except InvalidInput as error:
        rules.INVALID_PROPERTY.refuse(str(error))
    require_few_properties(working, changed.properties)
    take_over(working, changed)
    return _applied(changed, before=view, properties=sorted({*intent.updates, *intent.removals}))


def set_current_view_version(working: Working, intent: SetCurrentViewVersion) -> Applied:
    """Set the view to a version that it still has; those that the history has let go of cannot come back."""
    view = require_base(working, intent)
    version = view.version_by_id(intent.version_id)
    if version is None:
        known = ", ".join(str(one.version_id) for one in view.versions)
        rules.UNKNOWN_VERSION.refuse(f"there is no version {intent.version_id}: the view has {known}")
    require_dialects(view, version, properties=view.properties)
    try:
        changed = view_changes.roll_back_view(view, intent.version_id, now_ms=change_time_ms(working, view))
    except (InvalidInput, NotFound) as error:
        rules.INVALID_VIEW.refuse(str(error))
    take_over(working, changed)
    return _applied(changed, before=view)


def drop_view(working: Working, intent: DropView) -> Applied:
    """Forget the view, if it is what the writer saw. Its files stay, or maintenance purges them later."""
    require_base(working, intent)
    working.purge = intent.purge
    working.view = None
    working.change = "dropped"
    return Applied()


def require_base(working: Working, intent: ChangeView) -> ViewMetadata:
    """The view, if its current version is the one that the writer saw.

    Id and time are compared: an id may be given again after its version was dropped. Prevents: a definition undone by
    a writer who never saw it.
    """
    view = working.require_view(view_uuid=intent.table_uuid)
    now = view.current_version
    if (now.version_id, now.timestamp_ms) != (intent.base_version_id, intent.base_timestamp_ms):
        rules.VIEW_CONFLICT.refuse(
            f"{working.table!r} is at version {now.version_id} of {now.timestamp_ms} now, "
            f"not at version {intent.base_version_id} of {intent.base_timestamp_ms}",
            by=working.landmarks.find(VERSION),
        )
    return view


def require_dialects(view: ViewMetadata, version: ViewVersion, *, properties: Mapping[str, str]) -> None:
    """Refuse a version without a dialect that the current one has, unless the view's properties allow it.

    Prevents: an engine that could read the view no longer can.
    """
    if DROP_DIALECT_ALLOWED.of(properties):
        return
    try:
        check_dialects_kept(before=view.current_version, after=version)
    except InvalidInput as error:
        rules.LOST_DIALECT.refuse(str(error))


def _definition(working: Working, intent: CreateView | ReplaceView) -> tuple[ViewVersion, Schema]:
    """The version that the intent describes, with who asked for it, and its schema."""
    audit = {SUMMARY_INTENT: intent.intent_id}
    if intent.writer is not None:
        audit[SUMMARY_WRITER] = intent.writer
    namespace = intent.default_namespace
    members: dict[str, Any] = {
        "version-id": 1,  # ids are assigned when it is added
        "schema-id": 0,
        "timestamp-ms": working.attempt.now_ms if working.view is None else change_time_ms(working, working.view),
        "summary": {**intent.summary, **audit},
        "representations": list(intent.representations),
        "default-catalog": intent.default_catalog,
        "default-namespace": list(_own_namespace(working.table) if namespace is None else namespace),
    }
    try:
        return view_version_from_json(members, where=""), schema_from_json(intent.schema, where="schema")
    except InvalidInput as error:
        rules.INVALID_VIEW.refuse(str(error))


def _own_namespace(name: str) -> Sequence[str]:
    return name.split(".")[:-1]


def change_time_ms(working: Working, view: ViewMetadata) -> int:
    """The time of a change: the log never runs backwards, whatever the daemons' clocks."""
    return max(working.attempt.now_ms, *(entry.timestamp_ms for entry in view.version_log[-1:]), 0)


def take_over(working: Working, changed: ViewMetadata) -> None:
    """Make changed metadata the view's; the same metadata changes nothing."""
    if changed is not working.view:
        working.view = changed
        working.change = "updated" if working.change == "none" else working.change


def _applied(view: ViewMetadata, *, before: ViewMetadata | None = None, **more: Any) -> Applied:
    """What the next change of the view has to name as its base; whether a version came back."""
    now = view.current_version
    details: dict[str, Any] = {"version-id": now.version_id, "timestamp-ms": now.timestamp_ms, **more}
    if view is before:
        details["unchanged"] = True
    elif before is not None and now != before.current_version and before.version_by_id(now.version_id) == now:
        details["reused"] = True
    return Applied(details=details)
