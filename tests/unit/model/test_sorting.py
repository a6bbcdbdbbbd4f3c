from __future__ import annotations

import itertools
import json
import math
import random
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput, InvalidMetadata, Unsupported
from firn.model.partitioning import SPEC_FIELDS_MAX
from firn.model.schema import Schema
from firn.model.sorting import (
    UNSORTED,
    SortBy,
    SortField,
    SortOrder,
    add_order,
    check_order,
    float_key,
    order_from_json,
    order_to_json,
    rebind_order,
    replace_order,
    same_order,
    sort_by_from_json,
    sort_by_to_json,
    sort_key,
)
from firn.model.types import (
    BINARY,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    UUID,
    VARIANT,
    DecimalType,
    NestedField,
    StructType,
    Type,
)
from tests.strategies.examples import examples

COLUMNS: tuple[tuple[str, Type], ...] = (
    ("id", LONG),
    ("ts", TIMESTAMP),
    ("name", STRING),
    ("ratio", DOUBLE),
    ("share", FLOAT),
    ("price", DecimalType(9, 2)),
    ("raw", BINARY),
    ("key", UUID),
    ("place", StructType((NestedField(field_id=20, name="city", type=STRING, required=False),))),
)
SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        tuple(
            NestedField(field_id=i, name=name, type=type, required=False)
            for i, (name, type) in enumerate(COLUMNS, start=1)
        )
    ),
)
HOUR_MICROS = 3_600_000_000


def by(source_id, transform="identity", direction="asc", null_order="nulls-first"):
    return SortField(source_ids=(source_id,), transform=transform, direction=direction, null_order=null_order)


def order_of(*fields, order_id=1):
    return SortOrder(order_id=order_id, fields=fields)


def sorted_values(field, values):
    """Values of one column as `field` sorts them, whatever order they come in."""
    rows = [{field.source_id: value} for value in values]
    random.Random(7).shuffle(rows)
    return [row[field.source_id] for row in sorted(rows, key=sort_key(order_of(field), SCHEMA))]


# ---------------------------------------------------------------------------------------------------------------------
# JSON

ORDERS = st.builds(
    SortOrder,
    order_id=st.integers(0, 2**31 - 1),
    fields=st.lists(
        st.builds(
            SortField,
            source_ids=st.lists(st.integers(1, 100), min_size=1, max_size=3).map(tuple),
            transform=st.sampled_from(["identity", "bucket[4]", "Day", "zorder"]),
            direction=st.sampled_from(["asc", "desc"]),
            null_order=st.sampled_from(["nulls-first", "nulls-last"]),
            extra=st.dictionaries(st.just("collation"), st.text(max_size=3), max_size=1),
        ),
        max_size=3,
    ).map(tuple),
    extra=st.dictionaries(st.just("comment"), st.text(max_size=3), max_size=1),
)


@given(ORDERS)
@examples(50)
def test_an_order_survives_json_with_members_that_are_not_known(order):
    read = order_from_json(json.loads(json.dumps(order_to_json(order))))
    assert read == order
    assert hash(read) == hash(order)


def test_an_order_is_written_as_the_specification_has_it():
    order = order_of(by(2, "bucket[4]", "desc", "nulls-last"), SortField(source_ids=(1, 2), transform="zorder"))
    assert order_to_json(order) == {
        "order-id": 1,
        "fields": [
            {"transform": "bucket[4]", "source-id": 2, "direction": "desc", "null-order": "nulls-last"},
            {"transform": "zorder", "source-ids": [1, 2], "direction": "asc", "null-order": "nulls-first"},
        ],
    }


def test_directions_are_read_whatever_their_case():
    field = {"transform": "identity", "source-id": 2, "direction": "DESC", "null-order": "NULLS-LAST"}
    assert order_from_json({"fields": [field]}, order_id=1) == order_of(by(2, "identity", "desc", "nulls-last"))


GOOD = {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"}


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        ([], "sort-order"),
        ({"fields": []}, "sort-order.order-id"),
        ({"order-id": 1.0, "fields": []}, "sort-order.order-id"),
        ({"order-id": 1}, "sort-order.fields"),
        ({"order-id": 1, "fields": ["x"]}, "sort-order.fields[0]"),
        ({"order-id": 1, "fields": [GOOD, {**GOOD, "direction": "up"}]}, "sort-order.fields[1].direction"),
        ({"order-id": 1, "fields": [{**GOOD, "direction": None}]}, "sort-order.fields[0].direction"),
        ({"order-id": 1, "fields": [{**GOOD, "null-order": "first"}]}, "sort-order.fields[0].null-order"),
        ({"order-id": 1, "fields": [{**GOOD, "transform": "truncate[0]"}]}, "sort-order.fields[0].transform"),
        ({"order-id": 1, "fields": [{**GOOD, "source-id": "2"}]}, "sort-order.fields[0].source-id"),
        ({"order-id": 1, "fields": [GOOD] * (SPEC_FIELDS_MAX + 1)}, "sort-order.fields"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_wrong_member_is_named_by_its_path(obj, where):
    with pytest.raises(InvalidMetadata) as refused:
        order_from_json(obj)
    assert refused.value.where == where


# ---------------------------------------------------------------------------------------------------------------------
# Validation


def test_order_0_is_the_unsorted_one_and_no_other():
    check_order(UNSORTED, SCHEMA, format_version=1)
    for order in (order_of(by(1), order_id=0), order_of(order_id=3)):
        with pytest.raises(InvalidMetadata) as refused:
            check_order(order, SCHEMA, format_version=2)
        assert refused.value.where == "sort-order.order-id"


@pytest.mark.parametrize("field", [by(99), by(9), by(1, "day"), by(4, "bucket[4]")], ids=str)
def test_a_key_needs_a_primitive_column_that_its_transform_takes(field):
    with pytest.raises(InvalidMetadata) as refused:
        check_order(order_of(by(1), field), SCHEMA, format_version=2)
    assert refused.value.where == "sort-order.fields[1]"


@pytest.mark.parametrize("transform", ["void", "spiral"])
def test_a_variant_is_no_key_whatever_the_transform_or_java_would_not_open_the_table(transform):
    schema = Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="v", type=VARIANT, required=False),)))
    with pytest.raises(InvalidMetadata, match="not of a primitive type"):
        check_order(order_of(by(1, transform)), schema, format_version=3)


def test_floats_and_nested_columns_can_be_sorted_by():
    check_order(order_of(by(4), by(20), by(2, "hour")), SCHEMA, format_version=1)


def test_several_source_columns_need_v3():
    order = order_of(SortField(source_ids=(1, 2), transform="zorder"))
    check_order(order, SCHEMA, format_version=3)
    with pytest.raises(InvalidMetadata, match="version 3"):
        check_order(order, SCHEMA, format_version=2)


# ---------------------------------------------------------------------------------------------------------------------
# Satisfying


def test_any_order_satisfies_the_unsorted_one_which_satisfies_no_other():
    assert UNSORTED.is_satisfied_by(UNSORTED)
    assert UNSORTED.is_satisfied_by(order_of(by(1)))
    assert not order_of(by(1)).is_satisfied_by(UNSORTED)


def test_a_longer_order_satisfies_its_beginning_but_not_the_other_way_round():
    assert order_of(by(1)).is_satisfied_by(order_of(by(1), by(2)))
    assert not order_of(by(1), by(2)).is_satisfied_by(order_of(by(1)))
    assert not order_of(by(2)).is_satisfied_by(order_of(by(1), by(2)))


def test_direction_and_null_order_must_agree():
    assert not order_of(by(1)).is_satisfied_by(order_of(by(1, "identity", "desc")))
    assert not order_of(by(1)).is_satisfied_by(order_of(by(1, "identity", "asc", "nulls-last")))


def test_a_finer_key_satisfies_a_coarser_one():
    for finer, coarser in itertools.combinations(("identity", "hour", "day", "month", "year"), 2):
        assert order_of(by(2, coarser)).is_satisfied_by(order_of(by(2, finer)), SCHEMA)
        assert not order_of(by(2, finer)).is_satisfied_by(order_of(by(2, coarser)), SCHEMA)


def test_truncated_numbers_are_told_from_truncated_strings():
    assert order_of(by(3, "truncate[2]")).is_satisfied_by(order_of(by(3, "truncate[4]")), SCHEMA)
    assert not order_of(by(1, "truncate[2]")).is_satisfied_by(order_of(by(1, "truncate[4]")), SCHEMA)
    assert order_of(by(1, "truncate[4]")).is_satisfied_by(order_of(by(1, "truncate[2]")), SCHEMA)


def test_a_finer_first_key_does_not_satisfy_a_coarser_one_with_a_second_key():
    wanted, given_order = order_of(by(2, "day"), by(1)), order_of(by(2, "hour"), by(1))
    assert not wanted.is_satisfied_by(given_order)
    rows = [{2: 0, 1: 2}, {2: HOUR_MICROS, 1: 1}]
    assert sorted(rows, key=sort_key(given_order, SCHEMA)) != sorted(rows, key=sort_key(wanted, SCHEMA))


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(-(10**12), 10**12), st.text("ab", max_size=4)), max_size=12),
    st.data(),
)
@examples(100)
def test_what_satisfies_an_order_is_in_that_order(values, data):
    keys = [
        *(by(1, t) for t in ("identity", "truncate[2]", "truncate[3]", "truncate[4]", "truncate[6]")),
        *(by(2, t) for t in ("identity", "day", "hour")),
        *(by(3, t, "desc") for t in ("identity", "truncate[1]", "truncate[2]")),
    ]
    orders = st.lists(st.sampled_from(keys), max_size=3).map(lambda fields: order_of(*fields))
    given_order, wanted = data.draw(orders), data.draw(orders)
    if wanted.is_satisfied_by(given_order, SCHEMA):
        rows = [dict(enumerate(row, start=1)) for row in values]
        wanted_keys = [sort_key(wanted, SCHEMA)(row) for row in sorted(rows, key=sort_key(given_order, SCHEMA))]
        assert not any(later < earlier for earlier, later in itertools.pairwise(wanted_keys))


# ---------------------------------------------------------------------------------------------------------------------
# Comparing rows


def test_floats_sort_from_minus_nan_to_nan():
    values = [-math.nan, -math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, math.inf, math.nan]
    for source_id in (4, 5):
        column = [v for v in values if source_id == 4 or abs(v) != 5e-324]
        assert list(map(repr_of, sorted_values(by(source_id), column))) == list(map(repr_of, column))
        backwards = sorted_values(by(source_id, "identity", "desc"), column)
        assert list(map(repr_of, backwards)) == list(map(repr_of, reversed(column)))


def repr_of(value):
    return f"{math.copysign(1, value):+}{value!r}"


@given(st.lists(st.floats()))
def test_the_order_of_floats_is_total(values):
    keys = [float_key(v) for v in values]
    for a, b in itertools.combinations(keys, 2):
        assert (a < b) + (b < a) + (a == b) == 1


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("null_order", ["nulls-first", "nulls-last"])
def test_nulls_go_where_the_null_order_says_whatever_the_direction(direction, null_order):
    values = [1, 2, 3] if direction == "asc" else [3, 2, 1]
    expected = [None, *values] if null_order == "nulls-first" else [*values, None]
    assert sorted_values(by(1, "identity", direction, null_order), [*values, None]) == expected
    assert sort_key(order_of(by(1)), SCHEMA)({}) == sort_key(order_of(by(1)), SCHEMA)({1: None})


@pytest.mark.parametrize(
    ("source_id", "values"),
    [
        (3, ["", "Z", "a", "é", "\uffff", "🤯"]),
        (6, [Decimal("-1.50"), Decimal("-1.49"), Decimal(0), Decimal("10.00")]),
        (7, [b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
        (8, [uuid.UUID(int=0), uuid.UUID(int=2**127 - 1), uuid.UUID(int=2**127)]),
    ],
)
def test_values_sort_by_code_point_by_number_and_by_unsigned_bytes(source_id, values):
    assert sorted_values(by(source_id), values) == values
    assert sorted_values(by(source_id, "identity", "desc"), values) == values[::-1]


def test_rows_sort_by_transformed_values_and_then_by_the_next_key():
    order = order_of(by(2, "day", "desc"), by(1))
    rows = [{2: 0, 1: 9}, {2: 24 * HOUR_MICROS, 1: 2}, {2: HOUR_MICROS, 1: 1}, {1: 5}]
    assert [row[1] for row in sorted(rows, key=sort_key(order, SCHEMA))] == [5, 2, 1, 9]


def test_rows_cannot_be_sorted_by_what_is_unknown():
    with pytest.raises(Unsupported):
        sort_key(order_of(by(1, "spiral")), SCHEMA)
    with pytest.raises(InvalidMetadata):
        sort_key(order_of(by(99)), SCHEMA)
    with pytest.raises(InvalidInput):
        sort_key(order_of(by(1)), SCHEMA)({1: "one"})


# ---------------------------------------------------------------------------------------------------------------------
# Replacing


@given(
    st.lists(
        st.builds(
            SortBy,
            source=st.text(max_size=3),
            transform=st.text(max_size=3),
            direction=st.sampled_from(["asc", "desc"]),
            null_order=st.none() | st.sampled_from(["nulls-first", "nulls-last"]),
        ),
        max_size=3,
    )
)
@examples(50)
def test_wanted_keys_survive_json(keys):
    assert sort_by_from_json(json.loads(json.dumps(sort_by_to_json(keys)))) == tuple(keys)


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        ({}, "sort-by"),
        ([{}], "sort-by[0]"),
        ([{"source": "a"}, {"source": "b", "direction": "up"}], "sort-by[1].direction"),
        ([{"source": "a", "order": 1}], "sort-by[0]"),
        ([{"source": "a"}] * (SPEC_FIELDS_MAX + 1), "sort-by"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_wrong_key_is_named_by_its_path(obj, where):
    with pytest.raises(InvalidInput) as refused:
        sort_by_from_json(obj)
    assert refused.value.where == where


def replaced(*keys, orders=(UNSORTED,)):
    return replace_order(keys, SCHEMA, orders=orders, format_version=2)


def test_nulls_go_first_in_ascending_and_last_in_descending_order_unless_told():
    order = replaced(
        SortBy(source="id"),
        SortBy(source="ts", transform="Day", direction="desc"),
        SortBy(source="place.city", null_order="nulls-last"),
    )
    assert order == order_of(
        by(1), by(2, "day", "desc", "nulls-last"), by(20, "identity", "asc", "nulls-last"), order_id=1
    )


def test_an_order_that_the_table_has_is_used_again_and_others_get_the_next_id():
    by_id = order_of(by(1), order_id=4)
    assert replaced(SortBy(source="id"), orders=(UNSORTED, by_id)) is by_id
    assert replaced(SortBy(source="ts"), orders=(UNSORTED, by_id)).order_id == 5
    assert replaced(orders=(UNSORTED, by_id)) == UNSORTED
    assert add_order(order_of(order_id=9), [by_id]) == UNSORTED
    assert add_order(by_id, []).order_id == 1


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (SortBy(source="moon"), InvalidInput),
        (SortBy(source="id", transform="bucket[0]"), InvalidInput),
        (SortBy(source="id", transform="spiral"), Unsupported),
        (SortBy(source="id", transform="day"), InvalidMetadata),
        (SortBy(source="place"), InvalidMetadata),
    ],
)
def test_what_cannot_be_sorted_by_is_refused(key, error):
    with pytest.raises(error):
        replaced(key)


def test_orders_are_the_same_by_their_keys_only():
    assert same_order(order_of(by(1, "bucket[4]"), order_id=3), order_of(by(1, "BUCKET[04]"), order_id=4))
    assert not same_order(order_of(by(1)), order_of(by(1), by(2)))
    assert not same_order(order_of(by(1)), order_of(by(1, "identity", "desc")))


def test_an_order_of_another_schema_is_bound_by_column_names():
    renumbered = Schema(
        schema_id=0, struct=StructType((NestedField(field_id=7, name="id", type=LONG, required=False),))
    )
    assert rebind_order(order_of(by(1)), planned_on=SCHEMA, schema=renumbered) == order_of(by(7))
    with pytest.raises(InvalidMetadata, match="ts"):
        rebind_order(order_of(by(2)), planned_on=SCHEMA, schema=renumbered)
