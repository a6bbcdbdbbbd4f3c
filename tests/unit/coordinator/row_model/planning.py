"""What a writer plans by: a throw of dice, and what it sees of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from firn.model.datafile import FileFormat
from firn.model.intent import ContentFile, Intent
from firn.model.metadata import TableMetadata
from tests.unit.coordinator.row_model.file_maker import FileMaker
from tests.unit.coordinator.row_model.reading import SeenFile, SeenRow
from tests.unit.coordinator.row_model.rows import Effect, Isolation, Key, Partition, Row, Rows, key_of
from tests.unit.coordinator.row_model.table_model import Planned
from tests.unit.coordinator.workbench import TABLE, new_id

IDS: Final = range(8)
REGIONS: Final = ("eu", "us", None)
WEIGHTS: Final = (1.5, None, math.nan, -0.0, 0.0)
OTHERS: Final = (None, 0, 1, 2)
"""Values of columns that were added."""

FORMATS: Final[tuple[FileFormat, ...]] = ("parquet", "avro")

Verb = Literal["delete", "update", "merge"]
T = TypeVar("T")

ANYTHING: Final = frozenset(
    {
        "append", "stage", "delete-files", "delete-where", "overwrite-where", "replace-partitions", "cow-delete",
        "cow-update", "cow-merge", "delta-delete", "delta-update", "delta-merge", "equality", "compaction",
        "rewrite-deletes", "rewrite-equality", "convert-deletes", "drop-deletes", "rewrite-manifests", "publish",
        "cherry-pick", "rollback", "set-current", "fast-forward", "schema", "spec", "upgrade", "properties", "expire",
        "tag",
    }
)  # fmt: skip
"""All kinds of commits but those to the branch itself: that it is renamed or removed."""

ISOLATIONS: Final[tuple[Isolation, ...]] = ("serializable", "snapshot")
VERBS: Final[tuple[Verb, ...]] = ("delete", "update", "merge")


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


def paths(files: Iterable[SeenFile]) -> tuple[str, ...]:
    return tuple(file.file.file_path for file in files)


def intent_of(kind: type[Any], view: View, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, "branch": view.branch, **members})


def planned(kind: str, view: View, intent: Intent, effect: Effect, **members: Any) -> Planned:
    return Planned(
        intent=intent, kind=kind, branch=view.branch, head=view.head, mark=view.mark, effect=effect, **members
    )


def position_files(
    maker: FileMaker, view: View, found: Iterable[tuple[SeenFile, list[int]]], *, wide: bool
) -> tuple[ContentFile, ...]:
    """Position delete files of v2 for these rows: of each data file, or of each partition if they are `wide`."""
    groups: dict[Key, tuple[Partition, dict[str, list[int]]]] = {}
    for file, taken in found:
        path, partition = file.file.file_path, (file.file.spec_id, file.file.partition)
        key = key_of(partition) if wide else path
        groups.setdefault(key, (partition, {}))[1][path] = taken
    return tuple(maker.positions(view.metadata, own, partition) for partition, own in groups.values())
