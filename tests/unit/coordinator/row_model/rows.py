"""A table as a sequence of rows, and what statements do to it: no files, no snapshots, no Iceberg.

A row has an identity that lasts through updates (`uid`) and one for each version of it (`vid`), which the real table
has as a column. A statement was decided on the rows that its writer saw; its *effect* is asked of the rows that are
there when it is committed, and refuses (`NotSerial`) when no order of the statements explains what was committed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final, Literal, cast

import msgspec

ID, REGION, VALUE, VID, WEIGHT = 1, 2, 3, 4, 5
"""Columns that every table has, by field id; schema changes add others."""

OWN_COLUMNS: Final = frozenset({ID, REGION, VALUE, VID, WEIGHT})

Partition = tuple[int, tuple[Any, ...]]
"""Spec id and partition tuple of the file that holds a row: some operations are about partitions."""


Key = Hashable
"""A value, or a place with values in it, that equals exactly what Iceberg has it equal: see `key_of`."""


def key_of(value: Any) -> Key:
    """Doubles by what they are, not as Python compares them: NaN is NaN, and -0.0 is not 0.0."""
    if isinstance(value, tuple):
        return tuple(key_of(one) for one in value)
    if isinstance(value, float):
        return b"nan" if value != value else struct.pack("<d", value)  # noqa: PLR0124 - the test for NaN
    return cast("Key", value)


class NotSerial(AssertionError):
    """What was committed is not what the statement would have done to the rows that were there."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a row.

    `row_id` and `updated` are its lineage in format v3, None while the model does not know.
    """

    vid: int
    uid: int
    values: Mapping[int, Any]
    partition: Partition
    row_id: int | None = None
    updated: int | None = None


Rows = tuple[Row, ...]


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows a statement is about: all that is not None must hold."""

    ids: frozenset[int] | None = None
    regions: frozenset[str | None] | None = None
    below: int | None = None
    weight: Literal["light", "nan"] | None = None
    """`light` is less than 1, which no NaN is."""

    def matches(self, row: Row) -> bool:
        """Whether the statement is about the row."""
        values = row.values
        return (
            (self.ids is None or values[ID] in self.ids)
            and (self.regions is None or values[REGION] in self.regions)
            and (self.below is None or values[VALUE] < self.below)
            and (self.weight is None or self._weighs(values[WEIGHT]))
        )

    def _weighs(self, weight: float | None) -> bool:
        return weight is not None and (weight != weight if self.weight == "nan" else weight < 1)  # noqa: PLR0124 - as above

    def to_json(self, names: Mapping[int, str]) -> dict[str, Any] | bool:
        """As a filter of an intent; `names` are the columns' names by field id."""
        parts: list[dict[str, Any]] = []
        if self.ids is not None:
            parts.append({"type": "in", "term": names[ID], "values": sorted(self.ids)})
        if self.regions is not None:
            named = sorted(region for region in self.regions if region is not None)
            either: list[dict[str, Any]] = [{"type": "eq", "term": names[REGION], "value": region} for region in named]
            if None in self.regions:
                either.append({"type": "is-null", "term": names[REGION]})
            parts.append(_joined("or", either))
        if self.below is not None:
            parts.append({"type": "lt", "term": names[VALUE], "value": self.below})
        if self.weight == "light":
            parts.append({"type": "lt", "term": names[WEIGHT], "value": 1.0})
        elif self.weight == "nan":
            parts.append({"type": "is-nan", "term": names[WEIGHT]})
        return _joined("and", parts) if parts else True


def _joined(operation: str, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    joined = parts[0]
    for part in parts[1:]:
        joined = {"type": operation, "left": joined, "right": part}
    return joined


Effect = Callable[[Rows], Rows]
"""What a committed statement does to the rows that it is committed over; raises NotSerial."""


def nothing(rows: Rows) -> Rows:
    """What is about files only."""
    return rows


def insert(*new: Row) -> Effect:
    """New rows."""
    return lambda rows: (*rows, *new)


def take(vids: Collection[int], *, adding: Sequence[Row] = ()) -> Effect:
    """Whichever of these row versions are there go, unconditionally; others come."""
    return lambda rows: (*(row for row in rows if row.vid not in vids), *adding)


def take_where(condition: Condition, *, adding: Sequence[Row] = ()) -> Effect:
    """All rows that match go, those that the writer never saw too; others come."""
    return take_if(condition.matches, adding=adding)


def take_if(goes: Callable[[Row], bool], *, adding: Sequence[Row] = ()) -> Effect:
    """All rows that `goes` says go, those that the writer never saw too; others come."""
    return lambda rows: (*(row for row in rows if not goes(row)), *adding)


def compact(rewritten: Mapping[int, Row]) -> Effect:
    """The same rows in other files: versions and values stay as they are, and none goes or comes back.

    Of those that were rewritten some may be deleted by now, by equality deletes that the new files are as old as.
    """

    def effect(rows: Rows) -> Rows:
        _require_same_ids(rows, rewritten)
        return tuple([rewritten.get(row.vid, row) for row in rows])

    return effect


Isolation = Literal["serializable", "snapshot"]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """DELETE, UPDATE or MERGE as it was decided on what its writer saw.

    `deleted` and `updated` (new versions) are by the `vid` of the row as it was; `carried` are rows of other `vid` that
    it does not change, but writes anew with the file that they share with some that it does.
    """

    condition: Condition
    isolation: Isolation = "serializable"
    deleted: frozenset[int] = frozenset()
    updated: Mapping[int, Row] = {}
    inserted: tuple[Row, ...] = ()
    carried: Mapping[int, Row] = {}

    def __call__(self, rows: Rows) -> Rows:
        _require_there(rows, self.carried, "written anew with others'")
        _require_there(rows, self.updated, "updated")
        _require_same_ids(rows, {**self.carried, **self.updated})
        if self.isolation == "serializable":
            self._require_serial(rows)
        self._require_no_newer_version(rows)
        kept = [row for row in rows if row.vid not in self.deleted and row.vid not in self.updated]
        kept = [self.carried.get(row.vid, row) for row in kept]
        return (*kept, *self.updated.values(), *self.inserted)

    def _require_serial(self, rows: Rows) -> None:
        """Run on the rows that are there now, the statement would have changed the same rows."""
        matches = {row.vid for row in rows if self.condition.matches(row)}
        unseen = matches - self.deleted - self.updated.keys()
        if unseen:
            raise NotSerial(f"rows {sorted(unseen)} match {self.condition} and are not changed")

    def _require_no_newer_version(self, rows: Rows) -> None:
        """A row that it deletes and that another statement has changed meanwhile is nobody's to delete unseen."""
        if not self.deleted:
            return
        there = {row.uid: row.vid for row in rows}
        for row in self.deleted_rows:
            if row.uid in there and there[row.uid] not in self.deleted and self.isolation == "snapshot":
                raise NotSerial(f"row {row.vid} was deleted, but lives on as {there[row.uid]}")

    deleted_rows: tuple[Row, ...] = ()
    """The rows of `deleted`, as the writer saw them."""


def _require_there(rows: Rows, wanted: Mapping[int, Row], how: str) -> None:
    """Refuse row versions that are not there any more, or not as they were: they would come back."""
    there = {row.vid: row for row in rows}
    for vid, row in wanted.items():
        if vid not in there:
            raise NotSerial(f"row {vid} is {how}, but is not there any more")
        if there[vid].uid != row.uid:
            raise NotSerial(f"row {vid} is {how}, but is another one now")


def _require_same_ids(rows: Rows, rewritten: Mapping[int, Row]) -> None:
    """Refuse rows written anew that have an id by now which is not written with them."""
    for row in rows:
        if row.row_id is not None and row.row_id != rewritten.get(row.vid, row).row_id:
            raise NotSerial(f"row {row.vid} has id {row.row_id}, and is written anew without it")


NO_ROWS: Final[Rows] = ()
