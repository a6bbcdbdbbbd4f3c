"""Entries of a branch head's live data files: some by name, or those that a filter leaves to look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from firn.coordinator.replay.draft import ManifestRef, location_of
from firn.coordinator.replay.working import Working
from firn.model.manifest import ManifestEntry


def entries_of(working: Working, branch: str, locations: Collection[str]) -> list[ManifestEntry]:
    """The entries of these data files, as far as they are live; each of their manifests is read once."""
    wanted = set(locations)
    live = working.head(branch).live
    manifests = {live.manifest_of(location) for location in wanted}
    return [
        entry
        for reference in working.head(branch).manifests
        if location_of(reference) in manifests
        for entry in working.entries(reference)
        if entry.is_live and entry.data_file.file_path in wanted
    ]


def live_entries(working: Working, branch: str, *, opens: Callable[[ManifestRef], bool]) -> Iterator[ManifestEntry]:
    """The live data files in manifests that `opens` says may have any that matter."""
    for reference in working.head(branch).manifests:
        if reference.content == "data" and opens(reference):
            yield from (entry for entry in working.entries(reference) if entry.is_live)
