"""Constants of unbound expressions: what a caller or a JSON document wrote, before a column says what it means."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput
from firn.model.expressions.rendering import render_value
from firn.model.types import (
    BINARY,
    DATE,
    DECIMAL_PRECISION_MAX,
    DOUBLE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Type,
)

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the epoch of timestamps without a zone
_EPOCH_UTC: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


class Constant(msgspec.Struct, frozen=True):
    """A constant, never null or NaN.

    With a `type`, `value` is an internal value of it; without, it is a bool, int, float or str whose meaning the
    column decides (``"2026-01-01"`` is a date where the column is one). Raises InvalidInput for null, NaN and
    untyped values of another kind.
    """

    value: Any
    type: Type | None = None

    def __post_init__(self) -> None:
        if self.value is None:
            raise InvalidInput("null is not a constant", hint="use is-null or not-null")
        if isinstance(self.value, float) and math.isnan(self.value):
            raise InvalidInput("NaN is not a constant", hint="use is-nan or not-nan")
        if self.type is None and not isinstance(self.value, bool | int | float | str):
            raise InvalidInput(f"a constant cannot be a {type(self.value).__name__}")

    def __str__(self) -> str:
        return render_value(self.value, self.type)


def constant(value: Any) -> Constant:
    """`value` as a constant: dates, times, UUIDs, decimals and bytes keep their type, the rest takes the column's.

    A `datetime` is a timestamp (µs), with a zone if it has one. Raises InvalidInput for anything that is no constant.
    """
    match value:
        case Constant():
            return value
        case dt.datetime(tzinfo=None):
            return Constant((value - _EPOCH) // _MICROSECOND, TIMESTAMP)
        case dt.datetime():
            return Constant((value - _EPOCH_UTC) // _MICROSECOND, TIMESTAMPTZ)
        case dt.date():
            return Constant(value.toordinal() - _EPOCH.toordinal(), DATE)
        case dt.time(tzinfo=None):
            since = dt.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
            return Constant(since // _MICROSECOND + value.microsecond, TIME)
        case uuid.UUID():
            return Constant(value, UUID)
        case bytes() | bytearray() | memoryview():
            return Constant(bytes(value), BINARY)
        case float() if math.isinf(value):
            return Constant(value, DOUBLE)
        case Decimal():
            return _decimal_constant(value)
    return Constant(value)


def _decimal_constant(value: Decimal) -> Constant:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInput(f"{value} is not a constant")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > DECIMAL_PRECISION_MAX:
        raise InvalidInput(f"a decimal of {precision} digits, {DECIMAL_PRECISION_MAX} are the most")
    return Constant(Decimal(int(value)) if exponent > 0 else value, DecimalType(precision, scale))
