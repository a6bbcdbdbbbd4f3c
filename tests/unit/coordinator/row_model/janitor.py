"""Plans of rewrites of delete files: what is deleted stays deleted, by other files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from firn.model.datafile import DataFile
from firn.model.intent import ContentFile, DeleteFileRef, Replace
from firn.model.manifest import ManifestEntry
from tests.unit.coordinator.row_model.file_maker import FileMaker
from tests.unit.coordinator.row_model.planning import Choices, View, intent_of, planned, position_files
from tests.unit.coordinator.row_model.reading import SeenFile, TableReading
from tests.unit.coordinator.row_model.rows import compact, key_of
from tests.unit.coordinator.row_model.table_model import Planned


class Janitor:
    """Writes delete files anew, or takes them away."""

    def __init__(self, maker: FileMaker, reading: TableReading) -> None:
        self._maker = maker
        self._reading = reading

    def rewrite_deletes(self, view: View, choices: Choices) -> Planned | None:
        """Deletion vectors put into one Puffin file."""
        having = [file for file in view.files if any(delete.is_deletion_vector for delete in file.deletes)]
        if view.head is None or not having:
            return None
        chosen = choices.some_of(having)
        vectors = [next(d for d in file.deletes if d.is_deletion_vector) for file in chosen]
        deleted = [(file.file, self._reading.deleted_positions(view.metadata, file)) for file in chosen]
        intent = _intent(view, vectors, self._maker.vectors(view.metadata, deleted))
        return planned("rewrite-deletes", view, intent, compact({}), tolerates=frozenset({"append", "equality"}))

    def rewrite_positions(self, view: View, choices: Choices) -> Planned | None:
        """All position delete files written anew, as vectors once the table has those."""
        named = {
            delete.file_path: delete
            for file in view.files
            for delete in file.deletes
            if delete.content == "position-deletes" and not delete.is_deletion_vector
        }
        if view.head is None or not named:
            return None
        having = [file for file in view.files if any(delete.file_path in named for delete in file.deletes)]
        found = [(file, self._reading.deleted_positions(view.metadata, file)) for file in having]
        written = self._by_position(view, [one for one in found if one[1]], wide=choices.coin())
        return planned("rewrite-deletes", view, _intent(view, named.values(), written), compact({}))

    def convert_deletes(self, view: View, choices: Choices) -> Planned | None:
        """Equality deletes become deletes by position."""
        live = [entry.data_file for entry in self._reading.equality_deletes(view.metadata, view.head)]
        if not live:
            return None
        chosen = choices.some_of(live)
        gone = {file.file_path for file in chosen}
        replaced: list[DataFile] = list(chosen)
        found: list[tuple[SeenFile, list[int]]] = []
        for file in view.files:
            own = [delete for delete in file.deletes if delete.file_path in gone]
            taken = self._reading.reached(view.metadata, file, own) if own else []
            if not taken:
                continue
            if view.metadata.format_version >= 3:
                replaced += [delete for delete in file.deletes if delete.is_deletion_vector]
                taken = sorted({*taken, *self._reading.deleted_positions(view.metadata, file)})
            found.append((file, taken))
        intent = _intent(view, replaced, self._by_position(view, found, wide=choices.coin()))
        return planned("convert-deletes", view, intent, compact({}), refusals=frozenset({"lost-deletes"}))

    def rewrite_equality(self, view: View, choices: Choices) -> Planned | None:
        """Equality deletes of one age, partition and choice of columns become one file."""
        groups: dict[Any, list[ManifestEntry]] = {}
        for entry in self._reading.equality_deletes(view.metadata, view.head):
            file = entry.data_file
            place = key_of((file.spec_id, file.partition)), file.equality_ids, entry.sequence_number
            groups.setdefault(place, []).append(entry)
        if not groups:
            return None
        own = choices.one_of(list(groups.values()))
        first = own[0].data_file
        keys = [key for entry in own for key in self._maker.keys[entry.data_file.file_path]]
        written = self._maker.equality(view.metadata, first.equality_ids or (), keys, (first.spec_id, first.partition))
        intent = _intent(
            view, [entry.data_file for entry in own], (written,), data_sequence_number=own[0].sequence_number
        )
        return planned("rewrite-equality", view, intent, compact({}), tolerates=frozenset({"append", "equality"}))

    def drop_deletes(self, view: View, choices: Choices) -> Planned | None:
        """Equality deletes are taken away by a writer that has not looked whether they reach anything."""
        live = [entry.data_file for entry in self._reading.equality_deletes(view.metadata, view.head)]
        if not live:
            return None
        intent = _intent(view, choices.some_of(live), ())
        return planned(
            "drop-deletes", view, intent, compact({}), refusals=frozenset({"lost-deletes"}),
            tolerates=frozenset({"append", "equality", "delta-delete"}),
        )  # fmt: skip

    def _by_position(
        self, view: View, found: Sequence[tuple[SeenFile, list[int]]], *, wide: bool
    ) -> tuple[ContentFile, ...]:
        if view.metadata.format_version < 3:
            return position_files(self._maker, view, found, wide=wide)
        return self._maker.vectors(view.metadata, [(file.file, taken) for file, taken in found]) if found else ()


def _intent(view: View, removed: Iterable[DataFile], written: tuple[ContentFile, ...], **members: Any) -> Replace:
    named = tuple(DeleteFileRef(file_path=file.file_path, content_offset=file.content_offset) for file in removed)
    found: Replace = intent_of(
        Replace, view, removed_delete_files=named, delete_files=written, base_snapshot_id=view.head, **members
    )
    return found
