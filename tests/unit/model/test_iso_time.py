from __future__ import annotations

import contextlib
import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.model.iso_time import (
    date_from_text,
    date_to_text,
    time_from_text,
    time_to_text,
    timestamp_from_text,
    timestamp_to_text,
)

EPOCH = dt.date(1970, 1, 1)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)


@given(st.dates())
def test_days_agree_with_pythons_calendar(day):
    assert date_to_text((day - EPOCH).days) == day.isoformat()
    assert date_from_text(day.isoformat(), where="d") == (day - EPOCH).days


@given(INTS)
def test_every_date_that_iceberg_can_hold_survives_its_text(days):
    assert date_from_text(date_to_text(days), where="d") == days


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (2932896, "9999-12-31"),
        (2932897, "+10000-01-01"),
        (-719528, "0000-01-01"),
        (-719529, "-0001-12-31"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_years_outside_four_digits_carry_a_sign(days, text):
    assert date_to_text(days) == text


@given(st.datetimes())
def test_timestamps_agree_with_pythons_calendar(moment):
    micros = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001 - without zone
    assert timestamp_from_text(moment.isoformat(), digits=6, zoned=False, where="t") == micros
    assert timestamp_to_text(micros, digits=6, zoned=False) == moment.isoformat()


@given(LONGS, st.sampled_from([6, 9]), st.booleans())
def test_every_timestamp_survives_its_text(units, digits, zoned):
    text = timestamp_to_text(units, digits=digits, zoned=zoned)
    assert timestamp_from_text(text, digits=digits, zoned=zoned, where="t") == units


@given(st.integers(0, 86_400 * 10**6 - 1))
def test_every_time_of_day_survives_its_text(micros):
    assert time_from_text(time_to_text(micros), where="t") == micros


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_refused(text):
    for read in (
        lambda: date_from_text(text, where="x"),
        lambda: time_from_text(text, where="x"),
        lambda: timestamp_from_text(text, digits=6, zoned=True, any_offset=True, where="x"),
    ):
        with contextlib.suppress(InvalidInput):
            assert isinstance(read(), int)


def test_an_offset_is_taken_off_only_where_it_may_differ():
    text = "1970-01-01T01:30:00+01:30"
    assert timestamp_from_text(text, digits=6, zoned=True, any_offset=True, where="t") == 0
    with pytest.raises(InvalidInput, match=r"offset \+00:00"):
        timestamp_from_text(text, digits=6, zoned=True, where="t")
    assert timestamp_from_text("1970-01-01T00:00:00Z", digits=6, zoned=True, where="t") == 0


def test_long_text_is_refused_before_it_is_read():
    with pytest.raises(InvalidInput, match="not an ISO-8601"):
        timestamp_from_text("1970-01-01T00:00:00." + "0" * 10**6, digits=6, zoned=False, where="t")
