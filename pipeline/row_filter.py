"""Filters as firn plans with them, and as Spark applies them to rows."""

from __future__ import annotations

import datetime as dt
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column

from firn.model.errors import Unsupported
from firn.model.expressions.filter_text import filter_from_text
from firn.model.expressions.negation import rewrite_not
from firn.model.expressions.predicates import MATCHES_NULL, And, BoundPredicate, BoundReference, Expression, Or, Truth
from firn.model.types import DATE, TIMESTAMP, TIMESTAMPTZ, UUID, Type
from firn.pipeline.column_names import named_column
from firn.pipeline.spark_types import spark_type

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - for timestamps without a zone
_COMPARED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "lt": operator.lt, "lt-eq": operator.le, "gt": operator.gt, "gt-eq": operator.ge, "eq": operator.eq,
    "not-eq": operator.ne,
}  # fmt: skip


def parse_filter(where: str | Expression) -> Expression:
    """The filter that SQL text like ``region = 'eu' and id > 5`` means; an expression is what it is."""
    return filter_from_text(where) if isinstance(where, str) else where


def filter_column(bound: Expression) -> Column:
    """The condition in Spark that a filter, bound to a table's schema, is; true or false for every row, never null.

    Columns are found by their names. Raises Unsupported for a filter on a transform of a column.
    """
    return F.coalesce(_column(rewrite_not(bound)), F.lit(col=False))


def narrowing_column(bound: Expression) -> Column:
    """As `filter_column`, but null where it may as well be false: a form that Spark pushes down into its scans."""
    return _column(rewrite_not(bound))


def _column(bound: Expression) -> Column:
    match bound:
        case Truth(value=value):
            return F.lit(value)
        case And(children=children):
            return functools.reduce(operator.and_, map(_column, children))
        case Or(children=children):
            return functools.reduce(operator.or_, map(_column, children))
        case BoundPredicate():
            return _predicate(bound)
    raise Unsupported(f"the filter {bound} cannot be applied in Spark")


def _predicate(predicate: BoundPredicate) -> Column:
    term = predicate.term
    if not isinstance(term, BoundReference):
        raise Unsupported(f"a filter on {term} cannot be applied in Spark", hint="filter by the column itself")
    column = named_column(*(term.path or term.name.split(".")))
    found = _operation(predicate, column, term)
    if predicate.op in MATCHES_NULL and predicate.op != "is-null":
        return column.isNull() | found
    return found


def _operation(predicate: BoundPredicate, column: Column, term: BoundReference) -> Column:
    match predicate.op:
        case "is-null":
            return column.isNull()
        case "not-null":
            return column.isNotNull()
        case "is-nan":
            return F.isnan(column)
        case "not-nan":
            return ~F.isnan(column)
        case "in":
            return column.isin([literal(value, term.type) for value in predicate.values])
        case "not-in":
            return ~column.isin([literal(value, term.type) for value in predicate.values])
        case "starts-with":
            return column.startswith(literal(predicate.value, term.type))
        case "not-starts-with":
            return ~column.startswith(literal(predicate.value, term.type))
    found: Column = _COMPARED[predicate.op](column, literal(predicate.value, term.type))
    # To Spark NaN is the greatest number; to Iceberg it compares with none.
    return found & ~F.isnan(column) if term.floating and predicate.op in {"gt", "gt-eq"} else found


def literal(value: Any, type: Type) -> Column:
    """An internal value as a Spark constant. Raises Unsupported for a time that Python cannot express."""
    if value is None:
        return F.lit(None).cast(spark_type(type))
    if type == DATE:
        return F.date_from_unix_date(F.lit(value))
    if type == TIMESTAMPTZ:
        return F.timestamp_micros(F.lit(value))
    if type == TIMESTAMP:
        try:
            moment = _EPOCH + dt.timedelta(microseconds=value)
        except OverflowError:
            raise Unsupported(f"{value} µs is a time that cannot be compared with in Spark") from None
        return F.expr(f"TIMESTAMP_NTZ '{moment.isoformat(' ', 'microseconds')}'")
    if type == UUID:
        return F.lit(str(value))
    if isinstance(value, bytes):
        return F.lit(bytearray(value))
    return F.lit(value).cast(spark_type(type))
