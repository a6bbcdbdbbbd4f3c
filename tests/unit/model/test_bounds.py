from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.bounds import GeoBound, truncate_lower, truncate_upper
from firn.model.errors import InvalidInput
from firn.model.types import INT, STRING, UUID, FixedType

COORDINATES = st.floats(allow_nan=False)


@pytest.mark.parametrize(("type", "value"), [(INT, 7), (FixedType(3), b"abc"), (UUID, None)])
def test_only_strings_and_binary_are_cut(type, value):
    assert truncate_lower(type, value, 1) == value
    assert truncate_upper(type, value, 1) == value


@pytest.mark.parametrize(
    ("value", "upper"),
    [
        ("\ud7ff\ud7ff", "\ue000"),
        ("a\U0010ffffb", "b"),
        ("\U0010ffff\U0010ffff", None),
        ("\uffff\uffff", "\U00010000"),
    ],
)
def test_an_upper_bound_steps_over_surrogates_and_carries(value, upper):
    length = 2 if value.startswith("a") else 1
    assert truncate_upper(STRING, value, length) == upper


@pytest.mark.parametrize("truncate", [truncate_lower, truncate_upper])
@pytest.mark.parametrize("length", [0, -1])
def test_a_length_that_keeps_nothing_is_refused(truncate, length):
    with pytest.raises(InvalidInput, match=f"truncated to {length}"):
        truncate(STRING, "a", length)


@given(COORDINATES, COORDINATES, COORDINATES | st.none(), COORDINATES | st.none())
def test_a_geospatial_bound_survives_its_bytes(x, y, z, m):
    bound = GeoBound(x=x, y=y, z=z, m=m)
    data = bound.to_bytes()
    assert len(data) == (32 if m is not None else 24 if z is not None else 16)
    assert GeoBound.from_bytes(data) == bound


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        b"\0" * 17,
        b"\0" * 40,
        struct.pack("<2d", math.nan, 1),
        struct.pack("<2d", 1, math.nan),
        struct.pack("<4d", 1, 1, 1, math.nan),
    ],
)
def test_bytes_that_are_no_point_are_refused(data):
    with pytest.raises(InvalidInput, match=r"^lower: "):
        GeoBound.from_bytes(data, where="lower")
