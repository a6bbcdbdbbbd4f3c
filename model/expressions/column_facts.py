"""What is known of one column's values in a file or a manifest, and what follows for a predicate.

One small domain serves every evaluator: may there be nulls, NaNs, other values, and between which bounds do those lie.
*May match* is the inclusive answer (no means: skip it), *must match* the strict one (yes means: drop it whole).
"""

from __future__ import annotations

import math
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from firn.model.bounds import truncate_upper
from firn.model.errors import InvalidInput
from firn.model.expressions.predicates import (
    MATCHES_NAN,
    MATCHES_NULL,
    BoundPredicate,
    BoundReference,
    BoundTerm,
    BoundTransform,
)
from firn.model.transforms import parse_transform
from firn.model.types import BINARY, STRING, UUID, Type
from firn.model.values import from_bytes

CUT_BYTES_MIN: Final = 13
"""Least size of a bound that somebody may have cut: to 16 bytes, and from there to the end of a whole character."""


class ColumnFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Which kinds of values there may be, and inclusive bounds of those that are neither null nor NaN.

    Bounds are internal values, not necessarily attained; None is unknown. Everything unknown is the default.
    """

    may_be_null: bool = True
    may_be_nan: bool = True
    may_be_value: bool = True
    lower: Any = None
    upper: Any = None


def decode_bound(type: Type, data: bytes | None) -> Any:
    """A bound as an internal value; None when it is unknown or says nothing.

    A NaN is no bound (ORC writes it when a file's first value is one). Bytes that are no value of the type are no
    bound either: that only ever makes answers more careful.
    """
    if data is None:
        return None
    try:
        value = from_bytes(type, data)
    except InvalidInput:
        return None
    return None if isinstance(value, float) and math.isnan(value) else value


def decode_upper(type: Type, data: bytes | None) -> Any:
    """Return an upper bound as far as it can be trusted, None for unknown: a long text may have been cut.

    Writers that cut a value and do not round it up store a bound below it. So what such a bound is the start of counts
    as within it. Prevents: a delete that reports success and deletes nothing. Only for what may match: as a proof that
    all rows match a bound is taken as it is, or files of one long value could not be deleted by it.
    """
    bound = decode_bound(type, data)
    if bound is None or data is None or len(data) < CUT_BYTES_MIN or type not in (STRING, BINARY):
        return bound
    return truncate_upper(type, bound + bound[-1:], len(bound))


def facts_of_term(term: BoundTerm, column: ColumnFacts) -> ColumnFacts:
    """The facts of `term`, given those of its column: bounds survive a transform that preserves order."""
    if isinstance(term, BoundReference):
        return column
    lower, upper = _transformed_bounds(term, column)
    return ColumnFacts(
        may_be_null=column.may_be_null, may_be_nan=False, may_be_value=column.may_be_value, lower=lower, upper=upper
    )


def _transformed_bounds(term: BoundTransform, column: ColumnFacts) -> tuple[Any, Any]:
    transform = parse_transform(term.transform)
    if not transform.preserves_order:
        return None, None
    source = term.reference.type
    try:
        lower, upper = transform.apply(source, column.lower), transform.apply(source, column.upper)
    except InvalidInput:  # hours so far away that they do not fit
        return None, None
    if term.type == source and lower is not None and lower > column.lower:
        return None, None  # the multiple below the smallest int wraps around
    return lower, upper


def may_match(predicate: BoundPredicate, facts: ColumnFacts) -> bool:
    """False only if no value that `facts` allow satisfies `predicate`."""
    op = predicate.op
    if (facts.may_be_null and op in MATCHES_NULL) or (facts.may_be_nan and op in MATCHES_NAN):
        return True
    if not facts.may_be_value or op in {"is-null", "is-nan"}:
        return False
    if op in {"not-null", "not-nan"}:
        return True
    return any(_MAY[op](*ordered) for ordered in _in_orders(predicate, facts))


def must_match(predicate: BoundPredicate, facts: ColumnFacts) -> bool:
    """True only if every value that `facts` allow satisfies `predicate`."""
    op = predicate.op
    if (facts.may_be_null and op not in MATCHES_NULL) or (facts.may_be_nan and op not in MATCHES_NAN):
        return False
    if not facts.may_be_value or op in {"not-null", "not-nan"}:
        return True
    if op in {"is-null", "is-nan"}:
        return False
    return all(_MUST[op](*ordered) for ordered in _in_orders(predicate, facts))


def _in_orders(predicate: BoundPredicate, facts: ColumnFacts) -> Iterator[tuple[Sequence[Any], Any, Any]]:
    """The constants and bounds in every order in which the bounds may have been found.

    UUIDs have two: the specification compares unsigned bytes, Java's `UUID.compareTo` two signed longs.
    """
    yield predicate.values, *_upright(facts.lower, facts.upper)
    if predicate.term.type == UUID:
        lower, upper = (None if bound is None else _signed(bound) for bound in (facts.lower, facts.upper))
        yield sorted(map(_signed, predicate.values)), *_upright(lower, upper)


def _upright(lower: Any, upper: Any) -> tuple[Any, Any]:
    """The bounds, unless they contradict each other: then they say nothing."""
    inverted = lower is not None and upper is not None and lower > upper
    return (None, None) if inverted else (lower, upper)


def _signed(value: uuid.UUID) -> tuple[int, int]:
    high, low = value.int >> 64, value.int & 2**64 - 1
    return high - (high >> 63 << 64), low - (low >> 63 << 64)


# ---------------------------------------------------------------------------------------------------------------------
# Values that are neither null nor NaN. `lower` and `upper` bound all of them, None is unknown.


def _may_be_in(values: Sequence[Any], lower: Any, upper: Any) -> bool:
    first = 0 if lower is None else bisect_left(values, lower)
    return first < len(values) and (upper is None or values[first] <= upper)


def _may_differ(values: Sequence[Any], lower: Any, upper: Any) -> bool:
    return lower is None or lower != upper or lower not in values


def _may_start(values: Sequence[Any], lower: Any, upper: Any) -> bool:
    prefix = values[0]
    return (lower is None or lower[: len(prefix)] <= prefix) and (upper is None or upper[: len(prefix)] >= prefix)


def _all_start(values: Sequence[Any], lower: Any, upper: Any) -> bool:
    return lower is not None and upper is not None and lower.startswith(values[0]) and upper.startswith(values[0])


_MAY: Final[Mapping[str, Callable[[Sequence[Any], Any, Any], bool]]] = {
    "lt": lambda values, lower, _: lower is None or lower < values[0],
    "lt-eq": lambda values, lower, _: lower is None or lower <= values[0],
    "gt": lambda values, _, upper: upper is None or upper > values[0],
    "gt-eq": lambda values, _, upper: upper is None or upper >= values[0],
    "eq": _may_be_in,
    "in": _may_be_in,
    "not-eq": _may_differ,
    "not-in": _may_differ,
    "starts-with": _may_start,
    "not-starts-with": lambda values, lower, upper: not _all_start(values, lower, upper),
}
_MUST: Final[Mapping[str, Callable[[Sequence[Any], Any, Any], bool]]] = {
    "lt": lambda values, _, upper: upper is not None and upper < values[0],
    "lt-eq": lambda values, _, upper: upper is not None and upper <= values[0],
    "gt": lambda values, lower, _: lower is not None and lower > values[0],
    "gt-eq": lambda values, lower, _: lower is not None and lower >= values[0],
    "eq": lambda values, lower, upper: not _may_differ(values, lower, upper),
    "in": lambda values, lower, upper: not _may_differ(values, lower, upper),
    "not-eq": lambda values, lower, upper: not _may_be_in(values, lower, upper),
    "not-in": lambda values, lower, upper: not _may_be_in(values, lower, upper),
    "starts-with": _all_start,
    "not-starts-with": lambda values, lower, upper: not _may_start(values, lower, upper),
}
