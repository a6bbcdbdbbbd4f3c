"""The files of drafted snapshots: their manifests and manifest lists, as bytes under new names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from firn.coordinator.replay.draft import DraftManifest, DraftSnapshot, ManifestRef
from firn.coordinator.replay.working import Working
from firn.model.long_tuples import preceded
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.storage.listed_manifests import ListedManifests, listed
from firn.storage.manifest_lists import assign_sequence_numbers, manifest_list_of
from firn.storage.manifests import EncodedManifest, encode_manifest, manifest_file
from firn.storage.packed_entries import PackedEntries
from firn.storage.spliced_entries import SplicedEntries, encode_spliced


def encode_snapshots(
    working: Working, written: dict[str, ManifestFile]
) -> tuple[list[tuple[str, bytes]], tuple[tuple[str, PackedEntries], ...]]:
    """Encode drafted manifests and manifest lists, and say what the manifests hold, by their locations.

    Afterwards no draft is left in `working`'s heads.
    """
    metadata = working.metadata
    if metadata is None:
        return [], ()
    files: list[tuple[str, bytes]] = []
    done: dict[str, ManifestFile] = {}
    packed: dict[str, PackedEntries] = {}
    renamed: dict[str, str] = {}
    lists = {head.base_snapshot_id: head.listed for head in working.heads.values()}
    for draft_snapshot in working.snapshots:
        snapshot, version = draft_snapshot.snapshot, draft_snapshot.format_version
        before = lists.get(snapshot.parent_snapshot_id)
        unchanged = _unchanged(draft_snapshot, before)
        changed = draft_snapshot.manifests[: len(draft_snapshot.manifests) - len(unchanged)]
        for reference in changed:
            if isinstance(reference, ManifestFile) or reference.location in done:
                continue
            kept = None if reference.reuse_key is None else written.get(reference.reuse_key)
            if kept is None:
                encoded = _encode(reference, metadata, format_version=version)
                kept = manifest_file(encoded, reference.location)
                files.append((reference.location, encoded.data))
                if encoded.packed is not None:
                    packed[reference.location] = encoded.packed
                if reference.reuse_key is not None:
                    written[reference.reuse_key] = kept
            else:
                renamed[reference.location] = kept.manifest_path
            done[reference.location] = kept
        manifests = assign_sequence_numbers(
            (_resolved(reference, done) for reference in changed),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
        )
        if draft_snapshot.first_row_id is not None:
            pairs = zip(changed, manifests, strict=True)
            manifests = tuple([_with_row_ids(reference, manifest, working) for reference, manifest in pairs])
        for reference, manifest in zip(changed, manifests, strict=True):
            if isinstance(reference, DraftManifest):
                done[reference.location] = manifest
        assert snapshot.manifest_list is not None
        now = lists[snapshot.snapshot_id] = listed(
            preceded(unchanged, manifests), format_version=version, before=before, goes_on=draft_snapshot.goes_on
        )
        data = manifest_list_of(
            now.blocks,
            format_version=version,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
        )
        files.append((snapshot.manifest_list, data))
    for head in working.heads.values():
        last = lists.get(head.snapshot_id)
        if last is not None and head.snapshot_id != head.base_snapshot_id:
            head.manifests, head.listed = last.manifests, last
        if renamed:
            head.live.rename_manifests(renamed)
    return files, tuple(packed.items())


def _unchanged(draft: DraftSnapshot, before: ListedManifests | None) -> Sequence[ManifestFile]:
    """The manifests at the end of a draft's list that were written at the end of the one before: nothing is to be done
    for these.
    """
    if before is None or before.format_version != draft.format_version:
        return ()
    if draft.goes_on:
        return before.manifests
    shared = before.shared_by(draft.manifests)
    return before.manifests if shared == len(before.manifests) else before.manifests[len(before.manifests) - shared :]


def _with_row_ids(reference: ManifestRef, manifest: ManifestFile, working: Working) -> ManifestFile:
    """The manifest with the row ids that replay gave it among all of its list; stored ones have theirs already."""
    if isinstance(reference, ManifestFile):
        return manifest
    return msgspec.structs.replace(manifest, first_row_id=working.as_manifest_file(reference).first_row_id)


def _resolved(reference: ManifestRef, done: Mapping[str, ManifestFile]) -> ManifestFile:
    return reference if isinstance(reference, ManifestFile) else done[reference.location]


def _encode(draft: DraftManifest, metadata: TableMetadata, *, format_version: int) -> EncodedManifest:
    spec, schema = metadata.spec_by_id(draft.partition_spec_id), metadata.schema_by_id(draft.schema_id)
    assert spec is not None
    assert schema is not None
    if isinstance(draft.entries, SplicedEntries):
        return encode_spliced(
            draft.entries, schema=schema, spec=spec, content=draft.content, snapshot_id=draft.snapshot_id
        )
    return encode_manifest(
        draft.entries,
        schema=schema,
        spec=spec,
        content=draft.content,
        format_version=format_version,
        snapshot_id=draft.snapshot_id,
        older_schemas=metadata.schemas,
    )
