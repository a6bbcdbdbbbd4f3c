"""What the disk says about the places and files of a batch, looked up before they are relied on.

Replay is given the answers (`Placement.real`, `Placement.unusable`) and looks at nothing itself. Blocking: call these
in a worker thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.replay.attempt import Placement
from firn.coordinator.replay.places import PLACES
from firn.coordinator.replay.tables import default_location, locations_of
from firn.model.errors import InvalidInput
from firn.model.intent import Intent
from firn.model.metadata import TableMetadata
from firn.model.view import ViewMetadata
from firn.storage.local_paths import LocalPaths
from firn.storage.locations import canonical, is_within, overlap

FOLDERS: Final = ("metadata", "data")
"""Folders below a table's location that are written to."""


def with_places(placement: Placement, operations: Sequence[Intent]) -> Placement:
    """Return `placement` with what the disk says of every place that the operations choose or register."""
    paths, real, unusable = LocalPaths(), dict[str, str](), dict[str, str]()
    taken = (place for places in placement.taken.values() for place in places)
    chosen = list(_chosen(operations, placement))
    for location in (*placement.allowed, *taken, *chosen, *_named(operations, placement)):
        name = canonical(location)
        found = paths.real(name)
        if found != name:
            real[name] = found
    for location in chosen:
        trouble = paths.folder_trouble(location) or _trouble_below(paths, location)
        if trouble is not None:
            unusable[canonical(location)] = trouble
    return msgspec.structs.replace(placement, real=real, unusable={**placement.unusable, **unusable})


def _trouble_below(paths: LocalPaths, location: str) -> str | None:
    """Why firn and writers cannot use their folders below a place; a link there leads to somebody else's."""
    for folder in FOLDERS:
        below, expected = f"{canonical(location)}/{folder}", f"{paths.real(location)}/{folder}"
        if paths.real(below) != expected:
            return f"has a folder {folder!r} that is a symbolic link to {paths.real(below)}"
        trouble = paths.folder_trouble(below)
        if trouble is not None:
            return f"has a folder {folder!r} that {trouble}"
    return None


def _chosen(operations: Iterable[Intent], placement: Placement) -> Iterator[str]:
    """The folders that operations would make a table's own."""
    for operation in operations:
        own = getattr(operation, "location", None) or default_location(operation.table, warehouse=placement.warehouse)
        yield from (own, f"{own}-{operation.intent_id}")
        for members in (getattr(operation, "properties", None), getattr(operation, "updates", None)):
            yield from _places_in(members if isinstance(members, Mapping) else {})
    for found in placement.registered.values():
        if isinstance(found, TableMetadata | ViewMetadata):
            yield found.location
            yield from _places_in(found.properties)


def _named(operations: Iterable[Intent], placement: Placement) -> Iterator[str]:
    """The files that come with what is registered."""
    named = (getattr(operation, "metadata_location", None) for operation in operations)
    yield from (location for location in named if location is not None)
    for found in placement.registered.values():
        if isinstance(found, TableMetadata):
            yield from (path for path, _ in locations_of(found))


def _places_in(properties: Mapping[str, str]) -> Iterator[str]:
    yield from (properties[name] for name in PLACES if properties.get(name))


def foreign_places(
    table: str, places: Iterable[str], *, allowed: Sequence[str], taken: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Return those of a table's `places` where it may put no files, each with the reason.

    Such places come from properties that were set before they were checked.
    """
    paths, found = LocalPaths(), dict[str, str]()
    others = [(other, place, paths.real(place)) for other, held in taken.items() if other != table for place in held]
    roots = [(root, paths.real(root)) for root in allowed]
    for place in places:
        name, real = canonical(place), paths.real(place)
        try:
            if not any(is_within(name, root) and is_within(real, real_root) for root, real_root in roots):
                found[name] = f"is, or leads, outside of {', '.join(allowed)}"
                continue
            for other, lexical, held in others:
                if overlap(name, lexical) or overlap(real, held):
                    found[name] = f"overlaps with {lexical} of table {other!r}"
                    break
        except InvalidInput as error:
            found[name] = str(error)
    return found


def unusable_files(files: Iterable[str], *, places: Sequence[str]) -> dict[str, str]:
    """Return those of the files below `places` that can be no files of a table, by canonical name, with the reason."""
    paths, found = LocalPaths(), dict[str, str]()
    for file in files:
        name = canonical(file)
        root = next((place for place in places if name.startswith(f"{canonical(place)}/")), None)
        trouble = None if root is None else paths.file_trouble(name, root=root)
        if trouble is not None:
            found[name] = trouble
    return found
