from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.model.promotion import can_promote, promote_value, refusal, transforms_that_block
from firn.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    DecimalType,
    StructType,
)
from firn.model.values import from_bytes, to_bytes
from tests.strategies.schemas import LEAVES, values

PAIRS = [
    (INT, LONG),
    (FLOAT, DOUBLE),
    (DATE, TIMESTAMP),
    (DATE, TIMESTAMP_NS),
    (DecimalType(9, 2), DecimalType(18, 2)),
]


@given(st.sampled_from(PAIRS), st.data())
def test_a_promoted_value_is_what_an_old_bound_reads_as(pair, data):
    source, target = pair
    value = data.draw(values(source))
    old_bound = to_bytes(source, value)
    try:
        promoted = promote_value(source=source, target=target, value=value)
    except InvalidInput:
        with pytest.raises(InvalidInput):
            from_bytes(target, old_bound)
    else:
        assert to_bytes(target, promoted) == to_bytes(target, from_bytes(target, old_bound))


@given(LEAVES, LEAVES)
def test_there_is_a_reason_exactly_when_a_promotion_is_refused(source, target):
    for version in (1, 2, 3):
        allowed = can_promote(source=source, target=target, format_version=version)
        assert (refusal(source=source, target=target, format_version=version) is None) is allowed
        assert not allowed or can_promote(source=source, target=target, format_version=3)


@pytest.mark.parametrize(
    ("source", "target", "version", "reason"),
    [
        (DATE, TIMESTAMP, 2, "needs format version 3, the table has 2"),
        (DecimalType(9, 2), DecimalType(18, 3), 3, "the scale of a decimal is fixed"),
        (DecimalType(9, 2), DecimalType(8, 2), 3, "narrower"),
        (StructType(()), INT, 3, "only primitive types"),
        (LONG, INT, 3, "no such promotion"),
    ],
)
def test_the_reason_says_which_rule_it_was(source, target, version, reason):
    assert reason in (refusal(source=source, target=target, format_version=version) or "")


def test_null_stays_null():
    assert promote_value(source=UNKNOWN, target=INT, value=None) is None
    assert promote_value(source=DecimalType(3, 2), target=DecimalType(9, 2), value=Decimal("1.50")) == Decimal("1.50")


def test_a_date_outside_the_range_of_nanoseconds_cannot_follow():
    assert promote_value(source=DATE, target=TIMESTAMP_NS, value=106_751) == 106_751 * 86_400 * 10**9
    with pytest.raises(InvalidInput, match="range of timestamp_ns"):
        promote_value(source=DATE, target=TIMESTAMP_NS, value=106_752)


def test_only_transforms_that_give_a_date_another_value_block_its_promotion():
    transforms = ["bucket[4]", "Day", "identity", "year", "void", "zorder(2)", "month"]
    assert transforms_that_block(source=DATE, target=TIMESTAMP, transforms=transforms) == [
        "bucket[4]",
        "identity",
        "zorder(2)",
    ]
    assert transforms_that_block(source=INT, target=LONG, transforms=transforms) == []
    assert transforms_that_block(source=DATE, target=DATE, transforms=transforms) == []
