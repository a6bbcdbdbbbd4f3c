"""A head that is known already, as what another one is made from: so a foreign commit costs what it changed.

Which of the known heads it is decides about the cost only. What a manifest holds never changes, and the index of a
known head is right about each file that it has: the file is live in the manifest that it names. So a manifest need not
be read where the index has as many files of it as it has live ones, since these are then all of them. No two such
manifests have a file in common. All others are read; of several that have a file the last of the list counts, as where
everything is read. What belongs to manifests that are not listed is dropped at the end.

Delete files are kept as they were read where a list names their manifest in the same way and with the same numbers,
which their entries inherit; a known head's index must have all of them, for the same reason.

A manifest stands under its name and under what its row says of its content: a list that says something else of it than
the known one is a reason to read it, and find the damage. What entries of data manifests inherit may differ: no
location depends on it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from firn.coordinator.replay.draft import ManifestRef, location_of
from firn.coordinator.replay.file_index import FileIndex
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.known_deletes import KnownDeletes
from firn.model.manifest import ManifestFile
from firn.model.manifest_summary import ManifestCounts

FILES_COPIED_AS_ONE_IS_READ: Final = 100
"""So many files of an index are copied and looked at in the time in which one is found in a manifest, at the least."""

_counts: Final = attrgetter(
    "added_files_count", "existing_files_count", "deleted_files_count",
    "added_rows_count", "existing_rows_count", "deleted_rows_count",
)  # fmt: skip
_content: Final = attrgetter("manifest_length", "partition_spec_id", "content")


class HeadBasis(msgspec.Struct, frozen=True, eq=False):
    """An index to start from, which others may stand on, and the manifests that are to be read, in list order."""

    index: FileIndex
    unread: Sequence[ManifestFile]

    @property
    def cost(self) -> float:
        """In files that are read."""
        files = sum(manifest.live_files_count or 0 for manifest in self.unread)
        return files + len(self.index) / FILES_COPIED_AS_ONE_IS_READ


def head_basis(wanted: Sequence[ManifestFile], known: Sequence[Head]) -> HeadBasis:
    """What costs least to make the live files of the `wanted` data manifests from: a known head, or nothing."""
    bases = [HeadBasis(FileIndex(), wanted), *(_basis(wanted, head) for head in known)]
    return min(bases, key=attrgetter("cost"))


def _basis(wanted: Sequence[ManifestFile], head: Head) -> HeadBasis:
    index = head.live.index
    rows = {location_of(one): one for one in head.manifests}

    def is_known(manifest: ManifestFile) -> bool:
        row = rows.get(manifest.manifest_path)
        return _says_the_same(row, manifest) and index.count_of(manifest.manifest_path) == manifest.live_files_count

    return HeadBasis(index, [manifest for manifest in wanted if not is_known(manifest)])


def known_deletes(listed: Sequence[ManifestFile], known: Sequence[Head]) -> KnownDeletes | None:
    """What the known head with most of the delete files that are `listed` says of them."""
    wanted = [manifest for manifest in listed if manifest.content == "deletes" and manifest.may_have_live_files]
    if not wanted:
        return None
    shared = (_shared_deletes(wanted, source) for source in map(_deletes_of, known) if source is not None)
    return max((one for one in shared if one.manifests), key=attrgetter("files"), default=None)


def _deletes_of(head: Head) -> KnownDeletes | None:
    if head.deletes is None:
        return head.known_deletes
    rows = (one for one in head.manifests if isinstance(one, ManifestFile) and one.content == "deletes")
    return KnownDeletes(head.deletes, {row.manifest_path: row for row in rows})


def _shared_deletes(wanted: Sequence[ManifestFile], source: KnownDeletes) -> KnownDeletes:
    def is_known(manifest: ManifestFile) -> bool:
        row = source.manifests.get(manifest.manifest_path)
        return row is not None and _says_the_same(row, manifest) and row.passes_on == manifest.passes_on

    return KnownDeletes(source.index, {one.manifest_path: one for one in wanted if is_known(one)})


def _says_the_same(row: ManifestRef | None, manifest: ManifestFile) -> bool:
    """Whether a manifest is listed with the same content."""
    return isinstance(row, ManifestFile) and _content(row) == _content(manifest) and _counts(row) == _counts(manifest)


def known_counts(locations: Container[str], known: Sequence[Head]) -> dict[str, ManifestCounts]:
    """Files and rows by status of some manifests, as far as they are counted in known heads."""
    rows = (row for head in known for row in head.manifests if isinstance(row, ManifestFile))
    counted = ((row.manifest_path, _counts(row)) for row in rows if row.manifest_path in locations)
    return {
        path: ManifestCounts(**dict(zip(ManifestCounts.__struct_fields__, counts, strict=True)))
        for path, counts in counted
        if None not in counts
    }
