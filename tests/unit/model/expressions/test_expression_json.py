"""The JSON form: both generations are read, errors name the member, nothing that would be lost is accepted."""

import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput, Unsupported
from firn.model.expressions.binding import EXPRESSION_DEPTH_MAX
from firn.model.expressions.constants import Constant
from firn.model.expressions.expression_json import PREDICATES_MAX, expression_from_json, expression_to_json
from firn.model.expressions.operand_json import VALUES_MAX
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    And,
    Expression,
    Or,
    and_,
    eq,
    gt,
    is_in,
    is_null,
    lt,
    lt_eq,
    not_,
    not_in,
    or_,
    ref_id,
    starts_with,
    transformed,
)
from firn.model.types import DATE, INT

REF = {"type": "reference", "name": "x"}
BUCKET = {"catalog": "iceberg_functions", "identifier": ["bucket"]}


@pytest.mark.parametrize(
    ("obj", "expr"),
    [
        (True, TRUE),
        ({"type": "false"}, FALSE),
        ({"type": "literal", "value": True}, TRUE),
        ({"type": "eq", "term": "x", "value": 1}, eq("x", 1)),
        ({"type": "LT_EQ", "term": "x", "value": 1.5}, lt_eq("x", 1.5)),
        ({"type": "eq", "left": REF, "right": 1}, eq("x", 1)),
        ({"type": "lt", "left": 1, "right": REF}, gt("x", 1)),
        ({"type": "eq", "left": {"type": "reference", "id": 7}, "right": "a"}, eq(ref_id(7), "a")),
        ({"type": "eq", "term": {"type": "reference", "term": "x"}, "value": 1}, eq("x", 1)),
        ({"type": "is-null", "term": "a.b"}, is_null("a.b")),
        ({"type": "is-null", "child": REF}, is_null("x")),
        ({"type": "in", "term": "x", "values": [1, 2]}, is_in("x", [1, 2])),
        (
            {"type": "not-in", "child": REF,
             "values": {"type": "literals", "values": ["1970-01-02"], "data-type": "date"}},
            not_in("x", [Constant(1, DATE)]),
        ),
        (
            {"type": "eq", "term": "x", "value": {"type": "literal", "value": 3, "data-type": "int"}},
            eq("x", Constant(3, INT)),
        ),
        ({"type": "eq", "term": "x", "value": {"type": "literal", "value": 3}}, eq("x", 3)),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "x"}, "value": 3},
            eq(transformed("bucket[16]", "x"), 3),
        ),
        (
            {"type": "eq", "left": {"type": "apply", "function": BUCKET, "arguments": [16, REF]}, "right": 3},
            eq(transformed("bucket[16]", "x"), 3),
        ),
        (
            {"type": "is-null", "child": {"type": "apply", "arguments": [REF],
             "function": {"catalog": "iceberg_functions", "identifier": ["identity"]}}},
            is_null("x"),
        ),
        (
            {"type": "and", "left": {"type": "not", "child": {"type": "is-null", "term": "x"}},
             "right": {"type": "or", "left": {"type": "starts-with", "term": "x", "value": "a"}, "right": False}},
            and_(not_(is_null("x")), starts_with("x", "a")),
        ),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else str(value),
)  # fmt: skip
def test_both_generations_of_the_form_are_read(obj, expr):
    assert expression_from_json(obj) == expr


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "filter: a predicate is a boolean or an object, not null"),
        ([], "filter: a predicate is a boolean or an object, not an array"),
        ({}, "filter.type: must be a string, not null"),
        ({"type": "like"}, "filter.type: unknown predicate type 'like'"),
        ({"type": "not"}, "filter.child: missing, but required"),
        ({"type": "and", "left": True}, "filter.right: missing, but required"),
        ({"type": "eq", "term": "x"}, "filter.value: missing, but required"),
        ({"type": "eq", "left": REF}, "filter.right: missing, but required"),
        ({"type": "eq", "term": "x", "value": None}, "filter.value: null is not a constant (use is-null"),
        ({"type": "eq", "term": "x", "value": [1]}, "filter.value: a constant cannot be an array"),
        ({"type": "eq", "term": "", "value": 1}, "filter.term: a column's name has 1 to 10000 characters, not 0"),
        ({"type": "eq", "term": 5, "value": 1}, "filter.term: a term is a name or an object, not an integer"),
        ({"type": "eq", "term": "x", "value": 1, "values": [1]}, "filter: 'values' does not belong here"),
        ({"type": "eq", "left": REF, "value": 1}, "filter: 'left' does not belong here"),
        ({"type": "is-null", "term": "x", "value": 1}, "filter: 'value' does not belong here"),
        ({"type": "in", "term": "x", "values": 1}, "filter.values: must be an array, not an integer"),
        ({"type": "in", "term": "x", "values": [1, None]}, "filter.values[1]: null is not a constant"),
        (
            {"type": "eq", "term": "x", "value": {"type": "literal", "value": "z", "data-type": "date"}},
            "filter.value.value: 'z' is not an ISO-8601 date",
        ),
        (
            {"type": "eq", "term": "x", "value": {"type": "literal", "value": 1, "data-type": "datum"}},
            "filter.value.data-type: unknown type 'datum'",
        ),
        (
            {"type": "eq", "term": "x", "value": {"type": "literal", "value": "NaN", "data-type": "double"}},
            "filter.value.value: NaN is not a constant",
        ),
        ({"type": "eq", "left": {"type": "reference", "id": -1}, "right": 1}, "filter.left.id: a field id is an"),
        ({"type": "eq", "left": {"type": "reference"}, "right": 1}, "filter.left: a reference has an id or a name"),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "bucket[0]", "term": "x"}, "value": 3},
            "filter.term.transform: 0 is no number of buckets",
        ),
        (
            {"type": "or", "left": {"type": "or", "left": True, "right": False}, "right": {"type": "not", "child": 1}},
            "filter.or[2].not: a predicate is a boolean or an object, not an integer",
        ),
    ],
    ids=lambda value: json.dumps(value)[:60] if not isinstance(value, str) else value[:40],
)
def test_a_malformed_filter_is_refused_by_the_path_of_its_member(obj, message):
    with pytest.raises(InvalidInput, match="^" + re.escape(message)):
        expression_from_json(obj)


@pytest.mark.parametrize(
    "obj",
    [
        {"type": "eq", "left": REF, "right": REF},
        {"type": "eq", "left": 1, "right": 1},
        {"type": "starts-with", "left": "a", "right": REF},
        {"type": "is-null", "child": 5},
        {"type": "is-null", "child": {"type": "apply", "function": "my_udf", "arguments": [REF]}},
        {"type": "is-null", "child": {"type": "apply", "function": {"identifier": ["bucket"]}, "arguments": [4, REF]}},
        {"type": "is-null", "child": {"type": "apply", "function": BUCKET,
         "arguments": [4, {"type": "apply", "function": BUCKET, "arguments": [4, REF]}]}},
    ],
    ids=lambda value: json.dumps(value)[:60],
)  # fmt: skip
def test_what_the_specification_has_and_firn_has_not_is_called_unsupported(obj):
    with pytest.raises(Unsupported):
        expression_from_json(obj)


def test_a_long_chain_is_one_level_however_it_leans():
    left: Any = {"type": "is-null", "term": "c0"}
    right: Any = {"type": "is-null", "term": "c999"}
    for i in range(1, 1000):
        left = {"type": "and", "left": left, "right": {"type": "is-null", "term": f"c{i}"}}
        right = {"type": "and", "left": {"type": "is-null", "term": f"c{999 - i}"}, "right": right}
    expected = and_(*(is_null(f"c{i}") for i in range(1000)))
    assert expression_from_json(left) == expression_from_json(right) == expected


def test_a_long_chain_is_written_shallow():
    written = expression_to_json(or_(*(is_null(f"c{i}") for i in range(1000))))

    def depth(obj: Any) -> int:
        return 1 + max(map(depth, obj.values())) if isinstance(obj, dict) else 0

    assert depth(written) == 11
    assert expression_from_json(written) == or_(*(is_null(f"c{i}") for i in range(1000)))


def test_nesting_size_and_sets_are_limited():
    deep: Any = True
    for n in range(EXPRESSION_DEPTH_MAX + 1):
        deep = {"type": "and" if n % 2 else "or", "left": deep, "right": {"type": "is-null", "term": "x"}}
    with pytest.raises(InvalidInput, match="more than 64 levels deep"):
        expression_from_json(deep)
    wide: Any = True
    for _ in range(PREDICATES_MAX):
        wide = {"type": "and", "left": wide, "right": True}
    with pytest.raises(InvalidInput, match="more than 10000 predicates"):
        expression_from_json(wide)
    with pytest.raises(InvalidInput, match="100001 constants, the limit is 100000"):
        expression_from_json({"type": "in", "term": "x", "values": [1] * (VALUES_MAX + 1)})


@pytest.mark.parametrize(
    "value",
    [True, 1, -1.5, "a", float("inf"), Decimal("1.50"), b"\xff", dt.date(2026, 1, 1), dt.time(1, 2, 3),
     dt.datetime(2026, 1, 1, 2, 3, 4, 5), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],  # noqa: DTZ001
    ids=repr,
)  # fmt: skip
def test_constants_of_every_kind_survive_json(value):
    expr: Expression = lt("x", value)
    for form in ("term", "value"):
        text = json.dumps(expression_to_json(expr, form=form), allow_nan=False)
        assert expression_from_json(json.loads(text)) == expr


def test_the_older_form_is_what_clients_have_read_so_far():
    assert expression_to_json(and_(eq("x", 1), is_in(transformed("day", "ts"), ["2026-01-01"]))) == {
        "type": "and",
        "left": {"type": "eq", "term": "x", "value": 1},
        "right": {
            "type": "in",
            "term": {"type": "transform", "transform": "day", "term": "ts"},
            "values": ["2026-01-01"],
        },
    }
    assert expression_to_json(eq(ref_id(3), 1)) == {"type": "eq", "left": {"type": "reference", "id": 3}, "right": 1}


MEMBERS = ["type", "child", "left", "right", "term", "value", "values", "id", "name", "function", "arguments",
           "transform", "data-type", "catalog", "identifier"]  # fmt: skip
WORDS = ["and", "not", "eq", "in", "is-null", "reference", "literal", "literals", "apply", "transform", "bucket",
         "bucket[4]", "iceberg_functions", "int", "date", "x", ""]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 5) | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=12,
)
JSON = st.fixed_dictionaries(
    {"type": st.sampled_from(["and", "or", "not", "eq", "lt", "in", "is-null", "starts-with"])},
    optional=dict.fromkeys(MEMBERS[1:7], VALUES),
)


@given(JSON)
def test_any_json_is_read_or_refused_by_its_path(obj):
    try:
        expression_from_json(obj)
    except InvalidInput as exc:
        refused_at = exc.where or ""
    else:
        refused_at = "filter"
    assert refused_at.startswith("filter")


def test_an_expression_reads_well_in_messages():
    expr = and_(
        Or((eq("a", "it's"), is_null("strange name"))),
        And((is_in("n", range(12)), not_(lt("ts", dt.date(2026, 1, 1))))),
        eq(transformed("bucket[16]", "id"), Decimal("1.50")),
        starts_with("s", "x" * 200),
    )
    assert str(expr) == (
        "(a = 'it''s' or \"strange name\" is null) and n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 12 in all)"
        " and not (ts < date '2026-01-01') and bucket[16](id) = 1.50 and s starts with '" + "x" * 100 + "…'"
    )
