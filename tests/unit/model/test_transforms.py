from __future__ import annotations

import calendar
import datetime as dt
import struct
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput, Unsupported
from firn.model.human_text import human_value
from firn.model.murmur import hash32
from firn.model.transforms import (
    IDENTITY,
    TRANSFORM_CHARS_MAX,
    VOID,
    Bucket,
    TimeTransform,
    Truncate,
    UnknownTransform,
    default_name,
    parse_transform,
)
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
    ListType,
    StructType,
)
from tests.strategies.examples import examples

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
PRIMITIVES = (
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS, STRING, UUID,
    BINARY, UNKNOWN, DecimalType(9, 2), FixedType(4),
)  # fmt: skip
TIMESTAMPS = (TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS)


@pytest.mark.parametrize(
    "text", ["identity", "void", "year", "month", "day", "hour", "bucket[16]", "truncate[2147483647]", "zorder[2, 3]"]
)
def test_a_transform_is_written_as_it_is_read(text):
    assert str(parse_transform(text)) == text


def test_known_transforms_are_read_whatever_their_case_and_zeros():
    assert parse_transform("Bucket[016]") == Bucket(16)
    assert parse_transform("TRUNCATE[4]") == Truncate(4)
    assert parse_transform("Day") == TimeTransform("day")


@pytest.mark.parametrize(
    "text", ["bucket", "bucket[-1]", "bucket[x]", "bucket[1", "days", "truncate[\u0661]", "Ünknown"]
)
def test_what_is_not_known_is_kept_as_it_is(text):
    assert parse_transform(text) == UnknownTransform(text)


@pytest.mark.parametrize("text", ["bucket[0]", "truncate[00]", "bucket[2147483648]", "truncate[" + "9" * 900 + "]", ""])
def test_widths_out_of_range_and_empty_texts_are_refused(text):
    with pytest.raises(InvalidInput):
        parse_transform(text)


def test_the_longest_transform_text_is_bounded():
    assert isinstance(parse_transform("x" * TRANSFORM_CHARS_MAX), UnknownTransform)
    with pytest.raises(InvalidInput, match="1000 characters"):
        parse_transform("x" * (TRANSFORM_CHARS_MAX + 1))


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("identity", set(PRIMITIVES)),
        ("bucket[4]", set(PRIMITIVES) - {BOOLEAN, FLOAT, DOUBLE, UNKNOWN}),
        ("truncate[4]", {INT, LONG, STRING, BINARY, DecimalType(9, 2)}),
        ("year", {DATE, *TIMESTAMPS}),
        ("month", {DATE, *TIMESTAMPS}),
        ("day", {DATE, *TIMESTAMPS}),
        ("hour", set(TIMESTAMPS)),
    ],
)
def test_a_transform_takes_the_types_of_the_specification_and_no_others(text, sources):
    nested = ListType(element_id=1, element=INT, element_required=False)
    everything = (*PRIMITIVES, VARIANT, GeometryType(), StructType(()), nested)
    assert {t for t in everything if parse_transform(text).can_transform(t)} == sources


def test_void_and_unknown_transforms_take_any_type():
    for type in (*PRIMITIVES, VARIANT, GeometryType(), StructType(())):
        assert VOID.can_transform(type)
        assert UnknownTransform("x").can_transform(type)


def test_result_types():
    assert IDENTITY.result_type(UUID) == UUID
    assert VOID.result_type(UUID) == UUID
    assert Truncate(3).result_type(STRING) == STRING
    assert Bucket(3).result_type(STRING) == INT
    assert UnknownTransform("x").result_type(INT) == STRING
    assert [str(TimeTransform(unit).result_type(TIMESTAMP)) for unit in ("year", "month", "day", "hour")] == [
        "int", "int", "date", "int",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["identity", "bucket[3]", "truncate[3]", "year", "hour", "void", "other"])
def test_null_stays_null(text):
    assert parse_transform(text).apply(TIMESTAMP, None) is None


def test_an_unknown_transform_cannot_be_applied():
    with pytest.raises(Unsupported, match="other"):
        UnknownTransform("other").apply(INT, 1)


@pytest.mark.parametrize("text", ["identity", "bucket[3]", "truncate[3]"])
def test_a_value_of_another_type_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_transform(text).apply(INT, "1")
    with pytest.raises(InvalidInput):
        parse_transform(text).apply(INT, True)
    with pytest.raises(InvalidInput):
        parse_transform(text).apply(INT, 2**31)


def test_only_order_preserving_transforms_say_so():
    assert [str(t) for t in map(parse_transform, ("identity", "truncate[3]", "day")) if not t.preserves_order] == []
    assert [str(t) for t in (Bucket(3), VOID, UnknownTransform("x")) if t.preserves_order] == []


def test_the_order_of_a_column_is_also_the_order_of_what_it_is_rounded_to():
    assert IDENTITY.satisfies_order_of(Truncate(3))
    assert IDENTITY.satisfies_order_of(TimeTransform("day"))
    assert not IDENTITY.satisfies_order_of(Bucket(3))
    assert not Truncate(3).satisfies_order_of(IDENTITY)
    assert Bucket(3).satisfies_order_of(Bucket(3))
    assert not Bucket(6).satisfies_order_of(Bucket(3))


def test_prefixes_order_shorter_prefixes_but_multiples_only_multiples_of_theirs():
    assert Truncate(4).satisfies_order_of(Truncate(2))
    assert not Truncate(2).satisfies_order_of(Truncate(4))
    assert Truncate(4).satisfies_order_of(Truncate(3), STRING)
    assert Truncate(2).satisfies_order_of(Truncate(4), INT)
    assert not Truncate(4).satisfies_order_of(Truncate(2), LONG)
    assert not Truncate(2).satisfies_order_of(Truncate(3), DecimalType(9, 2))


# ---------------------------------------------------------------------------------------------------------------------
# Buckets


@given(INTS)
def test_promoted_integers_stay_in_their_bucket(value):
    assert Bucket(16).apply(INT, value) == Bucket(16).apply(LONG, value)


@given(st.floats(width=32))
def test_promoted_floats_hash_alike(value):
    assert hash32(FLOAT, value) == hash32(DOUBLE, value)


@given(st.integers(-(2**53), 2**53))
def test_nanoseconds_hash_like_the_microseconds_they_lie_in(micros):
    for nanos in (micros * 1000, micros * 1000 + 999):
        assert hash32(TIMESTAMP_NS, nanos) == hash32(TIMESTAMP, micros)
        assert hash32(TIMESTAMPTZ_NS, nanos) == hash32(TIMESTAMPTZ, micros)


@given(LONGS, st.integers(1, 2**31 - 1))
def test_a_bucket_is_one_of_the_buckets(value, buckets):
    bucket = Bucket(buckets).apply(LONG, value)
    assert bucket is not None
    assert 0 <= bucket < buckets


@pytest.mark.parametrize(
    ("unscaled", "hexadecimal"),
    [(0, "00"), (127, "7f"), (128, "0080"), (255, "00ff"), (-1, "ff"), (-128, "80"), (-129, "ff7f"), (1420, "058c")],
)
def test_a_decimal_hashes_by_its_fewest_bytes_whatever_its_scale(unscaled, hexadecimal):
    expected = hash32(BINARY, bytes.fromhex(hexadecimal))
    assert hash32(DecimalType(38, 0), Decimal(unscaled)) == expected
    assert hash32(DecimalType(9, 2), Decimal(unscaled).scaleb(-2)) == expected


def test_a_decimal_of_38_digits_hashes_without_rounding():
    low, high = Decimal("1" * 37 + "1"), Decimal("1" * 37 + "2")
    assert hash32(DecimalType(38, 0), low) != hash32(DecimalType(38, 0), high)


def test_hashes_of_types_that_cannot_be_bucketed():
    assert hash32(BOOLEAN, True) == 1392991556
    assert hash32(UNKNOWN, None) is None
    quiet, odd = (struct.unpack("<d", bits.to_bytes(8, "little"))[0] for bits in (0x7FF8 << 48, 0xFFF8_0000_0000_0001))
    assert hash32(DOUBLE, quiet) == hash32(DOUBLE, odd)
    with pytest.raises((InvalidInput, Unsupported)):
        hash32(VARIANT, b"1")


def test_strings_that_utf_8_cannot_hold_are_refused_instead_of_hashed():
    with pytest.raises(InvalidInput, match="surrogate"):
        Bucket(4).apply(STRING, "\ud800")


# ---------------------------------------------------------------------------------------------------------------------
# Truncation


@given(st.integers(-(2**60), 2**60), st.integers(1, 2**31 - 1))
def test_a_truncated_number_is_the_multiple_below(value, width):
    truncated = Truncate(width).apply(LONG, value)
    assert truncated % width == 0
    assert truncated <= value < truncated + width


def test_truncation_below_the_smallest_integer_wraps_around():
    assert Truncate(10).apply(INT, -(2**31)) == 2**31 - 2
    assert Truncate(10).apply(LONG, -(2**63)) == 2**63 - 2


@pytest.mark.parametrize(
    ("value", "width", "expected"),
    [("10.65", 50, "10.50"), ("-0.05", 10, "-0.10"), ("12.34", 10, "12.30"), ("-12.34", 1, "-12.34"), ("0", 7, "0.00")],
)
def test_a_truncated_decimal_keeps_its_scale(value, width, expected):
    truncated = Truncate(width).apply(DecimalType(9, 2), Decimal(value))
    assert str(truncated) == expected


def test_strings_are_cut_at_code_points_and_binary_at_bytes():
    assert Truncate(2).apply(STRING, "a🤯b") == "a🤯"
    assert Truncate(3).apply(BINARY, b"\x01\x02\x03\x04") == b"\x01\x02\x03"


# ---------------------------------------------------------------------------------------------------------------------
# Time


@given(st.datetimes(min_value=dt.datetime(1, 1, 1), max_value=dt.datetime(9999, 12, 31)))  # noqa: DTZ001 - made UTC below
def test_time_transforms_agree_with_the_calendar(moment):
    moment = moment.replace(tzinfo=dt.UTC)
    since = moment - EPOCH
    micros = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    expected = {
        "year": moment.year - 1970,
        "month": (moment.year - 1970) * 12 + moment.month - 1,
        "day": since.days,
        "hour": since.days * 24 + moment.hour,
    }
    shown = {"year": f"{moment.year:04d}", "month": "{:04d}-{:02d}".format(*moment.timetuple()[:2])}
    shown["day"] = moment.date().isoformat()
    shown["hour"] = f"{shown['day']}-{moment.hour:02d}"
    for unit, ordinal in expected.items():
        transform = parse_transform(unit)
        assert transform.apply(TIMESTAMPTZ, micros) == ordinal
        assert transform.human(transform.result_type(TIMESTAMPTZ), ordinal) == shown[unit]
        if unit != "hour":
            assert transform.apply(DATE, since.days) == ordinal


@given(LONGS)
def test_time_transforms_of_nanoseconds_agree_with_microseconds(nanos):
    for unit in ("year", "month", "day", "hour"):
        transform = parse_transform(unit)
        assert transform.apply(TIMESTAMP_NS, nanos) == transform.apply(TIMESTAMP, nanos // 1000)


@given(INTS)
@examples(50)
def test_dates_of_any_year_have_their_year_and_month(days):
    text = human_value(DATE, days)
    sign, year, month, day = text[0] == "-", *map(int, text.removeprefix("-").split("-"))
    year = -year if sign else year
    assert TimeTransform("year").apply(DATE, days) == year - 1970
    assert TimeTransform("month").apply(DATE, days) == (year - 1970) * 12 + month - 1
    assert 1 <= day <= calendar.monthrange(2000 + year % 400, month)[1]


def test_hours_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="does not fit"):
        TimeTransform("hour").apply(TIMESTAMP, 2**63 - 1)


# ---------------------------------------------------------------------------------------------------------------------
# Text


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        (BOOLEAN, True, "true"),
        (INT, -7, "-7"),
        (TIME, 0, "00:00"),
        (TIME, 36_672_000_000, "10:11:12"),
        (TIME, 36_672_120_000, "10:11:12.120"),
        (TIME, 36_660_000_012, "10:11:00.000012"),
        (TIMESTAMP, 0, "1970-01-01T00:00:00"),
        (TIMESTAMP, 1512151975030000, "2017-12-01T18:12:55.03"),
        (TIMESTAMPTZ, -1, "1969-12-31T23:59:59.999999+00:00"),
        (TIMESTAMP_NS, 1, "1970-01-01T00:00:00.000000001"),
        (TIMESTAMPTZ_NS, 0, "1970-01-01T00:00:00+00:00"),
        (DATE, 2_932_897, "10000-01-01"),
        (BINARY, b"\xff\xfe\xfd", "//79"),
        (FixedType(2), b"\x00\x01", "AAE="),
        (UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (DecimalType(9, 2), Decimal("-1.50"), "-1.50"),
        (DOUBLE, 100.0, "100.0"),
        (DOUBLE, 1e7, "1.0E7"),
        (DOUBLE, 1234567.5, "1234567.5"),
        (DOUBLE, 0.001, "0.001"),
        (DOUBLE, -0.00099, "-9.9E-4"),
        (DOUBLE, 5e-324, "4.9E-324"),
        (DOUBLE, 1.7976931348623157e308, "1.7976931348623157E308"),
        (DOUBLE, -0.0, "-0.0"),
        (DOUBLE, float("nan"), "NaN"),
        (FLOAT, float("-inf"), "-Infinity"),
        (FLOAT, 0.1, "0.1"),
        (FLOAT, 16777216.0, "1.6777216E7"),
        (FLOAT, 3.4028234663852886e38, "3.4028235E38"),
        (STRING, None, "null"),
    ],
)
def test_values_read_as_the_java_library_writes_them(type, value, text):
    assert human_value(type, value) == text


def test_a_bucket_number_of_a_date_column_is_not_shown_as_a_date():
    assert Bucket(16).human(DATE, 3) == "3"
    assert VOID.human(DATE, None) == "null"
    assert TimeTransform("month").human(INT, None) == "null"


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_reads_back(value):
    assert float(human_value(DOUBLE, value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_the_text_of_a_float_reads_back_as_the_same_float(value):
    assert struct.pack("<f", float(human_value(FLOAT, value))) == struct.pack("<f", value)


def test_default_names():
    names = {
        "identity": "a.b",
        "void": "a.b_null",
        "day": "a.b_day",
        "bucket[16]": "a.b_bucket_16",
        "truncate[8]": "a.b_trunc_8",
    }
    assert {text: default_name(parse_transform(text), "a.b") for text in names} == names
    with pytest.raises(Unsupported):
        default_name(UnknownTransform("x"), "a")
