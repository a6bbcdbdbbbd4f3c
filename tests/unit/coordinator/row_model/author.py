"""Writers: they read a table, decide on a statement, write its files, and make the intent that they submit later."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from firn.model.content_file import bind_content_file
from firn.model.datafile import FileFormat
from firn.model.intent import (
    Append,
    ContentFile,
    DeleteFileRef,
    DeleteFiles,
    DeleteWhere,
    Intent,
    Overwrite,
    Replace,
    ReplacePartitions,
    RowDelta,
)
from firn.model.manifest import ManifestEntry, Status
from firn.model.metadata import TableMetadata
from firn.model.partitioning import PartitionSpec
from tests.unit.coordinator.row_model.file_maker import FileMaker
from tests.unit.coordinator.row_model.reading import SeenFile, SeenRow, TableReading, live_rows
from tests.unit.coordinator.row_model.rows import (
    ID,
    REGION,
    VALUE,
    VID,
    Condition,
    Effect,
    Isolation,
    Partition,
    Row,
    Rows,
    Statement,
    compact,
    insert,
    take,
    take_if,
    take_where,
)
from tests.unit.coordinator.row_model.table_model import Picked, Planned
from tests.unit.coordinator.workbench import TABLE, new_id

IDS: Final = range(8)
REGIONS: Final = ("eu", "us", None)
FORMATS: Final[tuple[FileFormat, ...]] = ("parquet", "avro")

Verb = Literal["delete", "update", "merge"]
T = TypeVar("T")


class Choices:
    """What a writer decides by the throw of a die: `draw` gives an integer between two bounds, both included."""

    def __init__(self, draw: Callable[[int, int], int]) -> None:
        self._draw = draw

    def number(self, least: int, most: int) -> int:
        return self._draw(least, most)

    def one_of(self, items: Sequence[T]) -> T:
        return items[self._draw(0, len(items) - 1)]

    def some_of(self, items: Iterable[T], *, least: int = 1) -> list[T]:
        """Some of the items in their order, at least so many of them."""
        left = list(items)
        while len(left) > least and self._draw(0, 2):
            left.pop(self._draw(0, len(left) - 1))
        return left

    def coin(self) -> bool:
        return self._draw(0, 1) == 1


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer sees of a branch when it plans: its head, the files and rows there, and the model's rows."""

    metadata: TableMetadata
    branch: str
    head: int | None
    files: tuple[SeenFile, ...]
    rows: Rows
    mark: int

    @property
    def names(self) -> dict[int, str]:
        return {field.field_id: field.name for field in self.metadata.current_schema.fields}

    def row(self, seen: SeenRow) -> Row:
        """The model's row."""
        return next(row for row in self.rows if row.vid == seen.vid)


class Author:
    """Plans intents; all writers of a test, who differ only in what they have seen."""

    def __init__(self, maker: FileMaker, reading: TableReading) -> None:
        self._maker = maker
        self._reading = reading
        self._versions = itertools.count(1)

    # -- plain -------------------------------------------------------------------------------------------------------

    def append(self, view: View, choices: Choices) -> Planned:
        """INSERT, by files or by a manifest."""
        rows = self._new_rows(view, choices, count=choices.number(1, 6))
        files = self._data(view, choices, rows)
        members: dict[str, Any] = {"data_files": files}
        if len({file.spec_id for file in files}) == 1 and choices.number(0, 3) == 3:
            members = {"manifests": (self._manifest(view, files),)}
        intent = _intent(Append, view, **members)
        return _planned(
            "append", view, intent, insert(*rows), picked=Picked(rows=tuple(rows)),
            tolerates=ANYTHING,
        )  # fmt: skip

    def stage(self, view: View, choices: Choices, *, wap_id: str) -> Planned:
        """INSERT for audit."""
        rows = self._new_rows(view, choices, count=choices.number(1, 3))
        intent = _intent(Append, view, data_files=self._data(view, choices, rows), stage=True, wap_id=wap_id)
        return _planned(
            "stage", view, intent, insert(*rows), picked=Picked(rows=tuple(rows)), tolerates=ANYTHING
        )  # fmt: skip

    def delete_files(self, view: View, choices: Choices) -> Planned:
        """Retention: whole files go."""
        chosen = choices.some_of(view.files)
        vids = {vid for file in chosen for vid in self._reading.every_row(view.metadata, file)}
        intent = _intent(DeleteFiles, view, removed_data_files=_paths(chosen))
        return _planned(
            "delete-files", view, intent, take(vids), tolerates=frozenset({"append", "equality", "delta-delete"})
        )

    def delete_where(self, view: View, choices: Choices) -> Planned:
        """DELETE by metadata alone; files that match in part make it fail."""
        condition = self._condition(choices)
        intent = _intent(DeleteWhere, view, row_filter=condition.to_json(view.names))
        return _planned(
            "delete-where", view, intent, take_where(condition), refusals=frozenset({"partial-match", "invalid-filter"})
        )

    def overwrite_where(self, view: View, choices: Choices) -> Planned:
        """INSERT OVERWRITE … WHERE."""
        condition = self._condition(choices)
        rows = [row for row in self._new_rows(view, choices, count=4) if condition.matches(row)]
        intent = _intent(
            Overwrite,
            view,
            row_filter=condition.to_json(view.names),
            data_files=self._data(view, choices, rows),
            isolation=choices.one_of(ISOLATIONS),
            base_snapshot_id=view.head,
        )
        return _planned(
            "overwrite-where", view, intent, take_where(condition, adding=rows),
            refusals=frozenset({"partial-match", "outside-filter"}),
        )  # fmt: skip

    def replace_partitions(self, view: View, choices: Choices) -> Planned:
        """INSERT OVERWRITE of whatever partitions the new rows are in, by the spec that they are written by."""
        rows = self._new_rows(view, choices, count=choices.number(1, 2))
        spec = view.metadata.spec_by_id(rows[0].partition[0])
        assert spec is not None
        touched = {row.partition for row in rows}

        def goes(row: Row) -> bool:
            return self._maker.placed(row, spec, view.metadata).partition in touched

        intent = _intent(
            ReplacePartitions,
            view,
            data_files=self._data(view, choices, rows),
            isolation=choices.one_of(ISOLATIONS),
            base_snapshot_id=view.head,
        )
        return _planned(
            "replace-partitions", view, intent, take_if(goes, adding=rows), picked=Picked(rows=tuple(rows), goes=goes),
            refusals=frozenset({"partial-match"}),
        )  # fmt: skip

    # -- statements --------------------------------------------------------------------------------------------------

    def copy_on_write(self, view: View, choices: Choices) -> Planned | None:
        """DELETE, UPDATE or MERGE that writes the files anew which have matching rows."""
        verb: Verb = choices.one_of(VERBS)
        condition, isolation = self._condition(choices, keys=verb == "merge"), choices.one_of(ISOLATIONS)
        matches = [row for row in live_rows(view.files) if condition.matches(view.row(row))]
        touched = [file for file in view.files if any(row in matches for row in file.rows)]
        if not touched and verb != "merge":
            return None
        statement, written = self._statement(view, choices, verb, condition, isolation, matches)
        spec = self._spec(view, choices)
        carried = {
            row.vid: self._lineage(view, self._maker.placed(view.row(row), spec, view.metadata))
            for file in touched
            for row in file.rows
            if row not in matches
        }
        statement = msgspec.structs.replace(statement, carried=carried)
        intent = _intent(
            Overwrite,
            view,
            removed_data_files=_paths(touched),
            data_files=self._maker.data(
                view.metadata, [*written, *carried.values()], file_format=choices.one_of(FORMATS)
            ),
            conflict_filter=None if choices.number(0, 3) == 3 else condition.to_json(view.names),
            isolation=isolation,
            base_snapshot_id=view.head,
        )
        tolerates = frozenset({"append"}) if isolation == "snapshot" else frozenset()
        return _planned(f"cow-{verb}", view, intent, statement, tolerates=tolerates)

    def merge_on_read(self, view: View, choices: Choices) -> Planned | None:
        """DELETE, UPDATE or MERGE that deletes rows by their positions."""
        verb: Verb = choices.one_of(VERBS)
        condition, isolation = self._condition(choices, keys=verb == "merge"), choices.one_of(ISOLATIONS)
        matches = [row for row in live_rows(view.files) if condition.matches(view.row(row))]
        if not matches and verb != "merge":
            return None
        statement, written = self._statement(view, choices, verb, condition, isolation, matches)
        taken: dict[str, list[int]] = {}
        for row in matches:
            taken.setdefault(row.file, []).append(row.position)
        hit = [file for file in view.files if file.file.file_path in taken]
        deletes, replaced = self._deletes(view, choices, hit, taken)
        intent = _intent(
            RowDelta,
            view,
            data_files=self._maker.data(view.metadata, written, file_format=choices.one_of(FORMATS)),
            delete_files=deletes,
            removed_delete_files=replaced,
            referenced_data_files=() if choices.coin() else tuple(taken),
            conflict_filter=None if choices.number(0, 3) == 3 else condition.to_json(view.names),
            isolation=isolation,
            base_snapshot_id=view.head,
        )
        tolerates = frozenset({"append"}) if isolation == "snapshot" else frozenset()
        return _planned(f"delta-{verb}", view, intent, statement, tolerates=tolerates)

    def equality(self, view: View, choices: Choices) -> Planned:
        """What streaming upserts do: delete by key whatever is there, and insert, without looking."""
        ids = frozenset(choices.some_of(IDS))
        spec = self._equality_spec(view)
        partitions: set[Partition] | None = None
        if spec.is_partitioned:
            rows = [self._row(view, choices, spec) for _ in range(choices.number(1, 2))]
            partitions = {row.partition for row in rows}
        deletes = [
            self._maker.equality(view.metadata, sorted(ids), partition)
            for partition in sorted(partitions or {(spec.spec_id, ())}, key=repr)
        ]
        new = [row for row in self._new_rows(view, choices, count=2) if choices.coin()]
        intent = _intent(RowDelta, view, delete_files=tuple(deletes), data_files=self._data(view, choices, new))
        effect = take_where(Condition(ids=ids), adding=new, partitions=partitions)
        return _planned("equality", view, intent, effect, tolerates=ANYTHING)

    def _statement(
        self,
        view: View,
        choices: Choices,
        verb: Verb,
        condition: Condition,
        isolation: Isolation,
        matches: Sequence[SeenRow],
    ) -> tuple[Statement, list[Row]]:
        """What the statement does to the rows that its writer sees, and the rows that it writes."""
        if verb == "delete":
            found = tuple(view.row(row) for row in matches)
            deleted = frozenset(row.vid for row in found)
            return Statement(condition=condition, isolation=isolation, deleted=deleted, deleted_rows=found), []
        value, spec = choices.number(0, 9), self._spec(view, choices)
        updated = {row.vid: self._changed(view, view.row(row), value, spec) for row in matches}
        inserted: tuple[Row, ...] = ()
        if verb == "merge":
            there = {view.row(row).values[ID] for row in live_rows(view.files)}
            inserted = tuple(
                self._row(view, choices, spec, id=id) for id in sorted((condition.ids or frozenset()) - there)
            )
        statement = Statement(condition=condition, isolation=isolation, updated=updated, inserted=inserted)
        return statement, [*updated.values(), *inserted]

    def _changed(self, view: View, row: Row, value: int, spec: PartitionSpec) -> Row:
        """The row's next version."""
        vid = next(self._versions)
        values = {**row.values, VALUE: value, VID: vid}
        changed = msgspec.structs.replace(self._lineage(view, row), vid=vid, values=values, updated=None)
        return self._maker.placed(changed, spec, view.metadata)

    @staticmethod
    def _lineage(view: View, row: Row) -> Row:
        """The row with the lineage that a writer of this table writes with it: none where rows have no ids (yet)."""
        known = view.metadata.format_version >= 3 and row.row_id is not None
        return row if known else msgspec.structs.replace(row, row_id=None, updated=None)

    def _deletes(
        self, view: View, choices: Choices, hit: Sequence[SeenFile], taken: dict[str, list[int]]
    ) -> tuple[tuple[ContentFile, ...], tuple[DeleteFileRef, ...]]:
        """Deletes of positions, and the delete files whose place they take."""
        if not hit:
            return (), ()
        if view.metadata.format_version < 3:
            return self._position_files(view, choices, hit, taken), ()
        deleted: list[Any] = []
        replaced: list[DeleteFileRef] = []
        for file in hit:
            vectors = [delete for delete in file.deletes if delete.is_deletion_vector]
            own = taken[file.file.file_path]
            old = self._reading.deleted_positions(view.metadata, file)
            # A vector hides position delete files: what those of v2 have deleted must be in it.
            if not vectors or choices.coin():
                deleted.append((file.file, sorted({*own, *old})))
                replaced += [DeleteFileRef(file_path=v.file_path, content_offset=v.content_offset) for v in vectors]
            else:
                deleted.append((file.file, own))
        return self._maker.vectors(view.metadata, deleted), tuple(replaced)

    def _position_files(
        self, view: View, choices: Choices, hit: Sequence[SeenFile], taken: dict[str, list[int]]
    ) -> tuple[ContentFile, ...]:
        groups: dict[Any, dict[str, list[int]]] = {}
        wide = choices.coin()
        for file in hit:
            path, partition = file.file.file_path, (file.file.spec_id, file.file.partition)
            groups.setdefault(partition if wide else (*partition, path), {})[path] = taken[path]
        return tuple(self._maker.positions(view.metadata, own, key[:2]) for key, own in groups.items())

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def compaction(self, view: View, choices: Choices) -> Planned | None:
        """Files written anew with the deletes applied, maybe as old as they were.

        Equality deletes pass by rows that keep their age, unless any of the files are of another spec than the others:
        rows may then leave the partition that the deletes are for, or come to one whose deletes are not for them.
        """
        if view.head is None or not view.files:
            return None
        chosen = choices.some_of(view.files)
        spec = self._spec(view, choices)
        rewritten = {
            row.vid: self._lineage(view, self._maker.placed(view.row(row), spec, view.metadata))
            for row in live_rows(chosen)
        }
        snapshot = view.metadata.snapshot_by_id(view.head)
        assert snapshot is not None
        keeps_age = choices.coin()
        written = self._maker.data(view.metadata, rewritten.values(), file_format=choices.one_of(FORMATS))
        intent = _intent(
            Replace,
            view,
            removed_data_files=_paths(chosen),
            data_files=written,
            data_sequence_number=snapshot.sequence_number if keeps_age else None,
            base_snapshot_id=view.head,
        )
        of_one_spec = len({seen.file.spec_id for seen in chosen} | {file.spec_id for file in written}) == 1
        tolerates = {"append", "equality"} if keeps_age and of_one_spec else {"append"}
        return _planned("compaction", view, intent, compact(rewritten), tolerates=frozenset(tolerates))

    def rewrite_deletes(self, view: View, choices: Choices) -> Planned | None:
        """Deletion vectors put into one Puffin file."""
        having = [file for file in view.files if any(delete.is_deletion_vector for delete in file.deletes)]
        if view.head is None or not having:
            return None
        chosen = choices.some_of(having)
        vectors = [(file, next(d for d in file.deletes if d.is_deletion_vector)) for file in chosen]
        deleted = [(file.file, self._reading.deleted_positions(view.metadata, file)) for file in chosen]
        intent = _intent(
            Replace,
            view,
            removed_delete_files=tuple(
                DeleteFileRef(file_path=v.file_path, content_offset=v.content_offset) for _, v in vectors
            ),
            delete_files=self._maker.vectors(view.metadata, deleted),
            base_snapshot_id=view.head,
        )
        return _planned("rewrite-deletes", view, intent, compact({}), tolerates=frozenset({"append", "equality"}))

    # -- rows and files ----------------------------------------------------------------------------------------------

    def _new_rows(self, view: View, choices: Choices, *, count: int) -> list[Row]:
        spec = self._spec(view, choices)
        return [self._row(view, choices, spec) for _ in range(count)]

    def _row(self, view: View, choices: Choices, spec: PartitionSpec, *, id: int | None = None) -> Row:
        vid = next(self._versions)
        values: dict[int, Any] = {
            ID: choices.one_of(IDS) if id is None else id,
            REGION: choices.one_of(REGIONS),
            VALUE: choices.number(0, 9),
            VID: vid,
        }
        for field in view.metadata.current_schema.fields:
            if field.field_id not in values:
                values[field.field_id] = choices.number(0, 9) if choices.coin() else None
        return self._maker.placed(Row(vid=vid, uid=vid, values=values, partition=(0, ())), spec, view.metadata)

    def _data(self, view: View, choices: Choices, rows: Collection[Row]) -> tuple[ContentFile, ...]:
        return self._maker.data(view.metadata, rows, file_format=choices.one_of(FORMATS))

    @staticmethod
    def _spec(view: View, choices: Choices) -> PartitionSpec:
        """Mostly the table's default spec; a writer may still use an older one."""
        specs = view.metadata.partition_specs
        return choices.one_of(specs) if choices.number(0, 5) == 5 else view.metadata.default_spec

    @staticmethod
    def _equality_spec(view: View) -> PartitionSpec:
        """An unpartitioned spec, whose equality deletes are for all rows, if the table has one."""
        specs = view.metadata.partition_specs
        return next((spec for spec in specs if not spec.is_partitioned), view.metadata.default_spec)

    @staticmethod
    def _condition(choices: Choices, *, keys: bool = False) -> Condition:
        which = 0 if keys else choices.number(0, 4)
        ids = frozenset(choices.some_of(IDS)) if which in {0, 3} else None
        regions = frozenset(choices.some_of(REGIONS)) if which in {1, 3} else None
        return Condition(ids=ids, regions=regions, below=choices.number(1, 9) if which == 2 else None)

    def _manifest(self, view: View, files: Sequence[ContentFile]) -> Any:
        bound = [bind_content_file(file, view.metadata, where="file") for file in files]
        entries = [ManifestEntry(status=Status.ADDED, data_file=file) for file in bound]
        return self._maker.manifest(view.metadata, entries, spec_id=files[0].spec_id)


ANYTHING: Final = frozenset(
    {
        "append", "stage", "delete-files", "delete-where", "overwrite-where", "replace-partitions", "cow-delete",
        "cow-update", "cow-merge", "delta-delete", "delta-update", "delta-merge", "equality", "compaction",
        "rewrite-deletes", "rewrite-manifests", "publish", "cherry-pick", "rollback", "set-current", "fast-forward",
        "schema", "spec", "upgrade", "properties", "expire", "tag",
    }
)  # fmt: skip
"""All kinds of commits but those to the branch itself: that it is renamed or removed."""

ISOLATIONS: Final[tuple[Isolation, ...]] = ("serializable", "snapshot")
VERBS: Final[tuple[Verb, ...]] = ("delete", "update", "merge")


def _paths(files: Iterable[SeenFile]) -> tuple[str, ...]:
    return tuple(file.file.file_path for file in files)


def _intent(kind: type[Any], view: View, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, "branch": view.branch, **members})


def _planned(kind: str, view: View, intent: Intent, effect: Effect, **members: Any) -> Planned:
    return Planned(
        intent=intent, kind=kind, branch=view.branch, head=view.head, mark=view.mark, effect=effect, **members
    )
