"""Projections of comparisons through one transform: what they are of, and why each is safe.

Throughout, `term` is the partition field, ``p = transform(x)`` its value for a row's x, and TRUE or FALSE the answer
where nothing is known. An inclusive projection must hold of p wherever the predicate holds of x; a strict one may hold
of p only where the predicate holds of every x with that p.
"""

from __future__ import annotations

from typing import Any

from firn.model.errors import InvalidInput
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    BoundPredicate,
    BoundReference,
    Expression,
    and_,
    or_,
    set_predicate,
)
from firn.model.internal_values import decimal_of, unscaled_of
from firn.model.json_members import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from firn.model.transforms import Bucket, TimeTransform, Truncate
from firn.model.types import DATE, INT, LONG, DecimalType, Type

Ordered = Truncate | TimeTransform
"""Transforms with transform(a) ≤ transform(b) for a ≤ b, save where the smallest integers wrap around."""


def project_bucket(predicate: BoundPredicate, transform: Bucket, term: BoundReference, *, strict: bool) -> Expression:
    """Equal values fall into equal buckets; a bucket says nothing of order."""
    wanted = {"not-eq", "not-in"} if strict else {"eq", "in"}
    if predicate.op not in wanted:
        return FALSE if strict else TRUE
    buckets = [transform.apply(predicate.term.type, value) for value in predicate.values]
    return set_predicate("not-in" if strict else "in", term, buckets)


def project_prefix(predicate: BoundPredicate, transform: Truncate, term: BoundReference, *, strict: bool) -> Expression:
    """`starts-with` and its opposite, through the first `width` code points."""
    prefix: str = predicate.value
    starts = predicate.op == "starts-with"
    if len(prefix) < transform.width:
        return BoundPredicate(predicate.op, term, (prefix,))
    if len(prefix) == transform.width:
        return BoundPredicate("eq" if starts else "not-eq", term, (prefix,))
    # The partition holds less of the value than the prefix asks for.
    cut = prefix[: transform.width]
    if starts:
        return FALSE if strict else BoundPredicate("eq", term, (cut,))
    return BoundPredicate("not-eq", term, (cut,)) if strict else TRUE


def project_ordered_inclusive(predicate: BoundPredicate, transform: Ordered, term: BoundReference) -> Expression:
    """That x < v makes p ≤ transform(the value before v); x = v makes p = transform(v)."""
    op, source = predicate.op, predicate.term.type
    try:
        if op in {"eq", "in"}:
            return set_predicate("in", term, [transform.apply(source, value) for value in predicate.values])
        if op in {"lt", "lt-eq"}:
            limit = predicate.value if op == "lt-eq" else _neighbour(source, predicate.value, -1)
            if limit is None:
                return FALSE  # nothing is less than the smallest value
            below = BoundPredicate("lt-eq", term, (transform.apply(source, limit),))
            wrapped = _wrapped(transform, source)
            return below if wrapped is None else or_(below, BoundPredicate("eq", term, (wrapped,)))
        if op in {"gt", "gt-eq"}:
            limit = predicate.value if op == "gt-eq" else _neighbour(source, predicate.value, 1)
            if limit is None:
                return FALSE  # nothing is greater than the largest value
            least = transform.apply(source, limit)
            return TRUE if _wraps(source, limit, least) else BoundPredicate("gt-eq", term, (least,))
    except InvalidInput:
        return TRUE  # an hour that does not fit in an int
    return TRUE


def project_ordered_strict(predicate: BoundPredicate, transform: Ordered, term: BoundReference) -> Expression:
    """That p < transform(v) makes x < v, p ≠ transform(v) makes x ≠ v; no p makes x = v, as its neighbours share it."""
    op, source = predicate.op, predicate.term.type
    try:
        if op in {"not-eq", "not-in"}:
            return set_predicate("not-in", term, [transform.apply(source, value) for value in predicate.values])
        if op in {"lt", "lt-eq"}:
            limit = predicate.value if op == "lt" else _neighbour(source, predicate.value, 1)
            if limit is None:
                return BoundPredicate("not-null", term)  # all values are at most the largest
            first_not = transform.apply(source, limit)
            return FALSE if _wraps(source, limit, first_not) else BoundPredicate("lt", term, (first_not,))
        if op in {"gt", "gt-eq"}:
            limit = predicate.value if op == "gt" else _neighbour(source, predicate.value, -1)
            if limit is None:
                return BoundPredicate("not-null", term)
            last_not = transform.apply(source, limit)
            if _wraps(source, limit, last_not):
                return FALSE
            above = BoundPredicate("gt", term, (last_not,))
            wrapped = _wrapped(transform, source)
            return above if wrapped is None else and_(above, BoundPredicate("not-eq", term, (wrapped,)))
    except InvalidInput:
        return FALSE
    return FALSE


def _neighbour(type: Type, value: Any, step: int) -> Any:
    """The next value of `type` after `value`, or before it for a `step` of -1; None past the end.

    Strings and bytes have no neighbour that is worth finding: the value itself is a safe stand-in.
    """
    if isinstance(type, DecimalType):
        unscaled = unscaled_of(type, value, "value") + step
        return decimal_of(unscaled, type.scale) if abs(unscaled) < 10**type.precision else None
    if not isinstance(value, int):
        return value
    low, high = (INT_MIN, INT_MAX) if type in (INT, DATE) else (LONG_MIN, LONG_MAX)
    return value + step if low <= value + step <= high else None


def _wraps(type: Type, value: Any, truncated: Any) -> bool:
    """Whether there is no multiple below `value`, so that truncation wrapped around to the largest numbers."""
    return type in (INT, LONG) and bool(truncated > value)


def _wrapped(transform: Ordered, type: Type) -> int | None:
    """The one value that the smallest integers truncate to by wrapping around; None where none does."""
    if not isinstance(transform, Truncate) or type not in (INT, LONG):
        return None
    smallest = INT_MIN if type == INT else LONG_MIN
    truncated: int = transform.apply(type, smallest)
    return truncated if truncated > smallest else None
