"""Where files may be that REST clients name: data files and statistics anywhere, as ``add_files`` takes over others'.

A file outside of the table's own places is listed as it is named, and never opened, moved or removed: maintenance
removes files from own places only. Manifests and manifest lists are read, and must be in own places.
"""

from __future__ import annotations

from firn.coordinator.replay import rules
from firn.coordinator.replay.files_rules import places_of, require_allowed
from firn.coordinator.replay.working import Working
from firn.model.errors import InvalidInput
from firn.storage.locations import folder_of, normalize


def is_in_own_place(working: Working, location: str) -> bool:
    """Whether a file is in a place of the table, which is its own."""
    assert working.metadata is not None
    try:
        normal = normalize(location)
        return any(normal.startswith(folder_of(root)) for root in (working.metadata.location, *places_of(working)))
    except InvalidInput:
        return False


def require_location(location: str, *, where: str) -> None:
    """Refuse what is no location of a file. A relative name is one: firn lists it, and opens none."""
    try:
        if location.startswith("/") or ":" in location:
            normalize(location)
        elif normalize(f"/{location}") != f"/{location}":
            raise InvalidInput("is no plain relative name")
    except InvalidInput as error:
        rules.LOCATION_NOT_ALLOWED.refuse(f"{where}: {location[:300]!r} {error.message}", files=(location,))


def require_listable(working: Working, location: str, *, where: str) -> None:
    """Refuse a data or delete file of the table's own places that is no file, and what is no location at all."""
    if is_in_own_place(working, location):
        require_allowed(working, location, where=where)
    else:
        require_location(location, where=where)
