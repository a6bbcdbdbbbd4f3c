"""The rows that writers make, and the files that they are in."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import msgspec

from firn.model.content_file import bind_content_file
from firn.model.intent import ContentFile
from firn.model.manifest import ManifestEntry, Status
from firn.model.partitioning import PartitionSpec
from tests.unit.coordinator.row_model.file_maker import FileMaker
from tests.unit.coordinator.row_model.planning import FORMATS, IDS, OTHERS, REGIONS, WEIGHTS, Choices, View
from tests.unit.coordinator.row_model.rows import ID, REGION, VALUE, VID, WEIGHT, Condition, Row

_WEIGHT_CONDITIONS: Final[dict[int, Literal["light", "nan"]]] = {4: "light", 5: "nan"}


class RowMaker:
    """Makes rows and their next versions; all writers of a test have one, so that no two rows are the same."""

    def __init__(self, maker: FileMaker) -> None:
        self._maker = maker
        self._versions = itertools.count(1)

    def new(self, view: View, choices: Choices, *, count: int) -> list[Row]:
        spec = self.spec(view, choices)
        return [self.one(view, choices, spec) for _ in range(count)]

    def one(self, view: View, choices: Choices, spec: PartitionSpec, *, id: int | None = None) -> Row:
        vid = next(self._versions)
        values: dict[int, Any] = {
            ID: choices.one_of(IDS) if id is None else id,
            REGION: choices.one_of(REGIONS),
            VALUE: choices.number(0, 9),
            VID: vid,
            WEIGHT: choices.one_of(WEIGHTS),
        }
        for field in view.metadata.current_schema.fields:
            if field.field_id not in values:
                values[field.field_id] = choices.one_of(OTHERS)
        return self._maker.placed(Row(vid=vid, uid=vid, values=values, partition=(0, ())), spec, view.metadata)

    def data(self, view: View, choices: Choices, rows: Collection[Row]) -> tuple[ContentFile, ...]:
        return self._maker.data(view.metadata, rows, file_format=choices.one_of(FORMATS))

    @staticmethod
    def spec(view: View, choices: Choices) -> PartitionSpec:
        """Mostly the table's default spec; a writer may still use an older one."""
        specs = view.metadata.partition_specs
        return choices.one_of(specs) if choices.number(0, 5) == 5 else view.metadata.default_spec

    @staticmethod
    def equality_spec(view: View, choices: Choices) -> PartitionSpec:
        """Mostly an unpartitioned spec, whose equality deletes are for all rows, if the table has one."""
        specs = view.metadata.partition_specs
        if choices.number(0, 2) == 2:
            return choices.one_of(specs)
        return next((spec for spec in specs if not spec.is_partitioned), view.metadata.default_spec)

    @staticmethod
    def condition(choices: Choices, *, keys: bool = False) -> Condition:
        which = 0 if keys else choices.number(0, 6)
        ids = frozenset(choices.some_of(IDS)) if which in {0, 3} else None
        regions = frozenset(choices.some_of(REGIONS)) if which in {1, 3} else None
        below, weight = choices.number(1, 9) if which == 2 else None, _WEIGHT_CONDITIONS.get(which)
        return Condition(ids=ids, regions=regions, below=below, weight=weight)

    @staticmethod
    def keys(view: View, choices: Choices) -> tuple[tuple[int, ...], list[dict[int, Any]]]:
        """Columns to delete by, and keys in them: mostly ids, else whatever columns there are, with odd values."""
        if choices.number(0, 2):
            return (ID,), [{ID: id} for id in choices.some_of(IDS)]
        others = [i for i in view.metadata.current_schema.fields_by_id if i not in {VID, VALUE}]
        columns = tuple(sorted({choices.one_of(others), choices.one_of(others)}))
        drawn = {ID: IDS, REGION: REGIONS, WEIGHT: WEIGHTS}
        keys = [{i: choices.one_of(drawn.get(i, OTHERS)) for i in columns} for _ in range(choices.number(1, 3))]
        return columns, keys

    def manifest(self, view: View, files: Sequence[ContentFile]) -> Any:
        bound = [bind_content_file(file, view.metadata, where="file") for file in files]
        entries = [ManifestEntry(status=Status.ADDED, data_file=file) for file in bound]
        return self._maker.manifest(view.metadata, entries, spec_id=files[0].spec_id)

    def changed(self, view: View, row: Row, value: int, spec: PartitionSpec) -> Row:
        """The row's next version."""
        vid = next(self._versions)
        values = {**row.values, VALUE: value, VID: vid}
        changed = msgspec.structs.replace(self.lineage(view, row), vid=vid, values=values, updated=None)
        return self._maker.placed(changed, spec, view.metadata)

    @staticmethod
    def lineage(view: View, row: Row) -> Row:
        """The row with the lineage that a writer of this table writes with it: none where rows have no ids (yet)."""
        known = view.metadata.format_version >= 3 and row.row_id is not None
        return row if known else msgspec.structs.replace(row, row_id=None, updated=None)
