"""Binding: names become columns, constants become the column's values, nothing is rounded silently."""

import datetime as dt
import uuid
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.model.expressions.binding import EXPRESSION_DEPTH_MAX, bind
from firn.model.expressions.constants import Constant
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    Expression,
    Not,
    Or,
    eq,
    gt,
    gt_eq,
    is_in,
    is_nan,
    is_null,
    lt,
    lt_eq,
    not_eq,
    not_in,
    not_nan,
    not_null,
    predicate,
    ref_id,
    starts_with,
    transformed,
)
from firn.model.expressions.row_filter import matches
from firn.model.schema import schema_from_json
from firn.model.types import DATE, TIMESTAMP, TIMESTAMPTZ, DecimalType

SCHEMA = schema_from_json(
    {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "i", "type": "int", "required": False},
            {"id": 2, "name": "ri", "type": "int", "required": True},
            {"id": 3, "name": "f", "type": "float", "required": False},
            {"id": 4, "name": "d", "type": "decimal(9, 2)", "required": False},
            {"id": 5, "name": "day", "type": "date", "required": False},
            {"id": 6, "name": "ts", "type": "timestamp", "required": False},
            {"id": 7, "name": "tz", "type": "timestamptz", "required": False},
            {"id": 8, "name": "ns", "type": "timestamp_ns", "required": False},
            {"id": 9, "name": "s", "type": "string", "required": False},
            {"id": 10, "name": "u", "type": "uuid", "required": False},
            {"id": 11, "name": "fx", "type": "fixed[2]", "required": False},
            {"id": 12, "name": "b", "type": "binary", "required": False},
            {"id": 13, "name": "Mixed", "type": "long", "required": False},
            {"id": 14, "name": "t", "type": "time", "required": False},
            {"id": 15, "name": "nothing", "type": "unknown", "required": False},
            {"id": 16, "name": "v", "type": "variant", "required": False},
            {"id": 17, "name": "flag", "type": "boolean", "required": False},
            {
                "id": 20, "name": "st", "required": False,
                "type": {"type": "struct", "fields": [{"id": 21, "name": "x", "type": "int", "required": True}]},
            },
            {
                "id": 30, "name": "l", "required": False,
                "type": {"type": "list", "element-id": 31, "element": "int", "element-required": True},
            },
        ],
    }
)  # fmt: skip


def value_of(expr: Expression) -> object:
    bound = bind(expr, SCHEMA)
    assert isinstance(bound, BoundPredicate)
    return bound.value


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (eq("i", 5), 5),
        (eq("i", 5.0), 5),
        (eq("f", 0.1), 0.10000000149011612),
        (eq("f", 1), 1.0),
        (eq("d", "14.2"), Decimal("14.20")),
        (eq("d", 14.2), Decimal("14.20")),
        (eq("d", Decimal("14.200")), Decimal("14.20")),
        (eq("day", "1970-01-02"), 1),
        (eq("day", dt.date(1970, 1, 2)), 1),
        (eq("day", 7), 7),
        (eq("day", dt.datetime(1970, 1, 2)), 1),  # noqa: DTZ001 - a timestamp without a zone
        (eq("ts", "1970-01-01T00:00:01"), 1_000_000),
        (eq("ts", "1970-01-01 00:00:01.5"), 1_500_000),
        (eq("ts", "1970-01-02"), 86_400_000_000),
        (eq("ts", dt.date(1970, 1, 2)), 86_400_000_000),
        (eq("ns", dt.datetime(1970, 1, 1, 0, 0, 1)), 1_000_000_000),  # noqa: DTZ001
        (eq("tz", "1970-01-01T02:00:01+02:00"), 1_000_000),
        (eq("tz", "1970-01-02"), 86_400_000_000),
        (eq("tz", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)), 1_000_000),
        (eq("t", dt.time(0, 0, 1, 5)), 1_000_005),
        (eq("t", "00:00:01"), 1_000_000),
        (eq("u", "f79c3e09-677c-4bbd-a479-3f349cb785e7"), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        (eq("fx", "00ff"), b"\x00\xff"),
        (eq("b", b"\x01"), b"\x01"),
        (eq("flag", True), True),
        (eq("f", "Infinity"), float("inf")),
        (eq(transformed("bucket[16]", "i"), 3), 3),
        (eq(transformed("day", "ts"), "1970-01-02"), 1),
    ],
    ids=str,
)
def test_a_constant_becomes_the_columns_value(expr, value):
    found = value_of(expr)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (lt("ri", 2**31), TRUE),
        (gt("ri", 2**31), FALSE),
        (gt_eq("ri", -(2**31) - 1), TRUE),
        (lt_eq("ri", -(2**31) - 1), FALSE),
        (lt("i", 1e300), not_null("i")),
        (eq("i", 2**31), FALSE),
        (not_eq("i", 2**31), TRUE),
        (is_in("i", [2**31, 5]), eq("i", 5)),
        (not_in("i", [2**31]), TRUE),
        (is_in("i", []), FALSE),
        (is_in("i", [3, 1, 3]), is_in("i", [1, 3])),
        (lt("i", 2.5), lt_eq("i", 2)),
        (gt("i", 2.5), gt_eq("i", 3)),
        (eq("i", 2.5), FALSE),
        (not_eq("i", 2.5), TRUE),
        (lt_eq("i", float("inf")), not_null("i")),
        (gt("d", "14.205"), gt_eq("d", "14.21")),
        (lt("d", "1e400"), not_null("d")),
        (lt("d", "1e-999999999"), lt_eq("d", 0)),
        (gt("d", "-1e-999999999"), gt_eq("d", 0)),
        (lt("f", 1e300), lt_eq("f", 3.4028234663852886e38)),
        (gt("f", 1e300), gt_eq("f", float("inf"))),
        (lt("day", Constant(129_600_000_000, TIMESTAMP)), lt_eq("day", 1)),
        (is_null("ri"), FALSE),
        (not_null("ri"), TRUE),
        (is_null("st.x"), is_null(ref_id(21))),
        (is_null("nothing"), TRUE),
        (eq("nothing", 1), FALSE),
        (not_eq("nothing", 1), TRUE),
    ],
    ids=str,
)
def test_what_binding_can_decide_is_decided(expr, expected):
    assert bind(expr, SCHEMA) == bind(expected, SCHEMA)


@given(st.sampled_from(["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"]), st.data())
def test_a_number_compares_exactly_whatever_its_kind(op, data):
    numbers = (
        st.integers(-(2**31) - 3, 2**31 + 3)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.decimals(-(10**12), 10**12, allow_nan=False, places=3)
    )
    number = data.draw(numbers)
    near = [0] if isinstance(number, float) and abs(number) > 2**31 else [int(number) + k for k in (-1, 0, 1)]
    value = max(-(2**31), min(2**31 - 1, data.draw(st.sampled_from(near))))
    exact = Fraction(value)
    expected = {
        "lt": exact < number, "lt-eq": exact <= number, "gt": exact > number, "gt-eq": exact >= number,
        "eq": exact == Fraction(number), "not-eq": exact != Fraction(number),
    }[op]  # fmt: skip
    assert matches(bind(predicate(op, "i", [number]), SCHEMA), {1: value}) is expected
    scaled = Decimal(value % 10**7).quantize(Decimal("0.01"))
    wanted = {
        "lt": scaled < number, "lt-eq": scaled <= number, "gt": scaled > number, "gt-eq": scaled >= number,
        "eq": scaled == number, "not-eq": scaled != number,
    }[op]  # fmt: skip
    if not isinstance(number, float):
        assert matches(bind(predicate(op, "d", [number]), SCHEMA), {4: scaled}) is wanted


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (eq("nope", 1), "filter: there is no column nope (columns: i, ri, f"),
        (eq(ref_id(99), 1), "there is no column #99"),
        (eq("mixed", 1), "there is no column mixed"),
        (eq("i", "5"), "'5' is a string, which does not compare with int"),
        (eq("i", True), "which does not compare with int"),
        (eq("flag", 1), "1 is an integer, which does not compare with boolean"),
        (eq("s", 5), "does not compare with string"),
        (eq("day", "2026-13-01"), "not a day of the calendar"),
        (eq("ts", "2026-01-01T00:00:00+00:00"), "must not have a zone offset"),
        (eq("tz", "2026-01-01T00:00:00"), "needs the offset"),
        (eq("ts", Constant(0, TIMESTAMPTZ)), "does not compare with timestamp"),
        (eq("i", Constant(0, DATE)), "date '1970-01-01' is a date, which does not compare with int"),
        (eq("u", "123"), "not a uuid"),
        (eq("fx", "00"), "1 bytes for a fixed[2]"),
        (eq("d", "1.2.3"), "not a decimal number"),
        (is_nan("i"), "is-nan is for float and double, i has type int"),
        (not_nan("s"), "not-nan is for float and double"),
        (starts_with("i", "a"), "starts-with is for strings"),
        (eq("v", 1), "v has type variant"),
        (eq("st", 1), "st has type struct"),
        (eq("l.element", 1), "l.element is inside l, a list"),
        (eq(transformed("truncate[3]", "day"), 1), "truncate[3] does not apply to day, which has type date"),
        (eq(transformed("void", "i"), 1), "void is not a transform to filter by"),
        (eq(transformed("bucket[0]", "i"), 1), "filter: 0 is no number of buckets"),
        (And((TRUE, Or((FALSE, Not(eq("x", 1)))))), "filter.and[1].or[1].not: there is no column x"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_with_where_and_why(expr, message):
    with pytest.raises(InvalidInput) as caught:
        bind(expr, SCHEMA)
    assert message in str(caught.value)


def test_case_is_ignored_only_when_asked_to_and_unambiguous():
    assert bind(eq("mixed", 1), SCHEMA, case_sensitive=False) == bind(eq("Mixed", 1), SCHEMA)
    twins = schema_from_json(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "a", "type": "int", "required": False},
                {"id": 2, "name": "A", "type": "int", "required": False},
            ],
        }
    )
    with pytest.raises(InvalidInput, match="fits several columns"):
        bind(eq("a", 1), twins, case_sensitive=False)


def test_null_and_nan_are_refused_as_constants():
    for value in (None, float("nan"), Decimal("NaN"), object()):
        with pytest.raises(InvalidInput):
            eq("i", value)


def test_a_decimal_constant_knows_its_type():
    assert eq("d", Decimal("1E+2")).constants == (Constant(Decimal(100), DecimalType(3, 0)),)
    with pytest.raises(InvalidInput, match="39 digits"):
        eq("d", Decimal("1" * 39))


def test_a_fields_null_struct_makes_it_nullable():
    assert bind(is_null("st.x"), SCHEMA) != FALSE
    assert matches(bind(is_null("st.x"), SCHEMA), {20: None, 21: None})


def test_depth_is_limited():
    deep: Expression = eq("i", 1)
    for n in range(EXPRESSION_DEPTH_MAX + 1):
        deep = And((deep, TRUE)) if n % 2 else Or((deep, FALSE))
    with pytest.raises(InvalidInput, match="more than 64 levels deep"):
        bind(deep, SCHEMA)
