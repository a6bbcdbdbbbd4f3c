"""Replace: files are rewritten without a change of rows (compaction)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.draft import DraftManifest
from firn.coordinator.replay.files_rules import bind_added, require_live, require_not_live
from firn.coordinator.replay.removal import remove_files
from firn.coordinator.replay.window import made_by, window
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.intent import Replace
from firn.model.manifest import ManifestEntry, Status
from firn.model.snapshot import Snapshot


def replace(working: Working, intent: Replace) -> Applied:
    """Swap the removed files for the added ones as one snapshot, if nothing happened to the removed ones since S."""
    working.require(table_uuid=intent.table_uuid)
    head = working.head(intent.branch)
    since = window(working, intent.branch, base_snapshot_id=intent.base_snapshot_id)
    added = bind_added(working, intent.data_files, where="data-files")
    require_live(working, intent.branch, intent.removed_data_files, base_snapshot_id=intent.base_snapshot_id)
    require_not_live(head, added)
    require_no_new_deletes(working, intent, since)
    require_no_more_rows(working, intent, added)
    snapshot_id = working.snapshot_id_for(intent.intent_id)
    sequence_number = working.next_sequence_number
    kept, removed = remove_files(
        working, branch=intent.branch, locations=intent.removed_data_files, snapshot_id=snapshot_id
    )
    drafts = _added_manifests(working, intent, added, snapshot_id=snapshot_id)
    for draft in drafts:
        head.live.put_all((e.data_file.file_path for e in draft.entries), manifest=draft.location)
    working.commit(
        branch=intent.branch,
        snapshot_id=snapshot_id,
        operation="replace",
        manifests=(*drafts, *kept),
        added=added,
        removed=removed,
        intents=[(intent.intent_id, intent.writer)],
        properties=intent.summary,
    )
    return Applied(snapshot_id=snapshot_id, sequence_number=sequence_number)


def _added_manifests(
    working: Working, intent: Replace, added: Sequence[DataFile], *, snapshot_id: int
) -> list[DraftManifest]:
    assert working.metadata is not None
    of_spec: dict[int, list[DataFile]] = {}
    for file in added:
        of_spec.setdefault(file.spec_id, []).append(file)
    return [
        DraftManifest(
            location=working.new_manifest_location(),
            partition_spec_id=spec_id,
            content="data",
            entries=tuple(
                ManifestEntry(status=Status.ADDED, snapshot_id=snapshot_id, data_file=file) for file in files
            ),
            snapshot_id=snapshot_id,
            sequence_number=working.next_sequence_number,
            schema_id=working.metadata.current_schema_id,
            reuse_key=f"{snapshot_id}/{spec_id}/{intent.intent_id}",
        )
        for spec_id, files in of_spec.items()
    ]


def _live_entries(working: Working, branch: str, locations: Sequence[str]) -> Iterator[ManifestEntry]:
    """The entries of live files, each of their manifests read once."""
    head = working.head(branch)
    wanted = set(locations)
    manifests = {head.live.manifest_of(location) for location in locations}
    for reference in head.manifests:
        location = reference.location if isinstance(reference, DraftManifest) else reference.manifest_path
        if location in manifests:
            yield from (e for e in working.entries(reference) if e.is_live and e.data_file.file_path in wanted)


def require_no_more_rows(working: Working, intent: Replace, added: Sequence[DataFile]) -> None:
    """Refuse a rewrite that adds more rows than it removes. Prevents: rows doubled by a compaction."""
    removed_rows = sum(
        e.data_file.record_count for e in _live_entries(working, intent.branch, intent.removed_data_files)
    )
    added_rows = sum(file.record_count for file in added)
    if added_rows > removed_rows:
        rules.MORE_ROWS.refuse(
            f"a rewrite keeps rows, but {added_rows} are added where {removed_rows} are removed",
            base=intent.base_snapshot_id,
        )


def require_no_new_deletes(working: Working, intent: Replace, since: Sequence[Snapshot]) -> None:
    """Refuse when a delete file added after S may apply to a rewritten file.

    Prevents: deleted rows coming back, because the rewrite read them before they were deleted.
    """
    makers = [s for s in since if s.operation not in {"append", None} or s.summary is None]
    for snapshot in makers:
        deletes = [m for m in made_by(snapshot, working.manifests_of(snapshot)) if m.content == "deletes"]
        if not deletes:
            continue
        rewritten = [e.data_file for e in _live_entries(working, intent.branch, intent.removed_data_files)]
        for manifest in deletes:
            for entry in working.entries(manifest):
                if entry.status is not Status.ADDED or entry.snapshot_id != snapshot.snapshot_id:
                    continue
                hit = [f.file_path for f in rewritten if may_apply(entry.data_file, f)]
                if hit:
                    _refuse_new_deletes(intent, snapshot, hit, by=entry.data_file.file_path)


def may_apply(delete: DataFile, data: DataFile) -> bool:
    """Whether a delete file newer than the data file can delete rows of it (scope only, not sequence numbers)."""
    if delete.referenced_data_file is not None:
        return delete.referenced_data_file == data.file_path
    if delete.content == "equality-deletes" and not delete.partition:
        return True
    return delete.spec_id == data.spec_id and delete.partition == data.partition


def _refuse_new_deletes(intent: Replace, snapshot: Snapshot, hit: Sequence[str], *, by: str) -> None:
    rules.NEW_DELETES.refuse(
        f"snapshot {snapshot.snapshot_id} deleted rows of {len(hit)} of the rewritten files with {by} "
        f"after snapshot {intent.base_snapshot_id}, first {hit[0]}: rewriting them would bring the rows back",
        files=hit,
        winner=snapshot,
        base=intent.base_snapshot_id,
    )
