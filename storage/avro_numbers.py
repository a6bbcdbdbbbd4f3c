"""Avro's longs as bytes, fast: zigzag, then groups of seven bits, the lowest first.

A manifest entry is a hundred such numbers, nearly all of them small, so that most are looked up.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from firn.model.errors import InvalidInput

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

_TABLE: Final = 1 << 14
"""Numbers from 0 on that are kept encoded; about 1 MB."""

_LOW_BITS: Final = 14


def encode_long(value: int) -> bytes:
    """Any 64-bit integer. Raises InvalidInput for a greater one."""
    if not LONG_MIN <= value <= LONG_MAX:
        raise InvalidInput(f"{value!r:.40} is no value that its Avro type holds, a 64-bit integer")
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest <= _LOW_MASK:
        return _HIGH[rest]
    out = _LOW[rest & _LOW_MASK]
    while (rest := rest >> _LOW_BITS) > _LOW_MASK:
        out += _LOW[rest & _LOW_MASK]
    return out + _HIGH[rest]


def _plain(rest: int) -> bytes:
    if rest < 0x80:
        return bytes((rest,))
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    return bytes((rest & 0x7F | 0x80, rest >> 7 & 0x7F | 0x80, rest >> 14))


class _Longs(dict[int, bytes]):
    """Small numbers encoded; others are encoded when they are asked for, and not kept."""

    def __missing__(self, value: int) -> bytes:
        rest = value << 1
        if _LOW_MASK < rest < _MEDIUM:
            return _LOW[rest & _LOW_MASK] + _HIGH[rest >> _LOW_BITS]
        return encode_long(value)


_LOW_MASK: Final = (1 << _LOW_BITS) - 1
_LOW: Final = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(1 << _LOW_BITS)]
"""The first two of three bytes or more."""

_HIGH: Final = [_plain(n) for n in range(1 << _LOW_BITS)]
"""What follows the first two bytes."""

_MEDIUM: Final = 1 << (2 * _LOW_BITS)

LONGS: Final = _Longs((value, _plain(value << 1)) for value in range(_TABLE))
"""Every 64-bit integer's bytes, as a mapping: ``map(LONGS.__getitem__, numbers)`` encodes many without a loop."""

_SMALL: Final = [LONGS[value] for value in range(_TABLE)]
_COUNT_BITS: Final = _LOW_BITS - 1
"""What the first two bytes say of a number that is not negative: zigzag doubles it."""

_COUNT_MASK: Final = (1 << _COUNT_BITS) - 1
_LOW_OF_COUNT: Final = _LOW[::2]


def encode_longs(values: Collection[int]) -> list[bytes]:
    """The bytes of each of several integers: the sizes and counts of a file's columns, none of them negative mostly."""
    try:
        return [
            _SMALL[value] if 0 <= value < _TABLE
            else _LOW_OF_COUNT[value & _COUNT_MASK] + _HIGH[value >> _COUNT_BITS] if value > 0
            else encode_long(value)
            for value in values
        ]  # fmt: skip
    except IndexError:  # one is greater than what the tables are for
        return [LONGS[value] for value in values]
