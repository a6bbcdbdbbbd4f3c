"""Merging small manifests while committing, so that lists and scans stay short (``commit.manifest-merge.enabled``)."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay.draft import DraftManifest, ManifestRef, location_of
from firn.coordinator.replay.working import Working
from firn.model.manifest import ManifestFile
from firn.model.table_properties import MANIFEST_MERGE_ENABLED, MANIFEST_MIN_MERGE_COUNT, MANIFEST_TARGET_SIZE_BYTES
from firn.storage.manifest_merge import merge_entries, merge_plan


def merge_small(
    working: Working, manifests: Sequence[ManifestRef], *, snapshot_id: int
) -> tuple[tuple[ManifestRef, ...], tuple[DraftManifest, ...]]:
    """The manifests in list order, small neighbours merged where enough of them have gathered; and the merged ones.

    Only stored manifests are merged: those of this very swap wait for the next. Entries keep their numbers, so nothing
    changes for a reader but the number of files it opens. Cost: the manifests merged, once per
    ``commit.manifest.min-count-to-merge`` commits.
    """
    metadata = working.metadata
    assert metadata is not None
    stored = [m for m in manifests if isinstance(m, ManifestFile) and m.may_have_live_files]
    min_count = MANIFEST_MIN_MERGE_COUNT.of(metadata.properties)
    if not MANIFEST_MERGE_ENABLED.of(metadata.properties) or len(stored) < min_count:
        return tuple(manifests), ()
    target_bytes = MANIFEST_TARGET_SIZE_BYTES.of(metadata.properties)
    replaced: dict[str, DraftManifest | None] = {}
    for packed in merge_plan(stored, target_bytes=target_bytes, min_count=min_count):
        if packed.merge:
            replaced |= dict.fromkeys((m.manifest_path for m in packed.manifests), None)
            replaced[packed.manifests[0].manifest_path] = _merge(working, packed.manifests, snapshot_id=snapshot_id)
    kept: list[ManifestRef] = []
    for reference in manifests:
        location = location_of(reference)
        if location not in replaced:
            kept.append(reference)
        elif (draft := replaced[location]) is not None:
            kept.append(draft)
    return tuple(kept), tuple(draft for draft in replaced.values() if draft is not None)


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
