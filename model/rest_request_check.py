"""What a request of the REST catalog must be before any table is looked at; what is wrong is refused at the door."""

from __future__ import annotations

from typing import Any, Final

from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.limits import Limits
from firn.model.operations.rest import RestRequest, RestViewCommit
from firn.model.rest_requirements import Requirement, requirements_from_json
from firn.model.rest_updates import AddSnapshot, Update, updates_from_json
from firn.model.view_rest import ViewUpdate, view_updates_from_json


def requirements_of(intent: RestRequest) -> tuple[Requirement, ...]:
    """Return what the request asserts; raises InvalidInput naming the member that is wrong."""
    return requirements_from_json(list(intent.requirements))


def updates_of(intent: RestRequest) -> tuple[Update, ...]:
    """Return the updates of a table; raises InvalidInput naming the member that is wrong."""
    return updates_from_json(list(intent.updates))


def view_updates_of(intent: RestViewCommit) -> tuple[ViewUpdate, ...]:
    """Return the updates of a view; raises InvalidInput naming the member that is wrong."""
    return view_updates_from_json(list(intent.updates))


def check_rest_request(intent: RestRequest, *, limits: Limits) -> None:
    """Raise InvalidIntent for a request that cannot be read, or that holds more than the limits allow."""
    if intent.summary:
        raise _invalid("belongs to the snapshots that the request adds", where="summary")
    updates: tuple[Update | ViewUpdate, ...]
    try:
        requirements_of(intent)
        updates = view_updates_of(intent) if isinstance(intent, RestViewCommit) else updates_of(intent)
    except InvalidInput as error:
        raise InvalidIntent(error.message, rule="invalid-field", where=error.where, hint=error.hint) from error
    if len(intent.properties) > limits.properties_max:
        raise _too_large(f"{len(intent.properties)} properties, the limit is {limits.properties_max}", where="updates")
    for at, update in enumerate(updates):
        if isinstance(update, AddSnapshot):
            _check_summary(update.snapshot.summary or {}, limits, where=f"updates[{at}].snapshot.summary")


def _check_summary(summary: dict[str, str], limits: Limits, *, where: str) -> None:
    """Refuse a summary that is larger than those of engines, which name a partition in each entry, ever are."""
    size = sum(len(key) + len(value) for key, value in summary.items())
    entries_max, bytes_max = 10 * limits.summary_entries_max, 10 * limits.summary_bytes_max
    if len(summary) > entries_max or size > bytes_max:
        raise InvalidIntent(
            f"at most {entries_max} entries and {bytes_max} characters", rule="summary-too-large", where=where
        )


def _invalid(message: str, *, where: str) -> InvalidIntent:
    return InvalidIntent(message, rule="invalid-field", where=where)


def _too_large(message: str, *, where: str) -> InvalidIntent:
    return InvalidIntent(message, rule="metadata-too-large", where=where)


def named_snapshots(requirements: Any, updates: Any) -> set[int]:
    """Return the snapshots that a request, which may be anything, was planned on or names."""
    found: list[Any] = [one.get("snapshot-id") for one in _objects(requirements)]
    for one in _objects(updates):
        found.append(one.get("snapshot-id") if one.get("action") == "set-snapshot-ref" else None)
        found += [inner.get(name) for member, name in _NAMING_SNAPSHOTS if isinstance(inner := one.get(member), dict)]
    return {one for one in found if isinstance(one, int)}


def named_refs(requirements: Any, updates: Any) -> set[str]:
    """Return the branches and tags that a request, which may be anything, names."""
    found = [one.get("ref") for one in _objects(requirements)] + [one.get("ref-name") for one in _objects(updates)]
    return {one for one in found if isinstance(one, str)}


_NAMING_SNAPSHOTS: Final = (
    ("snapshot", "parent-snapshot-id"), ("statistics", "snapshot-id"), ("partition-statistics", "snapshot-id"),
)  # fmt: skip


def _objects(listed: Any) -> list[dict[str, Any]]:
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list | tuple) else []
