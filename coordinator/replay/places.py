"""Where a table may be and may put files: inside the places that are allowed, and in no other table's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from firn.coordinator.replay import rules
from firn.coordinator.replay.working import Working
from firn.model.errors import InvalidInput
from firn.model.intent import Append, CreateOrReplaceTable, CreateTable, Intent, RegisterTable
from firn.model.metadata import TableMetadata
from firn.model.operations.rest import RestRequest
from firn.model.operations.tables import RenameTable
from firn.model.operations.upkeep import SetLocation, UpdateProperties
from firn.model.operations.views import CreateView, RegisterView, RenameView, ReplaceView, UpdateViewProperties
from firn.model.view import ViewMetadata
from firn.storage.locations import (
    FILE_SCHEME,
    MARK_NAME,
    TEMPORARY_PREFIX,
    canonical,
    is_within,
    normalize,
    overlap,
    scheme_of,
)

PLACES: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties by which engines put a table's files elsewhere than below its location."""

LOCAL_BYTES_MAX: Final = 3_500
OBJECT_BYTES_MAX: Final = 768
"""Length of a place of a table: what is left of a path's 4 KiB, or an object key's 1 KiB, is for names of files."""

SEGMENT_BYTES_MAX: Final = 255
"""NAME_MAX of local file systems."""


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
    if isinstance(intent, RestRequest):
        return intent.creates or intent.location is not None or not intent.properties.keys().isdisjoint(PLACES)
    return may_make(intent) or isinstance(intent, SetLocation | RenameTable | RenameView)


def may_make(intent: Intent) -> bool:
    """Whether the intent may turn a free name into a table or view."""
    if isinstance(intent, RestRequest):
        return intent.creates
    return isinstance(intent, CreateTable | CreateOrReplaceTable | RegisterTable | CreateView | RegisterView)


def require_inside(working: Working, location: str, *, where: str) -> str:
    """Return the location in its one spelling; refuse one that is in no place that tables may be in.

    Symbolic links are followed: both the location and what it leads to must be inside.
    """
    placement = working.placement
    try:
        normal = normalize(location)
        inside = any(is_within(normal, root) for root in placement.allowed)
        real = placement.real.get(normal, normal)
        really = any(is_within(real, placement.real.get(canonical(root), root)) for root in placement.allowed)
    except InvalidInput as error:
        rules.LOCATION_NOT_ALLOWED.refuse(f"{where}: {error}")
    if not inside or not really:
        behind = "" if real == normal else f", a symbolic link to {real!r}," if inside else ""
        rules.LOCATION_NOT_ALLOWED.refuse(
            f"{where}: {location[:300]!r}{behind} is in none of {', '.join(placement.allowed)}: "
            f"the daemon's settings name places for tables by warehouse.location and warehouse.allowed"
        )
    return normal


def require_own(working: Working, location: str, *, where: str) -> str:
    """Return the location in its one spelling; refuse one that cannot be a place of the table's own.

    Prevents: one table's cleanup deletes another's files; a table whose files cannot be written; one file of a table
    under two names, through a symbolic link.
    """
    normal, placement = require_inside(working, location, where=where), working.placement
    _require_folder(working, normal, where=where)
    real = placement.real.get(normal, normal)
    for other, places in placement.taken.items():
        for taken in places:
            if overlap(real, placement.real.get(canonical(taken), taken)) or overlap(normal, taken):
                if other != working.table:
                    rules.LOCATION_TAKEN.refuse(f"{where}: {location!r} overlaps with {taken!r} of table {other!r}")
                if not overlap(normal, taken):
                    _refuse_alias(location, taken, where=where)
    return normal


def _refuse_alias(location: str, own: str, *, where: str) -> NoReturn:
    rules.LOCATION_TAKEN.refuse(
        f"{where}: {location!r} is, by a symbolic link, also {own!r} of the same table: use one name"
    )


def _require_folder(working: Working, normal: str, *, where: str) -> None:
    """Refuse a name that is firn's own, and one below which files cannot be made."""
    reason = working.placement.unusable.get(normal)
    root = next(root for root in map(normalize, working.placement.allowed) if is_within(normal, root))
    segments = normal[len(root) :].split("/")
    reserved = next((one for one in segments if one == MARK_NAME or one.startswith(TEMPORARY_PREFIX)), None)
    if reserved is not None:
        reason = f"holds {reserved!r}, a name that firn keeps for its own files"
    is_local = scheme_of(normal) == FILE_SCHEME
    size, size_max = len(normal.encode()), LOCAL_BYTES_MAX if is_local else OBJECT_BYTES_MAX
    if size > size_max:
        reason = f"is {size} bytes long; {size_max} are allowed, to leave room for the names of files below it"
    longest = max(len(one.encode()) for one in segments)
    if is_local and longest > SEGMENT_BYTES_MAX:
        reason = f"holds a name of {longest} bytes; a folder's name may have {SEGMENT_BYTES_MAX}"
    if reason is not None:
        rules.LOCATION_NOT_ALLOWED.refuse(f"{where}: {normal[:300]!r} {reason}: give another location")


def require_own_places(working: Working, properties: Mapping[str, str], *, location: str) -> None:
    """Refuse properties that put files where tables may not be, or into another table's place.

    `location` is that of the table whose properties they are. Prevents also: one file of a table under two names.
    """
    real, known = working.placement.real, [canonical(location)]
    for name in PLACES:
        if not properties.get(name):
            continue
        where = f"properties.{name}"
        place = require_own(working, properties[name], where=where)
        for own in known:
            if not overlap(place, own) and overlap(real.get(place, place), real.get(own, own)):
                _refuse_alias(place, own, where=where)
        known.append(place)


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
