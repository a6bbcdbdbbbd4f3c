"""Whether two filters certainly have no row in common, as far as their texts tell: no table is needed.

Only predicates that every matching row must meet are compared, term by term; what cannot be compared proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from firn.model.expressions.predicates import FALSE, And, Expression, Predicate
from firn.model.types import Type

_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]")
"""Times have many spellings: as text they are not compared."""


class _Range(msgspec.Struct, frozen=True):
    """Values of one kind that a term may have: `values`, or all between two bounds, each with whether it belongs."""

    kind: tuple[type, Type | None]
    values: frozenset[Any] | None = None
    low: tuple[Any, bool] | None = None
    high: tuple[Any, bool] | None = None


def certainly_disjoint(one: Expression, other: Expression) -> bool:
    """Whether no row can match both. Both are unbound; names are compared as they are written."""
    if FALSE in (one, other):
        return True
    theirs = list(_ranges(other))
    return any(_apart(mine, their) for term, mine in _ranges(one) for found, their in theirs if found == term)


def _ranges(expr: Expression) -> Iterator[tuple[Any, _Range]]:
    for part in expr.children if isinstance(expr, And) else (expr,):
        if isinstance(part, Predicate):
            found = _range(part)
            if found is not None:
                yield part.term, found


def _range(predicate: Predicate) -> _Range | None:
    kinds = {_kind(constant.value, constant.type) for constant in predicate.constants}
    if len(kinds) != 1 or None in kinds:
        return None
    kind = next(iter(kinds))
    assert kind is not None
    values = [constant.value for constant in predicate.constants]
    match predicate.op:
        case "eq" | "in":
            return _Range(kind, values=frozenset(values))
        case "lt" | "lt-eq":
            return _Range(kind, high=(values[0], predicate.op == "lt-eq"))
        case "gt" | "gt-eq":
            return _Range(kind, low=(values[0], predicate.op == "gt-eq"))
    return None


def _kind(value: Any, type_: Type | None) -> tuple[type, Type | None] | None:
    """What values have to have in common to be compared; None for those that are not."""
    if type_ is None and isinstance(value, str) and _MOMENT.match(value):
        return None
    if type_ is None and isinstance(value, int | float) and not isinstance(value, bool):
        return float, None
    return type(value), type_


def _apart(one: _Range, other: _Range) -> bool:
    if one.kind != other.kind:
        return False
    if one.values is not None and other.values is not None:
        return not one.values & other.values
    if one.values is not None or other.values is not None:
        values, bounds = (one.values, other) if one.values is not None else (other.values, one)
        return not any(_within(value, bounds) for value in values or ())
    return _ends_before(one, other) or _ends_before(other, one)


def _within(value: Any, bounds: _Range) -> bool:
    if bounds.low is not None and (value < bounds.low[0] or (value == bounds.low[0] and not bounds.low[1])):
        return False
    return not (
        bounds.high is not None and (value > bounds.high[0] or (value == bounds.high[0] and not bounds.high[1]))
    )


def _ends_before(one: _Range, other: _Range) -> bool:
    if one.high is None or other.low is None:
        return False
    return bool(one.high[0] < other.low[0] or (one.high[0] == other.low[0] and not (one.high[1] and other.low[1])))
