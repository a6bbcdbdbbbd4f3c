"""Schemas' values, rows and filters for hypothesis: small pools with the awkward values, so that filters do match."""

from __future__ import annotations

import math
import struct
import uuid
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from firn.model.expressions.constants import Constant
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    Expression,
    Not,
    Operation,
    Predicate,
    and_,
    or_,
    ref,
    transformed,
)
from firn.model.schema import Schema
from firn.model.transforms import parse_transform
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    FixedType,
    NestedField,
    StructType,
    Type,
)

DECIMAL = DecimalType(9, 2)
WIDE_DECIMAL = DecimalType(38, 6)
FIXED = FixedType(3)

TYPES: tuple[Type, ...] = (
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, DECIMAL, WIDE_DECIMAL, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS,
    TIMESTAMPTZ_NS, STRING, UUID, FIXED, BINARY,
)  # fmt: skip

TRANSFORMS = ("identity", "bucket[4]", "truncate[3]", "year", "month", "day", "hour", "void", "from_the_future")


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _leaf(i: int, type: Type, required: bool) -> NestedField:
    return NestedField(field_id=i, name=f"c{i}", type=type, required=required)


SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            *(_leaf(i, type, required=False) for i, type in enumerate(TYPES, 1)),
            *(_leaf(i, type, required=True) for i, type in enumerate((INT, STRING, DOUBLE), 51)),
            NestedField(
                field_id=60, name="s", required=False,
                type=StructType((_leaf(61, INT, required=True), _leaf(62, STRING, required=False))),
            ),
            NestedField(
                field_id=70, name="r", required=True,
                type=StructType((_leaf(71, INT, required=True), _leaf(72, DOUBLE, required=False))),
            ),
        )
    ),
)  # fmt: skip
"""Every type as a nullable column, some required ones, and structs that are optional (60) and required (70)."""

LEAVES: dict[int, NestedField] = {
    i: field for i, field in SCHEMA.fields_by_id.items() if not isinstance(field.type, StructType)
}
NAMES: dict[int, str] = {i: SCHEMA.names_by_id[i] for i in LEAVES}

_DAYS = [-366, -365, -32, -31, -1, 0, 1, 31, 365]
_TEXTS = ["", "a", "ab", "abc", "abcd", "abd", "b", "\ud7ff", "\ue000", "\U0001f600", "\U0001f600bcd"]


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _times(ticks_per_second: int) -> list[int]:
    day = 86_400 * ticks_per_second
    return [-365 * day, -31 * day - 1, -day - 1, -day, -1, 0, 1, 3_600 * ticks_per_second, day - 1, day, 31 * day]


# The farthest microseconds are left out: their hours do not fit in an int, no partition has such a row.
AWKWARD: dict[Type, list[Any]] = {
    BOOLEAN: [False, True],
    INT: [-(2**31), -(2**31) + 1, -(2**31) + 2, -4, -3, -1, 0, 1, 2, 3, 5, 6, 2**31 - 2, 2**31 - 1],
    LONG: [-(2**63), -(2**63) + 1, -4, -3, -1, 0, 1, 2, 3, 5, 6, 2**63 - 2, 2**63 - 1],
    FLOAT: [-math.inf, -1.5, -0.0, 0.0, _float32(0.1), 1.0, 1.5, math.inf, math.nan],
    DOUBLE: [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.0, 1.5, math.inf, math.nan],
    DATE: [-(2**31), *_DAYS, 2**31 - 1],
    TIME: [0, 1, 43_200_000_000, 86_399_999_999],
    TIMESTAMP: [-(2**62), *_times(10**6), 2**62],
    TIMESTAMPTZ: [-(2**62), *_times(10**6), 2**62],
    TIMESTAMP_NS: [-(2**63), *_times(10**9), 2**63 - 1],
    TIMESTAMPTZ_NS: [-(2**63), *_times(10**9), 2**63 - 1],
    STRING: _TEXTS,
    UUID: [uuid.UUID(int=n) for n in (0, 1, 2**63, 2**64, 2**127 - 1, 2**127, 2**128 - 1)],
    BINARY: [b"", b"\0", b"a", b"ab", b"abc", b"abcd", b"b", b"\x7f", b"\x80", b"\xff\xff\xff\xff"],
    FIXED: [b"\0\0\0", b"ab\xff", b"\xff\xff\xff"],
    DECIMAL: [_decimal(n, 2) for n in (-(10**9) + 1, -4, -3, -1, 0, 1, 2, 3, 10**9 - 1)],
    WIDE_DECIMAL: [_decimal(n, 6) for n in (-(10**38) + 1, -4, -3, -1, 0, 1, 2, 3, 10**38 - 1)],
}
"""For each type, its values at the edges of ranges, partitions and orders, in the order of Python's comparison."""


def values(type: Type) -> st.SearchStrategy[Any]:
    """Internal values of a primitive type, the awkward ones often."""
    match type:
        case DecimalType(precision, scale):
            limit = 10**precision - 1
            unscaled = st.integers(-limit, limit).map(lambda n: _decimal(n, scale))
            return st.sampled_from(AWKWARD[type]) | unscaled
    return st.sampled_from(AWKWARD[type])


def rows() -> st.SearchStrategy[dict[int, Any]]:
    """Rows of SCHEMA: internal values by the ids of leaves, and a stand-in for each struct that is not null."""
    return st.fixed_dictionaries(
        {i: _column(field) for i, field in LEAVES.items()} | {60: st.none() | st.just(())}
    ).map(_consistent)


def _column(field: NestedField) -> st.SearchStrategy[Any]:
    return values(field.type) if field.required else st.none() | values(field.type)


def _consistent(row: dict[int, Any]) -> dict[int, Any]:
    inside = {61: None, 62: None} if row[60] is None else {}
    return row | inside | {70: ()}


def operations(term_type: Type) -> list[Operation]:
    """The operations with one constant that a type has."""
    ordered: list[Operation] = ["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"]
    return [*ordered, "starts-with", "not-starts-with"] if term_type == STRING else ordered


@st.composite
def predicates(draw: st.DrawFn, field_ids: tuple[int, ...] = tuple(LEAVES)) -> Predicate:
    """A predicate that binds to SCHEMA: on a column, or on a transform of one."""
    field = LEAVES[draw(st.sampled_from(field_ids))]
    name, type = NAMES[field.field_id], field.type
    fitting = [t for t in TRANSFORMS[:-2] if parse_transform(t).can_transform(type)]
    transform = draw(st.sampled_from(["identity", "identity", *fitting]))
    term = ref(name) if transform == "identity" else transformed(transform, name)
    of_source = transform == "identity"
    tests: list[Operation] = ["is-null", "not-null"]
    if type in (FLOAT, DOUBLE):
        tests += ["is-nan", "not-nan"]
    compared = operations(parse_transform(transform).result_type(type))
    op: Operation = draw(st.sampled_from([*tests, *compared, "in", "not-in"]))
    if op in tests:
        return Predicate(op, term)
    count = 1 if op in compared else draw(st.integers(0, 4))
    applied = parse_transform(transform)
    constants = []
    for value in draw(st.lists(constant_values(type), min_size=count, max_size=count)):
        result = value if of_source else applied.apply(type, value)
        constants.append(Constant(result, applied.result_type(type)))
    return Predicate(op, term, tuple(constants))


def constant_values(type: Type) -> st.SearchStrategy[Any]:
    return values(type).filter(lambda v: not (isinstance(v, float) and math.isnan(v)))


def expressions(leaves: st.SearchStrategy[Predicate] | None = None) -> st.SearchStrategy[Expression]:
    """Filters that bind to SCHEMA, nested a little."""
    return st.recursive(
        (predicates() if leaves is None else leaves) | st.sampled_from([TRUE, FALSE]),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=2, max_size=3).map(lambda children: and_(*children)),
            st.lists(inner, min_size=2, max_size=3).map(lambda children: or_(*children)),
        ),
        max_leaves=5,
    )
