"""The filter text: SQL's meaning, and errors that point at the place."""

import datetime as dt
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.model.expressions.binding import EXPRESSION_DEPTH_MAX
from firn.model.expressions.constants import Constant
from firn.model.expressions.filter_text import FILTER_CHARS_MAX, filter_from_text
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    and_,
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
    not_starts_with,
    or_,
    starts_with,
    transformed,
)
from firn.model.types import TIMESTAMP, TIMESTAMPTZ


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("x = 1", eq("x", 1)),
        ("x==1", eq("x", 1)),
        ("5 < x", gt("x", 5)),
        ("'a' = x", eq("x", "a")),
        ("x <= -1.50", lt_eq("x", Decimal("-1.50"))),
        ("x > 2e3", gt("x", 2000.0)),
        ("true", TRUE),
        ("TRUE and x = true", eq("x", True)),
        ("false = x", eq("x", False)),
        (
            "ts >= '2026-01-01' and country in ('FI','SE')",
            and_(gt_eq("ts", "2026-01-01"), is_in("country", ["FI", "SE"])),
        ),
        ("a = 1 or b = 2 and c = 3", or_(eq("a", 1), and_(eq("b", 2), eq("c", 3)))),
        ("(a = 1 or b = 2) and c = 3", and_(or_(eq("a", 1), eq("b", 2)), eq("c", 3))),
        ("x is null", is_null("x")),
        ("x IS NOT NULL", not_null("x")),
        ("x is nan or x is not nan", or_(is_nan("x"), not_nan("x"))),
        ("x between 1 and 5 and y = 2", and_(gt_eq("x", 1), lt_eq("x", 5), eq("y", 2))),
        ("x like 'ab%'", starts_with("x", "ab")),
        ("x like 'ab'", eq("x", "ab")),
        ("x starts with 'a%_'", starts_with("x", "a%_")),
        ("name = 'it''s'", eq("name", "it's")),
        ('"my ""col""".`b c` = 1', eq('my "col".b c', 1)),
        ("a.b.c = 1", eq("a.b.c", 1)),
        ("date = date '2026-01-02'", eq("date", dt.date(2026, 1, 2))),
        ("ts = timestamp '1970-01-01T00:00:01'", eq("ts", Constant(1_000_000, TIMESTAMP))),
        ("ts = TIMESTAMPTZ '1970-01-01T01:00:01+01:00'", eq("ts", Constant(1_000_000, TIMESTAMPTZ))),
        ("u = uuid 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", eq("u", uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"))),
        ("b = x'00fF'", eq("b", b"\x00\xff")),
        ("bucket[16](id) = 3", eq(transformed("bucket[16]", "id"), 3)),
        ("bucket(16, id) = 3", eq(transformed("bucket[16]", "id"), 3)),
        ("day(a.ts) < '2026-01-01'", lt(transformed("day", "a.ts"), "2026-01-01")),
        ("\u00e4iti = 1", eq("\u00e4iti", 1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_filter_reads_as_sql(text, expr):
    assert filter_from_text(text) == expr


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("x != 5", and_(not_null("x"), not_eq("x", 5))),
        ("x <> 5", and_(not_null("x"), not_eq("x", 5))),
        ("not x = 5", and_(not_null("x"), not_eq("x", 5))),
        ("not x != 5", eq("x", 5)),
        ("x not in (1, 2)", and_(not_null("x"), not_in("x", [1, 2]))),
        ("x not like 'a%'", and_(not_null("x"), not_starts_with("x", "a"))),
        ("x not starts with 'a'", and_(not_null("x"), not_starts_with("x", "a"))),
        ("not (x < 5)", gt_eq("x", 5)),
        ("not (x is null)", not_null("x")),
        ("x not between 1 and 5", or_(lt("x", 1), gt("x", 5))),
        ("not (a = 1 or b < 2)", and_(not_null("a"), not_eq("a", 1), gt_eq("b", 2))),
        ("not true", FALSE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_null_is_matched_by_no_comparison_negated_or_not(text, expr):
    assert filter_from_text(text) == expr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a column, found the end at column 1"),
        ("x", "expected a comparison, found the end at column 2"),
        ("x = ", "expected a constant, found the end at column 5"),
        ("x = y", "expected a constant, found y at column 5"),
        ("x = null", "null is not a constant at column 5 (use IS NULL or IS NAN)"),
        ("x in (1, null)", "null is not a constant at column 10"),
        ("x in ()", "expected a constant, found ) at column 7"),
        ("x = 1 y = 2", "expected AND, OR or the end, found y at column 7"),
        ("(x = 1", "expected ), found the end at column 7"),
        ("x = 'abc", "cannot read an unfinished quotation at column 5"),
        ("x ~ 1", "cannot read '~' at column 3"),
        ("x = 1;\ndrop", "cannot read ';' at line 1, column 6"),
        ("x = 1\nand z", "expected a comparison, found the end at line 2, column 6"),
        ("x is 5", "expected NULL or NAN, found 5 at column 6"),
        ("x like 'a%b%'", "LIKE with more than a % at the end at column 8"),
        ("x like 'a_b%'", "LIKE with more than a % at the end at column 8"),
        ("x = date 'never'", "'never' is not an ISO-8601 date at column 5"),
        ("x = x'0'", "a value of type binary must be pairs of hexadecimal digits at column 5"),
        ("foo(x) = 1", "foo is not a partition transform at column 1"),
        ("bucket[0](x) = 1", "filter: 0 is no number of buckets"),
        ("bucket[1.5](x) = 1", "expected a whole number, found 1.5 at column 8"),
        ("5", "a comparison begins with a column, or goes on after 5 at column 2"),
        ("5 = 6", "expected a column, found 6 at column 5"),
        ("and = 1", "expected a column, found and at column 1"),
        ("x = " + "1" * 500, "a number of more than 400 characters at column 5"),
        ("(" * (EXPRESSION_DEPTH_MAX + 1), "more than 64 levels deep"),
        ("not " * (EXPRESSION_DEPTH_MAX + 1), "more than 64 levels deep"),
        ("x" * (FILTER_CHARS_MAX + 1), "100001 characters, the limit is 100000"),
    ],
    ids=lambda value: value[:40],
)
def test_an_error_names_what_was_expected_and_where(text, message):
    with pytest.raises(InvalidInput) as caught:
        filter_from_text(text)
    assert message in str(caught.value)


WORDS = [
    "x",
    "=",
    "1",
    "and",
    "or",
    "not",
    "(",
    ")",
    "'a'",
    ",",
    "in",
    "is",
    "null",
    "like",
    "date",
    "between",
    ".",
    "[",
]


def is_read_or_refused(text):
    try:
        filter_from_text(text)
    except InvalidInput as exc:
        return exc.where == "filter"
    return True


@given(st.lists(st.sampled_from(WORDS)).map(" ".join) | st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    assert is_read_or_refused(text)
