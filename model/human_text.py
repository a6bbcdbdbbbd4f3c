"""Values as the text that people read in partition paths, spelled as Iceberg's Java library spells it.

Other engines look for folders and compare paths by these strings, so they follow Java where Python's own text differs:
exponents of floats, fractions of seconds, years beyond 9999.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import struct
from collections.abc import Mapping
from typing import Any, Final

from firn.model.iso_time import SECONDS_PER_DAY, timestamp_to_text
from firn.model.types import FixedType, PrimitiveType, Type

_EPOCH_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()
_DAYS_PER_CYCLE: Final = 146_097
"""Days in the 400 years after which the calendar repeats."""

_TIMESTAMP_DIGITS: Final[Mapping[str, int]] = {
    "timestamp": 6,
    "timestamptz": 6,
    "timestamp_ns": 9,
    "timestamptz_ns": 9,
}


def human_value(type: Type, value: Any) -> str:
    """The text of an internal `value` of the primitive `type`; ``null`` for None. Bytes are in base64."""
    if value is None:
        return "null"
    match type:
        case PrimitiveType(name="date"):
            return human_day(value)
        case PrimitiveType(name="time"):
            return _human_time(value)
        case PrimitiveType(name=name) if name in _TIMESTAMP_DIGITS:
            text = timestamp_to_text(value, digits=_TIMESTAMP_DIGITS[name], zoned=False)
            whole, point, fraction = text.partition(".")
            zone = "+00:00" if name.startswith("timestamptz") else ""
            return f"{whole}{point}{fraction.rstrip('0')}{zone}"
        case PrimitiveType(name="boolean"):
            return "true" if value else "false"
        case PrimitiveType(name="float" | "double" as name):
            return _human_float(value, single=name == "float")
        case PrimitiveType(name="binary") | FixedType():
            return base64.b64encode(value).decode("ascii")
        case _:
            return str(value)


def human_year(years: int) -> str:
    """``2017`` for whole years since 1970."""
    return f"{1970 + years:04d}"


def human_month(months: int) -> str:
    """``2017-12`` for whole months since 1970-01."""
    year, month = divmod(months, 12)
    return f"{1970 + year:04d}-{month + 1:02d}"


def human_day(days: int) -> str:
    """``2017-12-01`` for days since 1970-01-01."""
    year, day = _calendar(days)
    return f"{year:04d}-{day.month:02d}-{day.day:02d}"


def human_hour(hours: int) -> str:
    """``2017-12-01-18`` for whole hours since 1970-01-01T00:00."""
    day, hour = divmod(hours, 24)
    return f"{human_day(day)}-{hour:02d}"


def year_and_month(days: int) -> tuple[int, int]:
    """The year (astronomical: 0 is 1 BC) and month (1 … 12) that contain a day, given in days since 1970-01-01."""
    year, day = _calendar(days)
    return year, day.month


def _calendar(days: int) -> tuple[int, dt.date]:
    """The year, and the same month and day in a year that Python's `date` has."""
    cycle, rest = divmod(days + _EPOCH_ORDINAL - 1, _DAYS_PER_CYCLE)
    day = dt.date.fromordinal(rest + 1)
    return day.year + cycle * 400, day


def _human_time(micros: int) -> str:
    """Seconds only when they or the fraction are not zero; the fraction in groups of three digits."""
    seconds, fraction = divmod(micros % (SECONDS_PER_DAY * 10**6), 10**6)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02d}:{minute:02d}"
    if second or fraction:
        text += f":{second:02d}"
    if fraction:
        text += f".{fraction // 1000:03d}" if fraction % 1000 == 0 else f".{fraction:06d}"
    return text


def _human_float(value: float, *, single: bool) -> str:
    """The shortest digits that read back as `value`; with an exponent below 10⁻³ and from 10⁷ on."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    value = abs(_nearest_single(value) if single else value)
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    mantissa, _, exponent_text = _shortest(value, single=single).partition("e")
    digits, exponent = mantissa.replace(".", "").rstrip("0"), int(exponent_text)
    if not -3 <= exponent < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction or '0'}"


def _shortest(value: float, *, single: bool) -> str:
    """`value` > 0 in exponent notation with the fewest digits, but at least two, that read back as the same float."""
    for digits in range(1, 9 if single else 17):
        text = f"{value:.{digits}e}"
        if (_nearest_single(float(text)) if single else float(text)) == value:
            return text
    return f"{value:.17e}"


def _nearest_single(value: float) -> float:
    try:
        (nearest,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.inf
    return float(nearest)
