"""Merging a DataFrame into a table: rows that match are updated or deleted, others inserted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import msgspec
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column, DataFrame

from firn.coordinator.client.answers import Answer
from firn.model.amounts import plural
from firn.model.errors import InvalidInput
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.schema import Schema
from firn.pipeline.assignment import assigned_value
from firn.pipeline.column_names import named_column
from firn.pipeline.row_changes import DELETE, FILE, INSERT, POS, UPDATE, Base, ChangeOptions, apply_changes
from firn.pipeline.row_filter import narrowing_column, parse_filter
from firn.pipeline.row_level import kept
from firn.pipeline.user_columns import fresh_name
from firn.pipeline.write_properties import MERGE_ISOLATION, MERGE_MODE
from firn.pipeline.write_target import LINEAGE

Values = Mapping[str, Column | str]


class _Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Columns beside the user's: which sides a joined row has, and the number of the clause that counts for it."""

    in_table: str
    in_source: str
    clause: str

    @classmethod
    def beside(cls, *taken: Sequence[str]) -> _Marks:
        names = {name: fresh_name(f"__firn_{name}", *taken) for name in cls.__struct_fields__}
        return cls(**names)


class Update(msgspec.Struct, frozen=True):
    """Set columns; without `values` all columns that the source has, by name. `condition` is SQL or a Spark column."""

    values: Values | None = None
    condition: Column | str | None = None


class Delete(msgspec.Struct, frozen=True):
    """Delete the row."""

    condition: Column | str | None = None


class Insert(msgspec.Struct, frozen=True):
    """Insert a row; without `values` all columns that the source has, by name. What is not named is null."""

    values: Values | None = None
    condition: Column | str | None = None


class Clauses(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge does; of each list the first clause whose condition holds counts, and rows of none stay."""

    matched: tuple[Update | Delete, ...] = ()
    not_matched: tuple[Insert, ...] = ()
    not_matched_by_source: tuple[Update | Delete, ...] = ()


def merge(
    source: DataFrame,
    table: str,
    *,
    on: Column | str,
    clauses: Clauses,
    target_filter: str | Expression = TRUE,
    **options: Unpack[ChangeOptions],
) -> Answer | None:
    """Merge `source` into the table; None when nothing changes, and nothing is committed.

    In `on`, conditions and values the table's row is ``t``, the source's ``s``: ``on="t.id = s.id"``. `target_filter`
    are the rows of the table that matter: others are not read, do not match, and what happens to them meanwhile is no
    conflict. Raises InvalidInput when a row of the table that would be changed is matched by several of the source,
    or values name a column that is none; otherwise as `firn.pipeline.row_level.delete_where`.
    """
    spark = source.sparkSession
    reads = parse_filter(target_filter)
    planned = Base.planned(spark, table, reads=reads, options=options, mode=MERGE_MODE, isolation=MERGE_ISOLATION)
    with planned as base:
        rows = base.rows(base.plan.tasks)
        if reads != TRUE:
            rows = rows.where(narrowing_column(base.plan.filter))
        marks = _Marks.beside(rows.columns, source.columns)
        joined = _joined(rows, source, on, clauses, marks)
        marked = joined.withColumn(marks.clause, _first_that_holds(clauses, marks))
        chosen = marked.where(F.col(marks.clause).isNotNull())
        changes = chosen.select(*_changed(chosen, clauses, base, source.columns, marks))
        with kept(changes) as found:
            _refuse_several(found, base.action)
            brings_rows = any(not isinstance(one, Delete) for one in _all(clauses))
            return apply_changes(base, found, brings_rows=brings_rows)


def _all(clauses: Clauses) -> tuple[Update | Delete | Insert, ...]:
    return (*clauses.matched, *clauses.not_matched, *clauses.not_matched_by_source)


def _joined(rows: DataFrame, source: DataFrame, on: Column | str, clauses: Clauses, marks: _Marks) -> DataFrame:
    """Rows of the table (``t``) and the source (``s``) side by side, with as much of either as the clauses need."""
    left = rows.withColumn(marks.in_table, F.lit(col=True)).alias("t")
    right = source.withColumn(marks.in_source, F.lit(col=True)).alias("s")
    how = {(False, False): "inner", (True, False): "right", (False, True): "left", (True, True): "full"}
    kind = how[bool(clauses.not_matched), bool(clauses.not_matched_by_source)]
    return left.join(right, F.expr(on) if isinstance(on, str) else on, kind)


def _first_that_holds(clauses: Clauses, marks: _Marks) -> Column:
    """The number of the clause, counted over all of them, that counts for a joined row; null for none."""
    in_table, in_source = F.col(marks.in_table).isNotNull(), F.col(marks.in_source).isNotNull()
    cases = [
        *((one, in_table & in_source) for one in clauses.matched),
        *((one, in_source & ~in_table) for one in clauses.not_matched),
        *((one, in_table & ~in_source) for one in clauses.not_matched_by_source),
    ]
    holds = [F.when(place & _condition(one), F.lit(number)) for number, (one, place) in enumerate(cases)]
    return F.coalesce(*holds) if holds else F.lit(None).cast("int")


def _condition(clause: Update | Delete | Insert) -> Column:
    if clause.condition is None:
        return F.lit(col=True)
    found = F.expr(clause.condition) if isinstance(clause.condition, str) else clause.condition
    return F.coalesce(found, F.lit(col=False))


def _changed(rows: DataFrame, clauses: Clauses, base: Base, given: Sequence[str], marks: _Marks) -> list[Column]:
    """The columns of a change: of each what its clause makes of it."""
    every = _all(clauses)
    actions = [_action(one) for one in every]
    columns = [_by_clause([F.lit(action) for action in actions], marks).alias(base.action)]
    values = [_values(one, base.view.schema, given) for one in every]
    for field in base.view.schema.fields:
        made = [assigned_value(rows, one[field.name], field) for one in values]
        columns.append(_by_clause(made, marks).alias(field.name))
    lineage = LINEAGE if base.keeps_lineage else ()
    return [*columns, *(named_column("t", name) for name in (*lineage, FILE, POS))]


def _by_clause(found: Sequence[Column], marks: _Marks) -> Column:
    cases = [F.when(F.col(marks.clause) == number, column) for number, column in enumerate(found)]
    return F.coalesce(*cases)


def _action(clause: Update | Delete | Insert) -> str:
    match clause:
        case Update():
            return UPDATE
        case Delete():
            return DELETE
    return INSERT


def _values(clause: Update | Delete | Insert, schema: Schema, given: Sequence[str]) -> dict[str, Any]:
    """What each column of the table becomes. Raises InvalidInput for a column that is none."""
    names = [field.name for field in schema.fields]
    if isinstance(clause, Delete):
        return dict.fromkeys(names, F.lit(None))
    named = clause.values
    if named is None:
        lowered = {name.lower(): name for name in given}
        named = {name: named_column("s", lowered[name.lower()]) for name in names if name.lower() in lowered}
    wrong = [name for name in named if name not in names]
    if wrong:
        raise InvalidInput(f"the table has no column {wrong[0]!r} at the top", where="values")
    unchanged = {field.name: _untouched(clause, field.name) for field in schema.fields}
    return {**unchanged, **named}


def _untouched(clause: Update | Insert, name: str) -> Column:
    return F.lit(None) if isinstance(clause, Insert) else named_column("t", name)


def _refuse_several(changes: DataFrame, action: str) -> None:
    """Raise InvalidInput when a row would be changed twice, which one would then be chance; deleting twice is once."""
    several = (
        changes.where(F.col(FILE).isNotNull())
        .groupBy(FILE, POS)
        .agg(F.count(F.lit(1)).alias("times"), F.max(F.col(action) == UPDATE).alias("updates"))
        .where("times > 1 AND updates")
    )
    first = several.head()
    if first is not None:
        raise InvalidInput(
            f"row {first[1]} of {first[0]} is matched by {plural(first['times'], 'row')} of the source",
            where="on",
            hint="make the source have one row for each row of the table",
        )
