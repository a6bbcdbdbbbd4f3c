"""Z-order: one key for several columns, so that files sorted by it are narrow in each of these columns.

Every value becomes 64 bits whose order is that of the values. Which share of the rows is below it, by a sample, is its
rank, and the key takes a bit of each column's rank in turn, nulls first. Bits of the values themselves would let a
column with large numbers decide alone, and most bits of a float are its exponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.model.errors import InvalidInput
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

STEPS_MAX: Final = 4096
"""Ranks that are told apart: far more than there are files."""

SAMPLE_ROWS: Final = 20_000
"""Rows that ranks are found by."""

COLUMNS_MAX: Final = 8
"""Columns of one key: with more of them, each has too few bits to matter."""

_SIGN: Final = 1 << 63
_SPREAD_MAX: Final = _SIGN - 1
_INTEGERS: Final = frozenset({BOOLEAN, INT, LONG, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS})
_FLOATS: Final = frozenset({FLOAT, DOUBLE})


class Ranks(msgspec.Struct, frozen=True):
    """A column's keys at even shares of its rows, rising: what is below the first has rank 0, and so on."""

    steps: tuple[int, ...] = ()

    @classmethod
    def of(cls, keys: Keys) -> Ranks:
        """The ranks by a sample of keys, which need not be in order."""
        ordered = np.sort(keys)
        if len(ordered) > STEPS_MAX:
            ordered = ordered[np.linspace(0, len(ordered) - 1, STEPS_MAX).astype(np.int64)]
        return cls(tuple(np.unique(ordered).tolist()))

    def spread(self, keys: Keys) -> Keys:
        """The ranks of keys, over all of 63 bits."""
        ranks = np.searchsorted(np.array(self.steps, np.uint64), keys, side="right").astype(np.uint64)
        return ranks * np.uint64(_SPREAD_MAX // max(1, len(self.steps)))


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
        return np.array([_decimal_key(value, type) for value in array.to_pylist()], np.uint64)
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


def _decimal_key(value: Decimal | None, type: DecimalType) -> int:
    """The unscaled number, where it is one of 64 bits."""
    unscaled = 0 if value is None else unscaled_of(type, value, "z-order")
    return min(max(unscaled, -_SIGN), _SIGN - 1) + _SIGN


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


def z_keys(columns: Sequence[tuple[pa.Array, Type, Ranks]]) -> pa.Array:
    """The z-order keys of rows whose columns these are, as bytes that compare as the keys do."""
    ranked = []
    for array, type, ranks in columns:
        alive = ranks.spread(keys_of(array, type)) | np.uint64(_SIGN)
        dead = array.is_null().to_numpy(zero_copy_only=False)
        ranked.append(np.where(dead, np.uint64(0), alive))
    width, rows = PREFIX_BYTES * len(columns), len(columns[0][0])
    data = pa.py_buffer(interleave(ranked).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, data]).cast(pa.binary())


def interleave(columns: Sequence[Keys]) -> npt.NDArray[np.uint8]:
    """Bytes with the bits of the columns in turn, the most significant first: one row of ``8 * columns`` bytes each."""
    rows, count = len(columns[0]), len(columns)
    bits = np.empty((rows, KEY_BITS, count), np.uint8)
    for at, keys in enumerate(columns):
        as_bytes = keys.astype(">u8").view(np.uint8).reshape(rows, PREFIX_BYTES)
        bits[:, :, at] = np.unpackbits(as_bytes, axis=1)
    return np.packbits(bits.reshape(rows, KEY_BITS * count), axis=1)


class ZOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a z-order, by name, with their types and ranks: what a task needs to know."""

    columns: tuple[tuple[str, Type, Ranks], ...]

    @classmethod
    def of(cls, fields: Sequence[NestedField], sample: pa.Table) -> ZOrder:
        """The z-order by these fields of rows like those of the sample, which has the fields as columns."""
        return cls(
            columns=tuple(
                (field.name, field.type, Ranks.of(keys_of(_whole(sample.column(field.name).drop_null()), field.type)))
                for field in fields
            )
        )

    def keys(self, batch: pa.RecordBatch) -> pa.Array:
        """The keys of a batch's rows."""
        at = {name: column for column, name in enumerate(batch.schema.names)}
        return z_keys([(batch.column(at[name]), type, ranks) for name, type, ranks in self.columns])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
