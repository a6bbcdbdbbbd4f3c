from __future__ import annotations

import math
import struct
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput, Unsupported
from firn.model.type_json import type_from_json
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
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeometryType,
    type_from_text,
)
from firn.model.values import from_bytes, to_bytes, value_from_json, value_to_json
from tests.strategies.examples import examples
from tests.strategies.schemas import PRIMITIVES_WITH_VALUES, TYPED_VALUES

DECIMAL = DecimalType(9, 2)


def same(a, b):
    """Equal bit for bit: NaN is itself, and the two zeros differ."""
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b and str(a) == str(b)


@given(TYPED_VALUES)
@examples(60)
def test_every_value_survives_its_bytes(typed):
    type, value = typed
    assert same(from_bytes(type, to_bytes(type, value)), value)


@given(TYPED_VALUES)
@examples(60)
def test_every_value_survives_its_json(typed):
    type, value = typed
    assert same(value_from_json(type, value_to_json(type, value)), value)
    assert same(value_from_json(type, value_to_json(type, value), lenient=True), value)


@given(PRIMITIVES_WITH_VALUES, st.binary(max_size=40))
@examples(60)
def test_any_bytes_are_a_value_or_refused(type, data):
    try:
        value = from_bytes(type, data)
    except InvalidInput:
        return
    if type != TIME:
        assert from_bytes(type, to_bytes(type, value)) == value or value != value  # noqa: PLR0124 - NaN


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
NESTED = type_from_json(
    {
        "type": "map",
        "key-id": 1,
        "key": "string",
        "value-id": 2,
        "value-required": False,
        "value": {"type": "struct", "fields": [{"id": 3, "name": "a", "required": True, "type": "int"}]},
    }
)


@given(PRIMITIVES_WITH_VALUES | st.sampled_from([NESTED, UNKNOWN, VARIANT, GeometryType()]), JSON, st.booleans())
@examples(60)
def test_any_json_is_a_value_or_refused(type, obj, lenient):
    try:
        value = value_from_json(type, obj, lenient=lenient)
    except InvalidInput:
        return
    value_to_json(type, value)


@pytest.mark.parametrize("type", [INT, LONG, DATE, TIMESTAMP, FLOAT, DOUBLE, STRING, BINARY, UUID, DECIMAL, BOOLEAN])
@pytest.mark.parametrize("value", [None, [], object(), True, 1, 1.5, "1", b"1", Decimal(1), uuid.UUID(int=1)])
def test_a_value_of_another_python_type_is_refused(type, value):
    fits = {
        INT: (int,),
        LONG: (int,),
        DATE: (int,),
        TIMESTAMP: (int,),
        FLOAT: (int, float),
        DOUBLE: (int, float),
        STRING: (str,),
        BINARY: (bytes,),
        UUID: (uuid.UUID,),
        DECIMAL: (Decimal,),
        BOOLEAN: (bool,),
    }[type]
    if value.__class__ in fits:
        assert to_bytes(type, value) is not None
    else:
        with pytest.raises(InvalidInput, match=f"is not a value of type {str(type).split('(')[0]}"):
            to_bytes(type, value)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (INT, 2**31),
        (INT, -(2**31) - 1),
        (LONG, 2**63),
        pytest.param(LONG, 10**6000, id="6000 digits"),
        (DATE, 2**31),
        (TIME, -1),
        (TIMESTAMPTZ, -(2**63) - 1),
        (FLOAT, 1e39),
        pytest.param(DOUBLE, 10**400, id="400 digits"),
        (STRING, "\ud800"),
        (FixedType(2), b"abc"),
        (DECIMAL, Decimal("12345678.00")),
        (DECIMAL, Decimal("0.001")),
        (DECIMAL, Decimal("1E-999999")),
        (DECIMAL, Decimal("1E+999999")),
        (DECIMAL, Decimal("NaN")),
        (DECIMAL, Decimal("-Infinity")),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_place(type, value):
    with pytest.raises(InvalidInput, match=r"^bounds\[3\]: "):
        to_bytes(type, value, where="bounds[3]")


@pytest.mark.parametrize(("text", "unscaled"), [("1", 100), ("1.5", 150), ("-0", 0), ("1E+3", 100_000), ("2.500", 250)])
def test_a_decimal_gets_the_scale_of_its_type_when_nothing_is_lost(text, unscaled):
    data = to_bytes(DECIMAL, Decimal(text))
    assert int.from_bytes(data, "big", signed=True) == unscaled
    assert str(from_bytes(DECIMAL, data)) == f"{unscaled / 100:.2f}"


@pytest.mark.parametrize("type", [UNKNOWN, VARIANT, NESTED])
def test_types_without_a_binary_form_say_so(type):
    with pytest.raises(Unsupported, match="no binary single-value form"):
        to_bytes(type, 1)
    with pytest.raises(Unsupported, match="no binary single-value form"):
        from_bytes(type, b"1")


@pytest.mark.parametrize(
    ("type", "data"),
    [
        (BOOLEAN, b""),
        (BOOLEAN, b"\0\0"),
        (INT, b"\0" * 8),
        (LONG, b"\0" * 3),
        (FLOAT, b"\0" * 8),
        (DATE, b"\0" * 8),
        (TIMESTAMPTZ, b"\0" * 4),
        (TIMESTAMPTZ_NS, b"\0" * 4),
        (TIME, b"\0" * 4),
        (UUID, b"\0" * 15),
        (FixedType(3), b"\0"),
        (STRING, b"\xff"),
        (DECIMAL, b""),
        (DECIMAL, b"\x7f" * 5),
        (DECIMAL, b"\0" * 65),
        (TIMESTAMP_NS, (200_000).to_bytes(4, "little")),
    ],
)
def test_bytes_that_cannot_be_a_value_are_refused(type, data):
    with pytest.raises(InvalidInput, match=r"^lower: "):
        from_bytes(type, data, where="lower")


def test_bounds_from_before_a_promotion_are_read():
    assert from_bytes(LONG, b"\xff\xff\xff\xff") == -1
    assert from_bytes(DOUBLE, struct.pack("<f", 1.5)) == 1.5
    assert from_bytes(TIMESTAMP, b"\xff\xff\xff\xff") == -86_400 * 10**6
    assert from_bytes(TIMESTAMP_NS, b"\x01\0\0\0") == 86_400 * 10**9
    assert from_bytes(DecimalType(18, 2), to_bytes(DECIMAL, Decimal("-1.00"))) == Decimal(-1)


def test_a_float_is_written_in_json_with_no_more_digits_than_it_has():
    assert value_to_json(FLOAT, from_bytes(FLOAT, to_bytes(FLOAT, 0.1))) == 0.1
    assert value_to_json(DOUBLE, 0.1) == 0.1
    assert [value_to_json(DOUBLE, v) for v in (math.nan, math.inf, -math.inf)] == ["NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize(
    ("type", "value", "obj"),
    [
        (DATE, -1, "1969-12-31"),
        (TIME, 81_068_123_456, "22:31:08.123456"),
        (TIMESTAMP, 1_510_871_468_000_000, "2017-11-16T22:31:08"),
        (TIMESTAMPTZ, -1, "1969-12-31T23:59:59.999999+00:00"),
        (TIMESTAMP_NS, 1, "1970-01-01T00:00:00.000000001"),
        (TIMESTAMPTZ_NS, 0, "1970-01-01T00:00:00+00:00"),
        (UUID, uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        (DecimalType(4, 2), Decimal("14.20"), "14.20"),
        (DecimalType(38, 0), Decimal(10) ** 37, "1" + "0" * 37),
        (FixedType(4), bytes([0, 1, 2, 255]), "000102ff"),
        (NESTED, (("a", {3: 1}), ("b", None), ("c", {})), {"keys": ["a", "b", "c"], "values": [{"3": 1}, None, {}]}),
        (INT, None, None),
    ],
)
def test_json_is_that_of_the_specification(type, value, obj):
    assert value_to_json(type, value) == obj
    assert value_from_json(type, obj) == value


@pytest.mark.parametrize(
    ("type", "obj", "value"),
    [
        (DATE, 19_000, 19_000),
        (TIMESTAMP, 5, 5),
        (TIMESTAMPTZ_NS, -5, -5),
        (TIME, 7, 7),
        (DECIMAL, 12, Decimal("12.00")),
        (DECIMAL, 1.25, Decimal("1.25")),
        (TIMESTAMPTZ, "2007-12-03T10:15:30-01:00", 1196680530 * 10**6),
    ],
)
def test_only_the_lenient_form_takes_numbers_and_other_offsets(type, obj, value):
    assert value_from_json(type, obj, lenient=True) == value
    with pytest.raises(InvalidInput):
        value_from_json(type, obj)


@pytest.mark.parametrize(
    ("type", "obj"),
    [
        (INT, 1.0),
        (INT, True),
        (INT, "1"),
        (LONG, 2**63),
        (FLOAT, "1.5"),
        (DOUBLE, "nan"),
        (DATE, True),
        (DATE, "2017-1-16"),
        (DATE, "2017-02-30"),
        (DATE, "+9999999-01-01"),
        (TIME, "24:00:00"),
        (TIME, "10:15:30.1234567"),
        (TIMESTAMP, "2017-11-16T22:31:08+00:00"),
        (TIMESTAMP, "2017-11-16 22:31:08"),
        (TIMESTAMPTZ, "2017-11-16T22:31:08"),
        (TIMESTAMP_NS, "2300-01-01T00:00:00"),
        (DECIMAL, "1.234"),
        (DECIMAL, "1_0"),
        (DECIMAL, "NaN"),
        (DECIMAL, "1E+999"),
        (DECIMAL, ""),
        (UUID, "f79c3e09677c4bbda4793f349cb785e7"),
        (UUID, "{f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        (FixedType(2), "0 1 "),
        (BINARY, "abc"),
        (BINARY, "zz"),
        (STRING, "\udfff"),
        (BOOLEAN, 1),
        (VARIANT, 1),
        (GeometryType(), "POINT (30 10)"),
        (NESTED, {"keys": [], "values": [1]}),
        (NESTED, {"keys": []}),
        (NESTED, {"keys": ["a"], "values": [{"4": 1}]}),
        (NESTED, {"keys": ["a"], "values": [{"3": "x"}]}),
        (NESTED, []),
    ],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_json_that_is_no_value_is_refused_with_its_place(type, obj, lenient):
    with pytest.raises(InvalidInput, match=r"^partition\[0\]"):
        value_from_json(type, obj, where="partition[0]", lenient=lenient)


def test_a_nested_error_names_the_member():
    with pytest.raises(InvalidInput, match=r"^default\.values\[1\]\.3: "):
        value_from_json(NESTED, {"keys": ["a", "b"], "values": [{"3": 1}, {"3": 1.5}]}, where="default")


def test_seconds_may_be_left_out_as_java_reads_them():
    assert value_from_json(TIME, "10:15") == (10 * 60 + 15) * 60 * 10**6
    assert value_from_json(type_from_text("timestamptz"), "2007-12-03T10:15Z") == 1196676900 * 10**6
