"""The folders in which maintenance may remove a table's files: those that are wholly the table's own.

Locations come from metadata, which other writers make: a table that was registered, or was given a place before places
were checked, may name the folder of another table, the warehouse, or a folder that is no table's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from firn.model.errors import InvalidInput, Unavailable
from firn.pipeline.upkeep import TableNow, Upkeep
from firn.pipeline.work_under_way import shared_settings
from firn.storage.local_paths import LocalPaths
from firn.storage.locations import is_within, normalize, overlap

NO_DAEMON: Final = (
    "no daemon has announced in Redis where tables may be, so that nothing tells which folders are a table's own: "
    "start a daemon, and repeat"
)


class OwnFolders(msgspec.Struct, frozen=True, kw_only=True):
    """`own` folders of a table, normalised, none inside another, and those that are not its own, with the reasons."""

    own: tuple[str, ...]
    others: Mapping[str, str]

    def require(self, table: str) -> tuple[str, ...]:
        """Return the folders; raises InvalidInput, naming folder and reason, where one is not the table's own."""
        for folder, reason in self.others.items():
            raise InvalidInput(
                f"{folder} {reason}: files are removed only from folders that are wholly the table's own",
                where=table,
                hint="drop the table and register it in a folder of its own, with properties that name no other",
            )
        return self.own


def own_folders(upkeep: Upkeep, now: TableNow) -> OwnFolders:
    """Sort the folders that a table names. Raises Unavailable also where no daemon has announced the allowed places."""
    allowed = upkeep.with_streams(shared_settings).allowed
    if not allowed:
        raise Unavailable(NO_DAEMON)
    own = now.pointer
    pointers = [one for one in upkeep.tables() if one.table != own.table and one.uuid != own.uuid]
    taken = {one.table: (one.location, *one.also_at) for one in pointers}
    others = troubles_of(now.all_places, allowed=allowed, taken=taken)
    mine = [place for place in now.all_places if place not in others]
    return OwnFolders(own=tuple(outermost(mine)), others=others)


def troubles_of(
    places: Sequence[str], *, allowed: Sequence[str], taken: Mapping[str, Sequence[str]]
) -> Mapping[str, str]:
    """Return the folders that are not wholly the own of a table, with the reasons; `taken` are others' by name."""
    sort = _Sort(allowed, taken)
    return {place: reason for place in places if (reason := sort.trouble(place)) is not None}


def outermost(places: Sequence[str]) -> Iterator[str]:
    """Yield the places that are inside no other."""
    return (one for one in places if not any(one.startswith(f"{other}/") for other in places))


class _Sort:
    """What is known of places: where tables may be, and where others are."""

    def __init__(self, allowed: Sequence[str], taken: Mapping[str, Sequence[str]]) -> None:
        self._paths = LocalPaths()
        self._allowed = [normalize(place) for place in allowed]
        self._taken = [(table, place, self._paths.real(place)) for table, places in taken.items() for place in places]

    def trouble(self, place: str) -> str | None:
        """Return why a place is not wholly a table's own; None if it is."""
        held = next((root for root in self._allowed if root == place or is_within(root, place)), None)
        if held is not None:
            return f"holds {held}, a place of many tables"
        root = next((root for root in self._allowed if is_within(place, root)), None)
        if root is None:
            return f"is outside of {', '.join(self._allowed)}, where tables may be"
        real = self._paths.real(place)
        if real != self._paths.real(root).rstrip("/") + place[len(root.rstrip("/")) :]:
            return f"is reached through a symbolic link: it is {real}"
        for table, other, real_other in self._taken:
            if _overlap(place, other) or _overlap(real, real_other):
                return f"overlaps with {other} of table {table!r}"
        return None


def _overlap(place: str, other: str) -> bool:
    try:
        return overlap(place, other)
    except InvalidInput:  # another writer's location that no file can have
        return False
