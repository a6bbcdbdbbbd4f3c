"""Where a table may be and may put files: inside the places that are allowed, and in no other table's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from firn.coordinator.replay import rules
from firn.coordinator.replay.working import Working
from firn.model.errors import InvalidInput
from firn.model.intent import Append, CreateOrReplaceTable, CreateTable, Intent, RegisterTable
from firn.model.metadata import TableMetadata
from firn.model.operations.tables import RenameTable
from firn.model.operations.upkeep import SetLocation, UpdateProperties
from firn.model.operations.views import CreateView, RegisterView, RenameView, ReplaceView, UpdateViewProperties
from firn.model.view import ViewMetadata
from firn.storage.locations import is_within, normalize, overlap

PLACES: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties by which engines put a table's files elsewhere than below its location."""


def chooses_places(intent: Intent) -> bool:
    """Whether the intent says where a table's files are: then all tables' places must hold still until it is decided.

    Such an intent is a batch of its own, under the lock over all locations. A rename is one: places go by names.
    """
    if isinstance(intent, Append):  # nearly always, and asked of each
        return False
    if isinstance(intent, UpdateProperties | UpdateViewProperties):
        return not intent.updates.keys().isdisjoint(PLACES)
    if isinstance(intent, ReplaceView):
        return intent.location is not None or not intent.properties.keys().isdisjoint(PLACES)
    return may_make(intent) or isinstance(intent, SetLocation | RenameTable | RenameView)


def may_make(intent: Intent) -> bool:
    """Whether the intent may turn a free name into a table or view."""
    return isinstance(intent, CreateTable | CreateOrReplaceTable | RegisterTable | CreateView | RegisterView)


def require_inside(working: Working, location: str, *, where: str) -> str:
    """The location in its one spelling; refuses one that is in no place that tables may be in."""
    allowed = working.placement.allowed
    try:
        normal = normalize(location)
        inside = any(is_within(normal, root) for root in allowed)
    except InvalidInput as error:
        rules.LOCATION_NOT_ALLOWED.refuse(f"{where}: {error}")
    if not inside:
        rules.LOCATION_NOT_ALLOWED.refuse(
            f"{where}: {location[:300]!r} is in none of {', '.join(allowed)}: "
            f"the daemon's settings name places for tables by warehouse.location and warehouse.allowed"
        )
    return normal


def require_own(working: Working, location: str, *, where: str) -> str:
    """As `require_inside`; refuses what is another table's, too. Prevents: one's cleanup deletes the other's files."""
    normal = require_inside(working, location, where=where)
    for other, places in working.placement.taken.items():
        for taken in places if other != working.table else ():
            if overlap(normal, taken):
                rules.LOCATION_TAKEN.refuse(f"{where}: {location!r} overlaps with {taken!r} of table {other!r}")
    return normal


def require_own_places(working: Working, properties: Mapping[str, str]) -> None:
    """Refuse properties that put files where tables may not be, or into another table's place."""
    for name in PLACES:
        if properties.get(name):
            require_own(working, properties[name], where=f"properties.{name}")


def places_beside(metadata: TableMetadata | ViewMetadata) -> tuple[str, ...]:
    """Places that the properties of a table or view name and that are not below its location."""
    found: dict[str, None] = {}
    for name in PLACES:
        value = metadata.properties.get(name)
        try:
            if value and not is_within(value, metadata.location):
                found[normalize(value)] = None
        except InvalidInput:
            continue  # another engine's mistake; no file can be there
    return tuple(found)
