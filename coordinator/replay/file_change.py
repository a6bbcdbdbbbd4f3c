"""Turning a change of files into a snapshot: what every operation on files ends in.

Manifests that hold none of the removed files stay as they are, so the cost is that of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.draft import MANIFEST_ENTRIES_MAX, DraftManifest, ManifestRef, location_of
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.live_deletes import DeleteKey, LiveDelete, delete_key
from firn.coordinator.replay.live_entries import manifests_of
from firn.coordinator.replay.merging import take_over
from firn.coordinator.replay.splicing import spliced
from firn.coordinator.replay.working import Working
from firn.coordinator.replay.written_manifests import ReadManifest
from firn.model.cherry_pick import STAGED_WAP_ID
from firn.model.datafile import DataFile
from firn.model.intent import OPERATIONS, FileOperation
from firn.model.manifest import ManifestContent, ManifestEntry, Status
from firn.model.snapshot import Operation
from firn.storage.locations import canonical
from firn.storage.manifest_merge import rewrite_without
from firn.storage.spliced_entries import SplicedEntries

VALIDATION: Final = "firn.validation"
"""Summary entry of a snapshot that was committed without looking at what came meanwhile."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Files that come and go in one snapshot; those that go are live.

    `data_sequence_number` is given to added data files and equality deletes, None for the snapshot's own.
    `added_manifests` are written already, and list data files only. `properties` go into the snapshot's summary.
    Deletes that are only for a removed data file go with it, whether they are named or not.
    """

    added_data: Sequence[DataFile] = ()
    added_manifests: Sequence[ReadManifest] = ()
    added_deletes: Sequence[DataFile] = ()
    removed_data: Collection[str] = ()
    removed_deletes: Collection[DeleteKey] = ()
    data_sequence_number: int | None = None
    properties: Mapping[str, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing comes and nothing goes."""
        comes = self.added_data or self.added_manifests or self.added_deletes
        return not (comes or self.removed_data or self.removed_deletes)

    @property
    def operation(self) -> Operation:
        """The snapshot's operation by what it does."""
        takes = bool(self.removed_data or self.removed_deletes or self.added_deletes)
        if self.added_data or self.added_manifests:
            return "overwrite" if takes else "append"
        return "delete"


class _Rewritten(msgspec.Struct, frozen=True):
    """Manifests of one content without some files: all of them in order, the new ones, and the files that went.

    `names` are the locations of manifests of data files, each with that of the new one that holds what stays of it.
    """

    manifests: Sequence[ManifestRef]
    drafts: tuple[DraftManifest, ...]
    removed: tuple[DataFile, ...]
    names: dict[str, str]


def apply_change(
    working: Working,
    intent: FileOperation,
    change: FileChange,
    *,
    operation: Operation | None = None,
    intended: str | None = None,
) -> Applied:
    """Commit the change to the intent's branch, or stage it; a change of nothing makes no snapshot.

    `operation` is the snapshot's, by what it does when it is not given; `intended` is the intent's where `intent` is
    made in place of another. Refuses only what passes 63 bits.
    """
    head, snapshot_id = working.head(intent.branch), working.snapshot_id_for(intent.intent_id)
    removed_deletes = set(change.removed_deletes)
    if change.removed_data:
        index = working.deletes(intent.branch)
        removed_deletes |= {delete_key(d.file) for path in change.removed_data for d in index.only_for(path)}
    if change.is_empty and not removed_deletes:
        return Applied(snapshot_id=head.snapshot_id)
    sequence_number = working.next_sequence_number
    data = _without_data(working, intent.branch, frozenset(change.removed_data), snapshot_id=snapshot_id)
    if change.removed_data:
        removed_deletes |= useless_deletes(
            working, head, data.manifests, added_at=_age_of_added(change, sequence_number)
        )
    deletes = _without_deletes(working, intent.branch, removed_deletes, snapshot_id=snapshot_id)
    given = [
        one.listed(working, snapshot_id=snapshot_id, sequence_number=sequence_number) for one in change.added_manifests
    ]
    added_data = _drafts(working, intent, change, change.added_data, content="data")
    added_deletes = _drafts(working, intent, change, change.added_deletes, content="deletes")
    added = [*change.added_data, *(f for one in change.added_manifests for f in one.files), *change.added_deletes]
    removed = [*data.removed, *deletes.removed]
    new: list[ManifestRef] = [*data.drafts, *added_data, *given]
    row_ids_from = working.require_room(head, new, added=added, removed=removed)
    kept_data, data_names = take_over(working, data.manifests, snapshot_id=snapshot_id, row_ids_from=row_ids_from)
    kept_deletes, delete_names = take_over(
        working, deletes.manifests, snapshot_id=snapshot_id, row_ids_from=row_ids_from
    )
    working.commit(
        branch=intent.branch,
        snapshot_id=snapshot_id,
        operation=operation or change.operation,
        manifests=(*added_data, *given, *kept_data, *added_deletes, *kept_deletes),
        added=added,
        removed=removed,
        intents=[(intent.intent_id, intent.writer)],
        intended=intended or OPERATIONS[type(intent)],
        properties={**properties_of(intent), **change.properties},
        staged=intent.stage,
    )
    if not intent.stage:
        _forget(head, change.removed_data, removed_deletes)
        for one in change.added_manifests:
            head.live.put_all((f.file_path for f in one.files), manifest=one.written.manifest_path)
        head.live.rename_manifests(data.names)
        follow_names(head, {**data_names, **delete_names})
        follow_drafts(working, head, (*added_data, *deletes.drafts, *added_deletes))
    return Applied(snapshot_id=snapshot_id, sequence_number=sequence_number)


def useless_deletes(working: Working, head: Head, data: Sequence[ManifestRef], *, added_at: int) -> set[DeleteKey]:
    """Deletes that are older than every data file in these manifests and those that are added: they reach nothing.

    Only manifests that have some are opened, so that a delete costs nothing after its last data file is gone.
    """
    oldest = min((_least_number(working, manifest) for manifest in data), default=added_at)
    return {
        delete_key(entry.data_file)
        for manifest in head.manifests
        if manifest.content == "deletes" and _least_number(working, manifest) < min(oldest, added_at)
        for entry in working.entries(manifest)
        if entry.is_live and (entry.sequence_number or 0) < min(oldest, added_at)
    }


def _least_number(working: Working, manifest: ManifestRef) -> int:
    """The age of the oldest live file; more than any if there is none."""
    listed = working.as_manifest_file(manifest)
    if not listed.may_have_live_files:
        return listed.sequence_number
    return listed.min_sequence_number


def _age_of_added(change: FileChange, sequence_number: int) -> int:
    return sequence_number if change.data_sequence_number is None else change.data_sequence_number


def properties_of(intent: FileOperation) -> dict[str, str]:
    """What the intent itself says in the summary of its snapshot."""
    properties = dict(intent.summary)
    if intent.wap_id is not None:
        properties[STAGED_WAP_ID] = intent.wap_id
    if getattr(intent, "validate", "all") == "none":
        properties[VALIDATION] = "none"
    return properties


def _without_data(working: Working, branch: str, paths: frozenset[str], *, snapshot_id: int) -> _Rewritten:
    head, wanted = working.head(branch), manifests_of(working, branch, paths)
    return _rewrite(working, head, wanted, content="data", key=_name_of, snapshot_id=snapshot_id)


def _without_deletes(working: Working, branch: str, keys: Collection[DeleteKey], *, snapshot_id: int) -> _Rewritten:
    wanted: dict[str, set[DeleteKey]] = {}
    for key in keys:
        live = working.deletes(branch).get(key)
        assert live is not None, "require_deletes_live comes first"
        wanted.setdefault(live.manifest, set()).add(key)
    return _rewrite(working, working.head(branch), wanted, content="deletes", key=delete_key, snapshot_id=snapshot_id)


def _rewrite(
    working: Working,
    head: Head,
    wanted: Mapping[str, Collection[Any]],
    *,
    content: ManifestContent,
    key: Callable[[DataFile], Any],
    snapshot_id: int,
) -> _Rewritten:
    """The head's manifests of one content; those with `wanted` files anew, with tombstones in their place."""
    assert working.metadata is not None
    manifests: list[ManifestRef] = []
    drafts: list[DraftManifest] = []
    removed: list[DataFile] = []
    names: dict[str, str] = {}
    for reference in head.manifests:
        if reference.content != content:
            continue
        keys = wanted.get(location_of(reference))
        if keys is None:
            manifests.append(reference)
            continue
        splice = None
        if content == "data":
            listed = set(map(canonical, keys))
            # A file that is listed twice may be so in two spellings, of which the stored bytes would show one.
            if listed.isdisjoint(head.doubles):
                splice = spliced(working, head, reference, keys, snapshot_id=snapshot_id)
            keys = listed
        if splice is not None:
            entries: tuple[ManifestEntry, ...] | SplicedEntries = splice.entries
            removed += splice.removed
        else:
            known = working.entries(reference)
            removed += [e.data_file for e in known if e.is_live and key(e.data_file) in keys]
            entries = tuple(rewrite_without(known, _is_among(keys, key), snapshot_id=snapshot_id))
        draft = DraftManifest(
            location=working.new_manifest_location(),
            partition_spec_id=reference.partition_spec_id,
            content=content,
            entries=entries,
            snapshot_id=snapshot_id,
            sequence_number=working.next_sequence_number,
            schema_id=working.metadata.current_schema_id,
        )
        manifests.append(draft)
        drafts.append(draft)
        if content == "data":
            names[location_of(reference)] = draft.location
    assert len(drafts) == len(wanted), "the index names a manifest that the head does not have"
    return _Rewritten(tuple(manifests), tuple(drafts), tuple(removed), names)


def _name_of(file: DataFile) -> str:
    return canonical(file.file_path)


def _is_among(keys: Collection[Any], key: Callable[[DataFile], Any]) -> Callable[[DataFile], bool]:
    return lambda file: key(file) in keys


def _drafts(
    working: Working,
    intent: FileOperation,
    change: FileChange,
    files: Sequence[DataFile],
    *,
    content: ManifestContent,
) -> tuple[DraftManifest, ...]:
    """New manifests of added files, by spec. Those of data files are the same on every attempt, and written once."""
    assert working.metadata is not None
    snapshot_id = working.snapshot_id_for(intent.intent_id)
    of_spec: dict[int, list[DataFile]] = {}
    for file in files:
        of_spec.setdefault(file.spec_id, []).append(file)
    return tuple(
        DraftManifest(
            location=working.new_manifest_location(),
            partition_spec_id=spec_id,
            content=content,
            entries=tuple(
                _added(file, change, snapshot_id=snapshot_id) for file in own[start : start + MANIFEST_ENTRIES_MAX]
            ),
            snapshot_id=snapshot_id,
            sequence_number=working.next_sequence_number,
            schema_id=working.metadata.current_schema_id,
            reuse_key=f"{snapshot_id}/{spec_id}/{start}/{intent.intent_id}" if content == "data" else None,
        )
        for spec_id, own in of_spec.items()
        for start in range(0, len(own), MANIFEST_ENTRIES_MAX)
    )


def _added(file: DataFile, change: FileChange, *, snapshot_id: int) -> ManifestEntry:
    aged = file.content != "position-deletes"  # positions are of rows that exist: those deletes may be of any age
    number = change.data_sequence_number if aged else None
    return ManifestEntry(status=Status.ADDED, snapshot_id=snapshot_id, sequence_number=number, data_file=file)


def _forget(head: Head, removed_data: Collection[str], removed_deletes: Collection[DeleteKey]) -> None:
    for path in removed_data:
        head.live.remove(path)
    if head.deletes is not None:
        for key in removed_deletes:
            head.deletes.remove(key)


def follow_drafts(working: Working, head: Head, drafts: Sequence[DraftManifest]) -> None:
    """The indexes of a head's live files name the drafted manifests that hold them now."""
    for draft in drafts:
        if draft.content == "data":
            head.live.put_all((e.data_file.file_path for e in draft.entries if e.is_live), manifest=draft.location)
        elif head.deletes is not None:  # None: nobody has asked for them yet
            for entry in working.entries(draft):
                if entry.is_live:
                    head.deletes.put(LiveDelete(entry, draft.location))


def follow_names(head: Head, names: Mapping[str, str]) -> None:
    """Have the indexes of a head's live files name the merged manifests that were listed in place of others."""
    if names:
        head.live.rename_manifests(names)
        if head.deletes is not None:
            head.deletes.rename_manifests(names)
