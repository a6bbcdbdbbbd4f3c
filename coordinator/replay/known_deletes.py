"""What is known of a head's delete files before they are asked for: those in manifests that another head has, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from firn.coordinator.replay.draft import ManifestRef, location_of
from firn.coordinator.replay.live_deletes import LiveDelete, LiveDeletes
from firn.model.manifest import ManifestEntry, ManifestFile


class KnownDeletes(msgspec.Struct, frozen=True, eq=False):
    """Another head's delete files, and the manifests of which both heads' lists say the same, by location.

    The other head may go on meanwhile, and its index with it. What that says of a delete file is true all the same: it
    is live in the manifest that it names, which never changes.
    """

    index: LiveDeletes
    manifests: Mapping[str, ManifestFile]

    @property
    def files(self) -> int:
        """Live delete files of the manifests."""
        return sum(manifest.live_files_count or 0 for manifest in self.manifests.values())

    def by_manifest(self) -> dict[str, list[LiveDelete]]:
        """All live delete files of each manifest; those of which some may be missing are left out.

        A file that several manifests have is known of one of them: so the others are among those left out, and no two
        of these have a file in common.
        """
        found: dict[str, list[LiveDelete]] = {location: [] for location in self.manifests}
        for delete in self.index:
            if delete.manifest in found:
                found[delete.manifest].append(delete)
        return {
            location: deletes
            for location, deletes in found.items()
            if len(deletes) == self.manifests[location].live_files_count
        }


def find_deletes(
    manifests: Sequence[ManifestRef],
    entries: Callable[[ManifestRef], Sequence[ManifestEntry]],
    *,
    known: KnownDeletes | None,
) -> LiveDeletes:
    """The live delete files of a head's manifests, in list order: `entries` are asked for of those not known whole."""
    kept = {} if known is None else known.by_manifest()

    def found() -> Iterator[LiveDelete]:
        for manifest in manifests:
            location = location_of(manifest)
            if location in kept:
                yield from kept[location]
            elif manifest.content == "deletes":
                yield from (LiveDelete(entry, location) for entry in entries(manifest) if entry.is_live)

    return LiveDeletes.of(found())
