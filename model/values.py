"""Single values: the binary form of bounds and the JSON form of defaults (table specification, Appendix D).

Internal values are those of `firn.model.datafile`. Nested ones, which occur in defaults only: a struct is a dict of
field id to value (absent fields stand for their own defaults), a list is a tuple, a map is a tuple of (key, value)
pairs. Geometry and geography are WKB as bytes here; their bounds are points, see `firn.model.bounds`.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from firn.model.amounts import plural
from firn.model.errors import InvalidInput, Unsupported
from firn.model.foreign_value import ForeignValue, value_in
from firn.model.internal_values import (
    DAY_MICROS,
    INTEGER_TYPES,
    as_float,
    check_value,
    decimal_of,
    in_range,
    is_number,
    rescaled,
    short,
    unscaled_of,
)
from firn.model.iso_time import (
    date_from_text,
    date_to_text,
    time_from_text,
    time_to_text,
    timestamp_from_text,
    timestamp_to_text,
)
from firn.model.json_members import describe
from firn.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    Type,
)

DECIMAL_BYTES_MAX: Final = 64
"""Bytes of an encoded decimal that are looked at; 16 hold 38 digits, padding beyond is tolerated up to here."""

_TIMESTAMP_DIGITS: Final = {"timestamp": 6, "timestamptz": 6, "timestamp_ns": 9, "timestamptz_ns": 9}
_ZONED: Final = frozenset({"timestamptz", "timestamptz_ns"})
_DATE_SOURCE_UNITS: Final = {"timestamp": DAY_MICROS, "timestamp_ns": DAY_MICROS * 1000}
"""Units per day of the types that a date can be promoted to: their old bounds are days in 4 bytes."""

_PLAIN: Final[Mapping[Type, struct.Struct]] = {
    **dict.fromkeys((INT, DATE), struct.Struct("<i")),
    **dict.fromkeys((LONG, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS), struct.Struct("<q")),
    FLOAT: struct.Struct("<f"),
    DOUBLE: struct.Struct("<d"),
}
"""Types where any bytes of the full width are a value: scans decode millions of bounds."""

_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]{1,80}(?:\.[0-9]{0,80})?|\.[0-9]{1,80})(?:[eE][+-]?[0-9]{1,3})?")
_FLOAT_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


# ---------------------------------------------------------------------------------------------------------------------
# Binary


def to_bytes(type: Type, value: Any, *, where: str = "value") -> bytes:
    """The binary single-value form, as bounds are stored. Raises InvalidInput; Unsupported for types without one."""
    value = check_value(_having_binary_form(type, where), value, where=where)
    match type:
        case PrimitiveType(name="boolean"):
            return b"\x01" if value else b"\x00"
        case PrimitiveType(name="int" | "date"):
            return struct.pack("<i", value)
        case PrimitiveType(name="float"):
            return struct.pack("<f", value)
        case PrimitiveType(name="double"):
            return struct.pack("<d", value)
        case PrimitiveType(name="string"):
            return bytes(value.encode("utf-8"))
        case PrimitiveType(name="uuid"):
            return bytes(value.bytes)
        case PrimitiveType(name="binary") | FixedType() | GeometryType() | GeographyType():
            return bytes(value)
        case DecimalType():
            unscaled = unscaled_of(type, value, where)
            # Two's complement needs one bit for the sign: -128 takes one byte, 128 two.
            bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
            return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
        case _:
            return struct.pack("<q", value)


def _having_binary_form(type: Type, where: str) -> Type:
    if isinstance(type, StructType | ListType | MapType) or (
        isinstance(type, PrimitiveType) and type.name in {"unknown", "variant"}
    ):
        raise Unsupported(f"type {type} has no binary single-value form", where=where)
    return type


def from_bytes(type: Type, data: bytes, *, where: str = "value") -> Any:
    """The value of a binary single-value form, which may have been written before `type` was promoted to.

    4 bytes are an int in a long column, a float in a double column and a date in a timestamp column without zone.
    A time beyond the end of the day is read as it is: others have written such bounds.
    Raises InvalidInput when the bytes cannot be such a value, Unsupported for types without a binary form.
    """
    plain = _PLAIN.get(type)
    if plain is not None and len(data) == plain.size:
        return plain.unpack(data)[0]
    _having_binary_form(type, where)
    match type:
        case PrimitiveType(name="string"):
            try:
                return data.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise InvalidInput(f"not UTF-8 at byte {exc.start}", where=where) from None
        case PrimitiveType(name="binary") | GeometryType() | GeographyType():
            return data
        case FixedType(length=length):
            _check_length(type, data, (length,), where)
            return data
        case DecimalType():
            if not 1 <= len(data) <= DECIMAL_BYTES_MAX:
                raise InvalidInput(f"{len(data)} bytes for a {type}", where=where)
            unscaled = int.from_bytes(data, "big", signed=True)
            if abs(unscaled) >= 10**type.precision:
                raise InvalidInput(f"{unscaled} unscaled has more digits than {type}", where=where)
            return decimal_of(unscaled, type.scale)
        case PrimitiveType(name=name):
            return _fixed_width_from_bytes(name, data, where)


def _fixed_width_from_bytes(name: str, data: bytes, where: str) -> Any:
    match name:
        case "boolean":
            _check_length(name, data, (1,), where)
            return data != b"\x00"
        case "uuid":
            _check_length(name, data, (16,), where)
            return uuid.UUID(bytes=data)
        case "float":
            _check_length(name, data, (4,), where)
            return float(struct.unpack("<f", data)[0])
        case "double":
            _check_length(name, data, (8, 4), where)
            return float(struct.unpack("<d" if len(data) == 8 else "<f", data)[0])
        case "int" | "date":
            _check_length(name, data, (4,), where)
        case "long" | "timestamp" | "timestamp_ns":
            _check_length(name, data, (8, 4), where)
        case _:
            _check_length(name, data, (8,), where)
    value = int.from_bytes(data, "little", signed=True)
    if len(data) == 4:
        value *= _DATE_SOURCE_UNITS.get(name, 1)
    return in_range(name, value, where)


def _check_length(type: Type | str, data: bytes, allowed: tuple[int, ...], where: str) -> None:
    if len(data) not in allowed:
        raise InvalidInput(f"{len(data)} bytes for a {type}, which has {allowed[0]}", where=where)


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def value_to_json(type: Type, value: Any, *, where: str = "value") -> Any:
    """The JSON single-value form of an internal value; None is null.

    Floats that JSON has no number for are the strings ``NaN``, ``Infinity`` and ``-Infinity``, as Java writes them.
    Raises InvalidInput for a value that `type` does not have, Unsupported for types that only have null.
    """
    if value is None:
        return None
    if isinstance(value, ForeignValue):
        return value_to_json(value.type, value_in(value.type, value), where=where)
    match type:
        case StructType() | ListType() | MapType():
            return _nested_to_json(type, value, where)
        case GeometryType() | GeographyType() | PrimitiveType(name="variant" | "unknown"):
            raise Unsupported(f"type {type} has no JSON value other than null here", where=where)
    value = check_value(type, value, where=where)
    match type:
        case PrimitiveType(name="date"):
            return date_to_text(value)
        case PrimitiveType(name="time"):
            return time_to_text(value)
        case PrimitiveType(name=name) if name in _TIMESTAMP_DIGITS:
            return timestamp_to_text(value, digits=_TIMESTAMP_DIGITS[name], zoned=name in _ZONED)
        case PrimitiveType(name="uuid"):
            return str(value)
        case PrimitiveType(name="float" | "double" as name):
            return _float_to_json(name, value)
        case PrimitiveType(name="binary") | FixedType():
            return value.hex()
        case DecimalType():
            return format(value, "f")
        case _:
            return value


def _float_to_json(name: str, value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if name == "double":
        return value
    # The shortest decimal that reads back as the same 32-bit float: 0.1, not 0.10000000149011612.
    return next(
        short for digits in range(6, 18) if as_float("float", short := float(f"{value:.{digits}g}"), "") == value
    )


def _nested_to_json(type: StructType | ListType | MapType, value: Any, where: str) -> Any:
    match type:
        case StructType() if isinstance(value, dict):
            fields = {f.field_id: f for f in type.fields}
            if not value.keys() <= fields.keys():
                raise InvalidInput("a struct value with a field id that its type has not", where=where)
            return {str(i): value_to_json(fields[i].type, v, where=f"{where}.{i}") for i, v in value.items()}
        case ListType() if isinstance(value, tuple):
            return [value_to_json(type.element, v, where=f"{where}[{i}]") for i, v in enumerate(value)]
        case MapType() if isinstance(value, tuple):
            return {
                "keys": [value_to_json(type.key, k, where=f"{where}.keys") for k, _ in value],
                "values": [value_to_json(type.value, v, where=f"{where}.values") for _, v in value],
            }
    raise InvalidInput(f"{describe(value)} is not a value of type {type}", where=where)


def value_from_json(type: Type, obj: Any, *, where: str = "value", lenient: bool = False) -> Any:
    """The internal value of a JSON single value; null is None.

    `lenient` also takes what people and the REST specification's examples write: plain integers for dates, times and
    timestamps (in the type's unit), numbers for decimals, other zone offsets. Raises InvalidInput naming `where`.
    """
    if obj is None:
        return None
    match type:
        case StructType() | ListType() | MapType():
            return _nested_from_json(type, obj, where=where, lenient=lenient)
        case GeometryType() | GeographyType() | PrimitiveType(name="variant" | "unknown"):
            raise InvalidInput(f"a value of type {type} must be null, not {describe(obj)}", where=where)
        case PrimitiveType(name="boolean" | "int" | "long" | "string"):
            return check_value(type, obj, where=where)
        case PrimitiveType(name="float" | "double"):
            return check_value(type, _FLOAT_WORDS.get(obj, obj) if isinstance(obj, str) else obj, where=where)
        case PrimitiveType(name=name) if lenient and name in INTEGER_TYPES and isinstance(obj, int):
            return check_value(type, obj, where=where)
        case DecimalType() if lenient and is_number(obj):
            return _decimal_from_text(type, str(obj) if isinstance(obj, float) else short(obj), where)
    if not isinstance(obj, str):
        raise InvalidInput(f"a value of type {type} must be a string, not {describe(obj)}", where=where)
    return check_value(type, _from_text(type, obj, where=where, lenient=lenient), where=where)


def _from_text(type: Type, text: str, *, where: str, lenient: bool) -> Any:
    match type:
        case DecimalType():
            return _decimal_from_text(type, text, where)
        case FixedType() | PrimitiveType(name="binary"):
            if _HEX.fullmatch(text) is None:
                raise InvalidInput(f"a value of type {type} must be pairs of hexadecimal digits", where=where)
            return bytes.fromhex(text)
        case PrimitiveType(name="uuid"):
            if _UUID.fullmatch(text) is None:
                raise InvalidInput(f"{text[:40]!r} is not a uuid", where=where)
            return uuid.UUID(text)
        case PrimitiveType(name="date"):
            return date_from_text(text, where=where)
        case PrimitiveType(name="time"):
            return time_from_text(text, where=where)
        case PrimitiveType(name=name):
            return timestamp_from_text(
                text, digits=_TIMESTAMP_DIGITS[name], zoned=name in _ZONED, any_offset=lenient, where=where
            )
    raise AssertionError(type)


def _decimal_from_text(type: DecimalType, text: str, where: str) -> Decimal:
    if len(text) > 200 or _DECIMAL_TEXT.fullmatch(text) is None:
        raise InvalidInput(f"{text[:40]!r} is not a decimal number", where=where)
    return rescaled(type, Decimal(text), where)


def _nested_from_json(type: StructType | ListType | MapType, obj: Any, *, where: str, lenient: bool) -> Any:
    match type:
        case StructType() if isinstance(obj, dict):
            fields = {str(f.field_id): f for f in type.fields}
            if not obj.keys() <= fields.keys():
                raise InvalidInput(f"{min(obj.keys() - fields.keys())!r} is not a field id of {type}", where=where)
            return {
                fields[key].field_id: value_from_json(fields[key].type, v, where=f"{where}.{key}", lenient=lenient)
                for key, v in obj.items()
            }
        case ListType() if isinstance(obj, list):
            return tuple(
                value_from_json(type.element, v, where=f"{where}[{i}]", lenient=lenient) for i, v in enumerate(obj)
            )
        case MapType() if isinstance(obj, dict):
            keys, values = obj.get("keys"), obj.get("values")
            if obj.keys() != {"keys", "values"} or not isinstance(keys, list) or not isinstance(values, list):
                raise InvalidInput("a map must be an object of two arrays, keys and values", where=where)
            if len(keys) != len(values):
                raise InvalidInput(
                    f"{plural(len(keys), 'key')} and {plural(len(values), 'value')} in a map", where=where
                )
            return tuple(
                (
                    value_from_json(type.key, k, where=f"{where}.keys[{i}]", lenient=lenient),
                    value_from_json(type.value, v, where=f"{where}.values[{i}]", lenient=lenient),
                )
                for i, (k, v) in enumerate(zip(keys, values, strict=True))
            )
    raise InvalidInput(f"{describe(obj)} is not a value of type {type}", where=where)
