"""View updates of the REST specification: values, their JSON, and what a list of them makes of a view (``ViewUpdate``).

Most are those of tables, and so are the requirements: `firn.model.rest_requirements.check_view_requirements`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from firn.model import rest_updates as rest
from firn.model import view_changes as changes
from firn.model.errors import InvalidInput, InvalidMetadata, InvalidSchema, Unsupported
from firn.model.json_members import as_object, describe, int_of, join, missing, str_of
from firn.model.operations.rest import UPDATES_MAX
from firn.model.view import NO_VIEW, ViewMetadata, ViewVersion
from firn.model.view_json import view_version_from_json, view_version_to_json


class AddViewVersion(msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="add-view-version"):
    """Add a version; its schema id may be `firn.model.rest_updates.LAST_ADDED`."""

    view_version: ViewVersion


class SetCurrentViewVersion(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="action", tag="set-current-view-version"
):
    """Choose the version that readers use; `firn.model.rest_updates.LAST_ADDED` for the one just added."""

    view_version_id: int


SharedUpdate = (
    rest.AssignUuid
    | rest.UpgradeFormatVersion
    | rest.AddSchema
    | rest.SetLocation
    | rest.SetProperties
    | rest.RemoveProperties
)
"""What can be done to a table and to a view alike."""

ViewUpdate = SharedUpdate | AddViewVersion | SetCurrentViewVersion

# The members that each action of views alone has.
_VERSION: Final = "view-version"
_VERSION_ID: Final = "view-version-id"
_OWN: Final = {"add-view-version": _VERSION, "set-current-view-version": _VERSION_ID}


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def view_updates_from_json(value: Any, *, where: str = "updates") -> tuple[ViewUpdate, ...]:
    """A list of updates; raises InvalidInput naming the member that is wrong."""
    if not isinstance(value, list):
        raise InvalidMetadata(f"must be an array, not {describe(value)}", where=where)
    if len(value) > UPDATES_MAX:
        raise InvalidInput(f"{len(value)} updates, the limit is {UPDATES_MAX}", where=where)
    return tuple(view_update_from_json(item, where=f"{where}[{i}]") for i, item in enumerate(value))


def view_update_from_json(value: Any, *, where: str = "update") -> ViewUpdate:
    """One update of the REST specification; unknown members and updates that are for tables only are refused."""
    obj = as_object(value, where=where)
    action = str_of(obj, "action", where=where)
    member = _OWN.get(action)
    if member is None:
        update = rest.update_from_json(obj, where=where)
        if not isinstance(update, SharedUpdate):
            raise InvalidMetadata(f"{action} is not an update of a view", where=join(where, "action"))
        return update
    for key in obj:
        if key not in ("action", member):
            raise InvalidMetadata(f"unknown member of {action}", where=join(where, key))
    if member == _VERSION_ID:
        return SetCurrentViewVersion(view_version_id=int_of(obj, member, where=where))
    if obj.get(member) is None:
        raise missing(member, where=where)
    return AddViewVersion(view_version=view_version_from_json(obj[member], where=join(where, member)))


def view_update_to_json(update: ViewUpdate) -> dict[str, Any]:
    """The update as the REST specification has it."""
    match update:
        case AddViewVersion():
            return {"action": "add-view-version", _VERSION: view_version_to_json(update.view_version)}
        case SetCurrentViewVersion():
            return {"action": "set-current-view-version", _VERSION_ID: update.view_version_id}
        case _:
            return rest.update_to_json(update)


def view_updates_to_json(updates: Iterable[ViewUpdate]) -> list[dict[str, Any]]:
    """The updates as a JSON list."""
    return [view_update_to_json(update) for update in updates]


# ---------------------------------------------------------------------------------------------------------------------
# Applying


def apply_view_updates(metadata: ViewMetadata | None, updates: Sequence[ViewUpdate], *, now_ms: int) -> ViewMetadata:
    """The metadata after the updates, in order; the same object when they change nothing.

    `metadata` None is a view to create: the updates must then give it a UUID, a location, a schema and a version that
    is current. Raises a FirnError naming the update (``updates[3]…``) that is not allowed, or what the result lacks.
    """
    state = _State(NO_VIEW if metadata is None else metadata)
    for i, update in enumerate(updates):
        try:
            state.apply(update)
        except InvalidInput as error:
            raise _located(error, f"updates[{i}]") from error
    if state.metadata is metadata:
        return metadata
    return changes.finished(state.metadata, base=metadata, now_ms=now_ms)


def _located(error: InvalidInput, where: str) -> InvalidInput:
    """The error, naming the update that caused it."""
    kind = type(error) if type(error) in {InvalidMetadata, InvalidSchema, Unsupported} else InvalidInput
    return kind(error.message, where=f"{where}.{error.where}" if error.where else where, hint=error.hint)


class _State:
    """Metadata under change, with what the ids in the updates stand for."""

    def __init__(self, metadata: ViewMetadata) -> None:
        self.metadata = metadata
        self._schemas = _Added("schema")
        self._versions = _Added("version")

    def apply(self, update: ViewUpdate) -> None:
        """Make one change."""
        metadata = self.metadata
        match update:
            case rest.AssignUuid():
                self.metadata = changes.assign_uuid(metadata, update.uuid)
            case rest.UpgradeFormatVersion():
                self.metadata = changes.upgrade(metadata, update.format_version)
            case rest.AddSchema():
                self.metadata, schema_id = changes.add_schema(metadata, update.schema)
                self._schemas.add(given=update.schema.schema_id, got=schema_id)
            case rest.SetLocation():
                self.metadata = changes.set_location(metadata, update.location)
            case rest.SetProperties():
                self.metadata = changes.set_properties(metadata, update.updates)
            case rest.RemoveProperties():
                self.metadata = changes.remove_properties(metadata, update.removals)
            case AddViewVersion():
                given = update.view_version
                version = msgspec.structs.replace(given, schema_id=self._schemas.id_of(given.schema_id))
                self.metadata, version_id = changes.add_version(metadata, version)
                self._versions.add(given=given.version_id, got=version_id)
            case SetCurrentViewVersion():
                version_id = self._versions.id_of(update.view_version_id)
                self.metadata = changes.set_current_version(metadata, version_id)


class _Added:
    """The ids of what the updates so far added.

    A writer who names something that it has just added means that, not what another writer gave the same id meanwhile.
    Where it gave one id several times, the first has it.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._ids: dict[int, int] = {}
        self._last: int | None = None

    def add(self, *, given: int, got: int) -> None:
        """Note that what came with one id has another."""
        self._ids.setdefault(given, got)
        self._last = got

    def id_of(self, number: int) -> int:
        """The id in the metadata that a number in an update stands for."""
        if number != rest.LAST_ADDED:
            return self._ids.get(number, number)
        if self._last is None:
            raise InvalidMetadata(f"cannot set last added {self._noun}: no {self._noun} has been added")
        return self._last
