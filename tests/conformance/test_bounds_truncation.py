"""Truncated bounds against those of Iceberg's own libraries, and against what a bound must be for any value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.bounds import truncate_lower, truncate_upper
from firn.model.types import BINARY, STRING

CASES = json.loads((Path(__file__).parent / "data" / "bounds_truncation.json").read_text(encoding="utf-8"))
TRUNCATE = {"lower": truncate_lower, "upper": truncate_upper}
LENGTHS = st.integers(min_value=1, max_value=6)
# The ends of the code points, both sides of the surrogates, and the end of the basic plane.
EDGES = st.sampled_from("a\x00\ud7ff\ue000\uffff\U00010000\U0010ffff") | st.characters(exclude_categories=["Cs"])
TEXTS = st.text(EDGES, max_size=9)
BYTES = st.binary(max_size=9) | st.lists(st.sampled_from([0, 1, 254, 255]), max_size=9).map(bytes)


@pytest.mark.parametrize("case", CASES["truncations"], ids=lambda case: case["id"])
def test_a_bound_is_cut_to_this(case):
    binary = case["type"] == "binary"
    value = bytes.fromhex(case["value"]) if binary else case["value"]
    bound = TRUNCATE[case["bound"]](BINARY if binary else STRING, value, case["length"])
    assert (bound.hex() if binary and bound is not None else bound) == case["expected"]


@given(TEXTS, LENGTHS)
def test_cut_strings_enclose_the_value_in_the_order_of_utf8_and_are_utf8(value, length):
    lower, upper = truncate_lower(STRING, value, length), truncate_upper(STRING, value, length)
    assert lower.encode() <= value.encode()
    assert len(lower) <= length
    if upper is None:
        assert value[:length] == "\U0010ffff" * length
    else:
        assert value.encode() <= upper.encode()
        assert len(upper) <= length


@given(TEXTS, TEXTS, LENGTHS)
def test_an_upper_bound_holds_for_every_string_with_the_same_beginning(value, rest, length):
    upper = truncate_upper(STRING, value, length)
    if upper is not None and len(value) > length:
        assert (value + rest).encode() < upper.encode()


@given(BYTES, LENGTHS)
def test_cut_bytes_enclose_the_value(value, length):
    lower, upper = truncate_lower(BINARY, value, length), truncate_upper(BINARY, value, length)
    assert lower <= value
    assert len(lower) <= length
    if upper is None:
        assert value[:length] == b"\xff" * length
        assert len(value) > length
    else:
        assert value <= upper
        assert len(upper) <= length
