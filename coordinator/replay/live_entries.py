"""Entries of a branch head's live data files: some by name, or those that a filter leaves to look at.

Files may be named in any spelling (`firn.storage.locations.canonical`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from firn.coordinator.replay.draft import ManifestRef, location_of
from firn.coordinator.replay.files_rules import require_named_once
from firn.coordinator.replay.splicing import named
from firn.coordinator.replay.working import Working
from firn.model.manifest import ManifestEntry
from firn.storage.locations import canonical


def entries_of(working: Working, branch: str, locations: Collection[str]) -> list[ManifestEntry]:
    """The entries of these data files, as far as they are live; each of their manifests is read once.

    Their status says nothing: it may be that of another manifest which lists them later.
    """
    wanted, head = manifests_of(working, branch, locations), working.head(branch)
    return [
        entry
        for reference in head.manifests
        if (paths := wanted.get(location_of(reference))) is not None
        for entry in _named(working, reference, paths, head.doubles)
    ]


def manifests_of(working: Working, branch: str, locations: Collection[str]) -> dict[str, set[str]]:
    """Locations of the manifests that have these data files, each with those that it has; not live ones are left out.

    One that another writer has listed several times is in as many manifests. Prevents: a file that was removed, and
    whose rows are there all the same. Cost: all data manifests where one is such.
    """
    head = working.head(branch)
    wanted: dict[str, set[str]] = {}
    for location in locations:
        manifest = head.live.manifest_of(location)
        if manifest is not None:
            wanted.setdefault(manifest, set()).add(location)
    doubles = head.doubles and head.doubles.intersection(map(canonical, locations))
    for reference in head.manifests if doubles else ():
        if reference.content == "data":
            listed = [entry.data_file.file_path for entry in working.entries(reference) if entry.is_live]
            found = {path for path in listed if canonical(path) in doubles}
            if found:
                wanted.setdefault(location_of(reference), set()).update(found)
    return wanted


def as_stored(working: Working, branch: str, locations: Sequence[str], *, where: str) -> tuple[str, ...]:
    """Return the same data files in the spelling of their manifests; those that are not live stay as they are.

    Refuses a file that is named twice, in two spellings. Reads manifests only where spellings may differ.
    """
    names = [canonical(location) for location in locations]
    if not working.head(branch).live.has_aliases and names == list(locations):
        return tuple(locations)
    require_named_once(locations, where=where)
    paths = (entry.data_file.file_path for entry in entries_of(working, branch, locations))
    stored = {canonical(path): path for path in paths}
    return tuple(stored.get(name, location) for name, location in zip(names, locations, strict=True))


def _named(
    working: Working, reference: ManifestRef, paths: Collection[str], doubles: frozenset[str]
) -> list[ManifestEntry]:
    names = set(map(canonical, paths))
    # A file that is listed twice may be so in two spellings, of which the stored bytes would show one.
    found = named(working, reference, paths) if names.isdisjoint(doubles) else None
    if found is not None:
        return found
    return [
        entry for entry in working.entries(reference) if entry.is_live and canonical(entry.data_file.file_path) in names
    ]


def live_entries(working: Working, branch: str, *, opens: Callable[[ManifestRef], bool]) -> Iterator[ManifestEntry]:
    """The live data files in manifests that `opens` says may have any that matter."""
    for reference in working.head(branch).manifests:
        if reference.content == "data" and opens(reference):
            yield from (entry for entry in working.entries(reference) if entry.is_live)
