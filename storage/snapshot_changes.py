"""What each snapshot of a window changed: files that came or went whole, and files that got other deletes.

A snapshot is compared with its parent, file by file. Where the parent expired, its live files are put together from
the snapshot's own manifests: what is live and was not added by the snapshot, and what the snapshot's tombstones name.
Nothing is guessed. Where the manifests do not account for what the snapshot's summary says it did, or files with
deleted rows are gone, `ChangesUnavailableError` says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from firn.model.amounts import plural
from firn.model.errors import ChangesUnavailableError, NotFound
from firn.model.expressions.predicates import Expression
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.scan_plan import FileScanTask
from firn.model.snapshot import Snapshot
from firn.storage.files import FileStore
from firn.storage.manifest_reader import ManifestReader
from firn.storage.scan_planner import Planner

Tasks = Mapping[str, FileScanTask]

COUNTED: Final[Mapping[str, tuple[ManifestContent, Literal["added", "deleted"]]]] = {
    "added-data-files": ("data", "added"),
    "deleted-data-files": ("data", "deleted"),
    "added-delete-files": ("deletes", "added"),
    "removed-delete-files": ("deletes", "deleted"),
}
"""What a summary counts, and where the manifest list counts the same."""


class SnapshotChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What one snapshot changed.

    `inserted` and `deleted` are files that came and went, with the deletes that applied to them then. Of files that
    stayed and got other deletes, `before` and `after` have the same ones in the same order.
    """

    ordinal: int
    snapshot_id: int
    inserted: tuple[FileScanTask, ...]
    deleted: tuple[FileScanTask, ...]
    before: tuple[FileScanTask, ...]
    after: tuple[FileScanTask, ...]


def changes_of(
    metadata: TableMetadata,
    snapshots: Iterable[Snapshot],
    *,
    manifests: ManifestReader,
    files: FileStore,
    filter: Expression,
) -> Iterator[SnapshotChanges]:
    """Compare each of the snapshots, oldest first, with its parent; `filter` is bound to the current schema.

    Snapshots that only replaced files by others with the same rows are left out, and not counted by `ordinal`. Raises
    ChangesUnavailableError for what cannot be determined exactly.
    """
    comparison = _Comparison(metadata, manifests, files, filter)
    changing = [snapshot for snapshot in snapshots if snapshot.operation != "replace"]
    for ordinal, snapshot in enumerate(changing):
        with metadata_there():
            before, after = comparison.around(snapshot)
        yield _difference(before, after, ordinal=ordinal, snapshot_id=snapshot.snapshot_id)


@contextlib.contextmanager
def metadata_there() -> Iterator[None]:
    """Raise ChangesUnavailableError where a manifest or manifest list is gone, instead of NotFound."""
    try:
        yield
    except NotFound as error:
        raise ChangesUnavailableError(
            f"a file of the table's metadata is gone: {error}",
            reason="files-gone",
            hint="if the table was just expired, look at it again; else firn fsck says what is damaged",
        ) from error


class _Comparison:
    """Plans the live files on both sides of a snapshot; those of the last one are kept for its child."""

    def __init__(
        self, metadata: TableMetadata, manifests: ManifestReader, files: FileStore, filter: Expression
    ) -> None:
        self._metadata = metadata
        self._manifests = manifests
        self._files = files
        self._filter = filter
        self._last: tuple[int, Tasks] | None = None

    def around(self, snapshot: Snapshot) -> tuple[Tasks, Tasks]:
        """Return the live files before a snapshot, and after it."""
        listed = self._manifests.manifests(self._metadata, snapshot)
        before, after = self._before(snapshot, listed), self._live(listed)
        self._last = snapshot.snapshot_id, after
        return before, after

    def _before(self, snapshot: Snapshot, listed: Sequence[ManifestFile]) -> Tasks:
        parent_id = snapshot.parent_snapshot_id
        if parent_id is None:
            return {}
        if self._last is not None and self._last[0] == parent_id:
            return self._last[1]
        parent = self._metadata.snapshot_by_id(parent_id)
        if parent is not None:
            return self._live(self._manifests.manifests(self._metadata, parent))
        _check_recorded(snapshot, listed)
        found = self._without(snapshot.snapshot_id, listed)
        self._require_files(snapshot, found, listed)
        return found

    def _live(self, listed: Sequence[ManifestFile]) -> Tasks:
        planner = Planner(self._metadata, self._manifests, self._filter)
        data = list(planner.data_entries(listed))
        deletes = planner.deletes_for(data, listed)
        return {entry.data_file.file_path: planner.task(entry, deletes.of(entry)) for entry in data}

    def _without(self, snapshot_id: int, listed: Sequence[ManifestFile]) -> Tasks:
        """Return the files that were live before the snapshot, by its own manifests."""

        def was_live(entry: ManifestEntry) -> bool:
            is_own = entry.snapshot_id == snapshot_id
            if entry.snapshot_id is None or (is_own and entry.sequence_number is None):
                raise _unusable(snapshot_id, f"the entry of {entry.data_file.file_path} does not say when it came")
            return is_own if entry.status is Status.DELETED else not is_own

        def may_hold(manifest: ManifestFile) -> bool:
            return manifest.may_have_live_files or manifest.added_snapshot_id == snapshot_id

        planner = Planner(self._metadata, self._manifests, self._filter)
        data = list(planner.data_entries(listed, may_hold=may_hold, wanted=was_live))
        deletes = planner.deletes_for(data, listed, may_hold=may_hold, wanted=was_live)
        # A tombstone names the snapshot that took the file away, not the one that brought it.
        came = (entry if entry.is_live else msgspec.structs.replace(entry, snapshot_id=None) for entry in data)
        return {entry.data_file.file_path: planner.task(entry, deletes.of(entry)) for entry in came}

    def _require_files(self, snapshot: Snapshot, before: Tasks, listed: Sequence[ManifestFile]) -> None:
        """Raise unless the files that only the parent had are there still: nothing keeps them since it expired."""
        after = self._live(listed)
        kept = {path for task in after.values() for path in _paths(task)}
        changed = [
            task for path, task in before.items() if path not in after or _deletes(after[path]) != _deletes(task)
        ]
        for path in sorted({path for task in changed for path in _paths(task)} - kept):
            try:
                self._files.size(path)
            except NotFound as error:
                raise ChangesUnavailableError(
                    f"snapshot {snapshot.snapshot_id} took {path} away, which was removed after its parent expired",
                    reason="files-gone",
                    hint="start again from a full read",
                ) from error


def check_counts(snapshot: Snapshot, listed: Iterable[ManifestFile], names: Iterable[str]) -> None:
    """Raise ChangesUnavailableError where a summary tells of more files than the snapshot's own manifests record.

    `names` are of `COUNTED`.
    """
    own = [manifest for manifest in listed if manifest.added_snapshot_id == snapshot.snapshot_id]
    for name in names:
        content, kind = COUNTED[name]
        told = (snapshot.summary or {}).get(name, "0")
        counts = [getattr(manifest, f"{kind}_files_count") for manifest in own if manifest.content == content]
        recorded = None if None in counts else sum(counts)
        if told.isdecimal() and recorded is not None and recorded < int(told):
            why = f"its summary says {name} {told}, its manifests record {plural(recorded, 'file')}"
            raise _unusable(snapshot.snapshot_id, why)


def _check_recorded(snapshot: Snapshot, listed: Sequence[ManifestFile]) -> None:
    """Raise ChangesUnavailableError unless the snapshot's own manifests account for all that it did."""
    check_counts(snapshot, listed, COUNTED)
    counts = [name for name in snapshot.summary or () if name in COUNTED or name.startswith("total-")]
    own = [manifest for manifest in listed if manifest.added_snapshot_id == snapshot.snapshot_id]
    deletes = any(one.content == "deletes" or one.deleted_files_count != 0 for one in own)
    if snapshot.operation != "append" and not counts and not deletes:
        raise _unusable(
            snapshot.snapshot_id, "its summary counts no files, and no manifest of its own names a deleted one"
        )


def _unusable(snapshot_id: int, why: str) -> ChangesUnavailableError:
    return ChangesUnavailableError(
        f"what snapshot {snapshot_id} changed is not recorded: {why}",
        reason="entries-unusable",
        hint="start again from a full read",
    )


def _difference(before: Tasks, after: Tasks, *, ordinal: int, snapshot_id: int) -> SnapshotChanges:
    other = [path for path in after if path in before and _deletes(before[path]) != _deletes(after[path])]
    return SnapshotChanges(
        ordinal=ordinal,
        snapshot_id=snapshot_id,
        inserted=tuple(task for path, task in after.items() if path not in before),
        deleted=tuple(task for path, task in before.items() if path not in after),
        before=tuple(before[path] for path in other),
        after=tuple(after[path] for path in other),
    )


def _paths(task: FileScanTask) -> tuple[str, ...]:
    return task.file.file_path, *(delete.file_path for delete in task.deletes)


def _deletes(task: FileScanTask) -> frozenset[tuple[str, int | None]]:
    return frozenset((delete.file_path, delete.content_offset) for delete in task.deletes)
