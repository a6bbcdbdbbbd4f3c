"""Removing data files: the manifests that hold them are rewritten, all others stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay.draft import DraftManifest, ManifestRef, location_of
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.manifest import ManifestEntry
from firn.storage.manifest_merge import rewrite_without


def remove_files(
    working: Working, *, branch: str, locations: Sequence[str], snapshot_id: int
) -> tuple[tuple[ManifestRef, ...], list[DataFile]]:
    """The head's manifests without these live files (in order), and the files removed.

    Cost: the manifests that hold the files. The files become tombstones of `snapshot_id`.
    """
    assert working.metadata is not None
    head = working.head(branch)
    wanted: dict[str, set[str]] = {}
    for location in locations:
        manifest = head.live.manifest_of(location)
        assert manifest is not None, "require_live comes first"
        wanted.setdefault(manifest, set()).add(location)
    removed: list[DataFile] = []
    kept: list[ManifestRef] = []
    for reference in head.manifests:
        paths = wanted.pop(location_of(reference), None)
        if paths is None:
            kept.append(reference)
            continue
        entries = working.entries(reference)
        removed.extend(e.data_file for e in entries if e.is_live and e.data_file.file_path in paths)
        draft = _rewritten(working, reference, rewrite_without(entries, paths, snapshot_id=snapshot_id), snapshot_id)
        kept.append(draft)
        head.live.put_all((e.data_file.file_path for e in draft.entries if e.is_live), manifest=draft.location)
    assert not wanted, "the index names a manifest that the head does not have"
    for location in locations:
        head.live.remove(location)
    return tuple(kept), removed


def _rewritten(
    working: Working, source: ManifestRef, entries: Sequence[ManifestEntry], snapshot_id: int
) -> DraftManifest:
    assert working.metadata is not None
    return DraftManifest(
        location=working.new_manifest_location(),
        partition_spec_id=source.partition_spec_id,
        content=source.content,
        entries=tuple(entries),
        snapshot_id=snapshot_id,
        sequence_number=working.next_sequence_number,
        schema_id=working.metadata.current_schema_id,
    )
