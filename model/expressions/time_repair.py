"""Old partition values of years, months, days and hours before 1970: each may be one too large.

Iceberg for Java up to 0.10 rounded such times towards 1970 instead of down: the day of 1969-12-31T10:00 became 0, not
-1. Tables with such partitions exist and nothing in them tells, so a projection makes room for both values. The
Java library does the same to this day.
"""

from __future__ import annotations

from firn.model.expressions.predicates import TRUE, And, BoundPredicate, Expression, Or, and_, or_, set_predicate


def widened(projected: Expression) -> Expression:
    """An inclusive projection over time values, made to hold of the values that old versions wrote as well."""
    match projected:
        case And(children):
            return and_(*map(widened, children))
        case Or(children):
            return or_(*map(widened, children))
        case BoundPredicate("lt" | "lt-eq" as op, term, (value,)) if value < 0 or (op == "lt" and value == 0):
            return BoundPredicate(op, term, (value + 1,))
        case BoundPredicate("eq" | "in", term, values):
            return set_predicate("in", term, _with_successors(values))
        case BoundPredicate("not-eq" | "not-in", _, values) if min(values) <= 0:
            return TRUE  # the value asked to differ may have been written for its predecessor
    return projected


def tightened(projected: Expression) -> Expression:
    """A strict projection over time values, made to hold of no value that old versions wrote for another."""
    match projected:
        case And(children):
            return and_(*map(tightened, children))
        case Or(children):
            return or_(*map(tightened, children))
        case BoundPredicate("gt" | "gt-eq" as op, term, (value,)) if value <= 0:
            return BoundPredicate(op, term, (value + 1,))
        case BoundPredicate("eq" | "in", term, values):
            # From 1 on a value was written for nothing else.
            return set_predicate("in", term, [value for value in values if value > 0])
        case BoundPredicate("not-eq" | "not-in", term, values):
            return set_predicate("not-in", term, _with_successors(values))
    return projected


def _with_successors(values: tuple[int, ...]) -> list[int]:
    return [*values, *(value + 1 for value in values if value < 0)]
