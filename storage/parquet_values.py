"""From the physical values of a Parquet column to internal values of the table's type (Appendix A, "Parquet").

Only what every reader reads is accepted: a file whose column has another type than the table's, and no promotion leads
from one to the other, is refused when it is offered instead of failing each query that touches it.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from firn.model.errors import InvalidSchema
from firn.model.internal_values import decimal_of
from firn.model.iso_time import SECONDS_PER_DAY
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
    GeographyType,
    GeometryType,
    Type,
)
from firn.storage.parquet_columns import FileColumn

Decode = Callable[[Any], Any]

_PER_SECOND: Final = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_TICKS: Final[Mapping[Type, int]] = {TIMESTAMP: 10**6, TIMESTAMPTZ: 10**6, TIMESTAMP_NS: 10**9, TIMESTAMPTZ_NS: 10**9}
_ZONED: Final = frozenset({TIMESTAMPTZ, TIMESTAMPTZ_NS})
_TEXT: Final = frozenset({"String", "Enum", "JSON", "None"})
_BYTES: Final = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})


def decoder(column: FileColumn, *, location: str) -> Decode | None:
    """What turns a physical value of `column` (int, float, bool or bytes) into an internal value of its field's type.

    None when statistics of such a column say nothing about its values: INT96 timestamps, variant, geometry, geography
    and unknown. Raises InvalidSchema, naming column and file, when the column cannot hold the field.
    """
    type = column.field.type
    if type in (UNKNOWN, VARIANT):
        return None
    if isinstance(type, GeometryType | GeographyType):
        if column.physical != "BYTE_ARRAY":
            raise _mismatch(column, location)
        return None
    if column.physical == "INT96" and type in (TIMESTAMP, TIMESTAMPTZ):
        return None
    decode = _decoder(type, column)
    if decode is None:
        raise _mismatch(column, location)
    return decode


def _mismatch(column: FileColumn, location: str) -> InvalidSchema:
    logical = "" if column.logical["Type"] == "None" else f" ({column.logical['Type']})"
    return InvalidSchema(
        f"column {column.path!r} is {column.physical}{logical} in the file, which is not {column.field.type}, "
        f"the type of field {column.field.field_id} in the table",
        where=location,
    )


def _decoder(type: Type, column: FileColumn) -> Decode | None:
    match type:
        case DecimalType():
            return _decimal(type, column)
        case FixedType(length=length):
            fits = column.physical == "FIXED_LEN_BYTE_ARRAY" and column.byte_width == length
            return bytes if fits else None
    if type in (INT, LONG, DATE, TIME) or type in _TICKS:
        return _integer(type, column)
    if type == BOOLEAN:
        return bool if column.physical == "BOOLEAN" else None
    if type in (FLOAT, DOUBLE):
        return float if column.physical in ("FLOAT", type.name.upper()) else None
    if type == STRING:
        return _text if column.physical == "BYTE_ARRAY" and column.logical["Type"] in _TEXT else None
    if type == UUID:
        fits = column.physical == "FIXED_LEN_BYTE_ARRAY" and column.byte_width == 16
        return _uuid if fits and column.logical["Type"] in ("UUID", "None") else None
    assert type == BINARY, type
    return bytes if column.physical in _BYTES and column.logical["Type"] in ("None", "BSON") else None


def _integer(type: Type, column: FileColumn) -> Decode | None:
    if column.physical not in ("INT32", "INT64"):
        return None
    kind = column.logical["Type"]
    if type == DATE:
        return int if kind == "Date" else None
    if type == TIME:
        unit = _PER_SECOND.get(column.logical.get("timeUnit", ""), 0)
        return _scaled(10**6, unit) if kind == "Time" else None
    if type in _TICKS:
        return _timestamp(type, column)
    if kind == "None":
        return int if type == LONG or column.physical == "INT32" else None
    if kind != "Int":
        return None
    width, signed = column.logical["bitWidth"], column.logical["isSigned"]
    if not signed:
        width += 1
    if width > (32 if type == INT else 64):
        return None
    return int if signed else lambda raw: int(raw) % 2**32


def _timestamp(type: Type, column: FileColumn) -> Decode | None:
    if column.logical["Type"] == "Date" and type in (TIMESTAMP, TIMESTAMP_NS):
        return _scaled(_TICKS[type] * SECONDS_PER_DAY, 1)
    if column.logical["Type"] != "Timestamp":
        return None
    legacy = column.logical.get("is_from_converted_type", False)  # older writers could not say "without zone"
    if column.logical["isAdjustedToUTC"] != (type in _ZONED) and not legacy:
        return None
    return _scaled(_TICKS[type], _PER_SECOND.get(column.logical["timeUnit"], 0))


def _scaled(target: int, unit: int) -> Decode | None:
    """From `unit` ticks to `target` ticks a second; None where that would lose digits."""
    if unit == 0 or target % unit:
        return None
    factor = target // unit
    return int if factor == 1 else lambda raw: int(raw) * factor


def _decimal(type: DecimalType, column: FileColumn) -> Decode | None:
    logical = column.logical
    if logical["Type"] != "Decimal" or logical["scale"] != type.scale or logical["precision"] > type.precision:
        return None
    if column.physical in ("INT32", "INT64"):
        return lambda raw: decimal_of(int(raw), type.scale)
    if column.physical in _BYTES:
        return lambda raw: decimal_of(int.from_bytes(raw, "big", signed=True), type.scale)
    return None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8")


def _uuid(raw: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=raw)


def lower_of(decode: Decode, raw: Any) -> Any:
    """The decoded minimum; None when it is NaN or cannot be decoded.

    A writer may have cut a long text in the middle of a character: what stands before is still a lower bound.
    """
    try:
        value = decode(raw)
    except UnicodeDecodeError as cut:
        return bytes(raw)[: cut.start].decode("utf-8")
    except (ValueError, OverflowError):
        return None
    return _float_bound(value, zero=-0.0) if isinstance(value, float) else value


def upper_of(decode: Decode, raw: Any) -> Any:
    """The decoded maximum; None when it is NaN or cannot be decoded."""
    try:
        value = decode(raw)
    except (ValueError, OverflowError):
        return None
    return _float_bound(value, zero=0.0) if isinstance(value, float) else value


def _float_bound(value: float, *, zero: float) -> float | None:
    """No NaN, and the outer of the two zeros: Iceberg orders −0.0 before +0.0, and not every Parquet writer does."""
    if math.isnan(value):
        return None
    return zero if value == 0.0 else value
