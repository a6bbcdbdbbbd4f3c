"""Filters that Spark pushes down to a Python data source, as firn's expressions for planning."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.sql import datasource as pushed

from firn.model.errors import FirnError
from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import (
    TRUE,
    Expression,
    eq,
    gt,
    gt_eq,
    is_in,
    is_null,
    lt,
    lt_eq,
    not_null,
    starts_with,
)
from firn.model.schema import Schema


def expression_of(filter: Any, schema: Schema) -> Expression:
    """What the filter says of the rows, or true: leaving a filter out makes a plan larger, never wrong."""
    found = _expression(filter)
    try:
        bind(found, schema)
    except FirnError:
        return TRUE  # a constant of another type, such as a text for a uuid that is none
    return found


def _expression(filter: Any) -> Expression:
    column = ".".join(getattr(filter, "attribute", ()))
    value = getattr(filter, "value", None)
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return TRUE  # Spark gives it in the time zone of the process, which need not be the session's
    match filter:
        case pushed.EqualTo():
            return eq(column, value)
        case pushed.EqualNullSafe():
            return is_null(column) if value is None else eq(column, value)
        case pushed.GreaterThan():
            return gt(column, value)
        case pushed.GreaterThanOrEqual():
            return gt_eq(column, value)
        case pushed.LessThan():
            return lt(column, value)
        case pushed.LessThanOrEqual():
            return lt_eq(column, value)
        case pushed.In():
            values = [one for one in filter.value if one is not None]
            return TRUE if any(isinstance(one, dt.datetime) for one in values) else is_in(column, values)
        case pushed.IsNull():
            return is_null(column)
        case pushed.IsNotNull():
            return not_null(column)
        case pushed.StringStartsWith():
            return starts_with(column, filter.value)
    return TRUE
