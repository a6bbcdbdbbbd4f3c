"""Where a constant lies among the values of a column's type.

A constant need not be such a value: 2³¹ is above every int, 2.5 is between two of them, and midnight lies between no
two dates but noon does. Binding asks where it lies and rewrites the predicate, so that nothing is rounded silently.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput
from firn.model.expressions.constants import Constant
from firn.model.internal_values import DAY_MICROS, check_value, decimal_of
from firn.model.iso_time import date_from_text
from firn.model.json_members import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, describe
from firn.model.types import DecimalType, FixedType, PrimitiveType, Type
from firn.model.values import value_from_json


class Exact(msgspec.Struct, frozen=True):
    """The constant is this value."""

    value: Any


class Between(msgspec.Struct, frozen=True):
    """The constant is no value: `below` and `above` are the nearest ones; None means that there is none."""

    below: Any
    above: Any


Place = Exact | Between

_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "int": (INT_MIN, INT_MAX), "date": (INT_MIN, INT_MAX), "time": (0, DAY_MICROS - 1),
    **dict.fromkeys(["long", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"], (LONG_MIN, LONG_MAX)),
}  # fmt: skip
_FLOAT_MAX: Final = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_FLOAT_MIDPOINT: Final = 3.4028235677973366e38
"""Numbers below this round to the largest 32-bit float, numbers from it on to infinity."""

_INFINITIES: Final[Mapping[Any, float]] = {"Infinity": math.inf, "-Infinity": -math.inf}
_DOUBLE_MAX: Final = 1.7976931348623157e308
_DECIMAL_EXPONENT_MAX: Final = 400
"""Powers of ten past which a decimal is beyond every type's range or precision; none larger is computed with."""

_DECIMAL_CHARS_MAX: Final = 200
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")

_TICKS_PER_DAY: Final[Mapping[str, int]] = {
    "date": 1,
    "timestamp": DAY_MICROS, "timestamptz": DAY_MICROS,
    "timestamp_ns": DAY_MICROS * 1000, "timestamptz_ns": DAY_MICROS * 1000,
}  # fmt: skip
_TIME_TYPES: Final[frozenset[Type]] = frozenset(map(PrimitiveType, [*_TICKS_PER_DAY, "time"]))


def place(constant: Constant, type: Type, *, where: str) -> Place:
    """Where `constant` lies among the values of `type`.

    Numbers become the nearest float or double, and lie exactly among integers and decimals. Text is read as the JSON
    form of `type`; a date alone is midnight (UTC) of a timestamp. Raises InvalidInput naming `where` when the two have
    nothing to do with each other.
    """
    match type:
        case PrimitiveType(name="boolean" | "string" | "uuid" | "binary") | FixedType():
            return Exact(_same_kind(constant, type, where))
        case PrimitiveType(name=name) if name in _TICKS_PER_DAY or name == "time":
            return _among_times(constant, type, where)
        case PrimitiveType(name="int" | "long" as name):
            return _among_integers(_number(constant, type, where), *_RANGES[name])
        case PrimitiveType(name="float" | "double" as name):
            if constant.value in _INFINITIES:  # the JSON form
                return Exact(_INFINITIES[constant.value])
            return _among_floats(_number(constant, type, where), name)
        case DecimalType(precision=precision, scale=scale):
            limit = 10**precision - 1
            number = _number(constant, type, where)
            if isinstance(number, float) and math.isfinite(number):
                number = Decimal(repr(number))  # 14.2 means 14.2, not the binary fraction next to it
            found = _among_integers(number, -limit, limit, scale=scale)
            if isinstance(found, Exact):
                return Exact(decimal_of(found.value, scale))
            return Between(*(None if n is None else decimal_of(n, scale) for n in (found.below, found.above)))
    raise InvalidInput(f"values of type {type} cannot be compared", where=where)


def _same_kind(constant: Constant, type: Type, where: str) -> Any:
    value = constant.value
    if isinstance(value, str) and type != PrimitiveType("string"):
        return value_from_json(type, value, where=where)
    if isinstance(value, bool | str | bytes | uuid.UUID):
        return check_value(type, value, where=where)
    raise _unrelated(constant, type, where)


def _unrelated(constant: Constant, type: Type, where: str) -> InvalidInput:
    kind = f"a {constant.type}" if constant.type is not None else describe(constant.value)
    return InvalidInput(f"{constant} is {kind}, which does not compare with {type}", where=where)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


def _number(constant: Constant, type: Type, where: str) -> float | Decimal:
    """The constant as a number: an int, a float (infinite perhaps) or a finite Decimal."""
    value = constant.value
    if constant.type in _TIME_TYPES:
        raise _unrelated(constant, type, where)
    if isinstance(value, str) and isinstance(type, DecimalType):
        if len(value) > _DECIMAL_CHARS_MAX or _DECIMAL_TEXT.fullmatch(value) is None:
            raise InvalidInput(f"{value[:40]!r} is not a decimal number", where=where)
        return Decimal(value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    raise _unrelated(constant, type, where)


def _among_integers(number: float | Decimal | Fraction, low: int, high: int, *, scale: int = 0) -> Place:
    """Where number * 10^scale lies among the integers from `low` to `high`."""
    if isinstance(number, float) and math.isinf(number):
        return Between(high, None) if number > 0 else Between(None, low)
    exact = _fraction(number) * 10**scale
    floor = math.floor(exact)
    if floor == exact and low <= floor <= high:
        return Exact(floor)
    below = None if floor < low else min(floor, high)
    above = None if floor >= high else max(floor + 1, low)
    return Between(below, above)


def _fraction(number: float | Decimal | Fraction) -> Fraction:
    if isinstance(number, Decimal) and number and abs(number.adjusted()) > _DECIMAL_EXPONENT_MAX:
        # Where it lies among the values of any type depends on its sign and on being huge or tiny, no more.
        stand_in = Fraction(10) ** (_DECIMAL_EXPONENT_MAX if number.adjusted() > 0 else -_DECIMAL_EXPONENT_MAX)
        return -stand_in if number < 0 else stand_in
    return Fraction(number)


def _among_floats(number: float | Decimal, name: str) -> Place:
    limit = _FLOAT_MAX if name == "float" else _DOUBLE_MAX
    try:
        rounded = float(number)
    except OverflowError:
        rounded = math.inf if number > 0 else -math.inf
    if not isinstance(number, float) or not math.isinf(number):
        if abs(rounded) >= (_FLOAT_MIDPOINT if name == "float" else math.inf):
            return Between(limit, math.inf) if rounded > 0 else Between(-math.inf, -limit)
        if name == "float":
            rounded = struct.unpack("<f", struct.pack("<f", rounded))[0]
    return Exact(rounded)


# ---------------------------------------------------------------------------------------------------------------------
# Dates and times


def _among_times(constant: Constant, type: PrimitiveType, where: str) -> Place:
    value, source = constant.value, constant.type
    low, high = _RANGES[type.name]
    if isinstance(value, str):
        return Exact(_time_from_text(value, type, where))
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unrelated(constant, type, where)
    if source is None or source == type or (isinstance(source, PrimitiveType) and source.name in {"int", "long"}):
        return _among_integers(value, low, high)
    if not isinstance(source, PrimitiveType) or not _related(source.name, type.name):
        raise _unrelated(constant, type, where)
    # Ticks of one unit are placed among those of another: a noon lies between two dates.
    return _among_integers(Fraction(value * _TICKS_PER_DAY[type.name], _TICKS_PER_DAY[source.name]), low, high)


def _related(source: str, target: str) -> bool:
    """A zone is neither made up nor dropped, except that a date is midnight UTC."""
    if source not in _TICKS_PER_DAY or target not in _TICKS_PER_DAY:
        return False
    return source == "date" or source.startswith("timestamptz") == target.startswith("timestamptz")


def _time_from_text(text: str, type: PrimitiveType, where: str) -> int:
    if type.name in {"date", "time"}:
        return int(value_from_json(type, text, where=where))
    if "T" not in text and " " not in text:
        days = date_from_text(text, where=where)
        return int(check_value(type, days * _TICKS_PER_DAY[type.name], where=where))
    iso = text.replace(" ", "T", 1) if "T" not in text else text
    return int(value_from_json(type, iso, where=where, lenient=True))
