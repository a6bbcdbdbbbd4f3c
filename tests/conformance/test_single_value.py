"""Single values against the bytes and JSON that Iceberg's own libraries read and write."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest

from firn.model.bounds import GeoBound
from firn.model.errors import InvalidInput
from firn.model.type_json import type_from_json
from firn.model.types import TIME, DecimalType, FixedType, type_from_text
from firn.model.values import from_bytes, to_bytes, value_from_json, value_to_json

CASES = json.loads((Path(__file__).parent / "data" / "single_value.json").read_text(encoding="utf-8"))


def internal(type, value):
    if isinstance(type, DecimalType):
        return Decimal(value)
    return bytes.fromhex(value) if isinstance(type, FixedType) else value


def by_id(case):
    return case["id"]


@pytest.mark.parametrize("case", CASES["binary"], ids=by_id)
def test_bytes_are_read_as_this_value(case):
    type = type_from_text(case["type"])
    value = from_bytes(type, bytes.fromhex(case["bytes"]))
    assert value == internal(type, case["value"])


@pytest.mark.parametrize("case", [c for c in CASES["binary"] if "decode_only" not in c], ids=by_id)
def test_a_value_is_written_as_these_bytes(case):
    type = type_from_text(case["type"])
    assert to_bytes(type, internal(type, case["value"])).hex() == case["bytes"]


@pytest.mark.parametrize("case", CASES["geo_bounds"], ids=by_id)
def test_a_geospatial_bound_has_these_bytes(case):
    bound = GeoBound(**case["point"])
    assert bound.to_bytes().hex() == case["bytes"]
    assert GeoBound.from_bytes(bytes.fromhex(case["bytes"])) == bound


@pytest.mark.parametrize("case", CASES["promoted"], ids=by_id)
def test_a_bound_from_before_a_promotion_is_read_as_the_type_it_was_written_with(case):
    data = bytes.fromhex(case["bytes"])
    assert from_bytes(type_from_text(case["type"]), data) == case["value"]
    assert len(data) == len(to_bytes(type_from_text(case["written_as"]), 0))


@pytest.mark.parametrize("case", CASES["invalid_binary"], ids=by_id)
def test_a_value_that_does_not_fit_its_type_has_no_bytes(case):
    type = type_from_text(case["type"])
    with pytest.raises(InvalidInput, match=r"digits .*decimal\(7"):
        to_bytes(type, internal(type, case["value"]))


@pytest.mark.parametrize("case", CASES["json"], ids=by_id)
def test_json_is_written_as_it_was_read(case):
    type = type_from_json(case["type"])
    assert value_to_json(type, value_from_json(type, case["json"])) == case["json"]


@pytest.mark.parametrize("case", CASES["invalid_json"], ids=by_id)
@pytest.mark.parametrize("lenient", [False, True])
def test_json_that_is_no_value_of_the_type_is_refused(case, lenient):
    type = type_from_json(case["type"])
    if lenient and case["type"] == "timestamptz":
        assert value_from_json(type, case["json"], lenient=True) == 1196673330 * 10**6
        return
    with pytest.raises(InvalidInput, match=r"^value"):
        value_from_json(type, case["json"], lenient=lenient)


def test_a_missing_z_is_nan_on_disk_and_none_in_memory():
    data = GeoBound(x=1.0, y=2.0, m=3.0).to_bytes()
    assert len(data) == 32
    assert GeoBound.from_bytes(data).z is None
    with pytest.raises(InvalidInput, match="NaN"):
        GeoBound(x=math.nan, y=0.0).to_bytes()


def test_a_decimal_takes_no_more_bytes_than_it_needs():
    assert to_bytes(DecimalType(7, 4), Decimal("-123.4567")).hex() == "ed2979"
    for unscaled, data in ((0, "00"), (127, "7f"), (128, "0080"), (-128, "80"), (-129, "ff7f")):
        assert to_bytes(DecimalType(9, 0), Decimal(unscaled)).hex() == data


def test_a_time_of_day_ends_with_the_day():
    assert to_bytes(TIME, 86_400 * 10**6 - 1)
    with pytest.raises(InvalidInput, match="range of time"):
        to_bytes(TIME, 86_400 * 10**6)
