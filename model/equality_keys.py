"""Keys of equality deletes: which data files may have rows with them, as far as metrics tell.

No means that a data file certainly has no such row, so that the delete file need not be applied to it. Yes promises
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from firn.model.datafile import DataFile
from firn.model.expressions.column_facts import ColumnFacts
from firn.model.expressions.metrics_inclusive import facts_of_column
from firn.model.expressions.predicates import BoundReference
from firn.model.schema import Schema
from firn.model.types import UNKNOWN, UUID, VARIANT, DecimalType, FixedType, PrimitiveType


class EqualityKeys:
    """An equality delete file with what its metrics say of the columns that it compares."""

    __slots__ = ("_facts", "file")

    def __init__(self, file: DataFile, columns: MetricColumns) -> None:
        self.file = file
        known = [column for field_id in file.equality_ids or () if (column := columns.by_id(field_id)) is not None]
        self._facts = [(column, facts_of_column(column, file)) for column in known]

    def may_be_in(self, file: DataFile, known: dict[int, ColumnFacts]) -> bool:
        """False only if no row of `file` can have a key of this delete file: some column has no value in common.

        `known` keeps what the metrics of `file` say by column, for the next delete file.
        """
        for column, deleted in self._facts:
            facts = known.get(column.field_id)
            if facts is None:
                facts = known[column.field_id] = facts_of_column(column, file)
            if not may_share(deleted, facts, column.type != UUID):
                return False
        return True

    def may_be_among(self, facts_of: Callable[[BoundReference], ColumnFacts | None]) -> bool:
        """As `may_be_in`, of rows of which `facts_of` says what is known of a column, None: there are no such rows."""
        for column, deleted in self._facts:
            facts = facts_of(column)
            if facts is None or not may_share(deleted, facts, column.type != UUID):
                return False
        return True


# ---------------------------------------------------------------------------------------------------------------------
# Values that two files may have in common


def may_share(one: ColumnFacts, other: ColumnFacts, ordered: bool) -> bool:  # noqa: FBT001 - the last of three facts
    """Whether both may have some value in common; null equals null here, NaN equals NaN.

    `ordered` False is for UUIDs: writers do not agree on how those are ordered, so that their bounds cannot be compared
    with one another.
    """
    if (one.may_be_null and other.may_be_null) or (one.may_be_nan and other.may_be_nan):
        return True
    return _may_share_values(one, other, ordered)


def shared(one: ColumnFacts, other: ColumnFacts, ordered: bool) -> ColumnFacts | None:  # noqa: FBT001 - as above
    """What is known of values that both may have in common; None if they have none."""
    if not may_share(one, other, ordered):
        return None
    upright = ordered and _upright(one) and _upright(other)
    return ColumnFacts(
        may_be_null=one.may_be_null and other.may_be_null,
        may_be_nan=one.may_be_nan and other.may_be_nan,
        may_be_value=_may_share_values(one, other, ordered),
        lower=max((f.lower for f in (one, other) if f.lower is not None), default=None) if upright else None,
        upper=min((f.upper for f in (one, other) if f.upper is not None), default=None) if upright else None,
    )


def _may_share_values(one: ColumnFacts, other: ColumnFacts, ordered: bool) -> bool:  # noqa: FBT001 - as above
    if not one.may_be_value or not other.may_be_value:
        return False
    return not ordered or not _upright(one) or not _upright(other) or _overlap(one, other)


def _upright(facts: ColumnFacts) -> bool:
    """Whether the bounds do not contradict each other, which makes them worthless."""
    return facts.lower is None or facts.upper is None or bool(facts.lower <= facts.upper)


def _overlap(one: ColumnFacts, other: ColumnFacts) -> bool:
    apart = (one.upper is not None and other.lower is not None and one.upper < other.lower) or (
        other.upper is not None and one.lower is not None and other.upper < one.lower
    )
    return not apart


# ---------------------------------------------------------------------------------------------------------------------
# Columns


class MetricColumns:
    """Columns by id whose metrics can be compared, dropped ones included: a column's deletes outlive it.

    One counts as never null only if all schemas say so, since files were written under any of them.
    """

    def __init__(self, schemas: Iterable[Schema]) -> None:
        self._schemas = tuple(schemas)
        self._known: dict[int, BoundReference | None] = {}

    def by_id(self, field_id: int) -> BoundReference | None:
        """The column, None if no schema has it or its metrics cannot be compared."""
        if field_id not in self._known:
            self._known[field_id] = self._find(field_id)
        return self._known[field_id]

    def _find(self, field_id: int) -> BoundReference | None:
        found = [_column(schema, field_id) for schema in self._schemas if field_id in schema.fields_by_id]
        newest = found[0] if found else None
        if newest is None or None in found:
            return None
        return msgspec.structs.replace(
            newest,
            nullable=any(column is not None and column.nullable for column in found),
            optional_parent=any(column is not None and column.optional_parent for column in found),
        )


def _column(schema: Schema, field_id: int) -> BoundReference | None:
    field = schema.fields_by_id[field_id]
    if not isinstance(field.type, PrimitiveType | DecimalType | FixedType) or field.type in (VARIANT, UNKNOWN):
        return None
    if schema.position(field_id) is None:  # inside a list or a map, where counts are not of rows
        return None
    optional_parent, parent_id = False, schema.parent_id(field_id)
    nested = parent_id is not None
    while parent_id is not None:
        optional_parent = optional_parent or not schema.fields_by_id[parent_id].required
        parent_id = schema.parent_id(parent_id)
    return BoundReference(
        field_id=field_id,
        name=schema.column_name(field_id) or "",
        type=field.type,
        nullable=not field.required or optional_parent,
        nested=nested,
        optional_parent=optional_parent,
    )
