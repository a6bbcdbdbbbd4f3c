"""Carrying entries from old manifests into new ones: merging small manifests, and removing files from them.

An entry that moves keeps everything that it inherited where it came from (snapshot, sequence numbers, row ids), so
entries here are those that `firn.storage.manifests.decode_manifest` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from firn.model.datafile import DataFile
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status

TARGET_BYTES: Final = 8 * 1024 * 1024
"""Default of ``commit.manifest.target-size-bytes``: the size that merged manifests come to."""

MIN_COUNT: Final = 100
"""Default of ``commit.manifest.min-count-to-merge``: manifests in the newest bin before it is merged."""


class MergeBin(msgspec.Struct, frozen=True, kw_only=True):
    """Manifests of one content and partition spec, in the order of their list: to be merged into one, or left."""

    manifests: tuple[ManifestFile, ...]
    merge: bool


def merge_plan(
    manifests: Sequence[ManifestFile], *, target_bytes: int = TARGET_BYTES, min_count: int = MIN_COUNT
) -> list[MergeBin]:
    """What to do with a snapshot's manifests, newest first: data before deletes, newer specs before older ones.

    Neighbours go into one bin until it is full, from the oldest on, so that the underfilled bin is the newest one and
    files that came together stay together. A bin of several is merged; that of the newest manifest waits for
    `min_count` of them, or every commit would rewrite it. Of that bin are left as they are, from the oldest on, those
    larger than all newer ones together: what was merged before is written again when as much has come, not each time.
    """
    plan: list[MergeBin] = []
    contents: tuple[ManifestContent, ...] = ("data", "deletes")
    for content in contents:
        group = [manifest for manifest in manifests if manifest.content == content]
        for spec_id in sorted({manifest.partition_spec_id for manifest in group}, reverse=True):
            own = [manifest for manifest in group if manifest.partition_spec_id == spec_id]
            for packed in _pack_from_end(own, target_bytes):
                if packed[0] is not group[0]:
                    plan.append(MergeBin(manifests=packed, merge=len(packed) > 1))
                elif len(packed) < max(min_count, 2):
                    plan.append(MergeBin(manifests=packed, merge=False))
                else:
                    count = _worth_merging(packed, min_count=min_count)
                    plan.append(MergeBin(manifests=packed[:count], merge=True))
                    plan += [MergeBin(manifests=(large,), merge=False) for large in packed[count:]]
    return plan


def _worth_merging(packed: Sequence[ManifestFile], *, min_count: int) -> int:
    """How many of these, newest first, are to be merged: half of `min_count` at least, or there would be ever more."""
    newer = sum(manifest.manifest_length for manifest in packed)
    for count in range(len(packed), max(min_count // 2, 2) - 1, -1):
        oldest = packed[count - 1].manifest_length
        newer -= oldest
        if oldest <= newer:
            return count
    return len(packed)


def _pack_from_end(manifests: Sequence[ManifestFile], target_bytes: int) -> list[tuple[ManifestFile, ...]]:
    bins: list[list[ManifestFile]] = []
    room = 0
    for manifest in reversed(manifests):
        if not bins or manifest.manifest_length > room:
            bins.append([])
            room = target_bytes
        bins[-1].append(manifest)
        room -= manifest.manifest_length
    return [tuple(reversed(packed)) for packed in reversed(bins)]


def merge_entries(manifests: Iterable[Iterable[ManifestEntry]], *, snapshot_id: int | None) -> list[ManifestEntry]:
    """The entries of one merged manifest of the snapshot that is being made, from those of its parts in order.

    What this snapshot adds and deletes stays added and deleted; what others added is existing, and what others deleted
    is gone. None is no snapshot: then all are others'. Decode the snapshot's own manifests before they have numbers, so
    that a retry can give them new ones.
    """
    return [moved for entries in manifests for entry in entries for moved in _moved(entry, snapshot_id)]


def _moved(entry: ManifestEntry, snapshot_id: int | None) -> Iterator[ManifestEntry]:
    own = snapshot_id is not None and entry.snapshot_id == snapshot_id
    if own and entry.status is not Status.EXISTING:
        yield entry
    elif entry.status is not Status.DELETED:
        yield _with_status(entry, Status.EXISTING, entry.snapshot_id)


def rewrite_without(
    entries: Iterable[ManifestEntry],
    removed: Collection[str] | Callable[[DataFile], bool],
    *,
    snapshot_id: int,
) -> list[ManifestEntry]:
    """The entries of a manifest that takes another's place when `snapshot_id` removes files.

    `removed` has the paths, or says of a file whether it goes: deletion vectors share a path. Removed files become
    tombstones of this snapshot that keep their sequence numbers, others are existing, older tombstones are gone. A
    file that this snapshot adds itself stays added, or leaves no trace.
    """
    goes = removed if callable(removed) else frozenset(removed)
    kept: list[ManifestEntry] = []
    for entry in entries:
        if entry.status is Status.DELETED:
            continue
        own = entry.status is Status.ADDED and entry.snapshot_id == snapshot_id
        if entry.data_file.file_path in goes if isinstance(goes, frozenset) else goes(entry.data_file):
            if not own:
                kept.append(_with_status(entry, Status.DELETED, snapshot_id))
        else:
            kept.append(entry if own else _with_status(entry, Status.EXISTING, entry.snapshot_id))
    return kept


def _with_status(entry: ManifestEntry, status: Status, snapshot_id: int | None) -> ManifestEntry:
    if entry.status is status and entry.snapshot_id == snapshot_id:
        return entry
    return msgspec.structs.replace(entry, status=status, snapshot_id=snapshot_id)
