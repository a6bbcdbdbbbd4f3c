"""What an internal value of each type is: its Python type, its range, its normal form.

The Python types are listed in `firn.model.datafile`; `firn.model.values` turns such values into bytes and JSON.
"""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any, Final

from firn.model.errors import InvalidInput
from firn.model.iso_time import SECONDS_PER_DAY
from firn.model.json_members import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, describe
from firn.model.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    PrimitiveType,
    Type,
)

DAY_MICROS: Final = SECONDS_PER_DAY * 10**6

INTEGER_TYPES: Final = frozenset(
    {"int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
)
"""Names of the types whose internal values are integers."""

_DECIMAL_DIGITS_MAX: Final = 200
"""Digits of a decimal that are looked at: trailing zeros may be many, digits that count are 38."""

_FOUR_BYTES: Final = frozenset({"int", "date"})


def check_value(type: Type, value: Any, *, where: str = "value") -> Any:
    """`value` in its normal form, if it is an internal value of the primitive `type` and in its range.

    A float column's value becomes the nearest 32-bit float, a decimal gets exactly the type's scale when nothing is
    lost. None is not a value. Raises InvalidInput naming `where`.
    """
    match type:
        case PrimitiveType(name="boolean") if isinstance(value, bool):
            return value
        case PrimitiveType(name=name) if (
            name in INTEGER_TYPES and isinstance(value, int) and not isinstance(value, bool)
        ):
            return in_range(name, value, where)
        case PrimitiveType(name="float" | "double" as name) if is_number(value):
            return as_float(name, value, where)
        case PrimitiveType(name="string") if isinstance(value, str):
            return _encodable(value, where)
        case PrimitiveType(name="uuid") if isinstance(value, uuid.UUID):
            return value
        case PrimitiveType(name="binary") | GeometryType() | GeographyType() if isinstance(value, bytes):
            return value
        case FixedType(length=length) if isinstance(value, bytes):
            if len(value) != length:
                raise InvalidInput(f"{len(value)} bytes for a {type}", where=where)
            return value
        case DecimalType() if isinstance(value, Decimal):
            return rescaled(type, value, where)
    raise InvalidInput(f"{describe(value)} is not a value of type {type}", where=where)


def is_number(value: Any) -> bool:
    """Whether this is a Python number other than a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def in_range(name: str, value: int, where: str) -> int:
    """`value`, when the integer-valued type `name` can hold it; raises InvalidInput otherwise."""
    if name == "time":
        low, high = 0, DAY_MICROS - 1
    else:
        low, high = (INT_MIN, INT_MAX) if name in _FOUR_BYTES else (LONG_MIN, LONG_MAX)
    if not low <= value <= high:
        raise InvalidInput(f"{short(value)} is outside the range of {name}, {low} … {high}", where=where)
    return value


def short(value: int) -> str:
    """Digits of an integer for a message; Python refuses to print thousands of them."""
    return str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"


def as_float(name: str, value: float, where: str) -> float:
    """`value` as a ``double``, or as the nearest ``float``; raises InvalidInput when it overflows."""
    try:
        number = float(value)
        return number if name == "double" else float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise InvalidInput(f"number is outside the range of {name}", where=where) from None


def _encodable(text: str, where: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"lone surrogate U+{ord(text[exc.start]):04X} in a string", where=where) from None
    return text


def rescaled(type: DecimalType, value: Decimal, where: str) -> Decimal:
    """`value` with exactly the scale of `type`; raises InvalidInput when digits would be lost or are too many."""
    return decimal_of(unscaled_of(type, value, where), type.scale)


def unscaled_of(type: DecimalType, value: Decimal, where: str) -> int:
    """The integer `value` * 10^scale, taken by digits because Python's decimal context would round.

    Raises InvalidInput when digits would be lost or are too many.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInput(f"{value} is not a value of type {type}", where=where)
    if not value:
        return 0
    if value.adjusted() + type.scale >= type.precision:
        raise InvalidInput(f"{_short_decimal(value)} has more digits than {type}", where=where)
    shift = exponent + type.scale
    # Sizes are checked before powers are taken: 1E-1000000 is a short text and a long number.
    if -shift >= len(digits) or len(digits) > _DECIMAL_DIGITS_MAX:
        raise InvalidInput(f"{_short_decimal(value)} has more digits after the point than {type}", where=where)
    unscaled = int("".join(map(str, digits)))
    lost = 0
    if shift >= 0:
        unscaled *= int(10**shift)
    else:
        unscaled, lost = divmod(unscaled, 10**-shift)
    if lost:
        raise InvalidInput(f"{_short_decimal(value)} has more digits after the point than {type}", where=where)
    return -unscaled if sign else unscaled


def _short_decimal(value: Decimal) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """`unscaled` * 10^-`scale`, exactly, whatever the decimal context."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def decimal_width(precision: int) -> int:
    """Bytes of the smallest two's complement number with room for `precision` digits."""
    return (int(10**precision - 1).bit_length() + 8) // 8
