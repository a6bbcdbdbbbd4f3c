"""Keys are in the order of their values, nulls first, and every column has its part in a z-order."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.datafile import DataFile
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
from firn.model.values import to_bytes
from firn.pipeline.z_order import KeyRange, ZOrder, interleave, key_of, key_range, keys_of, z_fields, z_keys
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
    for type, arrow in [(LONG, pa.int64()), (DOUBLE, pa.float64()), (DECIMAL, pa.decimal128(38, 2))]:
        array = pa.array([Decimal(v) if type == DECIMAL else v for v in values], arrow)
        assert len(set(keys_of(array, type).tolist())) == len(values)


@pytest.mark.parametrize(
    ("type", "arrow", "value"),
    [
        (BOOLEAN, pa.bool_(), True),
        (INT, pa.int32(), -7),
        (LONG, pa.int64(), 2**62),
        (DOUBLE, pa.float64(), -1.5),
        (FLOAT, pa.float32(), 0.25),
        (STRING, pa.string(), "häuser am see"),
        (BINARY, pa.binary(), b"\xff\x00"),
        (UUID, pa.string(), str(uuid.UUID(int=2**127 + 5))),
        (DECIMAL, pa.decimal128(38, 2), Decimal("-12.34")),
    ],
)
def test_a_bound_has_the_key_of_its_value_in_a_column(type: Type, arrow: pa.DataType, value: Any) -> None:
    internal = uuid.UUID(value) if type == UUID else value
    assert keys_of(pa.array([value], arrow), type).tolist() == [key_of(internal, type)]


def test_nan_is_after_all_numbers_and_zero_has_no_sign() -> None:
    keys = keys_of(pa.array([math.inf, math.nan, -math.nan, 0.0, -0.0]), DOUBLE).tolist()
    assert keys[1] == keys[2] > keys[0]
    assert keys[3] == keys[4]


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=30),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**31),
)
def test_one_column_is_sorted_with_nulls_first(values: list[int | None], low: int, width: int) -> None:
    """Also where the range that is known of the rows leaves some of them out."""
    around = KeyRange(key_of(low, LONG), key_of(low + width, LONG))
    keys = z_keys([(pa.array(values, pa.int64()), LONG, around)]).to_pylist()
    inside = sorted((value, key) for value, key in zip(values, keys, strict=True) if value is not None)
    assert [key for _, key in inside] == sorted(key for _, key in inside)
    dead = [key for value, key in zip(values, keys, strict=True) if value is None]
    assert all(a < b for a in dead for _, b in inside)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**64 - 1), max_size=10))
def test_a_range_is_spread_in_order(one: int, other: int, keys: list[int]) -> None:
    around = KeyRange(min(one, other), max(one, other))
    spread = around.spread(np.array(sorted([*keys, one, other]), np.uint64)).tolist()
    assert spread == sorted(spread)
    assert max(spread) < 2**63
    assert around.high == around.low or max(spread) >= 2**62


def test_bits_of_the_columns_take_turns() -> None:
    first = np.array([0xFF << 56, 0], np.uint64)
    second = np.array([0, 1], np.uint64)
    found = interleave([first, second])
    assert found.shape == (2, 16)
    assert bytes(found[0]) == b"\xaa\xaa" + bytes(14)
    assert bytes(found[1]) == bytes(15) + b"\x01"


def test_a_small_column_counts_beside_a_large_one() -> None:
    """Sorted by key and cut into 16 files, files are narrow in both columns, whatever their magnitudes are."""
    generator = np.random.default_rng(7)
    large, small = generator.integers(0, 10**12, 4096), generator.integers(0, 100, 4096)
    schema = schema_of(large=LONG, small=LONG)
    fields = z_fields(schema, ["large", "small"])
    file = _file({1: (0, 10**12), 2: (0, 99)}, fields)
    batch = pa.record_batch({"large": large, "small": small})
    order = np.argsort(np.array(ZOrder.of(fields, [file]).keys(batch).to_pylist(), object), kind="stable")
    for values, width in ((large, 10**12), (small, 100)):
        spans = [np.ptp(part) / width for part in np.array_split(values[order], 16)]
        assert float(np.mean(spans)) < 0.45


def test_the_range_of_a_column_is_that_of_its_files_if_all_of_them_know_it() -> None:
    (field,) = z_fields(schema_of(id=LONG), ["id"])
    known = [_file({1: (3, 9)}, [field]), _file({1: (-4, 5)}, [field])]
    assert key_range(known, field) == KeyRange(key_of(-4, LONG), key_of(9, LONG))
    nulls = msgspec.structs.replace(known[0], null_value_counts={1: 10}, lower_bounds=None, upper_bounds=None)
    assert key_range([*known, nulls], field) == key_range(known, field)
    unknown = msgspec.structs.replace(known[0], lower_bounds=None)
    assert key_range([*known, unknown], field) == KeyRange()
    assert key_range([], field) == KeyRange()


def test_columns_that_have_no_order_are_refused() -> None:
    schema = schema_of(id=LONG, tags=ListType(element_id=9, element=STRING, element_required=False))
    for names in ([], ["id", "id"], ["tags"], ["nothing"], [f"c{at}" for at in range(9)]):
        with pytest.raises(InvalidInput):
            z_fields(schema, names)


def _file(bounds: dict[int, tuple[int, int]], fields: Any) -> DataFile:
    types = {field.field_id: field.type for field in fields}
    return DataFile(
        file_path="f",
        file_format="parquet",
        spec_id=0,
        record_count=10,
        file_size_in_bytes=1,
        lower_bounds={i: to_bytes(types[i], low) for i, (low, _) in bounds.items()},
        upper_bounds={i: to_bytes(types[i], high) for i, (_, high) in bounds.items()},
    )
