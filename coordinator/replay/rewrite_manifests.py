"""Rewrite manifests: the same files, listed in other manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.draft import ManifestRef, location_of
from firn.coordinator.replay.file_change import properties_of
from firn.coordinator.replay.live_deletes import LiveDelete
from firn.coordinator.replay.working import Working
from firn.coordinator.replay.written_manifests import ReadManifest, read_written
from firn.model.amounts import agreeing, plural
from firn.model.datafile import DataFile
from firn.model.delete_index import partition_key
from firn.model.intent import RewriteManifests
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from firn.storage.locations import canonical


def rewrite_manifests(working: Working, intent: RewriteManifests) -> Applied:
    """Put the written manifests in the place of the removed ones as one snapshot of the branch's own head."""
    working.require(table_uuid=intent.table_uuid)
    head = working.head(intent.branch)
    removed = _require_listed(intent, head.manifests)
    manifests = read_written(working, intent.manifests, where="manifests")
    before = [entry for manifest in removed for entry in working.entries(manifest) if entry.is_live]
    require_same_files(before, manifests)
    snapshot_id, sequence_number = working.snapshot_id_for(intent.intent_id), working.next_sequence_number
    listed = [one.listed(working, snapshot_id=snapshot_id, sequence_number=sequence_number) for one in manifests]
    working.require_room(head, listed, added=(), removed=())
    gone = {location_of(manifest) for manifest in removed}
    kept = [manifest for manifest in head.manifests if location_of(manifest) not in gone]
    counts = {
        "manifests-created": len(listed),
        "manifests-kept": len(kept),
        "manifests-replaced": len(removed),
        "entries-processed": len(before),
    }
    working.commit(
        branch=intent.branch,
        snapshot_id=snapshot_id,
        operation="replace",
        manifests=(*_of("data", listed), *_of("data", kept), *_of("deletes", listed), *_of("deletes", kept)),
        added=(),
        removed=(),
        intents=[(intent.intent_id, intent.writer)],
        intended="rewrite-manifests",
        properties={**properties_of(intent), **{name: str(count) for name, count in counts.items()}},
        staged=intent.stage,
    )
    if not intent.stage:
        _follow(working, intent.branch, listed)
    return Applied(snapshot_id=snapshot_id, sequence_number=sequence_number)


def _of(content: str, manifests: Iterable[ManifestRef]) -> list[ManifestRef]:
    return [manifest for manifest in manifests if manifest.content == content]


def _require_listed(intent: RewriteManifests, manifests: Sequence[ManifestRef]) -> list[ManifestRef]:
    """The removed manifests; refuses when one is not in the branch's list now.

    Prevents: a rewrite that takes back what came to the table, or brings back what went, after it read the list.
    """
    by_name = {canonical(location_of(manifest)): manifest for manifest in manifests}
    missing = [path for path in intent.removed_manifests if canonical(path) not in by_name]
    if missing:
        rules.MISSING_MANIFEST.refuse(
            f"{len(missing):,} of {plural(len(intent.removed_manifests), 'manifest')} {agreeing(len(missing))} not in "
            f"the list of {intent.branch!r} (any more), first {missing[0]}",
            files=missing,
        )
    return [by_name[name] for name in dict.fromkeys(map(canonical, intent.removed_manifests))]


def require_same_files(before: Sequence[ManifestEntry], manifests: Sequence[ReadManifest]) -> None:
    """Refuse manifests that do not list exactly the files of the removed ones, as existing and as old as they are.

    Prevents: files that are lost or listed twice; deletes that reach other files than before; row ids that change;
    files that scans leave out by metrics that are not theirs.
    """
    after = [entry for manifest in manifests for entry in manifest.entries]
    stray = next((entry.data_file.file_path for entry in after if entry.status is not Status.EXISTING), None)
    if stray is not None:
        rules.MANIFEST_MISMATCH.refuse(f"{stray} is not listed as existing", files=(stray,))
    had, has = Counter(map(_identity, before)), Counter(map(_identity, after))
    paths = sorted({str(identity[0]) for identity in ((had - has) + (has - had))})
    if paths:
        rules.MANIFEST_MISMATCH.refuse(
            f"{plural(len(before), 'file')} {agreeing(len(before))} listed in the removed manifests, {len(after):,} in "
            f"the written ones; missing, new, or with other numbers: {len(paths):,}, first {paths[0]}",
            files=paths,
        )
    known = {_identity(entry): entry.data_file for entry in before}
    wrong = next((e.data_file.file_path for e in after if not _says_no_more(e.data_file, known[_identity(e)])), None)
    if wrong is not None:
        rules.MANIFEST_MISMATCH.refuse(f"the metrics of {wrong} are not those that it had", files=(wrong,))


METRICS: Final = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
"""What scans leave files out by."""


def _says_no_more(file: DataFile, before: DataFile) -> bool:
    """Whether all metrics of a file are those that it had; some may be left out."""
    for name in METRICS:
        now, then = getattr(file, name), getattr(before, name)
        if now and now != then and not now.items() <= (then or {}).items():
            return False
    return True


def _identity(entry: ManifestEntry) -> tuple[Hashable, ...]:
    """What must not change of a file when its entry moves."""
    file = entry.data_file
    return (
        file.file_path,
        entry.snapshot_id,
        entry.sequence_number,
        entry.file_sequence_number,
        file.content,
        file.file_format,
        file.key_metadata,
        partition_key(file.spec_id, file.partition),
        file.record_count,
        file.file_size_in_bytes,
        file.first_row_id,
        file.equality_ids,
        file.referenced_data_file,
        file.content_offset,
        file.content_size_in_bytes,
    )


def _follow(working: Working, branch: str, listed: Sequence[ManifestFile]) -> None:
    """The indexes of live files name the new manifests."""
    head = working.head(branch)
    for manifest in listed:
        if manifest.content == "data":
            paths = (entry.data_file.file_path for entry in working.entries(manifest))
            head.live.put_all(paths, manifest=manifest.manifest_path)
        elif head.deletes is not None:
            for entry in working.entries(manifest):
                head.deletes.put(LiveDelete(entry, manifest.manifest_path))
