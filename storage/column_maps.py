"""Maps by column, as a manifest has them: counts and bounds of a file's columns, from lists of ids and values.

Nearly all files of a table have metrics of the same columns, so what stands around the values of such a map is made
once, and the values are laid between.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

from firn.model.errors import InvalidInput
from firn.model.json_members import INT_MAX, INT_MIN
from firn.storage.avro_numbers import LONGS, encode_longs

NULL: Final = b"\x00"
"""The first branch of every optional field."""

SOME: Final = b"\x02"
"""What stands before the value of one that is there."""

END: Final = b"\x00"
"""What ends every map and list."""

EMPTY: Final = SOME + END

_KEPT_IDS_MAX: Final = 300
"""Columns are kept for the next file up to so many: about 170 bytes for each."""

_HALF_BYTE: Final = "?"
"""What makes the whole no hexadecimal number."""

_HEX_LENGTHS: Final = tuple(_HALF_BYTE if digits % 2 else LONGS[digits // 2].hex() for digits in range(512))
"""By how many hexadecimal digits a bound has, how its length is stored."""

_long = LONGS.__getitem__
_hex_length = _HEX_LENGTHS.__getitem__


class Columns:
    """The columns of a map. Raises InvalidInput for an id that is no 32-bit integer."""

    __slots__ = ("_around", "_around_bounds", "_around_hex", "_count", "_pieces", "ids", "unique")

    def __init__(self, ids: tuple[int, ...]) -> None:
        keys = [encode_int(field_id) for field_id in ids]
        keys[0] = SOME + _long(len(ids)) + keys[0]
        self.ids = ids
        self.unique = len(set(ids)) == len(ids)
        self._count = len(ids)
        self._pieces = (*keys, END)
        self._around: list[bytes] = [part for key in keys for part in (key, END)] + [END]
        self._around_bounds: list[bytes] = [part for key in keys for part in (key, END, END)] + [END]
        self._around_hex: list[str] = [part for key in keys for part in (key.hex(), "", "")] + [END.hex()]

    def counts(self, values: Collection[int]) -> bytes:
        """A map of these columns to longs."""
        around = self._around.copy()
        around[1::2] = encode_longs(values)
        return b"".join(around)

    def listed_counts(self, values: Sequence[int]) -> bytes:
        """As `counts`, faster where all are the same number. Raises ValueError for another number of values."""
        first = values[0]
        if values.count(first) == self._count == len(values):
            return _long(first).join(self._pieces)
        return self.counts(values)

    def bounds(self, values: Collection[bytes]) -> bytes:
        """A map of these columns to bytes."""
        around = self._around_bounds.copy()
        around[1:-1:3] = map(_long, map(len, values))
        around[2::3] = values
        return b"".join(around)

    def hex_bounds(self, values: Sequence[str]) -> str:
        """A map of these columns to bytes, in hexadecimal as the values are; no such thing if they are not.

        Raises ValueError for another number of values, IndexError for values of more than 255 bytes.
        """
        around = self._around_hex.copy()
        around[1:-1:3] = map(_hex_length, map(len, values))
        around[2::3] = values
        return "".join(around)


def columns_of(ids: tuple[int, ...]) -> Columns:
    """The columns with these ids, of which there is at least one; from a cache unless they are very many."""
    return _kept(ids) if len(ids) <= _KEPT_IDS_MAX else Columns(ids)


@lru_cache(maxsize=1024)
def _kept(ids: tuple[int, ...]) -> Columns:
    return Columns(ids)


def encode_int(number: int) -> bytes:
    """A 32-bit integer. Raises InvalidInput for a greater one."""
    if not INT_MIN <= number <= INT_MAX:
        raise InvalidInput(f"{number} is no 32-bit integer")
    return _long(number)


def encode_list(numbers: Collection[int] | None) -> bytes:
    """An optional list of longs."""
    if not numbers:
        return NULL if numbers is None else EMPTY
    return b"".join((SOME, _long(len(numbers)), *map(_long, numbers), END))
