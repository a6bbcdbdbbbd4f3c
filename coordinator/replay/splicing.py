"""Entries of manifests by the names of their files: cut out of the stored bytes, so that no other entry is decoded.

What cannot be cut (other writers' layouts, drafts of added files) is None here: whoever asks decodes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.working import Working
from firn.model.manifest import FieldSummary, ManifestEntry, ManifestFile
from firn.storage.manifest_pieces import Piece, layout_of
from firn.storage.spliced_entries import Splice, SplicedEntries, named_entries, splice


def spliced(
    working: Working, head: Head, reference: ManifestRef, paths: Collection[str], *, snapshot_id: int
) -> Splice | None:
    """A data manifest of the head without some of its files."""
    assert working.metadata is not None
    manifest, pieces = working.as_manifest_file(reference), _pieces(working, reference)
    layout = layout_of(working.metadata, manifest)
    if pieces is None or layout is None:
        return None
    return splice(
        pieces,
        manifest,
        paths,
        layout=layout,
        partitions=_partitions(reference),
        snapshot_id=snapshot_id,
        exact_age=any(one.content == "deletes" for one in head.manifests),
    )


def named(working: Working, reference: ManifestRef, paths: Collection[str]) -> list[ManifestEntry] | None:
    """The live entries of some files of a data manifest."""
    assert working.metadata is not None
    manifest, pieces = working.as_manifest_file(reference), _pieces(working, reference)
    layout = layout_of(working.metadata, manifest)
    return None if pieces is None or layout is None else named_entries(pieces, manifest, paths, layout=layout)


def _pieces(working: Working, reference: ManifestRef) -> Sequence[Piece] | None:
    assert working.metadata is not None
    if isinstance(reference, ManifestFile):
        return working.reader.pieces(working.metadata, reference)
    entries = reference.entries
    if not isinstance(entries, SplicedEntries):
        return None
    layout = layout_of(working.metadata, working.as_manifest_file(reference))
    return entries.pieces if entries.layout == layout else None


def _partitions(reference: ManifestRef) -> tuple[FieldSummary, ...] | None:
    if isinstance(reference, ManifestFile):
        return reference.partitions
    return reference.entries.partitions if isinstance(reference.entries, SplicedEntries) else None
