"""Merging small manifests, so that lists and scans stay short (``commit.manifest-merge.enabled``).

A small merge is made by the commit itself, a larger one beside it: begun by one commit, taken over by a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from firn.coordinator.replay.draft import DraftManifest, ManifestRef, location_of
from firn.coordinator.replay.working import Working
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.table_properties import MANIFEST_MERGE_ENABLED, MANIFEST_MIN_MERGE_COUNT, MANIFEST_TARGET_SIZE_BYTES
from firn.storage.manifest_merge import merge_entries, merge_plan

INLINE_ENTRIES_MAX: Final = 200
INLINE_PARTS_MAX: Final = 20
"""Entries, and manifests with them, of a merge that a commit makes itself: what takes a millisecond or two."""

UNMERGED_FACTOR: Final = 5
"""With so many times ``commit.manifest.min-count-to-merge`` manifests a commit waits for the merge under way."""


class TakenOver(msgspec.Struct, frozen=True):
    """Merges made beside: the locations of their parts, each with that of what took its place."""

    names: dict[str, str]


Merged = DraftManifest | TakenOver


def merge_small(
    working: Working, manifests: Sequence[ManifestRef], *, snapshot_id: int
) -> tuple[Sequence[ManifestRef], tuple[Merged, ...]]:
    """The manifests in list order, small neighbours merged where enough of them have gathered; and the merged ones.

    Only stored manifests are merged: those of this very swap wait for the next. So once a snapshot of a swap has merged
    what there is, those after it do not look. Entries keep their numbers, so nothing changes for a reader but the
    number of files it opens. Cost: small merges, once per ``commit.manifest.min-count-to-merge`` commits; what is
    larger costs another thread.
    """
    metadata = working.metadata
    assert metadata is not None
    min_count = MANIFEST_MIN_MERGE_COUNT.of(metadata.properties)
    if not MANIFEST_MERGE_ENABLED.of(metadata.properties) or len(manifests) < min_count:
        return manifests, ()
    if any(isinstance(m, DraftManifest) and m.snapshot_id != snapshot_id for m in manifests):
        return manifests, ()
    kept, names = _take_over(working, manifests, snapshot_id=snapshot_id)
    merges, taken = working.reader.merges, set(names.values())
    free = [
        m
        for m in kept
        if isinstance(m, ManifestFile)
        and m.may_have_live_files
        and m.manifest_path not in taken  # its files have no row ids to pass on before it is listed
        and not merges.has_under_way(m.manifest_path)
    ]
    replaced: dict[str, DraftManifest | None] = {}
    if len(free) >= min_count:
        target_bytes = MANIFEST_TARGET_SIZE_BYTES.of(metadata.properties)
        for packed in merge_plan(free, target_bytes=target_bytes, min_count=min_count):
            if not packed.merge:
                continue
            if _is_small(working, packed.manifests):
                replaced |= dict.fromkeys((m.manifest_path for m in packed.manifests), None)
                replaced[packed.manifests[0].manifest_path] = _merge(working, packed.manifests, snapshot_id=snapshot_id)
            else:
                merges.begin(packed.manifests, metadata, location=working.new_manifest_location())
    if len(kept) - len(replaced) > waits_for_merges_from(metadata) and _wait(working, kept):
        kept, more = _take_over(working, kept, snapshot_id=snapshot_id)
        names |= more
    drafts = tuple(draft for draft in replaced.values() if draft is not None)
    return _without(kept, replaced), (*drafts, *((TakenOver(names),) if names else ()))


def _take_over(
    working: Working, manifests: Sequence[ManifestRef], *, snapshot_id: int
) -> tuple[Sequence[ManifestRef], dict[str, str]]:
    """The manifests with finished merges in the place of their parts, as far as all of these are there as they were."""
    assert working.metadata is not None
    merges = working.reader.merges
    stored = {m.manifest_path: m for m in manifests if isinstance(m, ManifestFile)}
    found = {id(merge): merge for path in stored if (merge := merges.find(path)) is not None}
    places: dict[str, ManifestFile | None] = {}
    names: dict[str, str] = {}
    for merge in found.values():
        row, paths = merge.row, merge.locations
        if row is None or merge.format_version != working.metadata.format_version or not merge.is_of(stored):
            continue
        places |= dict.fromkeys(paths, None)
        places[paths[0]] = msgspec.structs.replace(
            row, added_snapshot_id=snapshot_id, sequence_number=working.next_sequence_number
        )
        names |= dict.fromkeys(paths, row.manifest_path)
        merges.took_over(merge)
    return (_without(manifests, places), names) if places else (manifests, {})


def _without(
    manifests: Sequence[ManifestRef], places: dict[str, DraftManifest | None] | dict[str, ManifestFile | None]
) -> Sequence[ManifestRef]:
    """The manifests with others, or nothing, in the places of some."""
    if not places:
        return manifests
    kept: list[ManifestRef] = []
    for reference in manifests:
        location = location_of(reference)
        if location not in places:
            kept.append(reference)
        elif (other := places[location]) is not None:
            kept.append(other)
    return tuple(kept)


def waits_for_merges_from(metadata: TableMetadata) -> int:
    """Manifests with which a commit to the table may have to wait for a merge under way."""
    return UNMERGED_FACTOR * max(MANIFEST_MIN_MERGE_COUNT.of(metadata.properties), 2)


def _is_small(working: Working, parts: Sequence[ManifestFile]) -> bool:
    """Whether a commit can make the merge itself. Deletes are few, and their index has to be told of each."""
    if parts[0].content == "deletes":
        return True
    if len(parts) > INLINE_PARTS_MAX:
        return False
    entries = sum((part.live_files_count or 0) + (part.deleted_files_count or 0) for part in parts)
    return entries <= INLINE_ENTRIES_MAX and all(working.reader.at_hand(part) for part in parts)


def _wait(working: Working, manifests: Sequence[ManifestRef]) -> bool:
    """Wait for one of the merges that these are parts of; False when there is none under way."""
    merges = working.reader.merges
    for reference in manifests:
        merge = merges.find(location_of(reference))
        if merge is not None and not merge.written.done():
            merges.wait(merge)
            return True
    return False


def _merge(working: Working, parts: Sequence[ManifestFile], *, snapshot_id: int) -> DraftManifest:
    assert working.metadata is not None
    return DraftManifest(
        location=working.new_manifest_location(),
        partition_spec_id=parts[0].partition_spec_id,
        content=parts[0].content,
        entries=tuple(merge_entries((working.entries(part) for part in parts), snapshot_id=snapshot_id)),
        snapshot_id=snapshot_id,
        sequence_number=working.next_sequence_number,
        schema_id=working.metadata.current_schema_id,
    )
