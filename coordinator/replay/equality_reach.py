"""Equality deletes that reach the rows of a rewrite where they were or where they come to, but not both.

Equality deletes are for older rows of one partition of one spec, or for older rows of the whole table where their spec
is unpartitioned (table specification, "Scan Planning"). A rewrite moves rows to files of another age and maybe of
another spec. What its writer has read, it has read with all deletes of the base applied: those that reached a row there
are not for it. So a row's visibility changes in two cases only:

- equality deletes that came since reach its old file and not its new one: it comes back
- equality deletes, older or newer, reach its new file and never reached the old one: it goes

A column that was dropped is not in the new files. There, rows have no other value of it than null or a default, so
deletes by it that reach the new file may mean other rows than they did, in both ways.

Which row went where is decided by `MovedRows`, from files alone: where they leave it open, it may have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.conflicts import WindowDeletes, refuse_new_deletes
from firn.coordinator.replay.live_deletes import DeleteKey, delete_key
from firn.coordinator.replay.moved_rows import MovedRows
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.delete_index import PartitionKey, age_of, equality_scope, partition_key
from firn.model.equality_keys import EqualityKeys, MetricColumns
from firn.model.intent import Replace
from firn.model.manifest import ManifestEntry
from firn.model.snapshot import Snapshot


class _Deletes(msgspec.Struct, frozen=True, kw_only=True):
    """A file of equality deletes, the partition that it is for (None: all), and its data sequence number.

    `came` is the snapshot since the base that it came with, `stays` whether it is there once the rewrite is committed,
    `by_dropped` whether it compares a column that the table has dropped.
    """

    keys: EqualityKeys
    scope: PartitionKey | None
    age: int
    came: Snapshot | None
    stays: bool
    by_dropped: bool

    @property
    def path(self) -> str:
        """Where the file is."""
        return self.keys.file.file_path

    def reaches(self, file: DataFile, age: int | None) -> bool:
        """Whether they are for a data file of this age, None for one as young as the commit; keys do not matter."""
        if age is None or age >= self.age:
            return False
        return self.scope is None or self.scope == _partition(file)

    def may_be_moved(self, moved: MovedRows, source: DataFile, target: DataFile) -> bool:
        """Whether rows that went from one file to the other may have one of the keys, in either."""
        return self.by_dropped or moved.may_have(self.keys, source, target)


def require_same_reach(
    working: Working,
    intent: Replace,
    since: Sequence[Snapshot],
    came: WindowDeletes,
    *,
    rewritten: Sequence[ManifestEntry],
    added: Sequence[DataFile],
    removed_deletes: Collection[DeleteKey],
) -> None:
    """Refuse a rewrite that takes rows from under equality deletes that came since, or brings them under any.

    Its `data-sequence-number` is neither younger than the base nor older than a rewritten file. Prevents: deleted rows
    coming back, rows going that nobody has deleted.
    """
    assert working.metadata is not None
    columns = MetricColumns((working.metadata.current_schema, *working.metadata.schemas))
    live = _LiveDeletes(working, intent.branch, since, came, columns, removed_deletes)
    here = {_partition(entry.data_file) for entry in rewritten}
    there = {_partition(file) for file in added}
    one_spec = len({entry.data_file.spec_id for entry in rewritten} | {file.spec_id for file in added}) <= 1
    in_place = intent.data_sequence_number is not None and one_spec and there <= here
    found = [*live.gone(here), *live.staying(here | there, by_dropped_only=in_place)]
    if not found:
        return
    moved = MovedRows(working.metadata, rewritten, added, columns=columns)
    for deletes in found:
        if deletes.came is not None:
            _require_still_reached(intent, deletes, moved, rewritten)
        if deletes.stays:
            _require_not_reached_anew(intent, deletes, moved, added)


def _require_still_reached(
    intent: Replace, deletes: _Deletes, moved: MovedRows, rewritten: Sequence[ManifestEntry]
) -> None:
    assert deletes.came is not None
    for entry in rewritten:
        source = entry.data_file
        if not deletes.reaches(source, age_of(entry)) or not deletes.keys.may_be_in(source, moved.facts(source)):
            continue
        for target in moved.targets(source):
            alike = deletes.stays and not deletes.by_dropped
            still = alike and deletes.reaches(target, intent.data_sequence_number)
            if not still and deletes.may_be_moved(moved, source, target):
                what = f"rows of {source.file_path}, which {target.file_path} brings out of their reach,"
                refuse_new_deletes(
                    deletes.came, deletes.keys.file, what, files=(source.file_path,), base=intent.base_snapshot_id
                )


def _require_not_reached_anew(intent: Replace, deletes: _Deletes, moved: MovedRows, added: Sequence[DataFile]) -> None:
    number = intent.data_sequence_number
    for target in added:
        if not deletes.reaches(target, number) or not deletes.keys.may_be_in(target, moved.facts(target)):
            continue
        for entry in moved.sources(target):
            source = entry.data_file
            known = deletes.reaches(source, age_of(entry)) and not deletes.by_dropped
            if known or not deletes.may_be_moved(moved, source, target):
                continue
            rules.WRONG_SEQUENCE_NUMBER.refuse(
                f"data-sequence-number: at the age of {number}, rows of {source.file_path} would be reached in "
                f"{target.file_path} by the equality deletes of {deletes.path}, which are not for them "
                f"where they are now",
                files=(source.file_path, target.file_path),
                winner=deletes.came,
                hint=None if deletes.came is None else "replan",
                base=intent.base_snapshot_id,
            )


class _LiveDeletes:
    """The equality deletes of a branch, without those that the rewrite removes."""

    def __init__(
        self,
        working: Working,
        branch: str,
        since: Sequence[Snapshot],
        came: WindowDeletes,
        columns: MetricColumns,
        removed: Collection[DeleteKey],
    ) -> None:
        assert working.metadata is not None
        self._came = came
        self._columns = columns
        self._specs = {spec.spec_id: spec for spec in working.metadata.partition_specs}
        self._present = working.metadata.current_schema.fields_by_id.keys()
        self._since = {snapshot.snapshot_id: snapshot for snapshot in since}
        self._live = {
            key: one.entry
            for one in working.deletes(branch)
            if one.file.content == "equality-deletes" and (key := delete_key(one.file)) not in removed
        }

    def staying(self, partitions: Collection[PartitionKey], *, by_dropped_only: bool) -> Iterator[_Deletes]:
        """Those that may be for files of some partitions."""
        oldest = min((snapshot.sequence_number for snapshot in self._since.values()), default=0)
        for entry in self._live.values():
            if by_dropped_only and not self._is_by_dropped(entry.data_file):
                continue
            scope = equality_scope(entry.data_file, self._specs)
            if scope is None or scope in partitions:
                # Older ones that were written anew since have been read with those that they stand for.
                snapshot = self._since.get(entry.snapshot_id or 0) if age_of(entry) >= oldest else None
                yield self._deletes(entry, scope, snapshot, stays=True)

    def gone(self, partitions: Collection[PartitionKey]) -> Iterator[_Deletes]:
        """Those that came since for files of some partitions, and went without others in their place."""
        missing = [
            (snapshot, entry)
            for snapshot, entry in self._came.equality_deletes()
            if delete_key(entry.data_file) not in self._live
        ]
        if not missing:
            return
        stand_ins = {
            (age_of(entry), equality_scope(entry.data_file, self._specs))
            for entry in self._live.values()
            if (snapshot := self._since.get(entry.snapshot_id or 0)) and snapshot.sequence_number > age_of(entry)
        }
        for snapshot, entry in missing:
            age, scope = age_of(entry), equality_scope(entry.data_file, self._specs)
            if (scope is None or scope in partitions) and stand_ins.isdisjoint({(age, scope), (age, None)}):
                yield self._deletes(entry, scope, snapshot, stays=False)

    def _deletes(
        self, entry: ManifestEntry, scope: PartitionKey | None, came: Snapshot | None, *, stays: bool
    ) -> _Deletes:
        keys = EqualityKeys(entry.data_file, self._columns)
        by_dropped = self._is_by_dropped(entry.data_file)
        return _Deletes(keys=keys, scope=scope, age=age_of(entry), came=came, stays=stays, by_dropped=by_dropped)

    def _is_by_dropped(self, file: DataFile) -> bool:
        return any(field_id not in self._present for field_id in file.equality_ids or ())


def _partition(file: DataFile) -> PartitionKey:
    return partition_key(file.spec_id, file.partition)
