"""Writers: they read a table, decide on a statement, write its files, and make the intent that they submit later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from firn.model.content_file import bind_content_file
from firn.model.intent import (
    Append,
    ContentFile,
    DeleteFileRef,
    DeleteFiles,
    DeleteWhere,
    Overwrite,
    Replace,
    ReplacePartitions,
    RowDelta,
)
from tests.unit.coordinator.row_model.file_maker import FileMaker
from tests.unit.coordinator.row_model.planning import (
    ANYTHING,
    FORMATS,
    ISOLATIONS,
    VERBS,
    Choices,
    Verb,
    View,
    intent_of,
    paths,
    planned,
    position_files,
)
from tests.unit.coordinator.row_model.reading import SeenFile, SeenRow, TableReading, live_rows
from tests.unit.coordinator.row_model.rewrite_oracle import RewriteOracle
from tests.unit.coordinator.row_model.row_maker import RowMaker
from tests.unit.coordinator.row_model.rows import (
    ID,
    OWN_COLUMNS,
    Condition,
    Isolation,
    Key,
    Partition,
    Row,
    Statement,
    compact,
    insert,
    key_of,
    take,
    take_if,
    take_where,
)
from tests.unit.coordinator.row_model.table_model import Picked, Planned


class Author:
    """Plans intents; all writers of a test, who differ only in what they have seen."""

    def __init__(self, maker: FileMaker, reading: TableReading) -> None:
        self._maker = maker
        self._reading = reading
        self._rows = RowMaker(maker)

    # -- plain -------------------------------------------------------------------------------------------------------

    def append(self, view: View, choices: Choices) -> Planned:
        """INSERT, by files or by a manifest."""
        rows = self._rows.new(view, choices, count=choices.number(1, 6))
        files = self._rows.data(view, choices, rows)
        members: dict[str, Any] = {"data_files": files}
        inherits = view.metadata.format_version > 1  # else manifests name the snapshot that they were written for
        if inherits and len({file.spec_id for file in files}) == 1 and choices.number(0, 3) == 3:
            members = {"manifests": (self._rows.manifest(view, files),)}
        intent = intent_of(Append, view, **members)
        return planned(
            "append", view, intent, insert(*rows), picked=Picked(rows=tuple(rows)),
            tolerates=ANYTHING,
        )  # fmt: skip

    def stage(self, view: View, choices: Choices, *, wap_id: str) -> Planned:
        """INSERT for audit."""
        rows = self._rows.new(view, choices, count=choices.number(1, 3))
        intent = intent_of(Append, view, data_files=self._rows.data(view, choices, rows), stage=True, wap_id=wap_id)
        return planned(
            "stage", view, intent, insert(*rows), picked=Picked(rows=tuple(rows)), tolerates=ANYTHING
        )  # fmt: skip

    def delete_files(self, view: View, choices: Choices) -> Planned:
        """Retention: whole files go."""
        chosen = choices.some_of(view.files)
        vids = {vid for file in chosen for vid in self._reading.every_row(view.metadata, file)}
        intent = intent_of(DeleteFiles, view, removed_data_files=paths(chosen))
        return planned(
            "delete-files", view, intent, take(vids), tolerates=frozenset({"append", "equality", "delta-delete"})
        )

    def delete_where(self, view: View, choices: Choices) -> Planned:
        """DELETE by metadata alone; files that match in part make it fail."""
        condition = self._rows.condition(choices)
        intent = intent_of(DeleteWhere, view, row_filter=condition.to_json(view.names))
        return planned(
            "delete-where", view, intent, take_where(condition), refusals=frozenset({"partial-match", "invalid-filter"})
        )

    def overwrite_where(self, view: View, choices: Choices) -> Planned:
        """INSERT OVERWRITE … WHERE."""
        condition = self._rows.condition(choices)
        rows = [row for row in self._rows.new(view, choices, count=4) if condition.matches(row)]
        intent = intent_of(
            Overwrite,
            view,
            row_filter=condition.to_json(view.names),
            data_files=self._rows.data(view, choices, rows),
            isolation=choices.one_of(ISOLATIONS),
            base_snapshot_id=view.head,
        )
        return planned(
            "overwrite-where", view, intent, take_where(condition, adding=rows),
            refusals=frozenset({"partial-match", "outside-filter"}),
        )  # fmt: skip

    def replace_partitions(self, view: View, choices: Choices) -> Planned:
        """INSERT OVERWRITE of whatever partitions the new rows are in, by the spec that they are written by."""
        rows = self._rows.new(view, choices, count=choices.number(1, 2))
        spec = view.metadata.spec_by_id(rows[0].partition[0])
        assert spec is not None
        touched = {key_of(row.partition) for row in rows}

        def goes(row: Row) -> bool:
            return key_of(self._maker.placed(row, spec, view.metadata).partition) in touched

        intent = intent_of(
            ReplacePartitions,
            view,
            data_files=self._rows.data(view, choices, rows),
            isolation=choices.one_of(ISOLATIONS),
            base_snapshot_id=view.head,
        )
        return planned(
            "replace-partitions", view, intent, take_if(goes, adding=rows), picked=Picked(rows=tuple(rows), goes=goes),
            refusals=frozenset({"partial-match"}),
        )  # fmt: skip

    # -- statements --------------------------------------------------------------------------------------------------

    def copy_on_write(self, view: View, choices: Choices) -> Planned | None:
        """DELETE, UPDATE or MERGE that writes the files anew which have matching rows."""
        verb: Verb = choices.one_of(VERBS)
        condition, isolation = self._rows.condition(choices, keys=verb == "merge"), choices.one_of(ISOLATIONS)
        matches = [row for row in live_rows(view.files) if condition.matches(view.row(row))]
        touched = [file for file in view.files if any(row in matches for row in file.rows)]
        if not touched and verb != "merge":
            return None
        statement, written = self._statement(view, choices, verb, condition, isolation, matches)
        spec = self._rows.spec(view, choices)
        carried = {
            row.vid: self._rows.lineage(view, self._maker.placed(view.row(row), spec, view.metadata))
            for file in touched
            for row in file.rows
            if row not in matches
        }
        statement = msgspec.structs.replace(statement, carried=carried)
        intent = intent_of(
            Overwrite,
            view,
            removed_data_files=paths(touched),
            data_files=self._maker.data(
                view.metadata, [*written, *carried.values()], file_format=choices.one_of(FORMATS)
            ),
            conflict_filter=None if choices.number(0, 3) == 3 else condition.to_json(view.names),
            isolation=isolation,
            base_snapshot_id=view.head,
        )
        tolerates = frozenset({"append"}) if isolation == "snapshot" else frozenset()
        return planned(f"cow-{verb}", view, intent, statement, tolerates=tolerates)

    def merge_on_read(self, view: View, choices: Choices) -> Planned | None:
        """DELETE, UPDATE or MERGE that deletes rows by their positions."""
        verb: Verb = choices.one_of(VERBS)
        condition, isolation = self._rows.condition(choices, keys=verb == "merge"), choices.one_of(ISOLATIONS)
        matches = [row for row in live_rows(view.files) if condition.matches(view.row(row))]
        if not matches and verb != "merge":
            return None
        statement, written = self._statement(view, choices, verb, condition, isolation, matches)
        taken: dict[str, list[int]] = {}
        for row in matches:
            taken.setdefault(row.file, []).append(row.position)
        hit = [file for file in view.files if file.file.file_path in taken]
        deletes, replaced = self._deletes(view, choices, hit, taken)
        intent = intent_of(
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
        return planned(f"delta-{verb}", view, intent, statement, tolerates=tolerates)

    def equality(self, view: View, choices: Choices) -> Planned:
        """What streaming upserts do: delete by key whatever is there, and insert, without looking."""
        spec = self._rows.equality_spec(view, choices)
        partitions: dict[Key, Partition] | None = None
        if spec.is_partitioned:
            rows = [self._rows.one(view, choices, spec) for _ in range(choices.number(1, 2))]
            partitions = {key_of(row.partition): row.partition for row in rows}
        columns, keys = self._rows.keys(view, choices)
        deletes = [
            self._maker.equality(view.metadata, columns, keys, partition)
            for partition in (partitions or {None: (spec.spec_id, ())}).values()
        ]
        new = [row for row in self._rows.new(view, choices, count=2) if choices.coin()]
        intent = intent_of(RowDelta, view, delete_files=tuple(deletes), data_files=self._rows.data(view, choices, new))
        defaults = {i: field.initial_default for i, field in view.metadata.current_schema.fields_by_id.items()}
        wanted = {key_of(tuple(key[column] for column in columns)) for key in keys}

        def goes(row: Row) -> bool:
            key = key_of(tuple(row.values.get(column, defaults[column]) for column in columns))
            return key in wanted and (partitions is None or key_of(row.partition) in partitions)

        tolerates = ANYTHING if OWN_COLUMNS.issuperset(columns) else ANYTHING - {"schema"}
        return planned("equality", view, intent, take_if(goes, adding=new), tolerates=tolerates)

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
        value, spec = choices.number(0, 9), self._rows.spec(view, choices)
        updated = {row.vid: self._rows.changed(view, view.row(row), value, spec) for row in matches}
        inserted: tuple[Row, ...] = ()
        if verb == "merge":
            there = {view.row(row).values[ID] for row in live_rows(view.files)}
            inserted = tuple(
                self._rows.one(view, choices, spec, id=id) for id in sorted((condition.ids or frozenset()) - there)
            )
        statement = Statement(condition=condition, isolation=isolation, updated=updated, inserted=inserted)
        return statement, [*updated.values(), *inserted]

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
        wide = choices.coin()
        return position_files(self._maker, view, [(file, taken[file.file.file_path]) for file in hit], wide=wide)

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def compaction(self, view: View, choices: Choices) -> Planned | None:
        """Files written anew with the deletes applied, maybe as old as they were, maybe into other partitions."""
        if view.head is None or not view.files:
            return None
        chosen = choices.some_of(view.files)
        spec = choices.one_of(view.metadata.partition_specs) if choices.coin() else view.metadata.default_spec
        rewritten = {
            row.vid: self._rows.lineage(view, self._maker.placed(view.row(row), spec, view.metadata))
            for row in live_rows(chosen)
        }
        snapshot = view.metadata.snapshot_by_id(view.head)
        assert snapshot is not None
        youngest, now = max(file.sequence_number for file in chosen), snapshot.sequence_number
        written = self._maker.data(view.metadata, rewritten.values(), file_format=choices.one_of(FORMATS))
        intent = intent_of(
            Replace,
            view,
            removed_data_files=paths(chosen),
            data_files=written,
            data_sequence_number=now - choices.number(0, now - youngest) if choices.coin() else None,
            base_snapshot_id=view.head,
        )
        bound = tuple(bind_content_file(file, view.metadata, where="file") for file in written)
        oracle = RewriteOracle(self._maker.files, intent, bound, now)
        return planned(
            "compaction", view, intent, compact(rewritten), may_change_rows=oracle.may_change_rows,
            refusals=frozenset({"wrong-sequence-number"}),
            tolerates=frozenset({"append", "rewrite-deletes", "rewrite-manifests", "drop-deletes"}),
        )  # fmt: skip
