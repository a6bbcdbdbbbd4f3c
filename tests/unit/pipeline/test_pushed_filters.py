"""Filters that Spark pushes down narrow a plan, or are left out; none of them makes it wrong."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import datasource as pushed

from firn.model.expressions.predicates import TRUE, eq, gt, is_in, is_null, lt_eq, not_null, starts_with
from firn.model.types import LONG, STRING, TIMESTAMPTZ, UUID
from firn.pipeline.pushed_filters import expression_of
from tests.unit.pipeline.sink_table import schema_of

SCHEMA = schema_of(id=LONG, name=STRING, at=TIMESTAMPTZ, u=UUID)


@pytest.mark.parametrize(
    ("filter", "expression"),
    [
        (pushed.EqualTo(("id",), 5), eq("id", 5)),
        (pushed.EqualNullSafe(("id",), None), is_null("id")),
        (pushed.GreaterThan(("id",), 5), gt("id", 5)),
        (pushed.LessThanOrEqual(("id",), 5), lt_eq("id", 5)),
        (pushed.In(("id",), (1, None, 2)), is_in("id", [1, 2])),
        (pushed.IsNotNull(("name",)), not_null("name")),
        (pushed.StringStartsWith(("name",), "a"), starts_with("name", "a")),
        (pushed.StringContains(("name",), "a"), TRUE),
        (pushed.Not(pushed.EqualTo(("id",), 5)), TRUE),
        (pushed.EqualTo(("u",), "no uuid"), TRUE),
        (pushed.EqualTo(("gone",), 5), TRUE),
        (pushed.EqualTo(("at",), dt.datetime(2026, 1, 1)), TRUE),  # noqa: DTZ001 - as Spark gives it
    ],
    ids=str,
)
def test_a_filter_is_understood_or_left_out(filter: pushed.Filter, expression: object) -> None:
    assert expression_of(filter, SCHEMA) == expression
