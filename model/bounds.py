"""Lower and upper bounds that manifests store: shortened safely, and points of geospatial columns.

A truncated lower bound may be lower and a truncated upper bound higher than the value, never the other way round: a
file that a reader skips by a wrong bound is rows lost. Table specification, "Bound serialization" and Appendix D.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput
from firn.model.types import BINARY, STRING, Type

TRUNCATE_LENGTH_DEFAULT: Final = 16
"""Code points of a string, or bytes, that bounds keep when nothing else is set (``truncate(16)``)."""

_SURROGATE_FIRST: Final = 0xD800
_SURROGATE_LAST: Final = 0xDFFF
_CODE_POINT_MAX: Final = 0x10FFFF


def truncate_lower(type: Type, value: Any, length: int) -> Any:
    """A value at most `value`, of at most `length` code points (string) or bytes (binary); others as they are.

    `length` must be positive.
    """
    _check_length(length)
    return value[:length] if type in (STRING, BINARY) else value


def truncate_upper(type: Type, value: Any, length: int) -> Any | None:
    """A value at least `value`, of at most `length` code points (string) or bytes (binary); others as they are.

    None when there is none, because everything kept is at its maximum: no upper bound may be stored then.
    """
    _check_length(length)
    if type == STRING:
        return value if len(value) <= length else _next_string(value[:length])
    if type == BINARY:
        return value if len(value) <= length else _next_bytes(value[:length])
    return value


def _check_length(length: int) -> None:
    if length <= 0:
        raise InvalidInput(f"bounds cannot be truncated to {length}", hint="a positive length")


def _next_string(prefix: str) -> str | None:
    """The least string above everything that starts with `prefix`, no longer than it."""
    for i in range(len(prefix) - 1, -1, -1):
        code_point = ord(prefix[i]) + 1
        # The surrogates between U+D7FF and U+E000 are no characters: UTF-8 cannot hold one.
        if _SURROGATE_FIRST <= code_point <= _SURROGATE_LAST:
            code_point = _SURROGATE_LAST + 1
        if code_point <= _CODE_POINT_MAX:
            return prefix[:i] + chr(code_point)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    """The least byte string above everything that starts with `prefix`, no longer than it."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


class GeoBound(msgspec.Struct, frozen=True, kw_only=True):
    """One corner of the bounding box of a geometry or geography column; z and m are None when no value has them."""

    x: float
    y: float
    z: float | None = None
    m: float | None = None

    def to_bytes(self) -> bytes:
        """The coordinates as little-endian doubles: x, y, then z and m as far as there are any; NaN for no z.

        Raises InvalidInput for NaN, which no bound may be.
        """
        given = [c for c in (self.x, self.y, self.z, self.m) if c is not None]
        if any(math.isnan(c) for c in given):
            raise InvalidInput("a bound's coordinate is NaN", hint="leave the bound out")
        if self.m is not None:
            z = math.nan if self.z is None else self.z
            return struct.pack("<4d", self.x, self.y, z, self.m)
        return struct.pack(f"<{len(given)}d", *given)

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str = "bound") -> GeoBound:
        """The point that 16, 24 or 32 bytes hold. Raises InvalidInput for other lengths and for NaN in x, y or m."""
        if len(data) not in (16, 24, 32):
            raise InvalidInput(f"{len(data)} bytes for a geospatial bound, which has 16, 24 or 32", where=where)
        x, y, *rest = struct.unpack(f"<{len(data) // 8}d", data)
        z = rest[0] if rest and not math.isnan(rest[0]) else None
        m = rest[1] if len(rest) == 2 else None
        if math.isnan(x) or math.isnan(y) or (m is not None and math.isnan(m)):
            raise InvalidInput("a geospatial bound's coordinate is NaN", where=where)
        return cls(x=x, y=y, z=z, m=m)
