"""A bound expression asked of a row, or of a partition tuple (Iceberg "Expressions Spec", "Predicates")."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from firn.model.errors import InvalidInput
from firn.model.expressions.predicates import (
    MATCHES_NAN,
    MATCHES_NULL,
    And,
    BoundPredicate,
    BoundTerm,
    BoundTransform,
    Expression,
    Not,
    Or,
    Truth,
)
from firn.model.foreign_value import ForeignValue
from firn.model.transforms import parse_transform

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "lt": operator.lt, "lt-eq": operator.le, "gt": operator.gt, "gt-eq": operator.ge,
    "eq": operator.eq, "not-eq": operator.ne,
    "starts-with": str.startswith, "not-starts-with": lambda value, prefix: not value.startswith(prefix),
}  # fmt: skip


def matches(expr: Expression, row: Mapping[int, Any], *, if_foreign: bool = False) -> bool:
    """Whether the bound `expr` is true of `row`: internal values by field id, those inside structs by their own ids.

    A field that is absent is null, and so are the fields of a null struct. `if_foreign` is the answer for a predicate
    of a partition value that is not of its field's type, where only null is told from others. Raises InvalidInput for
    an expression that is not bound.
    """
    match expr:
        case Truth(value):
            return value
        case And(children):
            return all(matches(child, row, if_foreign=if_foreign) for child in children)
        case Or(children):
            return any(matches(child, row, if_foreign=if_foreign) for child in children)
        case Not(child):
            return not matches(child, row, if_foreign=not if_foreign)
        case BoundPredicate(term=term):
            value = _value_of(term, row)
            if isinstance(value, ForeignValue) and expr.op not in {"is-null", "not-null"}:
                return if_foreign
            return value_matches(expr, value)
    raise InvalidInput(f"the expression is not bound: {expr}")


def _value_of(term: BoundTerm, row: Mapping[int, Any]) -> Any:
    value = row.get(term.reference.field_id)
    if isinstance(term, BoundTransform):
        return parse_transform(term.transform).apply(term.reference.type, value)
    return value


def value_matches(predicate: BoundPredicate, value: Any) -> bool:
    """Whether one value of the predicate's term, None for null, satisfies its operation."""
    op = predicate.op
    if value is None:
        return op in MATCHES_NULL
    if isinstance(value, float) and math.isnan(value):
        return op in MATCHES_NAN
    if op in _COMPARED:
        return _COMPARED[op](value, predicate.value)
    if op in {"in", "not-in"}:
        return (value in predicate.members) == (op == "in")
    return op in {"not-null", "not-nan"}
