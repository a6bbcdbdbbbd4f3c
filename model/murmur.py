"""The 32-bit hash that bucketing is built on (table specification, Appendix B)."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

import mmh3

from firn.model.errors import Unsupported
from firn.model.internal_values import check_value, unscaled_of
from firn.model.types import DecimalType, FixedType, PrimitiveType, Type

_NAN_BITS: Final = struct.pack("<Q", 0x7FF8_0000_0000_0000)
_LONGS: Final = frozenset({"boolean", "int", "long", "date", "time", "timestamp", "timestamptz"})
_NANOS: Final = frozenset({"timestamp_ns", "timestamptz_ns"})


def hash32(type: Type, value: Any) -> int | None:
    """Murmur3 (32 bits, x86, seed 0) of an internal `value` of `type`, as a signed integer; None for None.

    Values that a promotion keeps equal hash equally: int and long, float and double, micro- and nanoseconds.
    Floats, doubles and booleans have a hash although no table can be bucketed by them.
    Raises InvalidInput when `value` is not of `type`, Unsupported for types without a hash (nested, variant, geo).
    """
    if value is None:
        return None
    hashed = _bytes_to_hash(type, check_value(type, value))
    return mmh3.hash(hashed, 0, signed=True)


def _bytes_to_hash(type: Type, value: Any) -> bytes:
    match type:
        case PrimitiveType(name=name) if name in _LONGS:
            return struct.pack("<q", value)
        case PrimitiveType(name=name) if name in _NANOS:
            return struct.pack("<q", value // 1000)
        case PrimitiveType(name="float" | "double"):
            # Adding zero turns -0.0 into 0.0, which must hash the same.
            return _NAN_BITS if math.isnan(value) else struct.pack("<d", value + 0.0)
        case PrimitiveType(name="string"):
            encoded: bytes = value.encode("utf-8")
            return encoded
        case PrimitiveType(name="uuid"):
            uuid_bytes: bytes = value.bytes
            return uuid_bytes
        case PrimitiveType(name="binary") | FixedType():
            return bytes(value)
        case DecimalType():
            return _minimal_bytes(unscaled_of(type, value, "value"))
    raise Unsupported(f"type {type} has no hash", hint="it cannot be bucketed")


def _minimal_bytes(unscaled: int) -> bytes:
    """Two's complement, big-endian, in as few bytes as hold it (at least one)."""
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
