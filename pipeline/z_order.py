"""Z-order: one key for several columns, so that files sorted by it are narrow in each of these columns.

Every value becomes 64 bits whose order is that of the values, nulls first, and the key takes a bit of each column in
turn. Only the bits in which the rows differ help: values are scaled to the range that the files' bounds give, or one
column with large numbers would decide alone.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.expressions.column_facts import decode_bound
from firn.model.internal_values import unscaled_of
from firn.model.schema import Schema
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
    UUID,
    DecimalType,
    FixedType,
    NestedField,
    Type,
)

Keys = npt.NDArray[np.uint64]

KEY_BITS: Final = 64
PREFIX_BYTES: Final = 8
"""Bytes of a text or of bytes that count."""

COLUMNS_MAX: Final = 8
"""Columns of one key: with more of them, each has too few bits to matter."""

_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1
_SPREAD_MAX: Final = _SIGN - 1
_INTEGERS: Final = frozenset({BOOLEAN, INT, LONG, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS})
_FLOATS: Final = frozenset({FLOAT, DOUBLE})


class KeyRange(msgspec.Struct, frozen=True):
    """The least and the greatest key that rows are known to have; other keys are taken for the nearer of the two."""

    low: int = 0
    high: int = _ALL

    def spread(self, keys: Keys) -> Keys:
        """Keys over this range as keys over all 63 bits, in their order."""
        width = max(1, self.high - self.low)
        clipped = np.clip(keys, np.uint64(self.low), np.uint64(self.high)) - np.uint64(self.low)
        return clipped * np.uint64(_SPREAD_MAX // width) if width <= _SPREAD_MAX else clipped >> np.uint64(1)


def z_fields(schema: Schema, names: Sequence[str]) -> tuple[NestedField, ...]:
    """The columns with these names. Raises InvalidInput for one that is none, is nested, or is named twice."""
    if not names:
        raise InvalidInput("needs the names of columns", where="z-order")
    if len(names) > COLUMNS_MAX or len(set(names)) != len(names):
        raise InvalidInput(f"takes up to {COLUMNS_MAX} columns, each once, not {', '.join(names)}", where="z-order")
    by_name = {field.name: field for field in schema.fields}
    for name in names:
        if name not in by_name:
            raise InvalidInput(f"the table has no column {name!r} at the top", where="z-order")
        if not has_key(by_name[name].type):
            raise InvalidInput(f"cannot order by {name!r}, which is {by_name[name].type}", where="z-order")
    return tuple(by_name[name] for name in names)


def has_key(type: Type) -> bool:
    """Whether values of the type have keys."""
    plain = type in _INTEGERS or type in _FLOATS or type in {STRING, BINARY, UUID}
    return plain or isinstance(type, DecimalType | FixedType)


def key_range(files: Iterable[DataFile], field: NestedField) -> KeyRange:
    """The range of a column's keys by the bounds of files; everything when a file does not say."""
    low, high = _ALL, 0
    for file in files:
        empty = (file.null_value_counts or {}).get(field.field_id) == file.record_count
        if empty:
            continue
        lower = decode_bound(field.type, (file.lower_bounds or {}).get(field.field_id))
        upper = decode_bound(field.type, (file.upper_bounds or {}).get(field.field_id))
        if lower is None or upper is None:
            return KeyRange()
        low, high = min(low, key_of(lower, field.type)), max(high, key_of(upper, field.type))
    return KeyRange(low, high) if low <= high else KeyRange()


def key_of(value: Any, type: Type) -> int:
    """The key of one internal value that is not null: for values a < b it is key(a) <= key(b)."""
    if type in _FLOATS:
        bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
        return _float_key(bits)
    if isinstance(type, DecimalType):
        value = unscaled_of(type, value, "z-order")
        return _clipped(value) ^ _SIGN if value >= 0 else _SIGN - min(-value, _SIGN)
    if type in _INTEGERS:
        return (int(value) + _SIGN) & _ALL
    if type == UUID:
        assert isinstance(value, uuid.UUID)
        return int.from_bytes(value.bytes[:PREFIX_BYTES], "big")
    data = value.encode() if isinstance(value, str) else bytes(value)
    return int.from_bytes(data[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\0"), "big")


def _clipped(value: int) -> int:
    return min(value, _SIGN - 1)


def _float_key(bits: int) -> int:
    """The bits of a double in the order of numbers: negative ones turned round, the others above them."""
    return bits ^ _ALL if bits & _SIGN else bits | _SIGN


def keys_of(array: pa.Array, type: Type) -> Keys:
    """The keys of a column's values, in the Arrow types that Spark hands over or firn reads; of a null it is 0.

    Text is compared by its first bytes, as UTF-8. Every NaN is after all numbers.
    """
    if type in _INTEGERS:
        longs = _longs(array)
        return longs.view(np.uint64) ^ np.uint64(_SIGN)
    if type in _FLOATS:
        return _float_keys(array)
    if isinstance(type, DecimalType):
        return np.array([0 if v is None else key_of(v, type) for v in array.to_pylist()], np.uint64)
    return _prefix_keys(array, type)


def _longs(array: pa.Array) -> npt.NDArray[np.int64]:
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(kind):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        array = array.view(pa.int64())
    filled = array.fill_null(0) if array.null_count else array
    longs: npt.NDArray[np.int64] = filled.to_numpy(zero_copy_only=False).astype(np.int64)
    return longs


def _float_keys(array: pa.Array) -> Keys:
    filled = array.fill_null(0.0) if array.null_count else array
    doubles = filled.to_numpy(zero_copy_only=False).astype(np.float64)
    doubles = np.where(np.isnan(doubles), np.float64(np.nan), doubles)  # one NaN, and a positive one
    doubles = doubles + 0.0  # -0.0 is 0.0
    bits = doubles.view(np.uint64)
    negative = (bits & np.uint64(_SIGN)) != 0
    return np.where(negative, ~bits, bits | np.uint64(_SIGN))


def _prefix_keys(array: pa.Array, type: Type) -> Keys:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if type == UUID and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        digits = pc.utf8_slice_codeunits(pc.replace_substring(array, "-", ""), 0, 2 * PREFIX_BYTES)
        return np.array([0 if one is None else int(one, 16) for one in digits.to_pylist()], np.uint64)
    data = array.cast(pa.binary()).to_pylist()
    packed = b"".join((one or b"")[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\0") for one in data)
    return np.frombuffer(packed, ">u8").astype(np.uint64)


def z_keys(columns: Sequence[tuple[pa.Array, Type, KeyRange]]) -> pa.Array:
    """The z-order keys of rows whose columns these are, as bytes that compare as the keys do."""
    if not columns:
        raise InvalidInput("needs columns", where="z-order")
    spread = []
    for array, type, around in columns:
        alive = around.spread(keys_of(array, type)) | np.uint64(_SIGN)
        dead = array.is_null().to_numpy(zero_copy_only=False)
        spread.append(np.where(dead, np.uint64(0), alive))
    data = interleave(spread).tobytes()
    width = PREFIX_BYTES * len(columns)
    rows = len(columns[0][0])
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(data)]).cast(pa.binary())


def interleave(columns: Sequence[Keys]) -> npt.NDArray[np.uint8]:
    """Bytes with the bits of the columns in turn, the most significant first: one row of ``8 * columns`` bytes each."""
    rows, count = len(columns[0]), len(columns)
    bits = np.empty((rows, KEY_BITS, count), np.uint8)
    for at, keys in enumerate(columns):
        as_bytes = keys.astype(">u8").view(np.uint8).reshape(rows, PREFIX_BYTES)
        bits[:, :, at] = np.unpackbits(as_bytes, axis=1)
    return np.packbits(bits.reshape(rows, KEY_BITS * count), axis=1)


class ZOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a z-order, by name, with their types and ranges: what a task needs to know."""

    columns: tuple[tuple[str, Type, KeyRange], ...]

    @classmethod
    def of(cls, fields: Sequence[NestedField], files: Sequence[DataFile]) -> ZOrder:
        """The z-order of rows in these files by these fields."""
        return cls(columns=tuple((field.name, field.type, key_range(files, field)) for field in fields))

    def keys(self, batch: pa.RecordBatch | Mapping[str, pa.Array]) -> pa.Array:
        """The keys of a batch's rows."""
        if isinstance(batch, pa.RecordBatch):
            batch = dict(zip(batch.schema.names, batch.columns, strict=True))
        return z_keys([(batch[name], type, around) for name, type, around in self.columns])
