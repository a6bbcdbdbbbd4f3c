"""Merging small manifests, so that lists and scans stay short (``commit.manifest-merge.enabled``).

No commit merges anything itself. `wanted_merges` selects the manifests to merge once a commit is done, its lane has
them merged, and a later replay is given the finished merges and lists them in place of their parts (`take_over`). A
merge changes nothing for a reader but the number of files it opens, so no commit depends on one.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

import msgspec

from firn.coordinator.replay.draft import DraftManifest, ManifestRef, location_of
from firn.coordinator.replay.working import Working
from firn.model.json_members import LONG_MAX
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.table_properties import MANIFEST_MERGE_ENABLED, MANIFEST_MIN_MERGE_COUNT, MANIFEST_TARGET_SIZE_BYTES
from firn.storage.manifest_merge import merge_plan

UNMERGED_FACTOR: Final = 5
"""With this many times ``commit.manifest.min-count-to-merge`` manifests a batch waits for a merge first."""


def take_over(
    working: Working, manifests: Sequence[ManifestRef], *, snapshot_id: int, row_ids_from: int
) -> tuple[Sequence[ManifestRef], dict[str, str]]:
    """Return the manifests with finished merges in place of their parts, and the new location of each part.

    A merge is taken over only where all of its parts are listed as they were when they were merged, and by the first
    snapshot of a swap only: the next ones go on from its list. In v3 a merged manifest takes row ids, from
    `row_ids_from` on, for all of its rows: where there are too few left, nothing is merged.
    """
    metadata = working.metadata
    assert metadata is not None
    finished = working.finished_merges
    if not finished or not MANIFEST_MERGE_ENABLED.of(metadata.properties):
        return manifests, {}
    merged_rows = sum(merge.row.live_rows_count or 0 for merge in finished if merge.row.content == "data")
    if metadata.format_version > 2 and row_ids_from + merged_rows > LONG_MAX:
        return manifests, {}
    if any(isinstance(m, DraftManifest) and m.snapshot_id != snapshot_id for m in manifests):
        return manifests, {}
    stored = {m.manifest_path: m for m in manifests if isinstance(m, ManifestFile)}
    places: dict[str, ManifestFile | None] = {}
    names: dict[str, str] = {}
    for merge in finished:
        paths = merge.locations
        if merge.format_version != metadata.format_version or not merge.is_of(stored) or paths[0] in places:
            continue
        places |= dict.fromkeys(paths, None)
        places[paths[0]] = msgspec.structs.replace(
            merge.row, added_snapshot_id=snapshot_id, sequence_number=working.next_sequence_number
        )
        names |= dict.fromkeys(paths, merge.row.manifest_path)
        working.taken_over.append(merge)
    if not places:
        return manifests, {}
    kept: list[ManifestRef] = []
    for reference in manifests:
        location = location_of(reference)
        if location not in places:
            kept.append(reference)
        elif (merged := places[location]) is not None:
            kept.append(merged)
    return tuple(kept), names


def wanted_merges(
    metadata: TableMetadata, manifests: Sequence[ManifestFile], *, excluded: Container[str], bytes_max: int
) -> list[tuple[ManifestFile, ...]]:
    """Return the groups of stored manifests to merge, each into one of at most about `bytes_max` bytes.

    `excluded` are the locations of manifests that are being merged, or cannot be.
    """
    if not is_long(metadata, manifests):
        return []
    min_count = _min_count(metadata)
    free = [m for m in manifests if m.may_have_live_files and m.manifest_path not in excluded]
    if len(free) < min_count:
        return []
    target_bytes = min(MANIFEST_TARGET_SIZE_BYTES.sane(metadata.properties), bytes_max)
    plan = merge_plan(free, target_bytes=target_bytes, min_count=min_count)
    return [packed.manifests for packed in plan if packed.merge]


def is_long(metadata: TableMetadata, manifests: Sequence[ManifestRef]) -> bool:
    """Whether a list has so many manifests that some may be merged."""
    return len(manifests) >= _min_count(metadata) and MANIFEST_MERGE_ENABLED.of(metadata.properties)


def is_overlong(metadata: TableMetadata, manifests: Sequence[ManifestRef]) -> bool:
    """Whether a list has so many manifests that the next batch has to wait for a merge."""
    return len(manifests) >= waits_for_merges_from(metadata) and MANIFEST_MERGE_ENABLED.of(metadata.properties)


def waits_for_merges_from(metadata: TableMetadata) -> int:
    """Return the number of manifests from which on a batch may have to wait for a merge."""
    return UNMERGED_FACTOR * max(_min_count(metadata), 2)


def _min_count(metadata: TableMetadata) -> int:
    """Return ``commit.manifest.min-count-to-merge``, or its default where another writer stored an unusable value."""
    return MANIFEST_MIN_MERGE_COUNT.sane(metadata.properties)
