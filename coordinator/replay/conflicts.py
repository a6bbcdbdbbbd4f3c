"""What came to the table since an intent was planned, and must not have.

Each rule is asked of the whole window, and names the snapshot that came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from firn.coordinator.replay import rules
from firn.coordinator.replay.live_entries import entries_of
from firn.coordinator.replay.window import added_data, added_deletes, removed_data
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.delete_index import DeleteIndex, PartitionKey, equality_scope, partition_key, referenced_data_file
from firn.model.manifest import ManifestEntry
from firn.model.snapshot import Snapshot


def require_no_new_data(
    working: Working, since: Sequence[Snapshot], *, reads: Callable[[DataFile], bool], base: int | None
) -> None:
    """Refuse when rows came that the statement would have read.

    Prevents: two statements that each did not see the other's rows, which no order of the two explains.
    """
    for snapshot, entry in added_data(working, since):
        if reads(entry.data_file):
            path = entry.data_file.file_path
            rules.NEW_DATA.refuse(
                f"snapshot {snapshot.snapshot_id} ({snapshot.operation}) added {path}, which may have rows that the "
                f"intent would have read",
                files=(path,),
                partitions=(working.partition_path(entry.data_file),),
                winner=snapshot,
                base=base,
            )


def require_no_removed_data(
    working: Working, since: Sequence[Snapshot], *, overwrites: Callable[[DataFile], bool], base: int | None
) -> None:
    """Refuse when files went that the intent overwrites: their rows may be among those that it writes anew.

    Prevents: deleted rows coming back.
    """
    for snapshot, entry in removed_data(working, since):
        if overwrites(entry.data_file):
            path = entry.data_file.file_path
            rules.REMOVED_DATA.refuse(
                f"snapshot {snapshot.snapshot_id} ({snapshot.operation}) removed {path}, which the intent overwrites",
                files=(path,),
                partitions=(working.partition_path(entry.data_file),),
                winner=snapshot,
                base=base,
            )


def require_no_new_deletes_in(
    working: Working,
    branch: str,
    since: Sequence[Snapshot],
    *,
    overwrites: Callable[[DataFile], bool],
    base: int | None,
) -> None:
    """Refuse when deletes came for what a filter or partitions say is overwritten.

    A delete of one data file that is still live is judged by that file, all others by their partition and metrics: the
    file that they were for may have been compacted since. Prevents: deleted rows coming back.
    """
    found = list(added_deletes(working, since))
    named = {path for _, entry in found if (path := referenced_data_file(entry.data_file)) is not None}
    live = {entry.data_file.file_path: entry.data_file for entry in entries_of(working, branch, named)}
    for snapshot, entry in found:
        file = live.get(referenced_data_file(entry.data_file) or "", entry.data_file)
        if overwrites(file):
            refuse_new_deletes(snapshot, entry.data_file, "rows that the intent overwrites", files=(), base=base)


class WindowDeletes:
    """The deletes that a window added, asked which of them may reach a data file that was there before."""

    def __init__(self, working: Working, since: Sequence[Snapshot]) -> None:
        assert working.metadata is not None
        self._snapshots: dict[tuple[str, int | None], Snapshot] = {}
        self._of_file: dict[str, list[DataFile]] = {}
        self._of_partition: dict[PartitionKey, list[DataFile]] = {}
        self._all: list[DataFile] = []
        self._equality_deletes: list[tuple[Snapshot, ManifestEntry]] = []
        for snapshot, entry in added_deletes(working, since):
            file = entry.data_file
            self._snapshots[file.file_path, file.content_offset] = snapshot
            self._all.append(file)
            path = referenced_data_file(file)
            if file.content == "equality-deletes":
                self._equality_deletes.append((snapshot, entry))
            elif path is not None:
                self._of_file.setdefault(path, []).append(file)
            else:
                self._of_partition.setdefault(partition_key(file.spec_id, file.partition), []).append(file)
        self._specs = {spec.spec_id: spec for spec in working.metadata.partition_specs}
        self._equality = DeleteIndex(
            (entry for _, entry in self._equality_deletes),
            specs=self._specs,
            schemas=(working.metadata.current_schema, *working.metadata.schemas),
        )

    def snapshot_of(self, delete: DataFile) -> Snapshot:
        """The snapshot that added it."""
        return self._snapshots[delete.file_path, delete.content_offset]

    def positions(self, file: DataFile) -> list[DataFile]:
        """Position deletes and deletion vectors that may be for the data file."""
        own = self._of_file.get(file.file_path, [])
        return [*own, *self._of_partition.get(partition_key(file.spec_id, file.partition), [])]

    def may_reach(self, own: DataFile) -> list[DataFile]:
        """All deletes that may be for data files of the partition of a delete file."""
        key = partition_key(own.spec_id, own.partition)
        return [
            file
            for file in self._all
            if partition_key(file.spec_id, file.partition) == key
            or (file.content == "equality-deletes" and equality_scope(file, self._specs) is None)
        ]

    def equality_deletes(self) -> Sequence[tuple[Snapshot, ManifestEntry]]:
        """All equality deletes, with the snapshots that added them."""
        return self._equality_deletes

    def equality(self, entry: ManifestEntry) -> list[DataFile]:
        """Equality deletes that may be for a live data file."""
        return list(self._equality.of(entry))


def require_no_new_deletes(deletes: WindowDeletes, entries: Iterable[ManifestEntry], *, base: int | None) -> None:
    """Refuse when deletes came for live data files whose rows the intent writes anew.

    Prevents: deleted rows coming back, because they were read before they were deleted.
    """
    for entry in entries:
        path = entry.data_file.file_path
        for delete in [*deletes.positions(entry.data_file), *deletes.equality(entry)]:
            snapshot = deletes.snapshot_of(delete)
            refuse_new_deletes(snapshot, delete, f"rows of {path}", files=(path,), base=base)


def refuse_new_deletes(
    snapshot: Snapshot, delete: DataFile, what: str, *, files: Sequence[str], base: int | None
) -> NoReturn:
    """Refuse because `snapshot` added this delete, which may be of `what`."""
    rules.NEW_DELETES.refuse(
        f"snapshot {snapshot.snapshot_id} deleted {what} with {delete.file_path} after the intent was planned: "
        f"writing them anew would bring deleted rows back",
        files=files or (delete.file_path,),
        winner=snapshot,
        base=base,
    )
