"""Sketches of columns: the hashes are those of single values, whatever way they are computed."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import datasketches
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from firn.model.types import BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, INT, LONG, STRING, TIMESTAMPTZ, UUID, DecimalType
from firn.model.values import to_bytes
from firn.pipeline.alpha_sketch import AlphaSketch
from firn.pipeline.value_hashes import hashes_of
from firn.storage.theta import NOMINAL_ENTRIES, THETA_MAX, ThetaSketch, hash_of, sketch_from_bytes, sketch_of

DAY = dt.date(2026, 11, 22)
COLUMNS = [
    (INT, pa.int32(), [5, -1, 2**31 - 1], [5, -1, 2**31 - 1]),
    (LONG, pa.int64(), [5, -(2**63), 0], [5, -(2**63), 0]),
    (FLOAT, pa.float32(), [0.5, -0.0, 0.0], [0.5, -0.0, 0.0]),
    (DOUBLE, pa.float64(), [0.1, -0.0, 0.0], [0.1, -0.0, 0.0]),
    (BOOLEAN, pa.bool_(), [True, False], [True, False]),
    (DATE, pa.date32(), [DAY], [20_779]),
    (TIMESTAMPTZ, pa.timestamp("us", tz="UTC"), [dt.datetime(1970, 1, 2, tzinfo=dt.UTC)], [86_400_000_000]),
    (DecimalType(9, 2), pa.decimal128(9, 2), [Decimal("1.28"), Decimal("-1.28")], [Decimal("1.28"), Decimal("-1.28")]),
    (STRING, pa.string(), ["a", "", "ä\x00"], ["a", "", "ä\x00"]),
    (BINARY, pa.binary(), [b"\x00\xff"], [b"\x00\xff"]),
    (UUID, pa.string(), [str(uuid.UUID(int=7))], [uuid.UUID(int=7)]),
]


@pytest.mark.parametrize(("type", "arrow", "values", "internal"), COLUMNS, ids=lambda one: str(one)[:20])
def test_hashes_are_those_of_single_values_once_each_in_the_order_of_their_first_appearance(
    type, arrow, values, internal
):
    column = pa.array([None, *values, *values[::-1], None], arrow)
    expected = [hash_of(to_bytes(type, value)) for value in internal]
    assert hashes_of(column, type).tolist() == expected
    assert hashes_of(column.slice(1), type).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_eight_bytes_are_hashed_at_once_as_one_by_one(values):
    distinct = list(dict.fromkeys(values))
    assert hashes_of(pa.array(values, pa.int64()), LONG).tolist() == [hash_of(to_bytes(LONG, one)) for one in distinct]


def alpha_of(*counts: range) -> ThetaSketch:
    sketch = AlphaSketch()
    for values in counts:
        sketch.update(hashes_of(pa.array(values, pa.int64()), LONG))
    return sketch.compact()


@pytest.mark.parametrize("count", [0, 1, NOMINAL_ENTRIES])
def test_a_sketch_that_is_not_full_is_exact(count):
    assert alpha_of(range(count)) == sketch_of(range(count), LONG)


def test_the_first_value_too_many_shrinks_theta_by_alpha():
    full = alpha_of(range(NOMINAL_ENTRIES + 1))
    assert full.theta == int(THETA_MAX * (NOMINAL_ENTRIES / (NOMINAL_ENTRIES + 1.0)))
    assert full == alpha_of(range(NOMINAL_ENTRIES + 1), range(NOMINAL_ENTRIES + 1))


def test_a_full_sketch_estimates_and_repetitions_change_nothing():
    once, twice = alpha_of(range(50_000)), alpha_of(range(30_000), range(50_000))
    assert once == twice
    assert abs(len(once.hashes) - NOMINAL_ENTRIES) < 400
    assert once.estimate == pytest.approx(50_000, rel=0.04)
    assert set(once.hashes) <= {hash_of(to_bytes(LONG, value)) for value in range(50_000)}


def test_united_sketches_are_those_of_the_library():
    parts = [alpha_of(range(20_000)), alpha_of(range(10_000, 40_000)), alpha_of(range(50)), alpha_of(range(0))]
    union = datasketches.theta_union(12)
    for part in parts:
        union.update(datasketches.compact_theta_sketch.deserialize(part.to_bytes()))
    ours = ThetaSketch().union(*parts)
    library = sketch_from_bytes(union.get_result().serialize(), location="s")
    assert ours == library
    assert ours == ThetaSketch().union(parts[2], parts[0]).union(parts[3].union(parts[1]))
    assert np.isclose(ours.estimate, union.get_result().get_estimate())
