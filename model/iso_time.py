"""Dates, times and timestamps between ISO-8601 text and the integers that Iceberg counts them in.

Days since 1970-01-01, microseconds of a day, and micro- or nanoseconds since 1970-01-01 (table specification,
"JSON single-value serialization"). The calendar is the proleptic Gregorian one for every year that fits: Python's own
`datetime` ends at 9999, an Iceberg date does not.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from firn.model.errors import InvalidInput

SECONDS_PER_DAY: Final = 86_400
ISO_TEXT_LENGTH_MAX: Final = 48
"""Characters in the longest date or timestamp text that is looked at."""

_EPOCH_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()
_DAYS_PER_CYCLE: Final = 146_097
"""Days in the 400 years after which the calendar repeats."""

_DATE: Final = re.compile(r"([+-][0-9]{4,7}|[0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_OFFSET: Final = re.compile(r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))$")


def date_from_text(text: str, *, where: str) -> int:
    """Days since 1970-01-01 of ``2017-11-16``; years past 9999 or before 0 carry a sign. Raises InvalidInput."""
    found = _DATE.fullmatch(text) if len(text) <= ISO_TEXT_LENGTH_MAX else None
    if found is None:
        raise InvalidInput(f"{text[:ISO_TEXT_LENGTH_MAX]!r} is not an ISO-8601 date", where=where)
    cycle, year = divmod(int(found[1]) - 1, 400)
    try:
        day = dt.date(year + 1, int(found[2]), int(found[3]))
    except ValueError:
        raise InvalidInput(f"{text!r} is not a day of the calendar", where=where) from None
    return day.toordinal() - _EPOCH_ORDINAL + cycle * _DAYS_PER_CYCLE


def date_to_text(days: int) -> str:
    """``2017-11-16`` for days since 1970-01-01."""
    cycle, rest = divmod(days + _EPOCH_ORDINAL - 1, _DAYS_PER_CYCLE)
    day = dt.date.fromordinal(rest + 1)
    year = day.year + cycle * 400
    text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{text}-{day.month:02d}-{day.day:02d}"


def time_from_text(text: str, *, digits: int = 6, where: str) -> int:
    """Units of 10^-`digits` seconds since midnight of ``22:31:08.123456``; seconds and fraction may be left out.

    Raises InvalidInput, also for a fraction that is finer than the unit.
    """
    found = _TIME.fullmatch(text) if len(text) <= ISO_TEXT_LENGTH_MAX else None
    if found is None:
        raise InvalidInput(f"{text[:ISO_TEXT_LENGTH_MAX]!r} is not an ISO-8601 time", where=where)
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidInput(f"{text!r} is not a time of day", where=where)
    fraction = (found[4] or "").rstrip("0")
    if len(fraction) > digits:
        raise InvalidInput(f"{text!r} has more than {digits} digits after the second", where=where)
    seconds = (hour * 60 + minute) * 60 + second
    return int(seconds * 10**digits) + int(fraction.ljust(digits, "0"))


def time_to_text(units: int, *, digits: int = 6) -> str:
    """``22:31:08`` or ``22:31:08.123456`` for units of 10^-`digits` seconds since midnight."""
    seconds, fraction = divmod(units, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{fraction:0{digits}d}" if fraction else text


def timestamp_from_text(text: str, *, digits: int, zoned: bool, any_offset: bool = False, where: str) -> int:
    """Units of 10^-`digits` seconds since 1970-01-01 of ``2017-11-16T22:31:08.123456`` with an offset if `zoned`.

    The offset must be UTC unless `any_offset`, which converts. Raises InvalidInput.
    """
    if len(text) > ISO_TEXT_LENGTH_MAX:
        raise InvalidInput(f"{text[:ISO_TEXT_LENGTH_MAX]!r}… is not an ISO-8601 timestamp", where=where)
    day, separator, time = text.partition("T")
    if not separator:
        raise InvalidInput(f"{text!r} is not an ISO-8601 timestamp", where=where)
    offset = _OFFSET.search(time)
    if zoned != (offset is not None):
        wanted = "needs the offset +00:00" if zoned else "must not have a zone offset"
        raise InvalidInput(f"{text!r} {wanted}", where=where)
    shift_seconds = 0
    if offset is not None:
        time = time[: offset.start()]
        shift_seconds = _shift_seconds(offset)
        if shift_seconds and not any_offset:
            raise InvalidInput(f"{text!r} must have the offset +00:00", where=where)
    days = date_from_text(day, where=where)
    units = time_from_text(time, digits=digits, where=where)
    return int((days * SECONDS_PER_DAY - shift_seconds) * 10**digits) + units


def _shift_seconds(offset: re.Match[str]) -> int:
    if offset[1] is None:
        return 0
    seconds = (int(offset[2]) * 60 + int(offset[3])) * 60
    return -seconds if offset[1] == "-" else seconds


def timestamp_to_text(units: int, *, digits: int, zoned: bool) -> str:
    """The text for units of 10^-`digits` seconds since 1970-01-01, with ``+00:00`` if `zoned`."""
    days, rest = divmod(units, SECONDS_PER_DAY * 10**digits)
    return f"{date_to_text(days)}T{time_to_text(rest, digits=digits)}{'+00:00' if zoned else ''}"
