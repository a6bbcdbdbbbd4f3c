"""Merging small manifests while appending, so that lists and scans stay short (``commit.manifest-merge.enabled``)."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay.draft import DraftManifest, ManifestRef, location_of
from firn.coordinator.replay.working import Working
from firn.model.manifest import ManifestFile
from firn.model.table_properties import MANIFEST_MERGE_ENABLED, MANIFEST_MIN_MERGE_COUNT, MANIFEST_TARGET_SIZE_BYTES
from firn.storage.manifest_merge import merge_entries, merge_plan


def merged(working: Working, *, branch: str, snapshot_id: int) -> tuple[ManifestRef, ...]:
    """The head's manifests in list order, small neighbours merged where enough of them have gathered.

    Only stored data manifests are merged: those of this very swap wait for the next. Entries keep their numbers, so
    nothing changes for a reader but the number of files it opens. Cost: the manifests merged, once per
    ``commit.manifest.min-count-to-merge`` commits.
    """
    metadata, head = working.metadata, working.head(branch)
    assert metadata is not None
    stored = [
        m for m in head.manifests if isinstance(m, ManifestFile) and m.content == "data" and m.may_have_live_files
    ]
    min_count = MANIFEST_MIN_MERGE_COUNT.of(metadata.properties)
    if not MANIFEST_MERGE_ENABLED.of(metadata.properties) or len(stored) < min_count:
        return head.manifests
    replaced: dict[str, DraftManifest | None] = {}
    for packed in merge_plan(
        stored, target_bytes=MANIFEST_TARGET_SIZE_BYTES.of(metadata.properties), min_count=min_count
    ):
        if packed.merge:
            draft = _merge(working, packed.manifests, snapshot_id=snapshot_id)
            replaced |= dict.fromkeys((m.manifest_path for m in packed.manifests), None)
            replaced[packed.manifests[0].manifest_path] = draft
            head.live.put_all((e.data_file.file_path for e in draft.entries), manifest=draft.location)
    kept: list[ManifestRef] = []
    for reference in head.manifests:
        location = location_of(reference)
        if location not in replaced:
            kept.append(reference)
        elif (draft_here := replaced[location]) is not None:
            kept.append(draft_here)
    return tuple(kept)


def _merge(working: Working, parts: Sequence[ManifestFile], *, snapshot_id: int) -> DraftManifest:
    assert working.metadata is not None
    return DraftManifest(
        location=working.new_manifest_location(),
        partition_spec_id=parts[0].partition_spec_id,
        content="data",
        entries=tuple(merge_entries((working.entries(part) for part in parts), snapshot_id=snapshot_id)),
        snapshot_id=snapshot_id,
        sequence_number=working.next_sequence_number,
        schema_id=working.metadata.current_schema_id,
    )
