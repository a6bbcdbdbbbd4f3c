"""Keys are in the order of their values, nulls first, and every column has its part in a z-order."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
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
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    ListType,
    Type,
)
from firn.pipeline.z_order import STEPS_MAX, Ranks, ZOrder, interleave, keys_of, z_fields, z_keys
from tests.unit.pipeline.sink_table import schema_of

DECIMAL = DecimalType(38, 2)
LONGS = st.integers(-(2**63), 2**63 - 1)
KINDS: list[tuple[Type, pa.DataType, st.SearchStrategy[Any]]] = [
    (BOOLEAN, pa.bool_(), st.booleans()),
    (INT, pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (LONG, pa.int64(), LONGS),
    (TIME, pa.int64(), st.integers(0, 86_400_000_000 - 1)),
    (DATE, pa.date32(), st.dates()),
    (TIMESTAMP, pa.timestamp("us"), st.datetimes()),
    (TIMESTAMPTZ, pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (FLOAT, pa.float32(), st.floats(width=32, allow_nan=False)),
    (DOUBLE, pa.float64(), st.floats(allow_nan=False)),
    (STRING, pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    (BINARY, pa.binary(), st.binary()),
    (UUID, pa.string(), st.uuids().map(str)),
    (DECIMAL, pa.decimal128(38, 2), st.decimals(-(10**35), 10**35, places=2)),
]


@pytest.mark.parametrize(("type", "arrow", "values"), KINDS, ids=[str(kind[0]) for kind in KINDS])
@given(data=st.data())
def test_keys_are_in_the_order_of_values(type: Type, arrow: pa.DataType, values: st.SearchStrategy, data: Any) -> None:
    found = data.draw(st.lists(values, max_size=20))
    ordered = sorted(found, key=lambda value: value.encode() if isinstance(value, str) else value)
    keys = keys_of(pa.array(ordered, arrow), type)
    assert keys.dtype == np.uint64
    assert all(a <= b for a, b in zip(keys.tolist(), keys.tolist()[1:], strict=False))


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, unique=True))
def test_different_numbers_have_different_keys(values: list[int]) -> None:
    kinds: list[tuple[Type, pa.DataType]] = [
        (LONG, pa.int64()), (DOUBLE, pa.float64()), (DECIMAL, pa.decimal128(38, 2)),
    ]  # fmt: skip
    for type, arrow in kinds:
        array = pa.array([Decimal(v) if type == DECIMAL else v for v in values], arrow)
        assert len(set(keys_of(array, type).tolist())) == len(values)


def test_nan_is_after_all_numbers_and_zero_has_no_sign() -> None:
    keys = keys_of(pa.array([math.inf, math.nan, -math.nan, 0.0, -0.0]), DOUBLE).tolist()
    assert keys[1] == keys[2] > keys[0]
    assert keys[3] == keys[4]


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=30),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=10),
)
def test_one_column_is_sorted_with_nulls_first(values: list[int | None], sample: list[int]) -> None:
    """Whatever the sample is that ranks are found by."""
    array = pa.array(values, pa.int64())
    keys = z_keys([(array, LONG, Ranks.of(keys_of(pa.array(sample, pa.int64()), LONG)))]).to_pylist()
    alive = sorted((value, key) for value, key in zip(values, keys, strict=True) if value is not None)
    assert [key for _, key in alive] == sorted(key for _, key in alive)
    dead = [key for value, key in zip(values, keys, strict=True) if value is None]
    assert all(a < b for a in dead for _, b in alive)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=30), st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_ranks_are_in_the_order_of_keys_and_use_all_bits(sample: list[int], keys: list[int]) -> None:
    ranks = Ranks.of(np.array(sample, np.uint64))
    spread = ranks.spread(np.array(sorted([*keys, *sample]), np.uint64)).tolist()
    assert spread == sorted(spread)
    assert all(one < 2**63 for one in spread)
    assert not sample or spread[-1] >= 2**62


def test_a_large_sample_is_cut_to_even_shares() -> None:
    steps = Ranks.of(np.arange(100_000, dtype=np.uint64)[::-1]).steps
    assert len(steps) == STEPS_MAX
    assert (steps[0], steps[-1]) == (0, 99_999)
    assert max(b - a for a, b in itertools.pairwise(steps)) <= 26


def test_bits_of_the_columns_take_turns() -> None:
    first = np.array([0xFF << 56, 0], np.uint64)
    second = np.array([0, 1], np.uint64)
    found = interleave([first, second])
    assert found.shape == (2, 16)
    assert bytes(found[0]) == b"\xaa\xaa" + bytes(14)
    assert bytes(found[1]) == bytes(15) + b"\x01"


@pytest.mark.parametrize("kind", ["small", "float", "text"])
def test_every_column_counts_whatever_its_values_are(kind: str) -> None:
    """Sorted by key and cut into 16 files, files are narrow in both columns."""
    generator = np.random.default_rng(7)
    large, small = generator.integers(0, 10**12, 4096), generator.integers(0, 100, 4096)
    others: dict[str, tuple[Type, list[Any]]] = {
        "small": (LONG, small.tolist()),
        "float": (DOUBLE, (small / 100).tolist()),
        "text": (STRING, [f"user{one:02}" for one in small]),
    }
    type, values = others[kind]
    table = pa.table({"large": large, "other": values})
    fields = z_fields(schema_of(large=LONG, other=type), ["large", "other"])
    keys = ZOrder.of(fields, table.slice(0, 500)).keys(table.combine_chunks().to_batches()[0])
    order = np.argsort(np.array(keys.to_pylist(), object), kind="stable")
    for column, width in ((large, 10**12), (small, 100)):
        spans = [np.ptp(part) / width for part in np.array_split(column[order], 16)]
        assert float(np.mean(spans)) < 0.45


def test_columns_without_a_value_have_keys() -> None:
    fields = z_fields(schema_of(a=LONG, b=STRING), ["a", "b"])
    nothing = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    order = ZOrder.of(fields, nothing)
    assert len(order.keys(pa.record_batch({"a": pa.array([1, None]), "b": pa.array([None, "x"])}))) == 2
    assert len(order.keys(pa.record_batch({"a": nothing["a"].combine_chunks(), "b": pa.array([], pa.string())}))) == 0


def test_columns_that_have_no_order_are_refused() -> None:
    schema = schema_of(id=LONG, tags=ListType(element_id=9, element=STRING, element_required=False))
    for names in ([], ["id", "id"], ["tags"], ["nothing"], [f"c{at}" for at in range(9)]):
        with pytest.raises(InvalidInput):
            z_fields(schema, names)
