"""Deleting and updating rows by a filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Unpack

import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column, DataFrame, SparkSession

from firn.coordinator.client.answers import Answer
from firn.model.errors import InvalidInput
from firn.model.expressions.metrics_strict import file_must_match
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.reserved import METADATA_COLUMNS
from firn.model.schema import Schema
from firn.model.types import StructType
from firn.pipeline.assignment import assigned_value
from firn.pipeline.column_names import named_column
from firn.pipeline.reads import with_filter_columns
from firn.pipeline.row_changes import DELETE, FILE, POS, UPDATE, Base, ChangeOptions, apply_changes
from firn.pipeline.row_filter import narrowing_column, parse_filter
from firn.pipeline.write_properties import DELETE_ISOLATION, DELETE_MODE, UPDATE_ISOLATION, UPDATE_MODE

_PLACE: Final = StructType((METADATA_COLUMNS[FILE], METADATA_COLUMNS[POS]))


def delete_where(
    spark: SparkSession, table: str, where: str | Expression, **options: Unpack[ChangeOptions]
) -> Answer | None:
    """Delete the rows that the filter matches; None when there are none, and nothing is committed.

    Files all of whose rows match go whole. The others are rewritten (``mode="copy-on-write"``) or get deletes beside
    them (``"merge-on-read"``): vectors in v3 tables, files of positions in v2 tables. Raises InvalidInput for a filter
    that does not fit, NotFound for a table that is not there, and what Spark raises for a failed job.
    """
    planned = Base.planned(
        spark, table, reads=parse_filter(where), options=options, mode=DELETE_MODE, isolation=DELETE_ISOLATION
    )
    with planned as base:
        bound = base.plan.filter
        whole = [task for task in base.plan.tasks if not task.deletes and file_must_match(task.residual, task.file)]
        named = {task.file.file_path for task in whole}
        partly = [task for task in base.plan.tasks if task.file.file_path not in named]
        wide = with_filter_columns(Schema(schema_id=0, struct=_PLACE), bound, base.plan.schema)
        rows = base.frame(partly, wide.struct).where(narrowing_column(bound))
        with kept(rows.select(FILE, POS, F.lit(DELETE).alias(base.action))) as changes:
            return apply_changes(base, changes, whole=whole, brings_rows=False)


def update(
    spark: SparkSession,
    table: str,
    values: Mapping[str, Column | str],
    where: str | Expression = TRUE,
    **options: Unpack[ChangeOptions],
) -> Answer | None:
    """Set columns of the rows that the filter matches; None when there are none, and nothing is committed.

    `values` are Spark columns or SQL over the table's columns, by the name of a column at the top. Otherwise as
    `delete_where`. In v3 tables an updated row keeps its ``_row_id``.
    """
    planned = Base.planned(
        spark, table, reads=parse_filter(where), options=options, mode=UPDATE_MODE, isolation=UPDATE_ISOLATION
    )
    with planned as base:
        rows = base.rows(base.plan.tasks).where(narrowing_column(base.plan.filter))
        with kept(assigned(rows, values, base.view.schema).withColumn(base.action, F.lit(UPDATE))) as changes:
            return apply_changes(base, changes, brings_rows=True)


def assigned(rows: DataFrame, values: Mapping[str, Column | str], schema: Schema) -> DataFrame:
    """The rows with columns set at once, in their columns' types. Raises InvalidInput for a column that is none."""
    fields = {field.name: field for field in schema.fields}
    for name in values:
        if name not in fields:
            raise InvalidInput(f"the table has no column {name!r} at the top", where="values")
    return rows.select(
        [
            assigned_value(rows, values[name], fields[name]).alias(name) if name in values else named_column(name)
            for name in rows.columns
        ]
    )


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, computed once for several uses."""
    found = rows.persist()
    try:
        yield found
    finally:
        found.unpersist()
