"""Entries of a branch head's live data files: some by name, or those that a filter leaves to look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from firn.coordinator.replay.draft import ManifestRef, location_of
from firn.coordinator.replay.splicing import named
from firn.coordinator.replay.working import Working
from firn.model.manifest import ManifestEntry


def entries_of(working: Working, branch: str, locations: Collection[str]) -> list[ManifestEntry]:
    """The entries of these data files, as far as they are live; each of their manifests is read once.

    Their status says nothing: it may be that of another manifest which lists them later.
    """
    wanted = manifests_of(working, branch, locations)
    return [
        entry
        for reference in working.head(branch).manifests
        if (paths := wanted.get(location_of(reference))) is not None
        for entry in _named(working, reference, paths)
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
    doubles = head.doubles and head.doubles.intersection(locations)
    for reference in head.manifests if doubles else ():
        if reference.content == "data":
            listed = (entry.data_file.file_path for entry in working.entries(reference) if entry.is_live)
            found = doubles.intersection(listed)
            if found:
                wanted.setdefault(location_of(reference), set()).update(found)
    return wanted


def _named(working: Working, reference: ManifestRef, paths: Collection[str]) -> list[ManifestEntry]:
    found = named(working, reference, paths)
    if found is not None:
        return found
    return [entry for entry in working.entries(reference) if entry.is_live and entry.data_file.file_path in paths]


def live_entries(working: Working, branch: str, *, opens: Callable[[ManifestRef], bool]) -> Iterator[ManifestEntry]:
    """The live data files in manifests that `opens` says may have any that matter."""
    for reference in working.head(branch).manifests:
        if reference.content == "data" and opens(reference):
            yield from (entry for entry in working.entries(reference) if entry.is_live)
